//! Requests as users of other platforms have them in their scripts: their paths, their names of fields, and the kind of answer they expect.

use http::Method;
use serde_json::{Value, json};

use crate::api::{client::Server, verification};

/// As `curl` sends it, with a key of the organization.
async fn send(server: &Server, key: &str, method: Method, path: &str, body: Value) -> Value {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let answer = server.call(method.clone(), path, key, text).await;
    assert!(answer.status.is_success(), "{method} {path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
    json!({ "status": answer.status.as_u16(), "body": answer.json() })
}

#[tokio::test]
async fn a_schedule_of_an_organization_is_made_and_given_to_a_subscription() {
    let server = Server::start().await;
    let key = server.key(&["manage"]).await;
    let organization = server.get("/v1/organizations/default").await.expect(200)["id"].as_str().unwrap().to_owned();
    let schedule = json!({
        "name": "Aggressive Retry", "strategy": "custom", "intervals": [1, 2, 5, 10, 30, 60, 300, 600], "max_attempts": 8
    });
    let made = send(&server, &key, Method::POST, &format!("/v1/organizations/{organization}/retry-schedules"), schedule).await;
    assert_eq!((&made["status"], &made["body"]["max_attempts"]), (&json!(201), &json!(8)));
    let subscription = server.endpoint(json!({ "enabled": false })).await;
    let path = format!("/v1/subscriptions/{}", subscription["id"].as_str().unwrap());
    let assigned = json!({ "retry_schedule_id": made["body"]["id"], "is_enabled": true });
    let changed = send(&server, &key, Method::PUT, &path, assigned).await;
    assert_eq!((&changed["status"], &changed["body"]["enabled"]), (&json!(200), &json!(true)));
    assert_eq!(changed["body"]["retry_schedule_id"], made["body"]["id"]);
    server.stop().await;
}

#[tokio::test]
async fn a_webhook_lives_under_its_other_name() {
    let server = Server::start().await;
    let key = server.key(&["manage"]).await;
    let address = verification::willing_receiver().await;
    for ordering in ["none", "per_event_type", "strict"] {
        let webhook = json!({
            "url": format!("http://{address}/hook"), "events": ["user.created"], "secret": "a-secret-of-my-own", "retry_config": {},
            "circuit_breaker_config": {}, "ordering_guarantee": ordering, "verify_url": true, "tenant_id": "default"
        });
        let made = send(&server, &key, Method::POST, "/v1/webhooks", webhook).await;
        assert_eq!((&made["status"], &made["body"]["ordering"]), (&json!(201), &json!(ordering)));
        let id = made["body"]["id"].as_str().unwrap();
        let path = format!("/v1/webhooks/{id}");
        let list =
            send(&server, &key, Method::GET, "/v1/webhooks?active=true&event_type=user.created&tenant_id=default", Value::Null).await;
        assert_eq!(list["body"]["data"][0]["id"], id);
        assert_eq!(send(&server, &key, Method::GET, &path, Value::Null).await["body"]["id"], id);
        let health = send(&server, &key, Method::GET, &format!("{path}/health"), Value::Null).await;
        for part in ["circuit_breaker", "stats", "error_distribution"] {
            assert!(health["body"][part].is_object(), "{part}: {health}");
        }
        let changed = send(&server, &key, Method::PUT, &path, json!({ "active": false })).await;
        assert_eq!(changed["body"]["enabled"], false);
        for (action, state) in [("force_open", "open"), ("force_close", "closed"), ("reset", "closed")] {
            let order = if action == "reset" { json!({ "action": action }) } else { json!({ "action": action, "duration_seconds": 3600 }) };
            let answer = send(&server, &key, Method::PATCH, &format!("{path}/circuit-breaker"), order).await;
            assert_eq!(answer["body"]["state"], state, "{action}");
        }
        assert_eq!(send(&server, &key, Method::DELETE, &path, Value::Null).await, json!({ "status": 204, "body": null }));
    }
    server.stop().await;
}

#[tokio::test]
async fn an_event_is_published_and_its_deliveries_are_found_by_their_other_names() {
    let server = Server::start().await;
    let key = server.key(&["manage"]).await;
    let webhook = server.endpoint(json!({})).await;
    let event = json!({
        "event_type": "user.created", "data": { "id": 1 }, "source": "signup", "idempotency_key": "u-1", "priority": "normal",
        "tenant_id": "default"
    });
    let published = send(&server, &key, Method::POST, "/v1/events", event.clone()).await;
    assert_eq!((&published["status"], &published["body"]["deliveries"]), (&json!(202), &json!(1)));
    assert_eq!(send(&server, &key, Method::POST, "/v1/events", event).await["body"]["duplicate"], true);
    let list = format!("/v1/webhooks/{}/deliveries?limit=50&offset=0&from=2024-01-01", webhook["id"].as_str().unwrap());
    let delivery = send(&server, &key, Method::GET, &list, Value::Null).await["body"]["data"][0].clone();
    assert_eq!(delivery["event_id"], published["body"]["id"]);
    send(&server, &key, Method::GET, &format!("{list}&status=failed"), Value::Null).await;
    let one = send(&server, &key, Method::GET, &format!("/v1/deliveries/{}", delivery["id"].as_str().unwrap()), Value::Null).await;
    assert!(one["body"]["attempts"].is_array());
    server.stop().await;
}

#[tokio::test]
async fn a_tenant_is_an_organization_and_others_are_not_found() {
    let server = Server::start().await;
    let organization = server.post("/v1/organizations", json!({ "name": "Acme", "uid": "acme" })).await.expect(201);
    let key = server.key(&["manage"]).await;
    let hook = json!({ "url": "http://127.0.0.1:9/", "event_types": ["*"], "tenant_id": "acme" });
    let event = json!({ "type": "t", "data": 1, "tenant_id": organization["id"] });
    for (path, body) in [("/v1/endpoints", hook.clone()), ("/v1/events", event.clone())] {
        server.call(Method::POST, path, &key, body.to_string()).await.problem(404);
    }
    server.call(Method::GET, "/v1/endpoints?tenant_id=acme", &key, "").await.problem(404);
    // An admin may name any.
    let made = server.post("/v1/endpoints", hook).await.expect(201);
    assert_eq!(server.post("/v1/events", event).await.expect(202)["deliveries"], 1);
    assert_eq!(server.get("/v1/endpoints?tenant_id=acme").await.expect(200)["data"][0]["id"], made["id"]);
    assert_eq!(server.get("/v1/endpoints").await.expect(200)["data"], json!([]));
    server.stop().await;
}
