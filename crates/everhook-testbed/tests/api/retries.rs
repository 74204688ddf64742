//! Retrying by hand, through HTTP.

use serde_json::{Value, json};

use crate::api::client::Server;

/// Publishes events to an endpoint that is then disabled, so that their deliveries are cancelled, and enables it again.
pub async fn cancelled(server: &Server, endpoint: &Value, count: usize) -> Vec<Value> {
    let path = format!("/v1/endpoints/{}", endpoint["id"].as_str().unwrap());
    let mut events = Vec::new();
    for n in 0..count {
        events.push(server.post("/v1/events", json!({ "type": "order.paid", "data": n })).await.expect(202));
    }
    server.put(&path, json!({ "enabled": false })).await.expect(200);
    wait_until(async || {
        let open = server.get(&format!("{path}/deliveries?status=pending")).await.expect(200);
        open["data"].as_array().unwrap().is_empty()
    })
    .await;
    server.put(&path, json!({ "enabled": true })).await.expect(200);
    events
}

/// Looks until it is true; the test runs out of time if it never is.
pub async fn wait_until(is_so: impl AsyncFn() -> bool) {
    for _ in 0..500 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it did not happen within five seconds");
}

async fn deliveries(server: &Server, event: &Value) -> Vec<Value> {
    let path = format!("/v1/events/{}/deliveries", event["id"].as_str().unwrap());
    server.get(&path).await.expect(200)["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_cancelled_delivery_is_brought_back_and_cannot_be_retried_while_that_is_open() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({ "uid": "shop" })).await;
    let events = cancelled(&server, &endpoint, 1).await;
    let id = deliveries(&server, &events[0]).await[0]["id"].as_str().unwrap().to_owned();
    let retried = server.post(&format!("/v1/deliveries/{id}/retry"), json!({ "priority": "high" })).await.expect(202);
    assert_eq!((&retried["deliveries"], &retried["skipped"]), (&json!([retried["delivery_id"]]), &json!([])));
    let made = server.get(&format!("/v1/deliveries/{}", retried["delivery_id"].as_str().unwrap())).await.expect(200);
    assert_eq!((&made["replay_of"], &made["priority"], &made["operation_id"]), (&json!(id), &json!("high"), &Value::Null));
    for path in [format!("/v1/deliveries/{id}/retry"), format!("/v1/endpoints/shop/deliveries/{id}/retry")] {
        let problem = server.post(&path, json!({})).await.problem(409);
        assert!(problem["detail"].as_str().unwrap().contains("still open"), "{problem}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_retry_of_an_event_does_all_its_failed_deliveries_again() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({})).await;
    let events = cancelled(&server, &endpoint, 2).await;
    for (name, event) in ["events", "messages"].iter().zip(&events) {
        let path = format!("/v1/{name}/{}/retry", event["id"].as_str().unwrap());
        let retried = server.call(http::Method::POST, &path, &server.admin, "").await.expect(202);
        assert_eq!(retried["deliveries"].as_array().unwrap().len(), 1);
        // The new one waits, because nobody listens there: again means that it is attempted now.
        let again = server.post(&path, json!({})).await.expect(202);
        assert_eq!((&again["deliveries"], &again["brought_forward"]), (&json!([]), &json!(true)));
        assert_eq!(again["delivery_id"], retried["delivery_id"]);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_batch_retries_what_has_ended_and_names_what_has_not() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({ "uid": "shop" })).await;
    let other = server.endpoint(json!({ "uid": "other", "event_types": ["none"] })).await;
    let events = cancelled(&server, &endpoint, 3).await;
    let mut ids = Vec::new();
    for event in &events {
        ids.push(deliveries(&server, event).await[0]["id"].clone());
    }
    let path = "/v1/webhooks/shop/deliveries/retry-batch";
    server.post(&format!("/v1/deliveries/{}/retry", ids[0].as_str().unwrap()), json!({})).await.expect(202);
    let retried = server.post(path, json!({ "delivery_ids": ids, "priority": "low" })).await.expect(202);
    assert_eq!(retried["deliveries"].as_array().unwrap().len(), 2);
    assert_eq!(retried["skipped"][0]["delivery_id"], ids[0]);
    server.post(path, json!({ "delivery_ids": ids })).await.problem(409);
    for (path, body, faults) in [
        (path, json!({}), vec!["delivery_ids"]),
        (path, json!({ "delivery_ids": vec!["x"; 1_001] }), vec!["delivery_ids"; 1]),
        (path, json!({ "delivery_ids": ["x"], "priority": "urgent" }), vec!["priority", "delivery_ids[0]"]),
        ("/v1/endpoints/other/deliveries/retry-batch", json!({ "delivery_ids": [ids[0]] }), vec!["delivery_ids"]),
    ] {
        let found = server.post(path, body).await.faults(422);
        assert_eq!(found[..faults.len()], faults);
    }
    assert_eq!(other["uid"], "other");
    server.stop().await;
}

#[tokio::test]
async fn what_belongs_to_a_disabled_endpoint_is_not_retried() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({ "uid": "shop" })).await;
    let events = cancelled(&server, &endpoint, 1).await;
    server.put("/v1/endpoints/shop", json!({ "enabled": false })).await.expect(200);
    let id = deliveries(&server, &events[0]).await[0]["id"].as_str().unwrap().to_owned();
    let problem = server.post(&format!("/v1/deliveries/{id}/retry"), json!({})).await.problem(409);
    assert!(problem["detail"].as_str().unwrap().contains("disabled or deleted"), "{problem}");
    server.post(&format!("/v1/deliveries/{}/retry", events[0]["id"].as_str().unwrap()), json!({})).await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn retries_by_hand_are_limited_and_the_answer_says_how_long_to_wait() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({ "uid": "shop" })).await;
    let events = cancelled(&server, &endpoint, 61).await;
    let mut ids = Vec::new();
    for event in &events {
        ids.push(deliveries(&server, event).await[0]["id"].clone());
    }
    // The first sixty are the minute's; the batch takes them at once.
    let batch = server.post("/v1/endpoints/shop/deliveries/retry-batch", json!({ "delivery_ids": &ids[..60] })).await.expect(202);
    assert_eq!(batch["deliveries"].as_array().unwrap().len(), 60);
    let refused = server.post(&format!("/v1/deliveries/{}/retry", ids[60].as_str().unwrap()), json!({})).await;
    refused.problem(429);
    assert_eq!(refused.headers["retry-after"], "1");
    server.stop().await;
}

#[tokio::test]
async fn a_waiting_delivery_is_attempted_now_and_cancelled() {
    let server = Server::start().await;
    let schedule = json!({ "name": "slow", "intervals": [86_400], "max_attempts": 5 });
    server.post("/v1/retry-schedules", schedule).await.expect(201);
    server.endpoint(json!({ "uid": "shop", "retry_schedule": "slow" })).await;
    let event = server.post("/v1/events", json!({ "type": "order.paid", "data": 1 })).await.expect(202);
    let attempts = async || deliveries(&server, &event).await[0]["attempt_count"].as_u64().unwrap();
    wait_until(async || attempts().await == 1).await;
    let id = deliveries(&server, &event).await[0]["id"].as_str().unwrap().to_owned();
    // Each route, one attempt each.
    let paths = [format!("/v1/deliveries/{id}/retry"), format!("/v1/endpoints/shop/deliveries/{id}/retry")];
    for (path, expected) in paths.iter().zip(2..) {
        let retried = server.post(path, json!({})).await.expect(202);
        assert_eq!((&retried["delivery_id"], &retried["brought_forward"], &retried["deliveries"]), (&json!(id), &json!(true), &json!([])));
        assert_eq!(retried["brought_forward_deliveries"][0]["delivery_id"], id);
        wait_until(async || attempts().await == expected).await;
    }
    let begun = server.post("/v1/endpoints/shop/attempt-now", json!({ "rate_limit": { "requests_per_second": 10 } })).await.expect(202);
    let operation = format!("/v1/operations/{}", begun["operation_id"].as_str().unwrap());
    wait_until(async || server.get(&operation).await.expect(200)["status"] == "finished").await;
    let operation = server.get(&operation).await.expect(200);
    assert_eq!((&operation["kind"], &operation["done"], &operation["total"]), (&json!("attempt_now"), &json!(1), &json!(1)));
    wait_until(async || attempts().await == 4).await;
    server.post("/v1/endpoints/shop/attempt-now", json!({ "rate_limit": { "requests_per_second": 0 } })).await.problem(422);
    // Paused, the answer says what holds it.
    server.post("/v1/endpoints/shop/pause", json!({})).await.expect(200);
    let held = server.post(&paths[0], json!({})).await.expect(202);
    assert!(held["waits_for"].as_str().unwrap().contains("paused"), "{held}");
    let cancelled = server.post(&format!("/v1/deliveries/{id}/cancel"), json!({})).await.expect(200);
    assert_eq!(
        (&cancelled["status"], &cancelled["reason"], &cancelled["attempt_count"]),
        (&json!("cancelled"), &json!("by_person"), &json!(4))
    );
    let again = server.post(&format!("/v1/deliveries/{id}/cancel"), json!({})).await.problem(409);
    assert_eq!(again["detail"], "the delivery has ended: it is cancelled");
    let entries = server.get(&format!("/v1/audit-log?resource_id={id}")).await.expect(200);
    let actions: Vec<_> = entries["data"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["delivery.cancel", "delivery.attempt_now", "delivery.attempt_now", "delivery.attempt_now"]);
    // It can be brought back as a new one.
    server.post(&paths[0], json!({})).await.expect(202);
    server.stop().await;
}
