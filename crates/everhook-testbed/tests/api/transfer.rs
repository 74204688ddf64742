//! An application's configuration as one document: out of one application, into another, and the same again.

use http::Method;
use serde_json::{Value, json};

use crate::api::client::Server;

/// An application with something of everything.
async fn furnished(server: &Server) {
    server.post("/v1/applications", json!({ "name": "Shop", "uid": "app", "strict_event_types": true })).await.expect(201);
    server
        .post("/v1/event-types", json!({ "name": "order.paid", "schema": { "type": "object" }, "example": { "n": 1.0 } }))
        .await
        .expect(201);
    server.post("/v1/retry-schedules", json!({ "name": "mine", "intervals": [5, 60], "give_up_on": [410] })).await.expect(201);
    let rich = json!({
        "application_id": "app", "name": "Rich", "headers": { "x-key": "hush" }, "metadata": { "b": 1, "a": "grün" }, "labels": { "region": "eu" },
        "filter": { "data.n": { "gte": 1 } }, "retry_schedule": "mine", "rate_limit": { "requests_per_minute": 60 }, "ordering": "strict",
        "circuit_breaker": { "rule": "consecutive", "failure_threshold": 9 }, "timeout_ms": 3_000, "enabled": false,
    });
    server.endpoint(rich).await;
    server.endpoint(json!({ "application_id": "app", "uid": "plain", "retry_config": { "max_attempts": 3 } })).await;
}

async fn export(server: &Server, path: &str) -> Value {
    server.get(path).await.expect(200)
}

#[tokio::test]
async fn what_is_exported_imports_into_an_empty_application_and_exports_the_same() {
    let server = Server::start().await;
    furnished(&server).await;
    let document = export(&server, "/v1/applications/app/export?secrets=true").await;
    assert!(document["endpoints"][0]["secret"].as_str().unwrap().starts_with("whsec_"));
    // Elsewhere, so that schedules, types and uids are not there yet.
    let stranger = server.stranger(&["manage"]).await;
    let send = async |method: Method, path: &str, body: &Value| server.call(method, path, &stranger, body.to_string()).await;
    let import = "/v1/applications/target/import";
    send(Method::POST, "/v1/applications", &json!({ "name": "Target", "uid": "target" })).await.expect(201);
    let mut dry = document.clone();
    dry["dry_run"] = json!(true);
    let counts = |created: u32, updated: u32, unchanged: u32| json!({ "created": created, "updated": updated, "unchanged": unchanged });
    let made = |dry_run: bool| {
        json!({ "dry_run": dry_run, "application": counts(0, 1, 0), "endpoints": counts(2, 0, 0),
            "event_types": counts(1, 0, 0), "retry_schedules": counts(1, 0, 0), "sources": counts(0, 0, 0) })
    };
    for _ in 0..2 {
        assert_eq!(send(Method::POST, import, &dry).await.expect(200), made(true));
    }
    assert_eq!(send(Method::POST, import, &document).await.expect(200), made(false));
    let again = send(Method::GET, "/v1/applications/target/export?secrets=true", &Value::Null).await.expect(200);
    assert_eq!(again, document);
    // Importing again changes nothing; a difference is an update.
    let same = json!({ "dry_run": false, "application": counts(0, 0, 1), "endpoints": counts(0, 0, 2),
        "event_types": counts(0, 0, 1), "retry_schedules": counts(0, 0, 1), "sources": counts(0, 0, 0) });
    assert_eq!(send(Method::POST, import, &document).await.expect(200), same);
    // Formatted again, it is still the same, and the audit log has no entry of it.
    let entries = async || send(Method::GET, "/v1/audit-log?limit=250", &Value::Null).await.expect(200)["data"].as_array().unwrap().len();
    let before = entries().await;
    let formatted = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(server.call(Method::POST, import, &stranger, formatted).await.expect(200), same);
    assert_eq!(entries().await, before);
    // Nor if it was written by a program that sorts keys, shortens numbers and escapes texts, as `jq -S -a` does.
    let respelled = document.to_string();
    for (written, respelling) in [
        (r#"{"a":"grün","b":1}"#, r#"{"b":1.0,"a":"gr\u00fcn"}"#),
        (r#"{"type":"object"}"#, r#"{ "type" : "\u006fbject" }"#),
        (r#"{"n":1.0}"#, r#"{"n":1}"#),
        (r#"{"data.n":{"gte":1}}"#, r#"{"data.n":{"gte":1.0}}"#),
    ] {
        assert!(respelled.contains(written), "{written} in {respelled}");
        let respelled = respelled.replace(written, respelling);
        assert_eq!(server.call(Method::POST, import, &stranger, respelled).await.expect(200), same, "{respelling}");
        assert_eq!(entries().await, before, "{respelling}");
    }
    let mut other = document.clone();
    other["endpoints"][1]["max_concurrency"] = json!(9);
    other["retry_schedules"][0]["max_attempts"] = json!(2);
    let changed = send(Method::POST, import, &other).await.expect(200);
    assert_eq!((&changed["endpoints"], &changed["retry_schedules"]), (&counts(0, 1, 1), &counts(0, 1, 0)));
    assert_eq!(send(Method::GET, "/v1/applications/target/export?secrets=true", &Value::Null).await.expect(200), other);
    server.stop().await;
}

#[tokio::test]
async fn secrets_are_exported_only_when_asked_for_by_a_key_that_may_manage() {
    let server = Server::start().await;
    furnished(&server).await;
    let document = export(&server, "/v1/applications/app/export").await;
    assert!(document["endpoints"][0].get("secret").is_none());
    let reader = server.key(&["read"]).await;
    let masked = server.call(Method::GET, "/v1/applications/app/export", &reader, "").await.expect(200);
    assert_eq!(masked["endpoints"][0]["headers"], json!({ "x-key": "***" }));
    server.call(Method::GET, "/v1/applications/app/export?secrets=true", &reader, "").await.problem(403);
    server.get("/v1/applications/app/export?secrets=maybe").await.problem(400);
    server.stop().await;
}

#[tokio::test]
async fn all_faults_are_told_and_nothing_is_written() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "elsewhere" })).await;
    server.post("/v1/applications", json!({ "name": "Shop", "uid": "app" })).await.expect(201);
    let hook = |fields: Value| {
        let mut hook = json!({ "url": "http://127.0.0.1:9/hook", "event_types": ["*"] });
        hook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        hook
    };
    let document = json!({
        "version": 1,
        "retry_schedules": [{ "name": "good", "intervals": [5] }, { "name": "standard", "intervals": [5] }, { "name": "good", "intervals": [5] }],
        "event_types": [{ "name": "good" }, { "name": "a b" }],
        "endpoints": [hook(json!({ "uid": "good", "retry_schedule": "good" })), hook(json!({ "timeout_ms": 1, "retry_schedule": "none" })),
            hook(json!({ "uid": "elsewhere" })), hook(json!({ "uid": "good" })), json!({})],
    });
    let faults = server.post("/v1/applications/app/import", document).await.faults(422);
    #[rustfmt::skip]
    assert_eq!(faults, [
        "retry_schedules[1].name", "retry_schedules[2].name", "event_types[1].name", "endpoints[1].timeout_ms", "endpoints[1].retry_schedule",
        "endpoints[2].uid", "endpoints[3].uid", "endpoints[4].url", "endpoints[4].event_types",
    ]);
    let after = export(&server, "/v1/applications/app/export").await;
    assert_eq!((&after["endpoints"], &after["event_types"], &after["retry_schedules"]), (&json!([]), &json!([]), &json!([])));
    for (bad, status) in [(json!({}), 422), (json!({ "version": 2 }), 422), (json!({ "version": 1, "hooks": [] }), 400)] {
        server.post("/v1/applications/app/import", bad).await.problem(status);
    }
    let placed = json!({ "version": 1, "endpoints": [hook(json!({ "application_id": "app" }))] });
    assert_eq!(server.post("/v1/applications/app/import", placed).await.faults(422), ["endpoints[0].application_id"]);
    for (field, value) in [("tenant_id", json!("default")), ("owner_id", json!("app")), ("headers", json!({ "x-key": "***" }))] {
        let mut fields = json!({});
        fields[field] = value;
        let place = match field {
            "owner_id" => "endpoints[0].application_id".to_owned(),
            field => format!("endpoints[0].{field}"),
        };
        let document = json!({ "version": 1, "dry_run": true, "endpoints": [hook(fields)] });
        assert_eq!(server.post("/v1/applications/app/import", document).await.faults(422), [place]);
    }
    server.stop().await;
}

#[tokio::test]
async fn what_no_import_would_take_is_not_exported() {
    let server = Server::start().await;
    let types: Vec<Value> = (0..1_000).map(|n| json!({ "name": format!("t{n}") })).collect();
    server.post("/v1/applications/default/import", json!({ "version": 1, "event_types": types })).await.expect(200);
    export(&server, "/v1/applications/default/export").await;
    server.post("/v1/event-types", json!({ "name": "one.too.many" })).await.expect(201);
    let problem = server.get("/v1/applications/default/export").await.problem(422);
    assert_eq!(problem["type"], "/docs/problems/configuration-too-large");
    server.stop().await;
}
