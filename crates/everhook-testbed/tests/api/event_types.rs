//! Event types over HTTP: what is said about them, and what that refuses when events are published.

use serde_json::{Value, json};

use crate::api::client::Server;

fn order() -> Value {
    json!({
        "name": "order.paid",
        "description": "An order was paid",
        "schema": { "type": "object", "properties": { "amount": { "type": "number", "minimum": 1 } }, "required": ["amount"] },
        "example": { "amount": 12.50 },
    })
}

async fn publish(server: &Server, event_type: &str, data: Value) -> crate::api::client::Answer {
    server.post("/v1/events", json!({ "type": event_type, "data": data })).await
}

#[tokio::test]
async fn an_event_type_is_made_read_changed_and_deleted() {
    let server = Server::start().await;
    let made = server.post("/v1/event-types", order()).await.expect(201);
    let by_id = format!("/v1/event-types/{}", made["id"].as_str().unwrap());
    for path in ["/v1/event-types/order.paid", &by_id] {
        assert_eq!(server.get(path).await.expect(200), made);
    }
    server.post("/v1/event-types", order()).await.problem(409);
    let changed = server.put(&by_id, json!({ "archived": true, "description": null, "name": "order.paid" })).await.expect(200);
    assert_eq!((&changed["archived"], &changed["description"], &changed["schema"]), (&json!(true), &Value::Null, &made["schema"]));
    server.post("/v1/event-types", json!({ "name": "user.created" })).await.expect(201);
    for (query, expected) in [
        ("", vec!["user.created", "order.paid"]),
        ("?archived=true", vec!["order.paid"]),
        ("?archived=false&limit=1", vec!["user.created"]),
    ] {
        let listed = server.get(&format!("/v1/event-types{query}")).await.expect(200);
        let names: Vec<_> = listed["data"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{query}");
    }
    server.delete(&by_id).await.expect(204);
    server.get("/v1/event-types/order.paid").await.problem(404);
    server.delete(&by_id).await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_an_event_type_is_said_by_field() {
    let server = Server::start().await;
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "number" } } });
    for (bad, fields) in [
        (json!({}), vec!["name"]),
        (json!({ "name": "a b", "description": "nul\u{0}" }), vec!["name", "description"]),
        (json!({ "name": "01890a5d-ac96-774b-bcce-b302099a8057" }), vec!["name"]),
        (json!({ "name": "a", "schema": 1 }), vec!["schema"]),
        (json!({ "name": "a", "schema": { "type": "odd" } }), vec!["schema"]),
        (json!({ "name": "a", "schema": { "$ref": "https://example.com/s.json" } }), vec!["schema"]),
        (json!({ "name": "a", "schema": schema, "example": { "amount": "1" } }), vec!["example/amount"]),
    ] {
        assert_eq!(server.post("/v1/event-types", bad.clone()).await.faults(422), fields, "{bad}");
    }
    server.post("/v1/event-types", order()).await.expect(201);
    assert_eq!(server.put("/v1/event-types/order.paid", json!({ "name": "order.unpaid" })).await.faults(422), ["name"]);
    // An example that is there must fit a schema that is new.
    let other = json!({ "schema": { "required": ["currency"] } });
    assert_eq!(server.put("/v1/event-types/order.paid", other).await.faults(422), ["example"]);
    server.stop().await;
}

#[tokio::test]
async fn data_that_does_not_fit_is_refused_with_its_path() {
    let server = Server::start().await;
    publish(&server, "order.paid", json!({})).await.expect(202);
    server.post("/v1/event-types", order()).await.expect(201);
    publish(&server, "order.paid", json!({ "amount": 2 })).await.expect(202);
    assert_eq!(publish(&server, "order.paid", json!({ "amount": 0 })).await.faults(422), ["data/amount"]);
    assert_eq!(publish(&server, "order.paid", json!({})).await.faults(422), ["data"]);
    // A refused publish uses no key, and in a batch it is refused alone.
    let keyed = |amount: i32| json!({ "type": "order.paid", "data": { "amount": amount }, "idempotency_key": "k" });
    let batch = server.post("/v1/events/batch", json!({ "events": [keyed(0), keyed(1)] })).await.expect(202);
    assert_eq!(batch["data"][0]["error"]["errors"][0]["field"], "data/amount");
    assert_eq!(batch["data"][1]["duplicate"], false);
    // A change holds from the next event on.
    server.put("/v1/event-types/order.paid", json!({ "schema": { "type": "object" } })).await.expect(200);
    publish(&server, "order.paid", json!({ "amount": 0 })).await.expect(202);
    server.put("/v1/event-types/order.paid", json!({ "archived": true })).await.expect(200);
    assert_eq!(publish(&server, "order.paid", json!({ "amount": 2 })).await.faults(422), ["type"]);
    server.delete("/v1/event-types/order.paid").await.expect(204);
    publish(&server, "order.paid", json!(null)).await.expect(202);
    server.stop().await;
}

#[tokio::test]
async fn a_strict_application_takes_defined_types_only() {
    let server = Server::start().await;
    let shop = server.post("/v1/applications", json!({ "name": "shop", "uid": "shop", "strict_event_types": true })).await.expect(201);
    assert_eq!(shop["strict_event_types"], true);
    let event = |event_type: &str| json!({ "type": event_type, "data": 1, "application_id": "shop" });
    assert_eq!(server.post("/v1/events", event("order.paid")).await.faults(422), ["type"]);
    publish(&server, "order.paid", json!(1)).await.expect(202);
    server.post("/v1/event-types", json!({ "name": "order.paid" })).await.expect(201);
    server.post("/v1/events", event("order.paid")).await.expect(202);
    // A sample to one endpoint is not the publisher's.
    server.endpoint(json!({ "uid": "e", "application_id": "shop" })).await;
    server.post("/v1/endpoints/e/test", json!({})).await.expect(202);
    server.put("/v1/applications/shop", json!({ "strict_event_types": null })).await.expect(200);
    server.post("/v1/events", event("other")).await.expect(202);
    let all = server.get("/v1/applications").await.expect(200);
    let operational = all["data"].as_array().unwrap().iter().find(|row| row["kind"] == "operational").unwrap();
    let path = format!("/v1/applications/{}", operational["id"].as_str().unwrap());
    server.put(&path, json!({ "strict_event_types": true })).await.problem(409);
    server.stop().await;
}
