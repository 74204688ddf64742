//! Erasing over HTTP: what is shown afterwards, what is refused, and what is entered in the audit log.

use http::Method;
use serde_json::{Value, json};

use crate::api::client::Server;

/// Publishes an event with a label to a paused endpoint, so that it waits.
async fn publish(server: &Server, customer: &str) -> String {
    let event =
        json!({ "type": "order.paid", "data": { "name": "Ada" }, "labels": { "customer": customer }, "headers": { "X-Name": "Ada" } });
    server.post("/v1/events", event).await.expect(202)["id"].as_str().unwrap().to_owned()
}

/// Waits until an operation has ended.
async fn ended(server: &Server, begun: &Value) -> Value {
    let path = format!("/v1/operations/{}", begun["operation_id"].as_str().unwrap());
    for _ in 0..200 {
        let operation = server.get(&path).await.expect(200);
        if operation["status"] == "finished" {
            return operation;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it did not end");
}

async fn actions(server: &Server, action: &str) -> Vec<Value> {
    server.get(&format!("/v1/audit-log?action={action}")).await.expect(200)["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_erased_event_is_shown_without_its_data_and_cannot_be_retried() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({})).await;
    server.post(&format!("/v1/endpoints/{}/pause", endpoint["id"].as_str().unwrap()), json!({})).await;
    let id = publish(&server, "7").await;
    let path = format!("/v1/events/{id}");
    let before = server.get(&path).await.expect(200);
    assert_eq!((&before["erased_at"], &before["data"]["name"]), (&Value::Null, &json!("Ada")));
    // Twice: the second answers the same.
    server.delete(&format!("{path}/data")).await.expect(204);
    server.delete(&format!("{path}/data")).await.expect(204);
    let answer = server.get(&path).await;
    assert!(!String::from_utf8_lossy(&answer.body).contains("Ada"));
    let after = answer.expect(200);
    assert!(
        after["erased_at"].is_string() && after.get("data").is_none() && after.get("labels").is_none() && after.get("headers").is_none()
    );
    assert_eq!(after["idempotency_key"], before["idempotency_key"]);
    assert_eq!(server.get("/v1/events").await.expect(200)["data"][0]["erased_at"], after["erased_at"]);
    let delivery = server.get(&format!("{path}/deliveries")).await.expect(200)["data"][0].clone();
    assert_eq!(delivery["status"], "cancelled", "{delivery}");
    let why = server.get(&format!("{path}/why")).await.expect(200);
    assert_eq!(why["data"][0]["reason"], "erased");
    assert!(why["data"][0]["explanation"].as_str().unwrap().contains("the event's data was erased"));
    for retry in [format!("{path}/retry"), format!("/v1/deliveries/{}/retry", delivery["id"].as_str().unwrap())] {
        let problem = server.post(&retry, json!({})).await.problem(409);
        assert!(problem["detail"].as_str().unwrap().contains("erased"), "{retry}: {problem}");
    }
    let entries = actions(&server, "event.erase").await;
    assert_eq!((entries.len(), &entries[0]["resource_id"], &entries[0]["resource"]), (1, &json!(id), &json!("event")));
    server.delete("/v1/events/01920000-0000-7000-8000-000000000000/data").await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn events_are_counted_and_erased_by_label_or_by_application() {
    let server = Server::start().await;
    server.post("/v1/applications", json!({ "name": "shop", "uid": "shop" })).await.expect(201);
    let (first, second) = (publish(&server, "7").await, publish(&server, "8").await);
    let label = json!({ "key": "customer", "value": "7" });
    let counted = server.post("/v1/events/erase", json!({ "label": label, "dry_run": true })).await.expect(200);
    assert_eq!(counted, json!({ "total": 1 }));
    let elsewhere = json!({ "label": label, "application_id": "shop", "dry_run": true });
    assert_eq!(server.post("/v1/events/erase", elsewhere).await.expect(200), json!({ "total": 0 }));
    let operation = ended(&server, &server.post("/v1/events/erase", json!({ "label": label })).await.expect(202)).await;
    assert_eq!((&operation["kind"], &operation["done"], &operation["total"]), (&json!("erase"), &json!(1), &json!(1)));
    let is_erased = async |id: &str| server.get(&format!("/v1/events/{id}")).await.expect(200)["erased_at"].is_string();
    assert_eq!((is_erased(&first).await, is_erased(&second).await), (true, false));
    let default = server.get("/v1/applications").await.expect(200);
    let default =
        default["data"].as_array().unwrap().iter().find(|row| row["name"] == "default").unwrap()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/applications/{default}/erase");
    assert_eq!(server.post(&path, json!({ "dry_run": true })).await.expect(200), json!({ "total": 1 }));
    assert_eq!(server.post(&path, json!({ "to": "2020-01-01", "dry_run": true })).await.expect(200), json!({ "total": 0 }));
    ended(&server, &server.call(Method::POST, &path, &server.admin, "").await.expect(202)).await;
    assert!(is_erased(&second).await);
    server.stop().await;
}

#[tokio::test]
async fn an_erasure_that_cannot_be_understood_is_refused_with_all_faults() {
    let server = Server::start().await;
    let table = [
        (json!({}), vec!["label"]),
        (json!({ "label": {} }), vec!["label.key", "label.value"]),
        (json!({ "label": { "key": "a b", "value": "7" } }), vec!["label"]),
        (json!({ "label": { "key": "a", "value": "7" }, "application_id": "nobody", "from": "soon" }), vec!["from", "application_id"]),
        (json!({ "label": { "key": "a", "value": "7" }, "from": "2026-02-01", "to": "2026-01-01" }), vec!["from"]),
    ];
    for (body, faults) in table {
        assert_eq!(server.post("/v1/events/erase", body.clone()).await.faults(422), faults, "{body}");
    }
    server.post("/v1/events/erase", json!({ "labels": {} })).await.problem(400);
    server.stop().await;
}

#[tokio::test]
async fn every_operation_is_entered_in_the_audit_log_when_it_begins() {
    let server = Server::start().await;
    let application = server.post("/v1/applications", json!({ "name": "shop", "uid": "shop" })).await.expect(201);
    let begin = [
        ("/v1/dlq/discard-batch", json!({ "filter": { "event_types": ["order.*"] } }), "discard_batch"),
        ("/v1/dlq/retry-batch", json!({ "filter": {}, "rate_limit": { "requests_per_second": 5 } }), "retry_batch"),
        ("/v1/applications/shop/recover", json!({ "since": "2020-01-01" }), "recover"),
        ("/v1/applications/shop/replay", json!({ "from": "2020-01-01", "to": "2021-01-01" }), "replay"),
        ("/v1/applications/shop/erase", json!({}), "erase"),
    ];
    for (path, body, kind) in begin {
        let begun = server.post(path, body).await.expect(202);
        let entry = actions(&server, "operation.begin").await.remove(0);
        assert_eq!((&entry["resource_id"], &entry["after"]["kind"]), (&begun["operation_id"], &json!(kind)));
        assert_eq!(entry["actor"]["kind"], "api_key");
        if kind == "erase" {
            assert_eq!(entry["after"]["application_id"], application["id"]);
        }
    }
    assert_eq!(actions(&server, "operation.begin").await.last().unwrap()["after"]["event_types"], json!(["order.*"]));
    server.stop().await;
}
