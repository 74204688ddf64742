//! `everhook doctor`: what it says about a server that is well, and about what is not.

use std::collections::BTreeMap;

use everhook::cli::client::Connection;
use everhook_testbed::{
    mail_server::{MailAction, MailServer, MailStep},
    node::{ADMIN_KEY, Node},
};
use http::Method;
use serde_json::Value;

use super::{run, scratch, started, stderr, stdout};

/// The report as a program reads it, and how the command ended.
async fn report(args: &[&str]) -> (Value, Option<i32>) {
    let run = run(&[&["doctor", "--json"], args].concat()).await;
    let report = serde_json::from_str(&stdout(&run)).unwrap_or_else(|_| panic!("{}{}", stdout(&run), stderr(&run)));
    (report, run.status.code())
}

/// Each check's verdict.
fn verdicts(report: &Value) -> BTreeMap<&str, &str> {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().map(|check| (check["name"].as_str().expect("a name"), check["verdict"].as_str().expect("a verdict"))).collect()
}

fn finding<'a>(report: &'a Value, name: &str) -> &'a str {
    let checks = report["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name} is missing in {report}"));
    check["finding"].as_str().expect("a text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_well_is_looked_at_from_all_sides_and_delivers_an_event() {
    let node = started().await;
    let (url, data) = (node.url(), node.data().display().to_string());
    let (report, _) = report(&["--url", &url, "--key", ADMIN_KEY, "--data", &data]).await;
    let verdicts = verdicts(&report);
    for name in ["configuration", "server", "clock", "api key", "store", "data folder", "sealing key", "tls", "delivery"] {
        assert_eq!(verdicts.get(name), Some(&"ok"), "{name}: {report}");
    }
    assert!(verdicts.contains_key("disk") && verdicts.contains_key("dns"), "{report}");
    assert!(finding(&report, "delivery").contains("arrived, signed"), "{report}");
    // The test event came after the look.
    let tables = report["stored"]["tables"].as_array().expect("tables");
    assert!(tables.iter().any(|table| table["name"] == "events" && table["rows"] == 0), "{report}");
    // Nothing is left of the test but what history keeps.
    let applications = Connection::new(node.server()).ask(Method::GET, "/v1/applications", None).await.expect("a list");
    assert!(!applications.to_string().contains("doctor"), "{applications}");
    // A later report says what was added since this one: the test event.
    let file = node.data().join("before.json");
    std::fs::write(&file, report.to_string()).expect("the report is kept");
    let since = ["--url", &url, "--key", ADMIN_KEY, "--data", &data, "--skip-delivery", "--since", &file.display().to_string()];
    let (later, _) = self::report(&since).await;
    let grown = later["stored"]["growth"]["tables"].as_array().expect("tables");
    assert!(grown.iter().any(|table| table["name"] == "events" && table["rows"].as_i64().is_some_and(|rows| rows > 0)), "{later}");
    std::fs::write(&file, "{}").expect("the file is replaced");
    let (unusable, _) = self::report(&since).await;
    assert!(finding(&unusable, "growth").contains("is not a report"), "{unusable}");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_get_a_table_that_says_what_to_do() {
    let node = started().await;
    let (url, data) = (node.url(), node.data().display().to_string());
    let shown = run(&["doctor", "--url", &url, "--key", ADMIN_KEY, "--data", &data, "--skip-delivery"]).await;
    let text = stdout(&shown);
    for expected in [
        "Everhook",
        "  ok       server",
        &format!("{url} is ready"),
        "Stored in the store of the server",
        "empty: events",
        "  size",
        "kept for 90 days",
    ] {
        assert!(text.contains(expected), "`{expected}` is missing in:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "NO_COLOR was not respected");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_missed_and_a_configuration_that_is_wrong_are_problems() {
    let nobody = Node::new(scratch());
    let (missed, code) = report(&["--url", &nobody.url(), "--data", &nobody.data().display().to_string()]).await;
    assert_eq!((verdicts(&missed).get("server"), code), (Some(&"problem"), Some(1)), "{missed}");
    assert_eq!(verdicts(&missed).get("delivery"), Some(&"skipped"));
    let (wrong, code) = report(&["--retention-events", "soon"]).await;
    assert_eq!((verdicts(&wrong).get("configuration"), code), (Some(&"problem"), Some(1)), "{wrong}");
    assert!(finding(&wrong, "configuration").contains("retention_events"), "{wrong}");
    let stranger = started().await;
    let (stranger, _) = report(&["--url", &stranger.url(), "--key", "eh_nobody_has_this_key_here"]).await;
    assert_eq!(verdicts(&stranger).get("api key"), Some(&"warning"), "{stranger}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_without_a_server_says_what_it_keeps_and_is_not_changed() {
    let mut node = started().await;
    let event = serde_json::json!({ "type": "order.paid", "data": {} });
    Connection::new(node.server()).ask(Method::POST, "/v1/events", Some(&event)).await.expect("it is published");
    node.ask_to_stop();
    node.wait_until_ended().await;
    // Nobody listens on port 9, so that no other test's server is found.
    let data = node.data().display().to_string();
    let (report, code) = report(&["--data", &data, "--listen", "127.0.0.1:9"]).await;
    assert_eq!((verdicts(&report).get("server"), verdicts(&report).get("sealing key")), (Some(&"warning"), Some(&"ok")), "{report}");
    assert!(
        report["stored"]["tables"]
            .as_array()
            .is_some_and(|tables| tables.iter().any(|table| table["name"] == "events" && table["rows"] == 1))
    );
    assert_eq!(code, Some(i32::from(report["problems"] != 0)));
    // A key that is not the one of the data is found.
    std::fs::write(node.data().join("seal.key"), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").expect("it is written");
    let (report, code) = self::report(&["--data", &data, "--listen", "127.0.0.1:9"]).await;
    assert_eq!((verdicts(&report).get("sealing key"), code), (Some(&"problem"), Some(1)), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_server_is_greeted_and_gets_a_mail_only_if_that_is_asked_for() {
    let mail_server = MailServer::start().await.expect("a mail server");
    let smtp = format!("smtp://127.0.0.1:{}?tls=none", mail_server.port);
    let nobody = Node::new(scratch()).data().display().to_string();
    let args = ["--smtp", &smtp, "--smtp-from", "hooks@example.com", "--data", &nobody, "--listen", "127.0.0.1:9"];
    let (greeted, _) = report(&args).await;
    assert_eq!(verdicts(&greeted).get("mail server"), Some(&"ok"), "{greeted}");
    assert_eq!(mail_server.taken().len(), 0);
    let (sent, _) = report(&[&args[..], &["--mail-to", "ops@example.com"]].concat()).await;
    assert_eq!(verdicts(&sent).get("mail"), Some(&"ok"), "{sent}");
    assert_eq!(mail_server.taken().into_iter().flat_map(|mail| mail.to).collect::<Vec<_>>(), ["ops@example.com"]);
    mail_server.script([(MailStep::Greeting, MailAction::Reply("554 closed"))]);
    let (refused, code) = report(&args).await;
    assert_eq!((verdicts(&refused).get("mail server"), code), (Some(&"problem"), Some(1)), "{refused}");
}
