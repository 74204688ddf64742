//! A node that is started with another database than the one that its spool is of: nothing that it accepted is lost by that.

use std::{path::Path, time::Duration};

use everhook::cli::client::Connection;
use everhook_testbed::{
    database::SEAL_KEY,
    node::Node,
    postgres_server::{PostgresServer, Stop},
};
use http::Method;
use serde_json::json;
use tokio_postgres::NoTls;

use super::{
    publishers::body,
    sink::{Behavior, Sink},
};

/// How many events are published while PostgreSQL is away: all but the last to the right node.
const EVENTS: u64 = 20;
/// How long the right node may take to deliver them, on a busy machine.
const DELIVERED_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spool_is_refused_by_another_database_and_delivered_by_its_own() {
    // Given two installations on one server, and a node of the first that accepts events while PostgreSQL is away, and dies.
    let postgres = PostgresServer::start();
    let (own, other) = (postgres.url(), another_database(&postgres).await);
    let sink = Sink::start(Behavior::Steady).await;
    let mut stranger = node(&other, None);
    stranger.start();
    stranger.wait_until_ready().await;
    stranger.kill();
    let mut right = node(&own, None);
    right.start();
    right.wait_until_ready().await;
    let endpoint = json!({ "url": format!("http://{}/e/0", sink.address), "event_types": ["kill.test"], "ordering": "strict" });
    Connection::new(right.server()).ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
    postgres.stop(Stop::Fast);
    for number in 0..EVENTS - 1 {
        assert_spools(&right, number).await;
    }
    right.kill();

    // When it is started with the other database, it takes events until it can see which one that is, and stops then.
    let spool = right.data().join("spool").display().to_string();
    let mut wrong = node(&other, Some(&spool));
    wrong.start();
    wrong.wait_until_ready().await;
    assert_spools(&wrong, EVENTS - 1).await;
    postgres.start_again();
    assert_refuses(&mut wrong, &format!("it contains {EVENTS} events")).await;
    // Started again, it does not get so far.
    wrong.start();
    assert_refuses(&mut wrong, "Start with that database, or name another folder with --spool").await;

    // Then the right one has all of them.
    right.start();
    right.wait_until_ready().await;
    let delivering = async {
        while sink.accepted() < EVENTS as usize {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(DELIVERED_WITHIN, delivering).await.unwrap_or_else(|_| panic!("{} of {EVENTS} arrived", sink.accepted()));
    let arrivals = sink.arrivals();
    let at: Vec<_> = (0..EVENTS).map(|number| arrivals[&(0, number)][0].at).collect();
    assert!(at.is_sorted(), "they arrived in the order in which they were accepted");
}

fn node(database: &str, spool: Option<&str>) -> Node {
    let mut node = Node::new(Path::new(env!("CARGO_TARGET_TMPDIR"))).with_flags(["--database", database, "--seal-key", SEAL_KEY]);
    spool.iter().for_each(|spool| node.add_flags(&["--spool", spool]));
    node
}

async fn another_database(postgres: &PostgresServer) -> String {
    let (client, connection) = tokio_postgres::connect(&postgres.url(), NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client.batch_execute("CREATE DATABASE other").await.expect("the database is made");
    let url = postgres.url();
    let (server, _) = url.rsplit_once('/').expect("the address ends with the name");
    format!("{server}/other")
}

async fn assert_spools(node: &Node, number: u64) {
    let answer = Connection::new(node.server()).ask(Method::POST, "/v1/events", Some(&body("kill.test", number))).await;
    let answer = answer.expect("it is accepted");
    assert_eq!(answer["spooled"], json!(true), "{answer}");
}

async fn assert_refuses(node: &mut Node, words: &str) {
    let (status, told) = node.wait_until_ended().await;
    assert!(!status.success() && told.contains("this spool belongs to another database") && told.contains(words), "{status}: {told}");
}
