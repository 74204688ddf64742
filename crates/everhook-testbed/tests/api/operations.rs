//! Bulk actions, through HTTP.

use std::time::Duration;

use everhook_core::time::Timestamp;
use serde_json::{Value, json};

use crate::api::{
    client::Server,
    retries::{cancelled, wait_until},
};

async fn ended(server: &Server, begun: &Value) -> Value {
    assert_eq!(begun["operation_id"], begun["batch_operation_id"]);
    let path = format!("/v1/operations/{}", begun["operation_id"].as_str().unwrap());
    wait_until(async || !["pending", "running"].contains(&server.get(&path).await.expect(200)["status"].as_str().unwrap())).await;
    server.get(&path).await.expect(200)
}

#[tokio::test]
async fn recover_and_replay_are_operations_with_progress() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({ "uid": "shop" })).await;
    cancelled(&server, &endpoint, 3).await;
    server.post("/v1/applications/nobody/recover", json!({ "since": "2020-01-01" })).await.problem(404);
    // The built-in application is addressed as `default`.
    let id = "default";
    let begun = server.post(&format!("/v1/applications/{id}/recover"), json!({ "since": "2020-01-01" })).await.expect(202);
    let operation = ended(&server, &begun).await;
    let counts = |operation: &Value| ["total", "done", "failed", "skipped"].map(|field| operation[field].as_u64().unwrap());
    assert_eq!((operation["kind"].as_str(), operation["status"].as_str()), (Some("recover"), Some("finished")));
    assert_eq!((counts(&operation), &operation["eta_seconds"]), ([3, 3, 0, 0], &Value::Null));
    // They are open now, so that a replay has nothing to do.
    let input = json!({ "from": "2020-01-01", "to": "2100-01-01", "endpoint_ids": ["shop"], "rate_limit": { "requests_per_second": 50 } });
    let begun = server.post(&format!("/v1/applications/{id}/replay"), input).await.expect(202);
    assert_eq!(counts(&ended(&server, &begun).await), [3, 0, 0, 3]);
    let listed = server.get("/v1/operations").await.expect(200);
    let kinds: Vec<_> = listed["data"].as_array().unwrap().iter().map(|row| row["kind"].clone()).collect();
    assert_eq!(kinds, ["replay", "recover"]);
    let made = server.get("/v1/deliveries?status=pending").await.expect(200);
    assert!(made["data"].as_array().unwrap().iter().all(|row| row["operation_id"] == operation["id"] && row["priority"] == "low"));
    for (route, body, faults) in [
        ("recover", json!({}), vec!["since"]),
        ("recover", json!({ "since": "2100-01-01" }), vec!["since"]),
        ("replay", json!({ "from": "yesterday" }), vec!["from", "to"]),
        ("replay", json!({ "from": "2020-01-02", "to": "2020-01-01" }), vec!["from"]),
        ("replay", json!({ "from": "2020-01-01", "to": "2020-01-02", "endpoint_ids": ["nobody"] }), vec!["endpoint_ids[0]"]),
        (
            "replay",
            json!({ "from": "2020-01-01", "to": "2020-01-02", "status": "x", "event_types": ["a b"], "rate_limit": { "requests_per_second": 0 } }),
            vec!["event_types[0]", "status", "rate_limit.requests_per_second"],
        ),
    ] {
        assert_eq!(server.post(&format!("/v1/applications/{id}/{route}"), body.clone()).await.faults(422), faults, "{body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn dead_letters_are_counted_retried_and_discarded_under_both_names() {
    let server = Server::start().await;
    let schedule = json!({ "max_attempts": 1 });
    server.endpoint(json!({ "uid": "shop", "retry_config": schedule })).await;
    for n in 0..4 {
        server.post("/v1/events", json!({ "type": if n < 3 { "order.paid" } else { "user.left" }, "data": n })).await.expect(202);
    }
    let dead = async || server.get("/v1/dlq").await.expect(200)["data"].as_array().unwrap().len();
    wait_until(async || dead().await == 4).await;
    assert_expires_in_a_year(&server.get("/v1/dlq").await.expect(200)["data"][0]);
    let count = async |filter: Value| {
        let body = json!({ "filter": filter, "dry_run": true });
        server.post("/v1/dlq/retry-batch", body).await.expect(200)
    };
    for (filter, total) in [
        (json!({}), 4),
        (json!({ "event_types": ["order.*"] }), 3),
        (json!({ "webhook_ids": ["shop"], "failure_categories": ["network"] }), 4),
        (json!({ "failure_categories": ["dns"] }), 0),
        (json!({ "to": "2020-01-01" }), 0),
    ] {
        assert_eq!(count(filter.clone()).await, json!({ "total": total }), "{filter}");
    }
    let begun = server.post("/v1/dead-letters/discard-batch", json!({ "filter": { "event_types": ["user.left"] } })).await.expect(202);
    assert_eq!(ended(&server, &begun).await["done"], 1);
    assert_eq!(dead().await, 3);
    let begun = server.post("/v1/dlq/retry-batch", json!({ "filter": {}, "priority": "high" })).await.expect(202);
    let operation = ended(&server, &begun).await;
    assert_eq!((&operation["done"], &operation["priority"]), (&json!(3), &json!("high")));
    for path in ["dlq", "dead-letters"] {
        let id = begun["batch_operation_id"].as_str().unwrap();
        assert_eq!(server.get(&format!("/v1/{path}/batch-operations/{id}")).await.expect(200)["kind"], "retry_batch");
    }
    assert_eq!(server.post("/v1/dlq/discard-batch", json!({})).await.faults(422), ["filter"]);
    let wrong = json!({ "filter": { "endpoint_ids": ["nobody"], "failure_categories": ["x"], "from": "x" }, "start_at": "x" });
    let faults = ["start_at", "filter.failure_categories[0]", "filter.from", "filter.endpoint_ids[0]"];
    assert_eq!(server.post("/v1/dlq/retry-batch", wrong).await.faults(422), faults);
    server.post("/v1/dlq/retry-batch", json!({ "filter": { "endpoint_id": "shop" } })).await.problem(400);
    server.stop().await;
}

fn assert_expires_in_a_year(letter: &Value) {
    let at = |name: &str| Timestamp::parse_rfc3339(letter[name].as_str().unwrap()).unwrap();
    assert_eq!(at("expires_at").since(at("last_failure_at")), Duration::from_secs(365 * 86_400));
}

#[tokio::test]
async fn an_operation_is_cancelled_once() {
    let server = Server::start().await;
    let body = json!({ "filter": {}, "start_at": "2100-01-01T00:00:00Z" });
    let begun = server.post("/v1/dlq/retry-batch", body.clone()).await.expect(202);
    let path = format!("/v1/operations/{}", begun["operation_id"].as_str().unwrap());
    server.delete(&path).await.expect(204);
    assert_eq!(server.get(&path).await.expect(200)["status"], "cancelled");
    assert_eq!(server.delete(&path).await.problem(409)["detail"], "the operation is cancelled");
    for _ in 0..20 {
        server.post("/v1/dlq/retry-batch", body.clone()).await.expect(202);
    }
    let problem = server.post("/v1/dlq/retry-batch", body).await.problem(409);
    assert!(problem["detail"].as_str().unwrap().contains("20 operations"), "{problem}");
    server.stop().await;
}

#[tokio::test]
async fn automatic_replay_is_a_field_of_the_organization() {
    let server = Server::start().await;
    let off = json!({ "enabled": false, "after": "1h", "requests_per_second": 1, "max_tries": 6 });
    let made = server.post("/v1/organizations", json!({ "name": "Acme", "uid": "acme" })).await.expect(201);
    assert_eq!(made["dlq_auto_replay"], off);
    let change = async |body: Value| server.put("/v1/organizations/acme", json!({ "dlq_auto_replay": body })).await;
    let on = json!({ "enabled": true, "after": "90m", "requests_per_second": 1, "max_tries": 3 });
    assert_eq!(change(json!({ "enabled": true, "after": "90m", "max_tries": 3 })).await.expect(200)["dlq_auto_replay"], on);
    assert_eq!(server.put("/v1/organizations/acme", json!({ "name": "Acme Inc" })).await.expect(200)["dlq_auto_replay"], on);
    assert_eq!(server.get("/v1/organizations").await.expect(200)["data"][0]["dlq_auto_replay"], on);
    assert_eq!(change(Value::Null).await.expect(200)["dlq_auto_replay"], off);
    for (body, fault) in [
        (json!({ "after": "1" }), "dlq_auto_replay.after"),
        (json!({ "after": "8d" }), "dlq_auto_replay.after"),
        (json!({ "requests_per_second": 0 }), "dlq_auto_replay.requests_per_second"),
        (json!({ "max_tries": 21 }), "dlq_auto_replay.max_tries"),
    ] {
        assert_eq!(change(body).await.faults(422), [fault]);
    }
    change(json!({ "every": "1h" })).await.problem(400);
    server.stop().await;
}
