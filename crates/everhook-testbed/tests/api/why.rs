//! An event is explained for every endpoint of its application, and for the other destinations that it may have.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use crate::api::{client::Server, health_data::PUSH};

/// What is said of an event, by the endpoint's name.
async fn why(server: &Server, event: &Value) -> BTreeMap<String, Value> {
    let list = server.get(&format!("/v1/events/{}/why", event["id"].as_str().unwrap())).await.expect(200);
    let rows = list["data"].as_array().unwrap().iter();
    rows.map(|row| (row["endpoint_name"].as_str().unwrap().to_owned(), row.clone())).collect()
}

/// What is said of an event at destinations that are no endpoints: kind, name, status and reason.
pub async fn elsewhere(server: &Server, event: &str) -> Vec<[String; 4]> {
    let list = server.get(&format!("/v1/events/{event}/why")).await.expect(200);
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let rows = list["destinations"].as_array().unwrap().iter();
    rows.map(|row| {
        assert!(!text(row, "explanation").is_empty(), "{row}");
        ["kind", "name", "status", "reason"].map(|name| text(row, name))
    })
    .collect()
}

/// The id of the newest event of a source.
async fn newest_of(server: &Server, source: &str) -> String {
    server.received(source, "").await[0]["id"].as_str().unwrap().to_owned()
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
async fn only_the_owner_gets_an_explanation() {
    let server = Server::start().await;
    let event = server.post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202);
    let path = format!("/v1/events/{}/why", event["id"].as_str().unwrap());
    let nothing = json!({ "data": [], "destinations": [], "next_cursor": null, "prev_cursor": null });
    assert_eq!(server.get(&path).await.expect(200), nothing);
    let stranger = server.stranger(&["read"]).await;
    server.call(Method::GET, &path, &stranger, "").await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn an_event_of_a_source_says_why_its_processor_or_the_endpoints_did_not_get_it() {
    let server = Server::start().await;
    server.endpoint(json!({ "name": "any" })).await;
    // Without a processor, and a repetition goes nowhere.
    server.source("once", json!({ "dedupe": { "by": "id", "window": "1h" } })).await;
    server.push("/in/once", "msg_1", r#"{"type":"a"}"#).await.expect(200);
    let first = newest_of(&server, "once").await;
    assert_eq!(elsewhere(&server, &first).await, [["processor", "once", "", "no_processor"]]);
    server.push("/in/once", "msg_1", r#"{"type":"a"}"#).await.expect(200);
    let repeated = newest_of(&server, "once").await;
    assert_eq!(elsewhere(&server, &repeated).await, [["processor", "once", "", "duplicate"]]);
    let at_endpoint = why(&server, &json!({ "id": repeated })).await;
    assert_eq!(at_endpoint["any"]["reason"], "duplicate");
    assert!(at_endpoint["any"]["explanation"].as_str().unwrap().contains(&first), "{at_endpoint:?}");
    // Kept only.
    server.source("kept", json!({ "forward": false })).await;
    server.push("/in/kept", "msg_2", r#"{"type":"a"}"#).await.expect(200);
    let kept = newest_of(&server, "kept").await;
    assert_eq!(why(&server, &json!({ "id": kept })).await["any"]["reason"], "not_forwarded");
    // The source is gone, and its event is still explained.
    server.delete("/v1/sources/kept").await.expect(204);
    assert_eq!(elsewhere(&server, &kept).await, [["processor", "", "", "no_processor"]]);
    server.stop().await;
}

#[tokio::test]
async fn the_delivery_of_a_processor_is_explained_while_it_is_parked_and_after_its_event_is_erased() {
    let server = Server::start().await;
    let source = server.post("/v1/sources", json!({ "name": "watch", "kind": "garmin", "processor": "health" })).await.expect(201);
    server.push_garmin(&source, PUSH).await;
    let event = newest_of(&server, "watch").await;
    let mut said = Vec::new();
    for _ in 0..200 {
        said = elsewhere(&server, &event).await;
        if said[0][2] == "parked" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(said, [["processor", "watch", "parked", "parked"]]);
    server.delete(&format!("/v1/events/{event}/data")).await.expect(204);
    assert_eq!(elsewhere(&server, &event).await, [["processor", "", "cancelled", "erased"]], "what is left of it is its delivery");
    server.stop().await;
}

#[tokio::test]
async fn an_operational_event_says_why_each_channel_did_or_did_not_get_it() {
    let server = Server::start().await;
    let channel = |name: &str, types: Value| json!({ "name": name, "kind": "webhook", "url": "http://127.0.0.1:9/", "event_types": types });
    server.post("/v1/channels", channel("all", json!(["*"]))).await.expect(201);
    server.post("/v1/channels", channel("jobs", json!(["job.dead"]))).await.expect(201);
    server.post("/v1/channels", channel("serious", json!(["*"]))).await.expect(201);
    server.put("/v1/channels/serious", json!({ "min_severity": "critical" })).await.expect(200);
    server.post("/v1/channels", channel("off", json!(["*"]))).await.expect(201);
    server.put("/v1/channels/off", json!({ "enabled": false })).await.expect(200);
    server.endpoint(json!({ "uid": "open" })).await;
    server.patch("/v1/endpoints/open/circuit-breaker", json!({ "action": "force_open", "duration_seconds": 3600 })).await.expect(200);
    let mut events = json!([]);
    for _ in 0..200 {
        events = server.get("/v1/events?application_id=operational&event_type=circuit.opened").await.expect(200)["data"].clone();
        if events[0]["id"].is_string() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    server.post("/v1/channels", channel("newer", json!(["*"]))).await.expect(201);
    let said = elsewhere(&server, events[0]["id"].as_str().expect("the breaker is reported")).await;
    let reason = |name: &str| said.iter().find(|row| row[1] == name).map(|row| (row[0].as_str(), row[3].as_str()));
    for (name, expected) in
        [("jobs", "type_differs"), ("serious", "less_serious"), ("off", "channel_disabled"), ("newer", "channel_is_newer")]
    {
        assert_eq!(reason(name), Some(("channel", expected)), "{said:?}");
    }
    let all = said.iter().find(|row| row[1] == "all").unwrap();
    assert!(["waiting", "delivered"].contains(&all[2].as_str()), "{said:?}");
    server.stop().await;
}
