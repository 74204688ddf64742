//! Nodes that start while PostgreSQL is away.

use std::{path::Path, time::Duration};

use everhook::cli::client::{Connection, Server};
use everhook_testbed::{
    database::SEAL_KEY,
    node::{ADMIN_KEY, Node, command},
    postgres_server::{PostgresServer, Stop},
};
use http::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    publishers::body,
    sink::{Behavior, Sink},
    start_node,
};

/// How long a node may take to become whole once PostgreSQL is back, and to deliver, on a busy machine.
const WHOLE_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LISTENS: &str = "Everhook listens on ";
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_knows_its_publishers_starts_without_postgresql_and_becomes_whole_when_it_is_back() {
    // Given a node that has taken an event before, and is started again while PostgreSQL is away.
    let postgres = PostgresServer::start();
    let sink = Sink::start(Behavior::Steady).await;
    let mut node = start_node(&postgres.url(), &[]).await;
    let mut connection = Connection::new(node.server());
    let endpoint = json!({ "url": format!("http://{}/e/0", sink.address), "event_types": ["kill.test"], "ordering": "strict" });
    connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
    publish(&node, 0).await;
    assert_eq!(node.times_said(LISTENS), 1);
    start_again_without(&postgres, &mut node).await;
    assert_eq!(node.times_said(LISTENS), 2, "it says so before it answers");
    // Then it takes events of whom it knows, and nothing else.
    let mut connection = Connection::new(node.server());
    let status = connection.ask(Method::GET, "/readyz", None).await.expect("the node is ready");
    assert_eq!(status["status"], "degraded");
    for number in 1..4 {
        let answer = connection.ask(Method::POST, "/v1/events", Some(&body("kill.test", number))).await.expect("it is accepted");
        assert_eq!((&answer["spooled"], &answer["duplicate"]), (&json!(true), &json!(false)), "{answer}");
    }
    let batch = json!({ "events": [body("kill.test", 4), body("kill.test", 1), { "type": "a b", "data": 1 }] });
    let answer = connection.ask(Method::POST, "/v1/events/batch", Some(&batch)).await.expect("it is accepted");
    let [new, known, wrong] = [0, 1, 2].map(|place| answer["data"][place].clone());
    assert_eq!((&new["spooled"], &known["duplicate"], &wrong["error"]["status"]), (&json!(true), &json!(true), &json!(422)), "{answer}");
    assert_refused(&mut connection, Method::GET, "/v1/endpoints", "", "only accepts events").await;
    let stranger = Server::new(&node.url().parse().expect("a URL"), Some("eh_a_key_that_nobody_has_seen")).expect("an address");
    let event = body("kill.test", 9).to_string();
    assert_refused(&mut Connection::new(stranger), Method::POST, "/v1/events", &event, "does not know this API key").await;
    // When PostgreSQL is back, it becomes whole, over the same connection, and delivers in order.
    postgres.start_again();
    wait_until(async || connection.send(Method::GET, "/v1/endpoints", "").await.is_ok_and(|answer| answer.status.is_success())).await;
    wait_until(async || sink.accepted() == 5).await;
    let arrivals = sink.arrivals();
    let at: Vec<_> = (0..5).map(|number| arrivals[&(0, number)][0].at).collect();
    assert!(at.is_sorted(), "{at:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_in_the_middle_of_a_start_without_postgresql_lets_requests_end() {
    let postgres = PostgresServer::start();
    let mut node = start_node(&postgres.url(), &[]).await;
    publish(&node, 0).await;
    start_again_without(&postgres, &mut node).await;
    // Given a request of which the node has read the head.
    let event = body("kill.test", 1).to_string();
    let mut stream = TcpStream::connect(node.url().trim_start_matches("http://")).await.expect("a connection");
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: everhook\r\nauthorization: Bearer {ADMIN_KEY}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        event.len()
    );
    stream.write_all(head.as_bytes()).await.expect("the head is written");
    let mut interim = [0; CONTINUE.len()];
    stream.read_exact(&mut interim).await.expect("the node has read the head");
    assert_eq!(String::from_utf8_lossy(&interim), CONTINUE);
    // When it is asked to stop.
    node.ask_to_stop();
    wait_until(async || node.times_said("shutting down before the start was complete") == 1).await;
    // Then the rest of the request is still read, and answered.
    stream.write_all(event.as_bytes()).await.expect("the body is written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 202 ") && answer.contains(r#""spooled":true"#), "{answer}");
    let (status, said) = node.wait_until_ended().await;
    assert!(status.success(), "{said}");
}

#[tokio::test]
async fn a_first_start_without_postgresql_ends_with_an_error_that_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, file) = (folder.path().join("data"), folder.path().join("file"));
    std::fs::write(&file, "not a folder").expect("a file");
    let serve = |spool: &Path| {
        let mut command = command();
        let database = "postgres://everhook@127.0.0.1:1/nobody";
        command.args(["serve", "--listen", "127.0.0.1:0", "--database", database, "--seal-key", SEAL_KEY, "--data"]).arg(&data);
        let output = command.arg("--spool").arg(spool).output().expect("the server starts");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let words = serve(&folder.path().join("spool"));
    assert!(
        words.contains("everhook: cannot use the database 127.0.0.1:1/nobody: ") && words.contains("spool knows no publishers"),
        "{words}"
    );
    let words = serve(&file);
    assert!(words.contains("neither the database nor the spool") && words.contains("cannot reach PostgreSQL"), "{words}");
    assert!(words.contains("the spool folder") && words.contains("it is not a folder"), "{words}");
}

async fn publish(node: &Node, number: u64) {
    Connection::new(node.server()).ask(Method::POST, "/v1/events", Some(&body("kill.test", number))).await.expect("it is accepted");
}

/// Kills the node and starts it again while PostgreSQL is away.
async fn start_again_without(postgres: &PostgresServer, node: &mut Node) {
    postgres.stop(Stop::Fast);
    node.kill();
    node.start();
    node.wait_until_ready().await;
}

async fn assert_refused(connection: &mut Connection, method: Method, path: &str, body: &str, words: &str) {
    let answer = connection.send(method, path, body.to_owned()).await.expect("the node answers");
    let problem: Value = serde_json::from_slice(&answer.body).expect("a problem is JSON");
    assert_eq!(answer.status.as_u16(), 503, "{problem}");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(words)), "{problem}");
}

async fn wait_until(mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(WHOLE_WITHIN, waiting).await.expect("it comes to that");
}
