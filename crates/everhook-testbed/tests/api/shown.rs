//! What answers show beside what was set: uids beside ids, and what holds where nothing was set.

use everhook::config::ServeArgs;
use serde_json::{Value, json};

use crate::api::{client::Server, retries::wait_until};

#[tokio::test]
async fn every_answer_that_names_an_application_or_an_endpoint_by_id_shows_its_uid() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await.expect(200);
    let mut checked = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for noun in ["application", "endpoint"] {
            let has = |suffix: &str| schema["properties"][format!("{noun}_{suffix}")].is_object();
            if name.ends_with("Out") && has("id") {
                assert!(has("uid"), "{name} shows {noun}_id without {noun}_uid");
                checked.push(format!("{name}.{noun}_uid"));
            }
        }
    }
    assert!(checked.len() >= 9, "{checked:?}");
    // And so they do.
    server.post("/v1/applications", json!({ "name": "Shop", "uid": "app" })).await.expect(201);
    let endpoint = json!({ "uid": "shop", "application_id": "app", "retry_config": { "max_attempts": 1 } });
    assert_eq!(server.endpoint(endpoint).await["application_uid"], "app");
    let source =
        json!({ "name": "in", "kind": "hmac", "header": "X-Signature", "secrets": ["a-secret-of-a-source"], "application_id": "app" });
    assert_eq!(server.post("/v1/sources", source).await.expect(201)["application_uid"], "app");
    let key = json!({ "name": "k", "scopes": ["read"], "application_id": "app" });
    assert_eq!(server.post("/v1/api-keys", key).await.expect(201)["application_uid"], "app");
    let event = server.post("/v1/events", json!({ "type": "t", "data": 1, "application_id": "app" })).await.expect(202);
    wait_until(async || !server.get("/v1/dlq").await.expect(200)["data"].as_array().unwrap().is_empty()).await;
    server.post("/v1/applications/app/recover", json!({ "since": "2026-01-01" })).await.expect(202);
    let why = format!("/v1/events/{}/why", event["id"].as_str().unwrap());
    for (path, expected) in [
        ("/v1/dlq", json!({ "application_uid": "app", "endpoint_uid": "shop" })),
        ("/v1/deliveries", json!({ "application_uid": "app", "endpoint_uid": "shop" })),
        ("/v1/events?event_type=t", json!({ "application_uid": "app" })),
        ("/v1/endpoints", json!({ "application_uid": "app" })),
        ("/v1/sources", json!({ "application_uid": "app" })),
        ("/v1/operations", json!({ "application_uid": "app" })),
        ("/v1/api-keys", json!({ "application_uid": "app" })),
        (&*why, json!({ "endpoint_uid": "shop" })),
    ] {
        let row = server.get(path).await.expect(200)["data"][0].clone();
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(row[field], *value, "{path}: {row}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn limits_that_apply_although_nobody_set_them_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    for (profile, deliveries, rate) in [("plain", Value::Null, Value::Null), ("hosted", json!(1_000), json!(100))] {
        let args = ServeArgs {
            listen: Some("127.0.0.1:0".to_owned()),
            data: Some(folder.path().join(profile).display().to_string()),
            allow_private_networks: Some("true".to_owned()),
            profile: Some(profile.to_owned()),
            ..ServeArgs::default()
        };
        let server = Server::start_with(&args).await;
        let organization = server.get("/v1/organizations/default").await.expect(200);
        let (set, effective) = (&organization["limits"], &organization["effective_limits"]);
        assert_eq!((&set["deliveries_per_minute"], &set["manual_retries_per_minute"]), (&Value::Null, &Value::Null));
        assert_eq!((&effective["deliveries_per_minute"], &effective["manual_retries_per_minute"]), (&deliveries, &json!(60)));
        let endpoint = server.endpoint(json!({ "uid": "shop" })).await;
        assert_eq!((&endpoint["rate_limit"], &endpoint["effective_rate_limit"]["requests_per_minute"]), (&Value::Null, &rate));
        let own = server.put("/v1/endpoints/shop", json!({ "rate_limit": { "requests_per_minute": 7 } })).await.expect(200);
        assert_eq!(own["effective_rate_limit"], own["rate_limit"]);
        server.put("/v1/organizations/default", json!({ "limits": { "deliveries_per_minute": 5, "manual_retries_per_minute": 2 } })).await;
        let organization = server.get("/v1/organizations/default").await.expect(200);
        assert_eq!(organization["effective_limits"], organization["limits"]);
        server.stop().await;
    }
}

#[tokio::test]
async fn the_tolerance_of_a_source_is_shown_also_where_its_kind_sets_it() {
    let server = Server::start().await;
    let secrets = ["a-secret-of-a-source"];
    let source =
        |name: &str, kind: &str, tolerance: Value| json!({ "name": name, "kind": kind, "tolerance": tolerance, "secrets": secrets });
    for (name, kind, set, effective) in [
        ("set", "stripe", json!("2m"), json!("2m")),
        ("of-kind", "stripe", Value::Null, json!("5m")),
        ("none", "github", Value::Null, Value::Null),
    ] {
        let shown = server.post("/v1/sources", source(name, kind, set.clone())).await.expect(201);
        assert_eq!((&shown["tolerance"], &shown["effective_tolerance"]), (&set, &effective), "{name}");
    }
    server.stop().await;
}
