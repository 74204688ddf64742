//! Spans of several nodes: an attempt on one follows from the publish on another.

use std::collections::BTreeSet;

use everhook::cli::client::Connection;
use http::Method;

use super::{ENDPOINTS, NODES, Trial, publishers::body, sink::Behavior};
use crate::api::traces::{Collector, Span};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_on_every_node_follow_from_the_publish_on_one() {
    let (collector, address) = Collector::start().await;
    let trial = Trial::start_with(Behavior::Steady, &["--otlp-endpoint", &format!("http://{address}")]).await;
    let mut publisher = Connection::new(trial.nodes[0].server());
    let mut senders = BTreeSet::new();
    for number in 0..10 {
        let event = publisher.ask(Method::POST, "/v1/events", Some(&body("kill.test", number))).await.expect("it is accepted");
        let trace = event["id"].as_str().expect("an id").replace('-', "");
        let found = collector.wait_for(&trace, 1 + ENDPOINTS as usize).await;
        let (published, attempts): (Vec<&Span>, Vec<&Span>) = found.iter().partition(|span| span.name == "publish");
        assert_eq!(published.len(), 1, "{found:?}");
        assert!(attempts.iter().all(|attempt| attempt.parent == published[0].id), "{found:?}");
        senders.extend(attempts.iter().map(|attempt| attempt.node.clone()));
    }
    assert!(senders.len() > 1, "only {senders:?} of {NODES} nodes sent");
}
