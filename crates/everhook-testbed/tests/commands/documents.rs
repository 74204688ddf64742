//! The commands that the documents about receiving show: run as they are written, each document against a server of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use everhook::cli::client::Connection;
use everhook_testbed::node::{ADMIN_KEY, Node};
use http::Method;

use super::{started, stderr, stdout};

fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Everything in a document that a reader would paste into a shell.
fn commands(document: &Path) -> String {
    let text = fs::read_to_string(document).expect("a document");
    let mut commands = String::new();
    let mut is_command = false;
    for line in text.lines() {
        match line.trim() {
            "```sh" => is_command = true,
            "```" => is_command = false,
            _ if is_command => commands.extend([line, "\n"]),
            _ => {}
        }
    }
    commands
}

async fn paste(commands: String, node: &Node) -> Output {
    let url = node.url();
    let run = move || {
        // Several requests print one after the other: each on lines of its own.
        let script = format!("set -eu\ncurl() {{ command curl -sS --fail-with-body \"$@\"; echo; }}\n{commands}");
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &script])
            .env("EVERHOOK_URL", url)
            .env("EVERHOOK_KEY", ADMIN_KEY)
            .stdin(Stdio::null())
            .output()
            .expect("bash runs")
    };
    tokio::task::spawn_blocking(run).await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_each_provider_s_page_do_what_the_page_says() {
    let pages = fs::read_dir(documents().join("providers")).expect("the pages of providers");
    let mut pages: Vec<PathBuf> = pages.map(|page| page.expect("a page").path()).collect();
    pages.sort();
    assert!(pages.len() >= 9, "{pages:?}");
    for page in pages {
        let node = started().await;
        let output = paste(commands(&page), &node).await;
        assert!(output.status.success(), "{}: {}{}", page.display(), stdout(&output), stderr(&output));
        let mut connection = Connection::new(node.server());
        let sources = connection.ask(Method::GET, "/v1/sources", None).await.expect("the sources");
        let name = sources["data"][0]["name"].as_str().expect("a source");
        let events = connection.ask(Method::GET, &format!("/v1/sources/{name}/events"), None).await.expect("its events");
        assert!(!events["data"].as_array().expect("a list").is_empty(), "{}: {}", page.display(), stdout(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_about_receiving_are_accepted() {
    let node = started().await;
    let output = paste(commands(&documents().join("receiving.md")), &node).await;
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
}
