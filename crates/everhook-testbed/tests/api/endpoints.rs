//! Endpoints over HTTP: made, changed, listed and deleted, their secrets, and what is refused.

use everhook_core::{
    ids::Ref,
    manage::{
        Change,
        endpoints::{self, EndpointChange},
    },
    model::Author,
    policy::{address::AddressRules, target::TargetRules},
};
use serde_json::{Value, json};

use crate::api::client::Server;

#[tokio::test]
async fn an_endpoint_is_made_read_changed_and_deleted() {
    let server = Server::start().await;
    let made = server
        .endpoint(
            json!({ "uid": "shop", "name": "Shop", "headers": { "X-Team": "a" }, "metadata": { "n": 1 }, "retry_schedule": "patient" }),
        )
        .await;
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    for path in
        ["/v1/endpoints/shop", "/v1/webhooks/shop", "/v1/subscriptions/shop", &format!("/v1/endpoints/{}", made["id"].as_str().unwrap())]
    {
        let mut read = server.get(path).await.expect(200);
        assert!(read.get("secret").is_none());
        read["secret"] = made["secret"].clone();
        assert_eq!(read, made);
    }
    // Only what is sent changes; null brings back the default.
    let changed = server.put("/v1/endpoints/shop", json!({ "name": null, "retry_schedule": null, "active": false })).await.expect(200);
    assert_eq!((&changed["name"], &changed["retry_schedule"], &changed["enabled"]), (&Value::Null, &json!("standard"), &json!(false)));
    assert_eq!((&changed["headers"], &changed["metadata"]), (&made["headers"], &made["metadata"]));
    assert_eq!(changed["disabled_reason"], "by_owner");
    server.delete("/v1/endpoints/shop").await.expect(204);
    for path in ["/v1/endpoints/shop", &format!("/v1/endpoints/{}", made["id"].as_str().unwrap())] {
        server.get(path).await.problem(404);
        server.delete(path).await.problem(404);
    }
    server.stop().await;
}

#[tokio::test]
async fn everything_wrong_with_an_endpoint_is_said_at_once() {
    let server = Server::start().await;
    let bad = json!({
        "url": "ftp://example.com", "event_types": ["a b"], "uid": "no spaces", "secret": "short", "headers": { "host": "x" },
        "metadata": [], "retry_schedule": "never", "timeout_ms": 1, "timeout_growth_factor": 11, "max_concurrency": -1,
        "signature_style": "md5", "payload_style": "xml", "application_id": "nobody",
    });
    let mut faults = server.post("/v1/endpoints", bad.clone()).await.faults(422);
    faults.sort();
    let mut fields: Vec<String> = bad.as_object().unwrap().keys().cloned().collect();
    fields.sort();
    assert_eq!(faults, fields);
    assert_eq!(server.post("/v1/endpoints", json!({})).await.faults(422), ["url", "event_types"]);
    server.stop().await;
}

#[tokio::test]
async fn a_uid_is_taken_once() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "one" })).await;
    server.endpoint(json!({ "uid": "two" })).await;
    server.put("/v1/endpoints/two", json!({ "uid": "one" })).await.problem(409);
    server.post("/v1/endpoints", json!({ "url": "http://127.0.0.1:9", "event_types": ["*"], "uid": "one" })).await.problem(409);
    server.delete("/v1/endpoints/one").await.expect(204);
    server.endpoint(json!({ "uid": "one" })).await;
    server.stop().await;
}

#[tokio::test]
async fn two_secrets_sign_during_a_rotation_and_never_three() {
    let server = Server::start().await;
    let made = server.endpoint(json!({ "uid": "shop" })).await;
    let rotated = server.post("/v1/endpoints/shop/secret/rotate", json!({ "grace_seconds": 60 })).await.expect(200);
    assert_eq!(rotated["previous"]["secret"], made["secret"]);
    assert_ne!(rotated["secret"], made["secret"]);
    assert_eq!(server.get("/v1/endpoints/shop/secret").await.expect(200), rotated);
    server.post("/v1/endpoints/shop/secret/rotate", json!({})).await.problem(409);
    assert_eq!(server.post("/v1/endpoints/shop/secret/rotate", json!({ "grace_seconds": -1 })).await.faults(422), ["grace_seconds"]);
    // Without a grace there is no second one, and the next rotation may follow at once.
    server.endpoint(json!({ "uid": "bare" })).await;
    for secret in ["a-secret-of-my-own-1", "a-secret-of-my-own-2"] {
        let body = json!({ "grace_seconds": 0, "secret": secret });
        let rotated = server.post("/v1/endpoints/bare/secret/rotate", body).await.expect(200);
        assert_eq!(rotated, json!({ "secret": secret, "previous": null }));
    }
    server.stop().await;
}

#[tokio::test]
async fn an_ed25519_endpoint_shows_the_half_that_receivers_need() {
    let server = Server::start().await;
    let made = server.endpoint(json!({ "uid": "e", "signature_key": "ed25519" })).await;
    assert!(made["secret"].as_str().unwrap().starts_with("whsk_"));
    let shown = server.get("/v1/endpoints/e/secret").await.expect(200);
    assert!(shown["public_key"].as_str().unwrap().starts_with("whpk_"));
    assert_eq!(server.put("/v1/endpoints/e", json!({ "signature_style": "hex" })).await.faults(422), ["signature_style"]);
    server.stop().await;
}

#[tokio::test]
async fn a_test_event_goes_to_its_endpoint_alone() {
    let server = Server::start().await;
    let tested = server.endpoint(json!({ "uid": "tested", "event_types": ["nothing.else"] })).await;
    server.endpoint(json!({ "uid": "other" })).await;
    let receipt = server.post("/v1/endpoints/tested/test", json!({})).await.expect(202);
    assert_eq!(receipt["deliveries"], 1);
    let event = server.get(&format!("/v1/events/{}", receipt["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(event["type"], "endpoint.test");
    let deliveries = server.get("/v1/endpoints/tested/deliveries").await.expect(200);
    assert_eq!(deliveries["data"][0]["endpoint_id"], tested["id"]);
    assert_eq!(server.get("/v1/endpoints/other/deliveries").await.expect(200)["data"], json!([]));
    server.put("/v1/endpoints/tested", json!({ "enabled": false })).await.expect(200);
    server.post("/v1/endpoints/tested/test", json!({})).await.problem(409);
    server.stop().await;
}

#[tokio::test]
async fn endpoints_are_listed_by_application_state_and_type() {
    let server = Server::start().await;
    server.post("/v1/applications", json!({ "name": "shop", "uid": "shop" })).await.expect(201);
    server.endpoint(json!({ "uid": "a", "event_types": ["order.*"] })).await;
    server.endpoint(json!({ "uid": "b", "event_types": ["user.created"], "enabled": false })).await;
    server.endpoint(json!({ "uid": "c", "application_id": "shop" })).await;
    for (query, expected) in [
        ("", vec!["c", "b", "a"]),
        ("?enabled=true", vec!["c", "a"]),
        ("?active=false", vec!["b"]),
        ("?event_type=order.paid", vec!["c", "a"]),
        ("?application_id=shop", vec!["c"]),
        ("?limit=1", vec!["c"]),
    ] {
        let listed = server.get(&format!("/v1/endpoints{query}")).await.expect(200);
        let uids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|endpoint| endpoint["uid"].as_str().unwrap()).collect();
        assert_eq!(uids, expected, "{query}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_change_of_a_row_that_is_no_longer_the_newest_is_made_on_the_newest() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop", "name": "Shop" })).await;
    let line = server.line();
    let organization = line.ports.organizations.organization(&Ref::parse("default").unwrap()).await.unwrap().unwrap().id;
    let by = Author::server(organization);
    let found = endpoints::find(line, organization, &Ref::parse("shop").unwrap()).await.unwrap();
    // Somebody else is faster.
    server.put("/v1/endpoints/shop", json!({ "name": "Store", "uid": "store" })).await.expect(200);
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    let asked = EndpointChange { description: Change::Set("sells".to_owned()), ..EndpointChange::default() };
    endpoints::change(line, &rules, &by, found.clone(), asked.clone()).await.unwrap();
    let read = server.get("/v1/endpoints/store").await.expect(200);
    assert_eq!((&read["name"], &read["description"]), (&json!("Store"), &json!("sells")));
    // One that was deleted meanwhile does not come back.
    server.delete("/v1/endpoints/store").await.expect(204);
    assert!(endpoints::change(line, &rules, &by, found, asked).await.is_err());
    server.get("/v1/endpoints/store").await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn a_url_or_header_that_others_would_read_differently_is_refused_wherever_it_is_given() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop" })).await;
    server.post("/v1/applications", json!({ "name": "app", "uid": "app" })).await.expect(201);
    let refused = [
        json!({ "url": "https://93.184.216.34\\@127.0.0.1/" }),
        json!({ "url": "https:example.com" }),
        json!({ "url": "https://8.8.2056/" }),
        json!({ "url": "https://example.com/\u{feff}" }),
        json!({ "headers": { "x_webhook_event": "forged" } }),
        json!({ "headers": { "X-Tenant": "1", "X_Tenant": "2" } }),
    ];
    for wrong in refused {
        let field = wrong.as_object().unwrap().keys().next().unwrap().clone();
        let mut whole = json!({ "url": "https://example.com/", "event_types": ["*"] });
        whole.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let created = server.post("/v1/endpoints", whole.clone()).await.problem(422);
        let changed = server.put("/v1/endpoints/shop", wrong).await.problem(422);
        let imported = server.post("/v1/applications/app/import", json!({ "version": 1, "endpoints": [whole] })).await.problem(422);
        assert_eq!((&created["errors"][0]["field"], &changed["errors"][0]["field"]), (&json!(field), &json!(field)));
        assert_eq!(imported["errors"][0]["field"], json!(format!("endpoints[0].{field}")), "{imported}");
    }
    let event = json!({ "type": "order.paid", "data": 1, "headers": { "webhook_id": "forged" } });
    assert_eq!(server.post("/v1/events", event).await.problem(422)["errors"][0]["field"], "headers");
    server.stop().await;
}
