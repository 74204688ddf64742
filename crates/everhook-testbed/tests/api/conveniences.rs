//! What makes the first hour easier: where to go from `/`, names instead of ids, `PATCH`, and test events that look like real ones.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::api::client::Server;

#[tokio::test]
async fn the_root_says_where_to_go() {
    let server = Server::start().await;
    let bare = Request::builder().uri("/").header("host", "test").body(Full::<Bytes>::default()).unwrap();
    let root = server.send(bare).await.expect(200);
    assert_eq!(root["name"], "Everhook");
    for link in ["openapi", "health", "ready"] {
        server.get(root[link].as_str().unwrap()).await.expect(200);
    }
    assert_eq!(root["docs"], "/docs");
    server.stop().await;
}

#[tokio::test]
async fn the_built_in_application_is_addressed_as_default() {
    let server = Server::start().await;
    let found = server.get("/v1/applications/default").await.expect(200);
    assert_eq!((&found["name"], &found["uid"]), (&json!("default"), &json!("default")));
    server.post("/v1/events", json!({ "type": "t", "data": 1, "application_id": "default" })).await.expect(202);
    server.endpoint(json!({ "application_id": "default" })).await;
    // So it is in a new organization.
    let organization = server.post("/v1/organizations", json!({ "name": "Acme" })).await.expect(201);
    server.get_in(organization["id"].as_str().unwrap(), "/v1/applications/default").await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn built_in_applications_and_the_organization_default_keep_their_uids() {
    let server = Server::start().await;
    for (path, uid) in [("applications", "default"), ("applications", "operational"), ("organizations", "default")] {
        let path = format!("/v1/{path}/{uid}");
        for other in [json!("mine"), Value::Null] {
            for answer in [server.put(&path, json!({ "uid": other })).await, server.patch(&path, json!({ "uid": other })).await] {
                assert_eq!(answer.problem(409)["type"], "/docs/problems/built-in", "{path}");
            }
        }
        // What is read can be written back.
        assert_eq!(server.put(&path, json!({ "uid": uid })).await.expect(200)["uid"], uid);
    }
    assert_eq!(
        server.post("/v1/applications", json!({ "name": "x", "uid": "default" })).await.problem(409)["type"],
        "/docs/problems/uid-taken"
    );
    server.stop().await;
}

#[tokio::test]
async fn patch_changes_what_put_changes() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({ "uid": "shop" })).await;
    server.post("/v1/applications", json!({ "name": "Shop", "uid": "app" })).await.expect(201);
    server.post("/v1/event-types", json!({ "name": "order.paid" })).await.expect(201);
    server.post("/v1/retry-schedules", json!({ "name": "mine", "intervals": [5] })).await.expect(201);
    server.post("/v1/sources", json!({ "name": "in", "kind": "none" })).await.expect(201);
    assert_eq!(endpoint["name"], Value::Null);
    for (path, field, value) in [
        ("/v1/endpoints/shop", "name", json!("Shop")),
        ("/v1/webhooks/shop", "name", json!("Other")),
        ("/v1/applications/app", "name", json!("Store")),
        ("/v1/event-types/order.paid", "description", json!("Paid")),
        ("/v1/retry-schedules/mine", "max_attempts", json!(3)),
        ("/v1/organizations/default", "name", json!("Home")),
        ("/v1/sources/in", "forward", json!(false)),
    ] {
        let changed = server.patch(path, json!({ field: value })).await.expect(200);
        assert_eq!(changed[field], value, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_test_event_of_a_chosen_type_uses_its_example() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop", "event_types": ["none"] })).await;
    server.post("/v1/event-types", json!({ "name": "order.paid", "example": { "order": 17 } })).await.expect(201);
    for (asked, expected_type, expected_data) in [
        (json!({ "type": "order.paid" }), "order.paid", json!({ "order": 17 })),
        (json!({}), "endpoint.test", Value::Null),
        (json!({ "type": "order.unknown" }), "order.unknown", Value::Null),
    ] {
        let receipt = server.post("/v1/endpoints/shop/test", asked).await.expect(202);
        let event = server.get(&format!("/v1/events/{}", receipt["id"].as_str().unwrap())).await.expect(200);
        assert_eq!(event["type"], expected_type);
        if expected_data.is_null() {
            assert!(event["data"]["message"].is_string());
        } else {
            assert_eq!(event["data"], expected_data);
        }
    }
    assert_eq!(server.post("/v1/endpoints/shop/test", json!({ "type": "not a type" })).await.faults(422), ["type"]);
    // Data of our own must match the schema of the type as any other; whether the type is in use makes no difference to a test.
    server.post("/v1/event-types", json!({ "name": "listed", "schema": { "type": "array" } })).await.expect(201);
    server.post("/v1/event-types", json!({ "name": "told", "schema": { "type": "object" }, "archived": true })).await.expect(201);
    assert_eq!(server.post("/v1/endpoints/shop/test", json!({ "type": "listed" })).await.faults(422), ["type"]);
    server.put("/v1/event-types/listed", json!({ "example": [] })).await.expect(200);
    for tried in ["listed", "told"] {
        server.post("/v1/endpoints/shop/test", json!({ "type": tried })).await.expect(202);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_strangers_organization_is_not_found_and_ones_own_needs_an_admin() {
    let server = Server::start().await;
    let stranger = server.stranger(&["manage"]).await;
    let mine = server.key(&["manage"]).await;
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        let body = json!({ "name": "x" }).to_string();
        for path in ["/v1/organizations/default", "/v1/organizations/nobody", "/v1/organizations/01920000-0000-7000-8000-000000000000"] {
            server.call(method.clone(), path, &stranger, body.clone()).await.problem(404);
        }
        server.call(method.clone(), "/v1/organizations/default", &mine, body.clone()).await.problem(403);
        server.call(method.clone(), "/v1/organizations/default", "eh_unknown", body.clone()).await.problem(401);
    }
    let schedule = json!({ "name": "s", "intervals": [5] }).to_string();
    let schedules = "/v1/organizations/default/retry-schedules";
    server.call(Method::POST, schedules, &stranger, schedule.clone()).await.problem(404);
    server.call(Method::GET, schedules, &stranger, "").await.problem(404);
    server.call(Method::POST, schedules, &mine, schedule).await.expect(201);
    server.stop().await;
}

#[tokio::test]
async fn an_endpoint_has_a_retry_schedule_of_its_own() {
    let server = Server::start().await;
    let own = json!({ "strategy": "custom", "intervals": [7.0, 60.0], "max_attempts": 3, "jitter": 0.0, "give_up_on": [404], "timeout_ms": 2000 });
    let endpoint = server.endpoint(json!({ "uid": "shop", "retry_schedule": own })).await;
    assert_eq!((&endpoint["retry_schedule"], &endpoint["retry_schedule_id"]), (&own, &Value::Null));
    // What is shown can be written back, and it is nobody else's.
    let again = server.put("/v1/endpoints/shop", json!({ "retry_schedule": endpoint["retry_schedule"] })).await.expect(200);
    assert_eq!(again["retry_schedule"], own);
    let listed = server.get("/v1/retry-schedules?limit=250").await.expect(200);
    assert!(listed["data"].as_array().unwrap().iter().all(|schedule| schedule["name"] != "inline"));
    let event = server.post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202);
    let deliveries = server.get(&format!("/v1/events/{}/deliveries", event["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(deliveries["data"][0]["max_attempts"], 3);
    for (schedule, field) in [
        (json!({}), "retry_schedule.intervals"),
        (json!({ "intervals": [0] }), "retry_schedule.intervals"),
        (json!({ "intervals": [5], "name": "mine" }), "retry_schedule.name"),
        (json!({ "intervals": [5], "max_attempts": 0 }), "retry_schedule.max_attempts"),
    ] {
        let found = server.put("/v1/endpoints/shop", json!({ "retry_schedule": schedule })).await.faults(422);
        assert!(found.iter().all(|found| found.starts_with(field)), "{schedule}: {found:?}");
    }
    server.put("/v1/endpoints/shop", json!({ "retry_schedule": 5 })).await.problem(400);
    server.post("/v1/retry-schedules", json!({ "name": "inline", "intervals": [5] })).await.problem(422);
    let named = server.put("/v1/endpoints/shop", json!({ "retry_schedule": "patient" })).await.expect(200);
    assert_eq!(named["retry_schedule"], "patient");
    server.stop().await;
}
