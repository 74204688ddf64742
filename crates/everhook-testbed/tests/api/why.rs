//! An event is explained to every endpoint of its application.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use crate::api::client::Server;

/// What is said of an event, by the endpoint's name.
async fn why(server: &Server, event: &Value) -> BTreeMap<String, Value> {
    let list = server.get(&format!("/v1/events/{}/why", event["id"].as_str().unwrap())).await.expect(200);
    let rows = list["data"].as_array().unwrap().iter();
    rows.map(|row| (row["endpoint_name"].as_str().unwrap().to_owned(), row.clone())).collect()
}

#[tokio::test]
async fn every_endpoint_of_the_application_has_a_reason() {
    let server = Server::start().await;
    for fields in [
        json!({ "name": "types", "event_types": ["user.*"] }),
        json!({ "name": "labels", "labels": { "region": "us" } }),
        json!({ "name": "filter", "filter": { "data.amount": { "gte": 100 } } }),
        json!({ "name": "disabled", "enabled": false }),
        json!({ "name": "cancelled", "uid": "cancelled" }),
        json!({ "name": "paused", "uid": "paused" }),
        json!({ "name": "open", "uid": "open" }),
    ] {
        server.endpoint(fields).await;
    }
    server.post("/v1/endpoints/paused/pause", json!({})).await.expect(200);
    server.post("/v1/endpoints/cancelled/pause", json!({})).await.expect(200);
    server.patch("/v1/endpoints/open/circuit-breaker", json!({ "action": "force_open", "duration_seconds": 3600 })).await.expect(200);
    let event = server.post("/v1/events", json!({ "type": "order.paid", "data": { "amount": 1 } })).await.expect(202);
    assert_eq!(event["deliveries"], 3);
    server.put("/v1/endpoints/cancelled", json!({ "enabled": false })).await.expect(200);
    server.endpoint(json!({ "name": "newer" })).await;
    let said = why(&server, &event).await;
    #[rustfmt::skip]
    let expected = [
        ("types", Value::Null, "type_differs"),
        ("labels", Value::Null, "labels_differ"),
        ("filter", Value::Null, "filtered"),
        ("disabled", Value::Null, "endpoint_disabled"),
        ("cancelled", json!("cancelled"), "endpoint_disabled"),
        ("paused", json!("waiting"), "paused"),
        ("open", json!("waiting"), "circuit_open"),
        ("newer", Value::Null, "endpoint_is_newer"),
    ];
    assert_eq!(said.len(), expected.len());
    for (name, status, reason) in expected {
        let row = &said[name];
        assert_eq!((&row["status"], &row["reason"]), (&status, &json!(reason)), "{name}: {row}");
        assert!(!row["explanation"].as_str().unwrap().is_empty());
    }
    assert!(said["open"]["until"].is_string(), "{}", said["open"]);
    server.stop().await;
}

#[tokio::test]
async fn only_the_owner_is_told() {
    let server = Server::start().await;
    let event = server.post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202);
    let path = format!("/v1/events/{}/why", event["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.expect(200)["data"], json!([]));
    let stranger = server.stranger(&["read"]).await;
    server.call(Method::GET, &path, &stranger, "").await.problem(404);
    server.stop().await;
}
