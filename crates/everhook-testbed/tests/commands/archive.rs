//! The archive of the real server: what expires is in a file before it is gone, encrypted, and `everhook archive read` shows it.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use everhook::cli::client::Connection;
use everhook_testbed::node::Node;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{run, scratch, stderr, stdout};

/// A second for the period, one for the interval, and a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const MARKER: &str = "a-very-private-marker";

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Receives an event through a source, and says where it is.
async fn receive(connection: &mut Connection) -> String {
    let source = json!({ "name": "partner", "kind": "garmin" });
    let source = connection.ask(Method::POST, "/v1/sources", Some(&source)).await.expect("the source is created");
    let push = json!({ "dailies": [{ "userId": "user-7", "summaryId": "s1", "text": MARKER }] });
    connection.ask(Method::POST, "/in/partner/dailies", Some(&push)).await.expect("it is accepted");
    let path = format!("/v1/sources/{}/events", source["id"].as_str().expect("an id"));
    let events = connection.ask(Method::GET, &path, None).await.expect("a list");
    format!("/v1/events/{}", events["data"][0]["id"].as_str().expect("an id"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_expired_is_in_the_archive_encrypted_and_can_be_read_with_the_servers_key() {
    let mut node = Node::new(scratch());
    let folder = node.data().parent().expect("it has one").join("archive");
    node.add_flags(&["--retention-events=1s", "--retention-interval=1s", "--idempotency-window=1s", "--archive"]);
    node.add_flags(&[&folder.display().to_string()]);
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    let path = receive(&mut connection).await;
    let begun_at = Instant::now();
    while connection.send(Method::GET, &path, "").await.expect("an answer").status != StatusCode::NOT_FOUND {
        assert!(begun_at.elapsed() < GONE_WITHIN, "the event is still there");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    let files = files(&folder);
    assert_eq!(files.len(), 1, "{files:?}");
    let storage = connection.ask(Method::GET, "/v1/storage", None).await.expect("what is stored");
    assert_eq!(storage["archive"]["folder"], json!(folder.display().to_string()));
    assert!(storage["archive"]["written_at"].is_string() && storage["archive"]["last_error"].is_null(), "{storage}");
    let mut lines = String::new();
    let read = everhook_adapters::archive::read(&files[0], None, |line| {
        lines.push_str(line);
        Ok(())
    });
    assert!(read.expect("it is an archive").unopened > 0);
    assert!(!lines.contains(MARKER), "what is encrypted in the store is plain in the archive");
    let (data, file) = (node.data().display().to_string(), files[0].display().to_string());
    let read = run(&["archive", "read", "--data", &data, &file]).await;
    assert!(read.status.success(), "{}", stderr(&read));
    let records: Vec<Value> = stdout(&read).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let event = records.iter().find(|record| record["record"] == "event").expect("the event");
    assert!(event["data"].as_str().is_some_and(|data| data.contains(MARKER)), "{event}");
    assert_eq!((&event["type"], &event["external_user_id"]), (&json!("dailies"), &json!("user-7")));
    // Without the key, everything else is shown, and what to do.
    let other = scratch().display().to_string();
    let without = run(&["archive", "read", "--data", &other, &file]).await;
    assert_eq!(without.status.code(), Some(1));
    assert!(stderr(&without).contains("encrypted with another sealing key") && stdout(&without).contains("user-7"), "{}", stderr(&without));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_cannot_be_written_to_keeps_what_expired_and_is_reported() {
    let mut node = Node::new(scratch());
    let place = node.data().parent().expect("it has one").join("in-the-way");
    std::fs::write(&place, "a file").expect("it is written");
    node.add_flags(&["--retention-events=1s", "--retention-interval=1s", "--idempotency-window=1s", "--archive"]);
    node.add_flags(&[&place.display().to_string()]);
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    let path = receive(&mut connection).await;
    let begun_at = Instant::now();
    loop {
        let storage = connection.ask(Method::GET, "/v1/storage", None).await.expect("what is stored");
        if storage["archive"]["failing_since"].is_string() {
            assert!(storage["archive"]["last_error"].is_string(), "{storage}");
            break;
        }
        assert!(begun_at.elapsed() < GONE_WITHIN, "nobody says that the archive fails: {storage}");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    assert_eq!(connection.send(Method::GET, &path, "").await.expect("an answer").status, StatusCode::OK);
    // The log says so a moment later.
    while node.times_said("cannot write to the archive") == 0 {
        assert!(begun_at.elapsed() < GONE_WITHIN, "the log says nothing of the archive");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    let report = run(&["doctor", "--json", "--skip-delivery", "--url", &node.url(), "--key", everhook_testbed::node::ADMIN_KEY]).await;
    assert_eq!(report.status.code(), Some(1), "{}", stderr(&report));
    let report: Value = serde_json::from_str(&stdout(&report)).expect("JSON");
    let check = report["checks"].as_array().expect("checks").iter().find(|check| check["name"] == "archiving").expect("it is looked at");
    assert_eq!(check["verdict"], "problem", "{check}");
}
