//! Labels, filters and headers of events.

use http::Method;
use serde_json::{Value, json};

use crate::api::client::Server;

async fn deliveries(server: &Server, event: Value) -> i64 {
    let mut body = json!({ "type": "order.paid", "data": {} });
    body.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
    server.post("/v1/events", body).await.expect(202)["deliveries"].as_i64().unwrap()
}

#[tokio::test]
async fn an_endpoint_gets_the_events_that_have_all_its_labels() {
    let server = Server::start().await;
    let made = server.endpoint(json!({ "uid": "a", "labels": { "region": "eu", "tier": "gold" } })).await;
    assert_eq!(made["labels"], json!({ "region": "eu", "tier": "gold" }));
    let single = server.endpoint(json!({ "uid": "b", "label_key": "region", "label_value": "us" })).await;
    assert_eq!(single["labels"], json!({ "region": "us" }));
    for (labels, count) in [
        (json!({}), 0),
        (json!({ "region": "eu" }), 0),
        (json!({ "region": "eu", "tier": "gold", "x": "y" }), 1),
        (json!({ "region": "us" }), 1),
    ] {
        assert_eq!(deliveries(&server, json!({ "labels": labels })).await, count, "{labels}");
    }
    for (query, expected) in [
        ("label=region:eu", vec!["a"]),
        ("label=region", vec!["b", "a"]),
        ("label_key=region&label_value=us", vec!["b"]),
        ("label_key=tier", vec!["a"]),
        ("label=none", vec![]),
    ] {
        let listed = server.get(&format!("/v1/endpoints?{query}")).await.expect(200);
        let uids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|row| row["uid"].as_str().unwrap()).collect();
        assert_eq!(uids, expected, "{query}");
    }
    for (query, field) in [("label=a%20b", "label"), ("label_value=x", "label_value"), ("label=a&label_key=b", "label")] {
        assert_eq!(server.get(&format!("/v1/endpoints?{query}")).await.faults(400), [field], "{query}");
    }
    server.put("/v1/endpoints/a", json!({ "labels": null })).await.expect(200);
    assert_eq!(deliveries(&server, json!({})).await, 1);
    assert_eq!(server.put("/v1/endpoints/a", json!({ "labels": { "a b": "" } })).await.faults(422), ["labels"]);
    assert_eq!(server.put("/v1/endpoints/a", json!({ "label_key": "a" })).await.faults(422), ["label_value"]);
    let bad = json!({ "type": "t", "data": 1, "labels": { "": "x" }, "headers": { "host": "x" } });
    assert_eq!(server.post("/v1/events", bad).await.faults(422), ["labels", "headers"]);
    let twice = r#"{"type":"t","data":1,"labels":{"a":"1","a":"2"}}"#;
    server.call(Method::POST, "/v1/events", &server.admin, twice).await.problem(400);
    server.stop().await;
}

#[tokio::test]
async fn an_endpoint_gets_the_events_whose_data_passes_its_filter() {
    let server = Server::start().await;
    let filter = json!({ "data.amount": { "gte": 100 }, "any": [{ "data.currency": "EUR" }, { "data.vip": true }] });
    let made = server.endpoint(json!({ "uid": "a", "filter": filter })).await;
    assert_eq!(made["filter"], filter);
    for (data, count) in [
        (json!({ "amount": 100, "currency": "EUR" }), 1),
        (json!({ "amount": 99.99, "currency": "EUR" }), 0),
        (json!({ "amount": 100 }), 0),
        (json!({ "amount": 1000, "vip": true }), 1),
        (json!("amount"), 0),
    ] {
        assert_eq!(deliveries(&server, json!({ "data": data })).await, count, "{data}");
    }
    // What cannot be looked into is delivered.
    let huge = server.call(Method::POST, "/v1/events", &server.admin, r#"{"type":"t","data":{"amount":1e999}}"#).await;
    assert_eq!(huge.expect(202)["deliveries"], 1);
    assert_eq!(server.put("/v1/endpoints/a", json!({ "filter": { "amount": 1 } })).await.faults(422), ["filter"]);
    server.put("/v1/endpoints/a", json!({ "filter": null })).await.expect(200);
    assert_eq!(deliveries(&server, json!({})).await, 1);
    server.stop().await;
}

#[tokio::test]
async fn an_events_labels_and_headers_are_kept_and_header_values_shown_to_managers_only() {
    let server = Server::start().await;
    let body = json!({ "type": "t", "data": 1, "labels": { "b": "2", "a": "1" }, "headers": { "X-Team": "secret" } });
    let id = server.post("/v1/events", body).await.expect(202)["id"].as_str().unwrap().to_owned();
    let event = server.get(&format!("/v1/events/{id}")).await.expect(200);
    assert_eq!((&event["labels"], &event["headers"]), (&json!({ "a": "1", "b": "2" }), &json!({ "X-Team": "secret" })));
    let reader = server.key(&["read"]).await;
    let event = server.call(Method::GET, &format!("/v1/events/{id}"), &reader, "").await.expect(200);
    assert_eq!(event["headers"], json!({ "X-Team": "***" }));
    server.stop().await;
}
