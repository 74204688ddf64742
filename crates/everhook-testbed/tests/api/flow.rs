//! What holds an endpoint's requests up, as its owner says it: rate, order, breaker, pause.

use serde_json::{Value, json};

use crate::api::client::Server;

fn window() -> Value {
    json!({
        "enabled": true, "rule": "window", "error_threshold_percentage": 60, "minimum_throughput": 20, "window_size_ms": 60_000,
        "sleep_window_ms": 30_000, "sleep_max_ms": 900_000, "half_open_max_calls": 5, "half_open_success_threshold": 0.6,
    })
}

#[tokio::test]
async fn flow_is_shown_as_it_was_asked_for_and_only_what_is_sent_changes() {
    let server = Server::start().await;
    let made = server.endpoint(json!({ "uid": "plain" })).await;
    assert_eq!((&made["circuit_breaker"], &made["rate_limit"], &made["ordering"]), (&window(), &Value::Null, &json!("none")));
    assert_eq!((&made["paused"], &made["paused_at"], &made["last_success_at"]), (&json!(false), &Value::Null, &Value::Null));
    let asked = json!({
        "uid": "tuned", "ordering_guarantee": "strict", "rate_limit": { "requests_per_minute": 500 },
        "circuit_breaker_config": { "minimum_throughput": 3 },
    });
    let made = server.endpoint(asked).await;
    assert_eq!((&made["ordering"], &made["rate_limit"]), (&json!("strict"), &json!({ "requests_per_minute": 500, "burst": 5 })));
    let mut tuned = window();
    tuned["minimum_throughput"] = json!(3);
    assert_eq!(made["circuit_breaker"], tuned);
    // What is shown can be sent back.
    let same = json!({ "circuit_breaker": made["circuit_breaker"], "rate_limit": made["rate_limit"], "ordering": made["ordering"] });
    let put = server.put("/v1/endpoints/tuned", same).await.expect(200);
    assert_eq!(put["circuit_breaker"], tuned);
    // Members that are absent stay.
    let put = server.put("/v1/endpoints/tuned", json!({ "circuit_breaker": { "enabled": false }, "rate_limit": null })).await.expect(200);
    tuned["enabled"] = json!(false);
    assert_eq!((&put["circuit_breaker"], &put["rate_limit"], &put["ordering"]), (&tuned, &Value::Null, &json!("strict")));
    // Another rule brings its own numbers, and null the defaults.
    let put = server.put("/v1/endpoints/tuned", json!({ "circuit_breaker": { "rule": "consecutive", "failure_threshold": 9 } })).await;
    let consecutive = json!({
        "enabled": false, "rule": "consecutive", "failure_threshold": 9, "success_threshold": 3,
        "sleep_window_ms": 60_000, "sleep_max_ms": 60_000, "half_open_max_calls": 5,
    });
    assert_eq!(put.expect(200)["circuit_breaker"], consecutive);
    let put = server.put("/v1/endpoints/tuned", json!({ "circuit_breaker": null, "ordering": null })).await.expect(200);
    assert_eq!((&put["circuit_breaker"], &put["ordering"]), (&window(), &json!("none")));
    server.stop().await;
}

#[tokio::test]
async fn an_event_with_an_ordering_key_shows_it_and_its_endpoint_keeps_the_order() {
    let server = Server::start().await;
    let made = server.endpoint(json!({ "uid": "by-key", "ordering": "per_key" })).await;
    assert_eq!(made["ordering"], "per_key");
    server.post("/v1/endpoints/by-key/pause", json!({})).await.expect(200);
    let event = |key: Value| json!({ "type": "order.paid", "data": 1, "ordering_key": key });
    let mut statuses = Vec::new();
    for key in [json!("customer 1"), json!("customer 1"), json!("customer 2"), Value::Null, Value::Null] {
        let published = server.post("/v1/events", event(key.clone())).await.expect(202);
        let path = format!("/v1/events/{}", published["id"].as_str().unwrap());
        let shown = server.get(&path).await.expect(200);
        assert_eq!(shown.get("ordering_key").cloned().unwrap_or_default(), key);
        statuses.push(server.get(&format!("{path}/deliveries")).await.expect(200)["data"][0]["status"].as_str().unwrap().to_owned());
    }
    assert_eq!(statuses, ["waiting", "held", "waiting", "waiting", "waiting"]);
    for bad in [json!(""), json!("a\0b"), json!("k".repeat(257))] {
        let refused = server.post("/v1/events", event(bad)).await.expect(422);
        assert_eq!(refused["errors"][0]["field"], "ordering_key");
    }
    server.stop().await;
}

#[tokio::test]
async fn everything_wrong_with_flow_is_said_at_once() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop" })).await;
    let bad = json!({
        "ordering": "fifo", "rate_limit": { "requests_per_minute": 0, "burst": -1 },
        "circuit_breaker": { "error_threshold_percentage": 101, "sleep_window_ms": -5, "failure_threshold": 3 },
    });
    let expected = [
        "rate_limit.requests_per_minute",
        "rate_limit.burst",
        "circuit_breaker.failure_threshold",
        "circuit_breaker.error_threshold_percentage",
        "circuit_breaker.sleep_window_ms",
        "ordering",
    ];
    assert_eq!(server.put("/v1/endpoints/shop", bad).await.faults(422), expected);
    // A breaker is checked as it would be: a sleep that is longer than the longest.
    let long = json!({ "circuit_breaker": { "sleep_window_ms": 1_000_000 } });
    assert_eq!(server.put("/v1/endpoints/shop", long).await.faults(422), ["circuit_breaker.sleep_max_ms"]);
    // Pausing has routes of its own.
    server.put("/v1/endpoints/shop", json!({ "paused": true })).await.problem(400);
    server.stop().await;
}

#[tokio::test]
async fn pausing_and_resuming_can_be_said_twice() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop" })).await;
    let paused = server.post("/v1/endpoints/shop/pause", json!({})).await.expect(200);
    assert_eq!(paused["paused"], true);
    assert!(paused["paused_at"].is_string());
    assert_eq!(server.post("/v1/endpoints/shop/pause", json!({})).await.expect(200), paused, "it is paused since the first time");
    assert_eq!(server.get("/v1/endpoints/shop/health").await.expect(200)["status"], "paused");
    // What is published is made, and waits.
    let published = server.post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202);
    assert_eq!(published["deliveries"], 1);
    for (body, fault) in [
        (json!({ "rate_limit": { "requests_per_second": 0 } }), "rate_limit.requests_per_second"),
        (json!({ "rate_limit": { "requests_per_second": 10_001 } }), "rate_limit.requests_per_second"),
        (json!({ "rate_limit": {} }), "rate_limit.requests_per_second"),
    ] {
        assert_eq!(server.post("/v1/endpoints/shop/resume", body).await.faults(422), [fault]);
    }
    assert_eq!(server.get("/v1/endpoints/shop").await.expect(200)["paused"], true);
    let resumed = server.post("/v1/endpoints/shop/resume", json!({ "rate_limit": { "requests_per_second": 5 } })).await.expect(200);
    assert_eq!((&resumed["paused"], &resumed["paused_at"]), (&json!(false), &Value::Null));
    let again = server.post("/v1/endpoints/shop/resume", json!({})).await.expect(200);
    assert_eq!(again["paused"], false);
    // A disabled one can be paused too, and stays disabled.
    server.put("/v1/endpoints/shop", json!({ "enabled": false })).await.expect(200);
    let paused = server.post("/v1/endpoints/shop/pause", json!({})).await.expect(200);
    assert_eq!((&paused["paused"], &paused["enabled"]), (&json!(true), &json!(false)));
    server.stop().await;
}

#[tokio::test]
async fn a_breaker_obeys_and_shows_where_it_stands() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop" })).await;
    let path = "/v1/endpoints/shop/circuit-breaker";
    let open = server.patch(path, json!({ "action": "force_open" })).await.expect(200);
    assert_eq!((&open["state"], &open["forced"]), (&json!("open"), &json!(true)));
    assert_eq!((&open["force_open_until"], &open["next_half_open_at"]), (&Value::Null, &Value::Null), "until it is reset");
    let health = server.get("/v1/endpoints/shop/health").await.expect(200);
    assert_eq!((&health["status"], &health["circuit_breaker"]), (&json!("failing"), &open));
    let open = server.patch(path, json!({ "action": "force_open", "duration_seconds": 60 })).await.expect(200);
    assert!(open["force_open_until"].is_string());
    assert_eq!(open["force_open_until"], open["next_half_open_at"]);
    let closed = server.patch(path, json!({ "action": "force_close", "duration_seconds": 60 })).await.expect(200);
    assert_eq!((&closed["state"], &closed["forced"]), (&json!("closed"), &json!(true)));
    let reset = server.patch(path, json!({ "action": "reset" })).await.expect(200);
    assert_eq!((&reset["state"], &reset["forced"], &reset["total_calls_in_window"]), (&json!("closed"), &json!(false), &json!(0)));
    for (body, faults) in [
        (json!({}), vec!["action"]),
        (json!({ "action": "open" }), vec!["action"]),
        (json!({ "action": "force_open", "duration_seconds": 0 }), vec!["duration_seconds"]),
        (json!({ "action": "reset", "duration_seconds": 5 }), vec!["duration_seconds"]),
    ] {
        assert_eq!(server.patch(path, body.clone()).await.faults(422), faults, "{body}");
    }
    server.patch(path, json!({ "action": "reset", "why": "x" })).await.problem(400);
    server.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_is_enabled_again_begins_with_a_closed_breaker() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop" })).await;
    server.patch("/v1/endpoints/shop/circuit-breaker", json!({ "action": "force_open" })).await.expect(200);
    server.put("/v1/endpoints/shop", json!({ "enabled": true })).await.expect(200);
    let state = async || server.get("/v1/endpoints/shop/health").await.expect(200)["circuit_breaker"]["state"].clone();
    assert_eq!(state().await, "open", "it was enabled, so that nothing changes");
    server.put("/v1/endpoints/shop", json!({ "enabled": false })).await.expect(200);
    server.put("/v1/endpoints/shop", json!({ "enabled": true })).await.expect(200);
    assert_eq!(state().await, "closed");
    server.stop().await;
}
