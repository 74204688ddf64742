//! That the server removes what is past its time by itself, and leaves the rest.

use std::time::{Duration, Instant};

use everhook::cli::client::Connection;
use everhook_testbed::node::Node;
use http::{Method, StatusCode};
use serde_json::json;

use super::{run, scratch, stdout};

/// A second for the period, one for the interval, and a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn an_event_past_its_time_is_gone_and_one_that_waits_is_not() {
    let mut node = Node::new(scratch()).with_flags(["--retention-events=1s", "--retention-interval=1s", "--idempotency-window=1s"]);
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    // Nobody listens there: it waits for its next attempt.
    let endpoint = json!({"url": "http://127.0.0.1:9/", "event_types": ["order.late"]});
    connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
    let mut paths = Vec::new();
    for event_type in ["order.late", "order.paid"] {
        let event = json!({"type": event_type, "data": {}});
        let made = connection.ask(Method::POST, "/v1/events", Some(&event)).await.expect("it is published");
        paths.push(format!("/v1/events/{}", made["id"].as_str().expect("an id")));
    }
    let begun_at = Instant::now();
    while connection.send(Method::GET, &paths[1], "").await.expect("an answer").status != StatusCode::NOT_FOUND {
        assert!(begun_at.elapsed() < GONE_WITHIN, "the event is still there");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    assert_eq!(connection.send(Method::GET, &paths[0], "").await.expect("an answer").status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_shows_how_long_things_are_kept_and_refuses_what_cannot_be() {
    let shown = run(&["config", "--retention-events", "30d", "--retention-rollups", "never"]).await;
    let text = stdout(&shown);
    for expected in ["retention_events", "30d", "retention_rollups", "never", "retention_dead_letters", "365d"] {
        assert!(text.contains(expected), "`{expected}` is missing in:\n{text}");
    }
    let own = run(&["config", "--retention-health", "104w", "--retention-operations", "7d", "--retention-audit-log", "never"]).await;
    let text = stdout(&own);
    for expected in ["retention_health", "104w", "retention_operations", "7d", "retention_audit_log", "never"] {
        assert!(text.contains(expected), "`{expected}` is missing in:\n{text}");
    }
    let refused = run(&["config", "--retention-events", "30d", "--retention-attempts", "31d"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(super::stderr(&refused).contains("must not be longer than retention_events"), "{}", super::stderr(&refused));
}
