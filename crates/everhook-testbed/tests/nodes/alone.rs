//! Nodes that start while PostgreSQL is away.

use std::{path::Path, time::Duration};

use everhook::cli::client::{Connection, Server};
use everhook_testbed::{
    database::SEAL_KEY,
    node::{Node, command},
    postgres_server::{PostgresServer, Stop},
};
use http::Method;
use serde_json::{Value, json};

use super::{
    publishers::body,
    sink::{Manners, Sink},
    start_node,
};

/// How long a node may take to become whole once PostgreSQL is back, and to deliver, on a busy machine.
const WHOLE_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_knows_its_publishers_starts_without_postgresql_and_becomes_whole_when_it_is_back() {
    // Given a node that has taken an event before, and is started again while PostgreSQL is away.
    let postgres = PostgresServer::start();
    let sink = Sink::start(Manners::Steady).await;
    let mut node = start_node(&postgres.url(), &[]).await;
    let mut connection = Connection::new(node.server());
    let endpoint = json!({ "url": format!("http://{}/e/0", sink.address), "event_types": ["kill.test"], "ordering": "strict" });
    connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
    connection.ask(Method::POST, "/v1/events", Some(&body("kill.test", 0))).await.expect("an event is taken");
    postgres.stop(Stop::Fast);
    node.kill();
    let said_before = said(&node);
    node.start();
    node.wait_until_ready().await;
    assert_eq!(said(&node), said_before + 1, "it listens");
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
    assert_refused(&mut connection, Method::GET, "/v1/endpoints", "", "nothing else").await;
    let stranger = Server::new(&node.url().parse().expect("a URL"), Some("eh_a_key_that_nobody_has_seen")).expect("an address");
    let event = body("kill.test", 9).to_string();
    assert_refused(&mut Connection::new(stranger), Method::POST, "/v1/events", &event, "has not seen this API key").await;
    // When PostgreSQL is back, it becomes whole, over the same connection, and delivers in order.
    postgres.start_again();
    wait_until(async || connection.send(Method::GET, "/v1/endpoints", "").await.is_ok_and(|answer| answer.status.is_success())).await;
    wait_until(async || sink.accepted() == 5).await;
    let arrivals = sink.arrivals();
    let at: Vec<_> = (0..5).map(|number| arrivals[&(0, number)][0].at).collect();
    assert!(at.is_sorted(), "{at:?}");
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
        words.contains("everhook: the database 127.0.0.1:1/nobody cannot be used: ") && words.contains("spool knows no publishers"),
        "{words}"
    );
    let words = serve(&file);
    assert!(words.contains("neither the database nor the spool") && words.contains("PostgreSQL cannot be reached"), "{words}");
    assert!(words.contains("the spool folder") && words.contains("it is not a folder"), "{words}");
}

/// How often it said where it listens.
fn said(node: &Node) -> usize {
    std::fs::read_to_string(node.data().with_file_name("server.log")).expect("its log").matches("Everhook listens on ").count()
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
