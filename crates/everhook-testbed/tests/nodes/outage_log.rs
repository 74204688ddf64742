//! What the log says of an outage: that it began, and that it is over.

use std::{path::Path, time::Duration};

use everhook::cli::client::Connection;
use everhook_testbed::{
    database::SEAL_KEY,
    node::Node,
    postgres_server::{PostgresServer, Stop},
};
use http::Method;
use serde_json::json;

use super::sink::{Behavior, Sink};

/// Longer than a lease is trusted, so that the node begins anew.
const AWAY: Duration = Duration::from_secs(6);
/// How long the node may take to send again, on a busy machine.
const BACK_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The store, the lease, the counters, and what was under way at that moment: not a line for each try.
const WARNINGS_MAX: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_told_when_it_begins_and_when_it_is_over() {
    let postgres = PostgresServer::start();
    let sink = Sink::start(Behavior::Steady).await;
    let mut node = Node::new(Path::new(env!("CARGO_TARGET_TMPDIR"))).with_flags(["--database", &postgres.url(), "--seal-key", SEAL_KEY]);
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    let endpoint = json!({ "url": format!("http://{}/e/0", sink.address), "event_types": ["kill.test"] });
    connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
    let log = || std::fs::read_to_string(node.data().with_file_name("server.log")).expect("its log");
    let before = log().len();
    // When PostgreSQL is away for a while.
    postgres.stop(Stop::Fast);
    tokio::time::sleep(AWAY).await;
    postgres.start_again();
    let waiting = async {
        while !log().contains("sending resumes") {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(BACK_WITHIN, waiting).await.unwrap_or_else(|_| panic!("it goes on:\n{}", log()));
    // Then the log has a line for each end of that, and few between.
    let log = log().split_off(before);
    assert_eq!(log.matches("the lease cannot be renewed").count(), 1, "{log}");
    assert_eq!(log.matches("sending resumes").count(), 1, "{log}");
    let warnings = log.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR")).count();
    assert!(warnings <= WARNINGS_MAX && !log.contains("deadpool") && !log.contains("ERROR"), "{log}");
}
