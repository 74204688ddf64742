//! Every change leaves an entry that says who, what, when, from what to what, and no secret.

use std::{collections::BTreeSet, time::Duration};

use http::Method;
use serde_json::{Value, json};

use crate::api::client::Server;

/// Every route that is not a read: what it enters. Those that enter nothing make deliveries, which history shows.
#[rustfmt::skip]
const ENTERED: &[(&str, &str, &[&str])] = &[
    ("POST", "/v1/events", &[]),
    ("POST", "/v1/events/batch", &[]),
    ("POST", "/v1/dlq/{id}/retry", &[]),
    ("POST", "/api/v1/admin/dlq/{id}/retry", &[]),
    ("DELETE", "/v1/dlq/{id}", &["dead_letter.discard"]),
    ("POST", "/v1/endpoints", &["endpoint.create"]),
    ("PUT", "/v1/endpoints/{id}", &["endpoint.update", "endpoint.reset_breaker"]),
    ("PATCH", "/v1/endpoints/{id}", &["endpoint.update", "endpoint.reset_breaker"]),
    ("POST", "/v1/endpoints/{id}/secret/rotate", &["endpoint.rotate_secret"]),
    ("POST", "/v1/endpoints/{id}/test", &[]),
    ("POST", "/v1/endpoints/{id}/pause", &["endpoint.pause"]),
    ("POST", "/v1/endpoints/{id}/resume", &["endpoint.resume"]),
    ("PATCH", "/v1/endpoints/{id}/circuit-breaker", &["endpoint.reset_breaker", "endpoint.force_open_breaker", "endpoint.force_close_breaker"]),
    ("DELETE", "/v1/endpoints/{id}", &["endpoint.delete"]),
    ("POST", "/v1/retry-schedules", &["retry_schedule.create"]),
    ("POST", "/v1/organizations/{id}/retry-schedules", &["retry_schedule.create"]),
    ("PUT", "/v1/retry-schedules/{id}", &["retry_schedule.update"]),
    ("PATCH", "/v1/retry-schedules/{id}", &["retry_schedule.update"]),
    ("POST", "/v1/retry-schedules/{id}/assign", &["endpoint.update"]),
    ("DELETE", "/v1/retry-schedules/{id}", &["retry_schedule.reassign", "retry_schedule.delete"]),
    ("POST", "/v1/event-types", &["event_type.create"]),
    ("PUT", "/v1/event-types/{id}", &["event_type.update"]),
    ("PATCH", "/v1/event-types/{id}", &["event_type.update"]),
    ("DELETE", "/v1/event-types/{id}", &["event_type.delete"]),
    ("POST", "/v1/applications", &["application.create"]),
    ("PUT", "/v1/applications/{id}", &["application.update"]),
    ("PATCH", "/v1/applications/{id}", &["application.update"]),
    ("DELETE", "/v1/applications/{id}", &["application.delete"]),
    ("PUT", "/v1/applications/{id}/manifest", &["application.create_secret", "application.put_manifest"]),
    ("POST", "/v1/applications/{id}/manifest/check", &[]),
    ("POST", "/v1/applications/{id}/secret/rotate", &["application.rotate_secret"]),
    ("PATCH", "/v1/applications/{id}/capabilities/{capability}/circuit-breaker", &["application.reset_breaker", "application.force_open_breaker", "application.force_close_breaker"]),
    // Calls change nothing that people set.
    ("POST", "/v1/applications/{id}/call/{capability}", &[]),
    ("POST", "/v1/applications/{id}/call-batch", &[]),
    ("POST", "/v1/applications/{id}/import", &["application.update", "endpoint.create", "endpoint.update", "event_type.create", "retry_schedule.create"]),
    ("POST", "/v1/applications/{id}/recover", &["operation.begin"]),
    ("POST", "/v1/applications/{id}/replay", &["operation.begin"]),
    ("POST", "/v1/applications/{id}/erase", &["operation.begin"]),
    ("POST", "/v1/events/erase", &["operation.begin"]),
    ("DELETE", "/v1/events/{id}/data", &["event.erase"]),
    // Resending makes deliveries, and changes nothing of what people set: the deliveries themselves tell of it. Bringing one forward changes it.
    ("POST", "/v1/events/{id}/retry", &["delivery.attempt_now"]),
    ("POST", "/v1/messages/{id}/retry", &["delivery.attempt_now"]),
    ("POST", "/v1/deliveries/{id}/retry", &["delivery.attempt_now"]),
    ("POST", "/v1/endpoints/{id}/deliveries/retry-batch", &["delivery.attempt_now"]),
    ("POST", "/v1/endpoints/{id}/deliveries/{delivery_id}/retry", &["delivery.attempt_now"]),
    ("POST", "/v1/deliveries/{id}/cancel", &["delivery.cancel"]),
    ("POST", "/v1/alert-rules", &["alert_rule.create"]),
    ("PUT", "/v1/alert-rules/{id}", &["alert_rule.update"]),
    ("PATCH", "/v1/alert-rules/{id}", &["alert_rule.update"]),
    ("DELETE", "/v1/alert-rules/{id}", &["alert_rule.delete"]),
    ("POST", "/v1/alert-rules/dry-run", &[]),
    ("POST", "/v1/alerts/{id}/silence", &["alert.silence"]),
    ("POST", "/v1/alerts/{id}/unsilence", &["alert.unsilence"]),
    ("POST", "/v1/channels", &["channel.create"]),
    ("PUT", "/v1/channels/{id}", &["channel.update"]),
    ("PATCH", "/v1/channels/{id}", &["channel.update"]),
    ("DELETE", "/v1/channels/{id}", &["channel.delete"]),
    ("POST", "/v1/channels/{id}/test", &[]),
    ("POST", "/v1/approvals/{id}", &["approval.approve", "approval.reject"]),
    ("POST", "/v1/endpoints/{id}/attempt-now", &["operation.begin"]),
    ("POST", "/v1/dlq/retry-batch", &["operation.begin"]),
    ("POST", "/v1/dlq/discard-batch", &["operation.begin"]),
    ("DELETE", "/v1/dlq/batch-operations/{id}", &["operation.cancel"]),
    ("DELETE", "/v1/operations/{id}", &["operation.cancel"]),
    ("POST", "/v1/sources", &["source.create"]),
    ("PUT", "/v1/sources/{id}", &["source.update"]),
    ("PATCH", "/v1/sources/{id}", &["source.update"]),
    ("POST", "/v1/sources/{id}/pause", &["source.pause"]),
    ("POST", "/v1/sources/{id}/resume", &["source.resume"]),
    ("POST", "/v1/sources/{id}/await-handshake", &["source.await_handshake"]),
    ("DELETE", "/v1/sources/{id}", &["source.delete"]),
    // Of the whole server: entered where a rotation is under way.
    ("POST", "/v1/sealing/cancel", &["sealing.cancel"]),
    ("POST", "/v1/sealing/resume", &["sealing.resume"]),
    ("POST", "/v1/health/connections", &["health_connection.create"]),
    ("DELETE", "/v1/health/connections/{id}", &["health_connection.delete"]),
    ("POST", "/v1/health/backfill", &["operation.begin"]),
    ("DELETE", "/v1/health/profiles/{profile_id}", &["health_profile.erase"]),
    // One entry for each event; none where there is nothing.
    ("DELETE", "/v1/health/users/{provider}/{external_user_id}", &["event.erase"]),
    ("POST", "/v1/api-keys", &["api_key.create"]),
    ("DELETE", "/v1/api-keys/{id}", &["api_key.revoke"]),
    ("POST", "/v1/organizations", &["organization.create"]),
    ("PUT", "/v1/organizations/{id}", &["organization.update"]),
    ("PATCH", "/v1/organizations/{id}", &["organization.update"]),
    ("DELETE", "/v1/organizations/{id}", &["organization.delete"]),
];

async fn entries(server: &Server, query: &str) -> Vec<Value> {
    server.get(&format!("/v1/audit-log{query}")).await.expect(200)["data"].as_array().unwrap().clone()
}

/// The id of a dead letter: nobody listens where its only attempt goes.
async fn dead_letter(server: &Server) -> String {
    server.endpoint(json!({ "uid": "nobody", "retry_config": { "max_attempts": 1 } })).await;
    server.post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202);
    loop {
        if let Some(id) = server.get("/v1/dlq").await.expect(200)["data"][0]["id"].as_str() {
            return id.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn every_route_that_changes_something_is_in_the_table() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await.expect(200);
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys().filter(|method| *method != "get");
        documented.extend(methods.map(|method| (method.to_uppercase(), path.clone())));
    }
    // The document leaves other names of routes out.
    let is_named_so = |path: &str| !["/v1/messages/", "/v1/dlq/batch-operations/", "/api/"].iter().any(|alias| path.starts_with(alias));
    let table = ENTERED.iter().filter(|(_, path, _)| is_named_so(path));
    let table: BTreeSet<_> = table.map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(table, documented);
    server.stop().await;
}

#[tokio::test]
async fn every_change_enters_what_the_table_says() {
    let server = Server::start().await;
    let dead = dead_letter(&server).await;
    let event = server.get("/v1/events").await.expect(200)["data"][0]["id"].as_str().unwrap().to_owned();
    let organization = server.post("/v1/organizations", json!({ "name": "Acme", "uid": "acme" })).await.expect(201);
    server.post("/v1/organizations", json!({ "name": "Doomed", "uid": "doomed" })).await.expect(201);
    let key = server.post("/v1/api-keys", json!({ "name": "k", "scopes": ["read"] })).await.expect(201);
    let (key, schedules) = (key["id"].as_str().unwrap(), "/v1/retry-schedules");
    let later = json!({ "filter": {}, "start_at": "2100-01-01T00:00:00Z" });
    let later = server.post("/v1/dlq/retry-batch", later).await.expect(202)["operation_id"].as_str().unwrap().to_owned();
    #[rustfmt::skip]
    let changes = [
        ("DELETE", format!("/v1/dlq/{dead}"), json!({}), "dead_letter.discard"),
        ("POST", "/v1/endpoints".into(), json!({ "url": "http://127.0.0.1:9/h", "event_types": ["*"], "uid": "shop" }), "endpoint.create"),
        ("PUT", "/v1/endpoints/shop".into(), json!({ "enabled": false }), "endpoint.update"),
        ("PUT", "/v1/endpoints/shop".into(), json!({ "enabled": true }), "endpoint.update"),
        ("POST", "/v1/endpoints/shop/secret/rotate".into(), json!({}), "endpoint.rotate_secret"),
        ("POST", "/v1/endpoints/shop/pause".into(), json!({}), "endpoint.pause"),
        ("POST", "/v1/endpoints/shop/resume".into(), json!({}), "endpoint.resume"),
        ("PATCH", "/v1/endpoints/shop/circuit-breaker".into(), json!({ "action": "force_open" }), "endpoint.force_open_breaker"),
        ("PATCH", "/v1/endpoints/shop/circuit-breaker".into(), json!({ "action": "force_close" }), "endpoint.force_close_breaker"),
        ("PATCH", "/v1/endpoints/shop/circuit-breaker".into(), json!({ "action": "reset" }), "endpoint.reset_breaker"),
        ("POST", schedules.into(), json!({ "name": "mine", "intervals": [5] }), "retry_schedule.create"),
        ("POST", "/v1/organizations/default/retry-schedules".into(), json!({ "name": "other", "intervals": [5] }), "retry_schedule.create"),
        ("PUT", format!("{schedules}/mine"), json!({ "max_attempts": 3 }), "retry_schedule.update"),
        ("POST", format!("{schedules}/mine/assign"), json!({ "endpoint_ids": ["shop"] }), "endpoint.update"),
        ("DELETE", format!("{schedules}/mine?reassign=default"), json!({}), "retry_schedule.delete"),
        ("DELETE", "/v1/endpoints/shop".into(), json!({}), "endpoint.delete"),
        ("POST", "/v1/event-types".into(), json!({ "name": "order.paid" }), "event_type.create"),
        ("PUT", "/v1/event-types/order.paid".into(), json!({ "archived": true }), "event_type.update"),
        ("DELETE", "/v1/event-types/order.paid".into(), json!({}), "event_type.delete"),
        ("POST", "/v1/applications".into(), json!({ "name": "Shop", "uid": "app" }), "application.create"),
        ("PUT", "/v1/applications/app".into(), json!({ "name": "Store" }), "application.update"),
        ("PUT", "/v1/applications/app/manifest".into(), json!({ "capabilities": { "ask": { "path": "/" } } }), "application.put_manifest"),
        ("POST", "/v1/applications/app/secret/rotate".into(), json!({}), "application.rotate_secret"),
        ("PATCH", "/v1/applications/app/capabilities/ask/circuit-breaker".into(), json!({ "action": "force_open" }), "application.force_open_breaker"),
        ("PATCH", "/v1/applications/app/capabilities/ask/circuit-breaker".into(), json!({ "action": "reset" }), "application.reset_breaker"),
        ("POST", "/v1/sources".into(), json!({ "name": "in", "kind": "none" }), "source.create"),
        ("PUT", "/v1/sources/in".into(), json!({ "forward": false }), "source.update"),
        ("POST", "/v1/sources/in/pause".into(), json!({}), "source.pause"),
        ("POST", "/v1/sources/in/resume".into(), json!({}), "source.resume"),
        ("DELETE", "/v1/sources/in".into(), json!({}), "source.delete"),
        ("POST", "/v1/health/connections".into(), json!({ "provider": "garmin", "external_user_id": "u", "profile_id": "p" }), "health_connection.create"),
        ("DELETE", "/v1/health/profiles/p".into(), json!({}), "health_profile.erase"),
        ("POST", "/v1/api-keys".into(), json!({ "name": "ci", "scopes": ["read"] }), "api_key.create"),
        ("DELETE", format!("/v1/api-keys/{key}"), json!({}), "api_key.revoke"),
        ("POST", "/v1/dlq/discard-batch".into(), json!({ "filter": {} }), "operation.begin"),
        ("DELETE", format!("/v1/operations/{later}"), json!({}), "operation.cancel"),
        ("POST", "/v1/applications/app/erase".into(), json!({}), "operation.begin"),
        ("DELETE", format!("/v1/events/{event}/data"), json!({}), "event.erase"),
        ("PUT", "/v1/organizations/default".into(), json!({ "name": "Home" }), "organization.update"),
        ("DELETE", "/v1/applications/app".into(), json!({}), "application.delete"),
        ("DELETE", "/v1/organizations/doomed".into(), json!({}), "organization.delete"),
    ];
    for (method, path, body, action) in changes {
        let before = entries(&server, "?limit=1").await[0]["id"].clone();
        let answer = server.call(method.parse().unwrap(), &path, &server.admin, body.to_string()).await;
        assert!(answer.status.is_success(), "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        let newest = &entries(&server, "?limit=1").await[0];
        assert_ne!(newest["id"], before, "{method} {path} left no entry");
        assert_eq!(newest["action"], action, "{method} {path}");
        assert_eq!(newest["actor"]["name"], "first admin key");
        assert_eq!(newest["resource"], action.split_once('.').unwrap().0);
    }
    // Beside the newest, what one route did in two steps.
    for (action, times) in [("endpoint.reset_breaker", 2), ("retry_schedule.reassign", 1)] {
        assert_eq!(entries(&server, &format!("?action={action}")).await.len(), times, "{action}");
    }
    // A new organization's log begins with its making.
    let id = organization["id"].as_str().unwrap();
    let theirs = server.get_in(id, "/v1/audit-log").await.expect(200);
    assert_eq!((&theirs["data"][0]["action"], &theirs["data"][0]["resource_id"]), (&json!("organization.create"), &organization["id"]));
    server.stop().await;
}

#[tokio::test]
async fn a_change_that_changes_nothing_leaves_no_entry_and_no_new_time() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop", "metadata": { "a": 1 }, "retry_schedule": "standard" })).await;
    server.post("/v1/applications", json!({ "name": "Shop", "uid": "app" })).await.expect(201);
    server.post("/v1/event-types", json!({ "name": "order.paid", "example": { "n": 1 } })).await.expect(201);
    server.post("/v1/retry-schedules", json!({ "name": "mine", "intervals": [5] })).await.expect(201);
    let source = json!({ "name": "in", "kind": "hmac", "header": "X-Signature", "secrets": ["a-secret-of-a-source"] });
    server.post("/v1/sources", source).await.expect(201);
    let count = async || server.get("/v1/audit-log?limit=250").await.expect(200)["data"].as_array().unwrap().len();
    let before = count().await;
    for (path, same) in [
        ("/v1/endpoints/shop", r#"{ "metadata": {  "a" : 1 }, "enabled": true, "retry_schedule": "standard" }"#),
        ("/v1/applications/app", r#"{ "name": "Shop" }"#),
        ("/v1/event-types/order.paid", r#"{ "example": { "n" :1 } }"#),
        ("/v1/retry-schedules/mine", r#"{ "intervals": [5] }"#),
        ("/v1/sources/in", r#"{ "header": "X-Signature" }"#),
        ("/v1/organizations/default", "{}"),
    ] {
        let shown = server.get(path).await.expect(200);
        for body in [same, "{}"] {
            assert_eq!(server.call(Method::PUT, path, &server.admin, body.to_owned()).await.expect(200), shown, "{path} {body}");
        }
    }
    assert_eq!(count().await, before);
    server.stop().await;
}

#[tokio::test]
async fn a_refused_change_leaves_no_entry() {
    let server = Server::start().await;
    server.post("/v1/applications", json!({ "name": "Shop", "uid": "app" })).await.expect(201);
    let before = entries(&server, "").await.len();
    server.post("/v1/applications", json!({ "name": "Shop" })).await.problem(409);
    server.put("/v1/applications/app", json!({ "name": "" })).await.problem(422);
    server.delete("/v1/event-types/none").await.problem(404);
    assert_eq!(entries(&server, "").await.len(), before);
    server.stop().await;
}

#[tokio::test]
async fn an_entry_says_what_changed_and_no_secret() {
    let server = Server::start().await;
    let secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
    server.endpoint(json!({ "uid": "shop", "secret": secret, "headers": { "x-key": "hush" }, "name": "Shop" })).await;
    server.put("/v1/endpoints/shop", json!({ "name": "Store", "headers": { "x-key": "hush2" } })).await.expect(200);
    let rotated = server.post("/v1/endpoints/shop/secret/rotate", json!({})).await.expect(200);
    let key = server.key(&["read"]).await;
    let log = server.get("/v1/audit-log").await;
    let text = String::from_utf8_lossy(&log.body).into_owned();
    for hidden in [secret, "hush", rotated["secret"].as_str().unwrap(), &key, &server.admin] {
        assert!(!text.contains(hidden), "{hidden} is in the log");
    }
    let update = &entries(&server, "?action=endpoint.update").await[0];
    assert_eq!(update["before"], json!({ "name": "Shop", "headers": { "x-key": "***" } }));
    assert_eq!(update["after"], json!({ "name": "Store", "headers": { "x-key": "***" } }));
    assert_eq!((&update["cut"], &update["actor"]["kind"]), (&json!(false), &json!("api_key")));
    let rotation = &entries(&server, "?action=endpoint.rotate_secret").await[0];
    assert_eq!((&rotation["before"]["secret"], &rotation["after"]["secret"]), (&json!("***"), &json!("***")));
    assert!(rotation["after"]["previous_secret_expires_at"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn entries_are_narrowed_paged_and_nobody_elses() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({ "uid": "shop" })).await;
    server.post("/v1/endpoints/shop/pause", json!({})).await.expect(200);
    let id = endpoint["id"].as_str().unwrap();
    let actor = entries(&server, &format!("?resource_id={id}")).await[0]["actor"]["id"].as_str().unwrap().to_owned();
    #[rustfmt::skip]
    let table = [
        (format!("?resource_id={id}"), vec!["endpoint.pause", "endpoint.create"]),
        (format!("?actor={actor}"), vec!["endpoint.pause", "endpoint.create"]),
        ("?actor=server".into(), vec!["api_key.create", "organization.create"]),
        (format!("?action=endpoint.pause&actor={actor}"), vec!["endpoint.pause"]),
        ("?to=2020-01-01".into(), vec![]),
        ("?from=2020-01-01&limit=1".into(), vec!["endpoint.pause"]),
    ];
    for (query, expected) in table {
        let found: Vec<_> = entries(&server, &query).await.iter().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect();
        assert_eq!(found, expected, "{query}");
    }
    let first = server.get("/v1/audit-log?limit=3").await.expect(200);
    let second = server.get(&format!("/v1/audit-log?limit=3&cursor={}", first["next_cursor"].as_str().unwrap())).await.expect(200);
    let back = server.get(&format!("/v1/audit-log?limit=3&cursor={}", second["prev_cursor"].as_str().unwrap())).await.expect(200);
    assert_eq!(back["data"], first["data"]);
    assert_eq!(second["next_cursor"], Value::Null);
    let query = "/v1/audit-log?actor=me&action=dance&resource_id=x&from=soon&to=late&limit=0";
    assert_eq!(server.get(query).await.faults(400), ["limit", "actor", "action", "resource_id", "from", "to"]);
    let stranger = server.stranger(&["read"]).await;
    let theirs = server.call(Method::GET, "/v1/audit-log", &stranger, "").await.expect(200);
    assert!(theirs["data"].as_array().unwrap().iter().all(|entry| entry["resource"] != "endpoint"));
    server.stop().await;
}
