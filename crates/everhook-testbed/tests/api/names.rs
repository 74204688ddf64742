//! A uid stands for the id in any path, and the spellings of other platforms are understood.

use http::Method;
use serde_json::{Value, json};

use crate::api::client::Server;

#[tokio::test]
async fn a_uid_stands_for_the_id_in_any_path() {
    let server = Server::start().await;
    server.post("/v1/organizations", json!({ "name": "Acme", "uid": "acme" })).await.expect(201);
    server.post("/v1/applications", json!({ "name": "Shop", "uid": "app" })).await.expect(201);
    server.endpoint(json!({ "uid": "shop", "application_id": "app" })).await;
    server.post("/v1/events", json!({ "type": "t", "data": 1, "application_id": "app" })).await.expect(202);
    #[rustfmt::skip]
    let table = [
        ("GET", "/v1/organizations/acme", json!(null)),
        ("PUT", "/v1/organizations/acme", json!({ "name": "Acme Inc" })),
        ("GET", "/v1/organizations/acme/retry-schedules", json!(null)),
        ("POST", "/v1/organizations/acme/retry-schedules", json!({ "name": "mine", "intervals": [5] })),
        ("GET", "/v1/applications/app", json!(null)),
        ("PUT", "/v1/applications/app", json!({ "name": "Store" })),
        ("GET", "/v1/endpoints?application_id=app", json!(null)),
        ("GET", "/v1/deliveries?application_id=app", json!(null)),
        ("GET", "/v1/events?application_id=app", json!(null)),
        ("GET", "/v1/dlq?application_id=app&endpoint_id=shop", json!(null)),
        ("GET", "/v1/endpoints/shop", json!(null)),
        ("GET", "/v1/webhooks/shop", json!(null)),
        ("GET", "/v1/subscriptions/shop", json!(null)),
        ("PUT", "/v1/endpoints/shop", json!({ "name": "Shop" })),
        ("GET", "/v1/endpoints/shop/deliveries", json!(null)),
        ("GET", "/v1/endpoints/shop/secret", json!(null)),
        ("POST", "/v1/endpoints/shop/secret/rotate", json!({})),
        ("POST", "/v1/endpoints/shop/test", json!({})),
        ("POST", "/v1/endpoints/shop/pause", json!({})),
        ("POST", "/v1/endpoints/shop/resume", json!({})),
        ("PATCH", "/v1/endpoints/shop/circuit-breaker", json!({ "action": "reset" })),
        ("GET", "/v1/endpoints/shop/health", json!(null)),
        ("GET", "/v1/endpoints/shop/stats", json!(null)),
        ("POST", "/v1/retry-schedules/standard/assign", json!({ "endpoint_ids": ["shop"] })),
        ("DELETE", "/v1/endpoints/shop", json!({})),
    ];
    for (method, path, body) in table {
        let answer = server.call(method.parse().unwrap(), path, &server.admin, body.to_string()).await;
        assert!(answer.status.is_success(), "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
    }
    server.stop().await;
}

#[tokio::test]
async fn an_endpoint_is_made_and_changed_in_the_words_of_other_platforms() {
    let server = Server::start().await;
    server.post("/v1/applications", json!({ "name": "Shop", "uid": "app" })).await.expect(201);
    let application = server.get("/v1/applications/app").await.expect(200)["id"].clone();
    // What is written, what is read back, and whether it can be changed later.
    #[rustfmt::skip]
    let table = [
        (json!({ "events": ["a.b"] }), "/event_types", json!(["a.b"]), true),
        (json!({ "active": false }), "/enabled", json!(false), true),
        (json!({ "is_enabled": false }), "/enabled", json!(false), true),
        (json!({ "tenant_id": "default" }), "/application_id", Value::Null, true),
        (json!({ "owner_id": "app" }), "/application_id", application, false),
        (json!({ "circuit_breaker_config": { "minimum_throughput": 7 } }), "/circuit_breaker/minimum_throughput", json!(7), true),
        (json!({ "ordering_guarantee": "strict" }), "/ordering", json!("strict"), true),
        (json!({ "label_key": "region", "label_value": "eu" }), "/labels", json!({ "region": "eu" }), true),
        (json!({ "retry_config": { "max_attempts": 3 } }), "/retry_config/max_attempts", json!(3), true),
        (json!({ "retry_config": { "base_delay_ms": 2_000 } }), "/retry_config/base_delay_ms", json!(2_000), true),
        (json!({ "retry_config": { "max_delay_ms": 60_000 } }), "/retry_config/max_delay_ms", json!(60_000), true),
        (json!({ "retry_config": { "backoff_multiplier": 3.0 } }), "/retry_config/backoff_multiplier", json!(3.0), true),
        (json!({ "retry_config": { "timeout_ms": 5_000 } }), "/retry_config/timeout_ms", json!(5_000), true),
        (json!({ "retry_config": { "timeout_growth_factor": 2.0 } }), "/timeout_growth_factor", json!(2.0), true),
    ];
    for (written, place, read, can_change) in table {
        let mut body = json!({ "url": "http://127.0.0.1:9/hook" });
        if written.get("events").is_none() {
            body["events"] = json!(["*"]);
        }
        body.as_object_mut().unwrap().extend(written.as_object().unwrap().clone());
        let made = server.post("/v1/webhooks", body).await.expect(201);
        let expected = if read.is_null() { made.pointer(place).cloned().unwrap() } else { read };
        assert_eq!(made.pointer(place), Some(&expected), "{written}");
        let plain = server.endpoint(json!({})).await;
        let changed = server.put(&format!("/v1/webhooks/{}", plain["id"].as_str().unwrap()), written.clone()).await;
        if can_change {
            assert_eq!(changed.expect(200).pointer(place), Some(&expected), "{written}");
        } else {
            assert_eq!(changed.faults(422), ["application_id"]);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_tenant_is_an_organization_and_an_owner_an_application() {
    let server = Server::start().await;
    server.post("/v1/organizations", json!({ "name": "Acme", "uid": "acme" })).await.expect(201);
    server.post("/v1/applications", json!({ "name": "Shop", "uid": "app" })).await.expect(201);
    let hook = json!({ "url": "http://127.0.0.1:9/hook", "events": ["*"], "uid": "shop" });
    let with = |mut body: Value, field: &str, value: &str| {
        body[field] = json!(value);
        body
    };
    server.post("/v1/webhooks", with(hook.clone(), "tenant_id", "acme")).await.expect(201);
    server.post("/v1/webhooks", with(hook.clone(), "owner_id", "app")).await.expect(201);
    server.put("/v1/webhooks/shop", json!({ "tenant_id": "acme", "active": false })).await.expect(200);
    #[rustfmt::skip]
    let lists = [("?tenant_id=acme", 1), ("?tenant_id=default", 1), ("?owner_id=app", 1), ("?tenant_id=acme&active=false", 1), ("?active=false", 0)];
    for (query, count) in lists {
        let found = server.get(&format!("/v1/webhooks{query}")).await.expect(200);
        assert_eq!(found["data"].as_array().unwrap().len(), count, "{query}");
    }
    // The endpoint of the tenant is disabled, the owner's is not.
    #[rustfmt::skip]
    let events = [("owner_id", "app", 1), ("application_id", "app", 1), ("tenant_id", "acme", 0), ("tenant_id", "default", 0)];
    for (field, value, deliveries) in events {
        let receipt = server.post("/v1/events", with(json!({ "event_type": "t", "data": 1 }), field, value)).await.expect(202);
        assert_eq!(receipt["deliveries"], deliveries, "{field}");
    }
    // Others are at home only.
    let stranger = server.stranger(&["manage"]).await;
    for (method, path, body) in [
        (Method::POST, "/v1/webhooks", with(hook, "tenant_id", "acme")),
        (Method::POST, "/v1/events", with(json!({ "type": "t", "data": 1 }), "tenant_id", "acme")),
        (Method::GET, "/v1/webhooks?tenant_id=acme", json!(null)),
        (Method::PUT, "/v1/webhooks/shop", json!({ "tenant_id": "acme" })),
    ] {
        server.call(method, path, &stranger, body.to_string()).await.problem(404);
    }
    server.stop().await;
}
