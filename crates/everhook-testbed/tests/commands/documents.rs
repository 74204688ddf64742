//! The commands that the documents show: run as they are written, each document against a server of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use everhook::cli::client::Connection;
use everhook_testbed::node::{ADMIN_KEY, Node, command};
use http::Method;

use super::{scratch, started, stderr, stdout};

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

/// A shell without settings of whoever runs the test, in which `everhook` is the binary under test.
fn shell(commands: &str) -> Command {
    let binary = command();
    let binary = binary.get_program().to_str().expect("a path in UTF-8");
    // Several requests print one after the other: each on lines of its own.
    let curl = "curl() { command curl -sS --fail-with-body \"$@\"; echo; }";
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("set -eu\n{curl}\neverhook() {{ '{binary}' \"$@\"; }}\n{commands}")]).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("EVERHOOK_")) {
        shell.env_remove(name);
    }
    shell
}

async fn run_to_end(mut shell: Command) -> Output {
    tokio::task::spawn_blocking(move || shell.output().expect("bash runs")).await.expect("no panic")
}

async fn paste(commands: String, node: &Node) -> Output {
    let mut shell = shell(&commands);
    shell.env("EVERHOOK_URL", node.url()).env("EVERHOOK_KEY", ADMIN_KEY);
    run_to_end(shell).await
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

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_guide_and_of_the_page_about_models_are_accepted() {
    for (document, expected) in [
        ("guide.md", ["\"duplicate\":false", "was already published with this idempotency key", "circuit breaker", "\"secret\":\"whsec_"]),
        ("modeling.md", ["\"uid\":\"customer-4711\"", "https://bobs.example/hooks", "\"deliveries\":1", "\"sequence_number\":1"]),
    ] {
        let node = started().await;
        let output = paste(commands(&documents().join(document)), &node).await;
        assert!(output.status.success(), "{document}: {}{}", stdout(&output), stderr(&output));
        for words in expected {
            assert!(stdout(&output).contains(words), "{document}: `{words}` is not in {}", stdout(&output));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_is_registered_as_the_page_about_rabbitmq_says() {
    let mut node = Node::new(scratch()).with_flags(["--amqp-destinations"]);
    node.start();
    node.wait_until_ready().await;
    let output = paste(commands(&documents().join("rabbitmq.md")), &node).await;
    assert!(output.status.success() && stdout(&output).contains("amqps://broker.example/shop"), "{}{}", stdout(&output), stderr(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_of_the_readme_ends_with_a_resolved_dead_letter_however_often_it_is_taken() {
    let tour = commands(&documents().join("../README.md"));
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let free = || std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("its address").port().to_string();
    let (server, receiver) = (free(), free());
    let script = folder.path().join("receiver.py").display().to_string();
    // The ports of the page may be taken here, and its pauses are too short for a build without optimization on a busy machine.
    let tour = tour.replace("8300", &server).replace("8301", &receiver).replace("/tmp/receiver.py", &script);
    let tour = tour.replace("target/release/everhook serve", "exec_everhook serve").replace("target/release/everhook", "everhook");
    let binary = command().get_program().to_str().expect("a path in UTF-8").to_owned();
    let tour = tour.replace("exec_everhook", &format!("exec '{binary}'"));
    for round in 0..2 {
        let mut shell = shell(&format!("sleep() {{ command sleep 4; }}\n{tour}"));
        shell.env("TMPDIR", folder.path());
        let output = run_to_end(shell).await;
        let told = stdout(&output);
        assert!(output.status.success(), "round {round}: {told}{}", stderr(&output));
        for words in [
            "\"deliveries\":1",
            "\"status\":\"dead\",\"",
            "refused the connection",
            "webhook-signature: v1,",
            "\"status\":\"resolved\"",
            "accepted: 1 delivery",
        ] {
            assert!(told.contains(words), "round {round}: `{words}` is not in {told}{}", stderr(&output));
        }
    }
}
