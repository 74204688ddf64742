//! Breakers of capabilities on several nodes: half of the nodes with calls open it for all, and a node whose own network is blocked opens it for nobody else.

use std::{path::Path, time::Duration};

use everhook::cli::client::Connection;
use everhook_testbed::{
    database::{Database, SEAL_KEY},
    node::Node,
};
use http::Method;
use serde_json::{Value, json};

use super::start_nodes;
use crate::api::calls::app::{Answer, App};

const CALL: &str = "/v1/applications/default/call/ask?explain";

/// Longer than until a node says which capabilities it has calls of, and until the others have heard it.
const UNTIL_NOTED: Duration = Duration::from_secs(12);
/// Longer than until nodes hear of a change, on a busy machine.
const UNTIL_TOLD: Duration = Duration::from_secs(3);

async fn put_manifest(node: &Node, app: &App) {
    put_with_timeout(node, app, 2_000).await;
}

async fn put_with_timeout(node: &Node, app: &App, timeout_ms: u64) {
    let ask = json!({ "path": "/ask", "timeout": timeout_ms, "fallback": [{ "type": "default", "static": "instead" }] });
    let manifest = json!({ "base_url": app.url(), "capabilities": { "ask": ask } });
    let mut connection = Connection::new(node.server());
    connection.ask(Method::PUT, "/v1/applications/default/manifest", Some(&manifest)).await.expect("it is good");
}

/// What a call at a node was answered with, and why the app's answer was not used.
async fn call(node: &Node) -> (String, String) {
    call_with(node, json!(1)).await
}

async fn call_with(node: &Node, payload: Value) -> (String, String) {
    let answer = Connection::new(node.server()).ask(Method::POST, CALL, Some(&json!({ "payload": payload }))).await.expect("an answer");
    let app = answer["steps"].as_array().unwrap().iter().find(|step| step["step"] == "app").cloned().unwrap_or(Value::Null);
    (answer["source"].as_str().unwrap().to_owned(), app["reason"].as_str().unwrap_or_default().to_owned())
}

fn good() -> Answer {
    Answer::data(&json!("fine"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_half_of_the_nodes_have_opened_a_breaker_the_others_open_it_without_failures_of_their_own() {
    let database = Database::create().await;
    let (nodes, app) = (start_nodes(3, &database.url(), &[]).await, App::answering(good()).await);
    put_manifest(&nodes[0], &app).await;
    tokio::time::sleep(UNTIL_TOLD).await;
    for node in &nodes {
        assert_eq!(call(node).await.0, "app");
    }
    tokio::time::sleep(UNTIL_NOTED).await;
    app.answer(Answer::Body(500, String::new()));
    // One of three: the others find out for themselves.
    for _ in 0..5 {
        assert!(call(&nodes[0]).await.1.starts_with("status"));
    }
    assert!(call(&nodes[0]).await.1.starts_with("circuit_open"));
    tokio::time::sleep(UNTIL_TOLD).await;
    for _ in 0..5 {
        assert!(call(&nodes[1]).await.1.starts_with("status"), "one node alone does not open it for others");
    }
    // Two of three.
    tokio::time::sleep(UNTIL_TOLD).await;
    let asked = app.seen().len();
    let (source, reason) = call(&nodes[2]).await;
    assert!(source == "default" && reason.starts_with("circuit_open"), "{source}: {reason}");
    assert_eq!(app.seen().len(), asked, "the app was not asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_reach_the_app_opens_the_breaker_for_itself_alone() {
    let database = Database::create().await;
    let (free, app) = (start_nodes(1, &database.url(), &[]).await.remove(0), App::answering(good()).await);
    let blocked = Node::new(Path::new(env!("CARGO_TARGET_TMPDIR"))).with_flags(["--database", &database.url(), "--seal-key", SEAL_KEY]);
    let mut blocked = blocked.reaching("127.0.0.2/32");
    blocked.start();
    blocked.wait_until_ready().await;
    put_manifest(&free, &app).await;
    tokio::time::sleep(UNTIL_TOLD).await;
    assert_eq!(call(&free).await.0, "app");
    for _ in 0..5 {
        let (source, reason) = call(&blocked).await;
        assert!(source == "default" && reason.starts_with("network"), "{source}: {reason}");
    }
    assert!(call(&blocked).await.1.starts_with("circuit_open"));
    tokio::time::sleep(UNTIL_TOLD).await;
    for _ in 0..20 {
        assert_eq!(call(&free).await.0, "app", "it is there for this one");
    }
    assert!(call(&blocked).await.1.starts_with("circuit_open"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_has_no_answers_in_time_opens_the_breaker_for_itself_alone() {
    let database = Database::create().await;
    let nodes = start_nodes(2, &database.url(), &[]).await;
    // What the second node sends is lost on its way: it says who it is in what it asks.
    let app = App::start(|_, seen| if seen.body == b"2" { Answer::Hangs } else { good() }).await;
    put_with_timeout(&nodes[0], &app, 400).await;
    tokio::time::sleep(UNTIL_TOLD).await;
    for node in &nodes {
        assert_eq!(call(node).await.0, "app");
    }
    tokio::time::sleep(UNTIL_NOTED).await;
    for _ in 0..5 {
        let (source, reason) = call_with(&nodes[1], json!(2)).await;
        assert!(source == "default" && reason.starts_with("timeout"), "{source}: {reason}");
    }
    assert!(call_with(&nodes[1], json!(2)).await.1.starts_with("circuit_open"));
    tokio::time::sleep(UNTIL_TOLD).await;
    for _ in 0..20 {
        assert_eq!(call(&nodes[0]).await.0, "app", "it answers this one");
    }
    assert!(call_with(&nodes[1], json!(2)).await.1.starts_with("circuit_open"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_breaker_that_a_person_forces_is_forced_on_every_node() {
    let database = Database::create().await;
    let (nodes, app) = (start_nodes(2, &database.url(), &[]).await, App::answering(good()).await);
    put_manifest(&nodes[0], &app).await;
    tokio::time::sleep(UNTIL_TOLD).await;
    for node in &nodes {
        assert_eq!(call(node).await.0, "app");
    }
    let order = async |node: &Node, action: &str| {
        let path = "/v1/applications/default/capabilities/ask/circuit-breaker";
        let asked = Connection::new(node.server()).ask(Method::PATCH, path, Some(&json!({ "action": action }))).await;
        asked.expect("the breaker obeys");
    };
    let wait_for = async |node: &Node, source: &str| {
        let begun = std::time::Instant::now();
        while call(node).await.0 != source {
            assert!(begun.elapsed() < Duration::from_secs(20), "the other node does not hear of it");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    order(&nodes[0], "force_open").await;
    wait_for(&nodes[1], "default").await;
    assert!(call(&nodes[1]).await.1.starts_with("circuit_open"));
    // By the other one, back on the first.
    order(&nodes[1], "reset").await;
    wait_for(&nodes[0], "app").await;
}
