//! Every route × no key, a key without the scope, and a stranger's key.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::json;

use crate::client::Server;

/// Every route that needs a key: method, path, scope. Those of endpoints are also served under two more names, those of dead letters under one.
#[rustfmt::skip]
const ROUTES: &[(&str, &str, &str)] = &[
    ("POST", "/v1/events", "publish"),
    ("POST", "/v1/events/batch", "publish"),
    ("GET", "/v1/events", "read"),
    ("GET", "/v1/events/{id}", "read"),
    ("GET", "/v1/events/{id}/deliveries", "read"),
    ("POST", "/v1/events/{id}/retry", "manage"),
    ("POST", "/v1/messages/{id}/retry", "manage"),
    ("GET", "/v1/deliveries", "read"),
    ("GET", "/v1/deliveries/{id}", "read"),
    ("POST", "/v1/deliveries/{id}/retry", "manage"),
    ("GET", "/v1/dlq", "read"),
    ("GET", "/v1/dlq/{id}", "read"),
    ("POST", "/v1/dlq/{id}/retry", "manage"),
    ("POST", "/api/v1/admin/dlq/{id}/retry", "manage"),
    ("DELETE", "/v1/dlq/{id}", "manage"),
    ("POST", "/v1/dlq/retry-batch", "manage"),
    ("POST", "/v1/dlq/discard-batch", "manage"),
    ("GET", "/v1/dlq/batch-operations/{id}", "read"),
    ("DELETE", "/v1/dlq/batch-operations/{id}", "manage"),
    ("GET", "/v1/operations", "read"),
    ("GET", "/v1/operations/{id}", "read"),
    ("DELETE", "/v1/operations/{id}", "manage"),
    ("POST", "/v1/endpoints", "manage"),
    ("GET", "/v1/endpoints", "read"),
    ("GET", "/v1/endpoints/{id}", "read"),
    ("PUT", "/v1/endpoints/{id}", "manage"),
    ("GET", "/v1/endpoints/{id}/deliveries", "read"),
    ("POST", "/v1/endpoints/{id}/deliveries/retry-batch", "manage"),
    ("POST", "/v1/endpoints/{id}/deliveries/{delivery_id}/retry", "manage"),
    ("GET", "/v1/endpoints/{id}/secret", "manage"),
    ("POST", "/v1/endpoints/{id}/secret/rotate", "manage"),
    ("POST", "/v1/endpoints/{id}/test", "manage"),
    ("POST", "/v1/endpoints/{id}/pause", "manage"),
    ("POST", "/v1/endpoints/{id}/resume", "manage"),
    ("PATCH", "/v1/endpoints/{id}/circuit-breaker", "manage"),
    ("GET", "/v1/endpoints/{id}/health", "read"),
    ("GET", "/v1/endpoints/{id}/stats", "read"),
    ("DELETE", "/v1/endpoints/{id}", "manage"),
    ("GET", "/v1/retry-schedules", "read"),
    ("POST", "/v1/retry-schedules", "manage"),
    ("GET", "/v1/retry-schedules/{id}", "read"),
    ("PUT", "/v1/retry-schedules/{id}", "manage"),
    ("POST", "/v1/retry-schedules/{id}/assign", "manage"),
    ("DELETE", "/v1/retry-schedules/{id}", "manage"),
    ("GET", "/v1/organizations/{id}/retry-schedules", "read"),
    ("POST", "/v1/organizations/{id}/retry-schedules", "manage"),
    ("POST", "/v1/event-types", "manage"),
    ("GET", "/v1/event-types", "read"),
    ("GET", "/v1/event-types/{id}", "read"),
    ("PUT", "/v1/event-types/{id}", "manage"),
    ("DELETE", "/v1/event-types/{id}", "manage"),
    ("POST", "/v1/applications", "manage"),
    ("GET", "/v1/applications", "read"),
    ("GET", "/v1/applications/{id}", "read"),
    ("PUT", "/v1/applications/{id}", "manage"),
    ("POST", "/v1/applications/{id}/recover", "manage"),
    ("POST", "/v1/applications/{id}/replay", "manage"),
    ("GET", "/v1/applications/{id}/export", "read"),
    ("POST", "/v1/applications/{id}/import", "manage"),
    ("POST", "/v1/api-keys", "manage"),
    ("GET", "/v1/api-keys", "read"),
    ("GET", "/v1/api-keys/{id}", "read"),
    ("DELETE", "/v1/api-keys/{id}", "manage"),
    ("GET", "/v1/audit-log", "read"),
    ("POST", "/v1/organizations", "admin"),
    ("GET", "/v1/organizations", "admin"),
    ("GET", "/v1/organizations/{id}", "admin"),
    ("PUT", "/v1/organizations/{id}", "admin"),
];

/// The routes under all their names.
fn routes() -> Vec<(Method, String, &'static str)> {
    let mut all = Vec::new();
    for (method, path, scope) in ROUTES {
        let names: &[&str] = match path.split('/').nth(2) {
            Some("endpoints") => &["endpoints", "webhooks", "subscriptions"],
            Some("dlq") => &["dlq", "dead-letters"],
            other => &[other.unwrap()],
        };
        let first = names[0];
        all.extend(names.iter().map(|name| (method.parse().unwrap(), path.replacen(first, name, 1), *scope)));
    }
    all
}

/// A body that a route can read: what is not there is told apart from what cannot be read.
fn body_of(path: &str) -> &'static str {
    if path.ends_with("/assign") { r#"{"endpoint_ids":[]}"# } else { "{}" }
}

#[tokio::test]
async fn the_table_of_routes_is_the_documents() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await.expect(200);
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if let Some(scope) = operation["security"][0]["api_key"][0].as_str() {
                documented.insert((method.to_uppercase(), path.clone(), scope.to_owned()));
            }
        }
    }
    let table: BTreeSet<_> = routes().into_iter().map(|(method, path, scope)| (method.to_string(), path, scope.to_owned())).collect();
    assert_eq!(table, documented);
    server.stop().await;
}

#[tokio::test]
async fn no_route_answers_without_a_good_key() {
    let server = Server::start().await;
    let unknown = format!("eh_{}", "a".repeat(43));
    for (method, path, _) in routes() {
        let bare = Request::builder().method(method.clone()).uri(&path).header("host", "test").body(Full::<Bytes>::default()).unwrap();
        let answer = server.send(bare).await;
        answer.problem(401);
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        server.call(method, &path, &unknown, "{}").await.problem(401);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_key_does_what_its_scope_allows_and_no_more() {
    let server = Server::start().await;
    let allowed_by = |scope: &str| match scope {
        "publish" => ["publish", "manage", "admin"].as_slice(),
        "read" => ["read", "manage", "admin"].as_slice(),
        "manage" => ["manage", "admin"].as_slice(),
        _ => ["admin"].as_slice(),
    };
    for held in ["publish", "read", "manage", "admin"] {
        let key = server.key(&[held]).await;
        for (method, path, needed) in routes() {
            let answer = server.call(method.clone(), &path, &key, "{}").await;
            if allowed_by(needed).contains(&held) {
                assert!(answer.status != 403 && answer.status != 401, "{held} {method} {path}: {}", answer.status);
            } else {
                answer.problem(403);
            }
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn everything_of_an_organization_is_not_found_by_another() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({ "uid": "mine" })).await;
    let event = server.post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202);
    let application = server.post("/v1/applications", json!({ "name": "mine", "uid": "mine" })).await.expect(201);
    let event_type = server.post("/v1/event-types", json!({ "name": "mine" })).await.expect(201);
    let schedule = server.post("/v1/retry-schedules", json!({ "name": "mine", "intervals": [5] })).await.expect(201);
    let delivery = server.get("/v1/deliveries").await.expect(200)["data"][0]["id"].as_str().unwrap().to_owned();
    let key_id = server.get("/v1/api-keys").await.expect(200)["data"][0]["id"].as_str().unwrap().to_owned();
    let begun = server.post("/v1/dlq/retry-batch", json!({ "filter": {}, "start_at": "2100-01-01" })).await.expect(202);
    let operation = begun["operation_id"].as_str().unwrap().to_owned();
    let stranger = server.stranger(&["manage"]).await;
    for (method, path, scope) in routes() {
        if !path.contains("{id}") || scope == "admin" {
            continue;
        }
        let ids = match path.split('/').nth(2).unwrap() {
            "events" | "messages" => vec![event["id"].as_str().unwrap()],
            "deliveries" | "dlq" | "dead-letters" | "v1" => vec![delivery.as_str()],
            "operations" => vec![operation.as_str()],
            "applications" => vec![application["id"].as_str().unwrap(), "mine"],
            "retry-schedules" => vec![schedule["id"].as_str().unwrap(), "mine"],
            "organizations" => vec!["default"],
            "event-types" => vec![event_type["id"].as_str().unwrap(), "mine"],
            "api-keys" => vec![key_id.as_str()],
            _ => vec![endpoint["id"].as_str().unwrap(), "mine"],
        };
        for id in ids {
            let path = path.replace("{id}", id).replace("{delivery_id}", &delivery);
            let answer = server.call(method.clone(), &path, &stranger, body_of(&path)).await;
            assert_eq!(answer.status, 404, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        }
    }
    for list in ["/v1/events", "/v1/deliveries", "/v1/endpoints", "/v1/dlq", "/v1/operations"] {
        assert_eq!(server.call(Method::GET, list, &stranger, "").await.expect(200)["data"], json!([]), "{list}");
    }
    let elsewhere = json!({ "type": "t", "data": 1, "application_id": application["id"] }).to_string();
    assert_eq!(server.call(Method::POST, "/v1/events", &stranger, elsewhere).await.faults(422), ["application_id"]);
    server.get("/v1/endpoints/mine").await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn an_admin_acts_where_the_header_says_and_others_only_at_home() {
    let server = Server::start().await;
    let organization = server.post("/v1/organizations", json!({ "name": "Acme", "uid": "acme" })).await.expect(201);
    let list = |key: String, named: String| {
        let request = Request::get("/v1/applications").header("host", "test").header("authorization", format!("Bearer {key}"));
        server.send(request.header("x-organization", named).body(Full::<Bytes>::default()).unwrap())
    };
    for name in ["acme", organization["id"].as_str().unwrap()] {
        let applications = list(server.admin.clone(), name.to_owned()).await.expect(200);
        let names: BTreeSet<_> = applications["data"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, BTreeSet::from(["default", "operational"]));
    }
    list(server.admin.clone(), "nobody".to_owned()).await.problem(404);
    let reader = server.key(&["read"]).await;
    list(reader.clone(), "default".to_owned()).await.expect(200);
    list(reader, "acme".to_owned()).await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn a_key_is_shown_once_and_refused_after_it_was_revoked() {
    let server = Server::start().await;
    let made =
        server.post("/v1/api-keys", json!({ "name": "ci", "scopes": ["read"], "expires_at": "2100-01-01T00:00:00Z" })).await.expect(201);
    let key = made["key"].as_str().unwrap();
    assert!(key.starts_with("eh_") && key.len() >= 35);
    let listed = server.get("/v1/api-keys").await;
    assert!(!String::from_utf8_lossy(&listed.body).contains(key));
    server.call(Method::GET, "/v1/events", key, "").await.expect(200);
    server.delete(&format!("/v1/api-keys/{}", made["id"].as_str().unwrap())).await.expect(204);
    server.call(Method::GET, "/v1/events", key, "").await.problem(401);
    let manager = server.key(&["manage"]).await;
    let grab = json!({ "name": "more", "scopes": ["admin"] }).to_string();
    assert_eq!(server.call(Method::POST, "/v1/api-keys", &manager, grab).await.faults(422), ["scopes"]);
    server.stop().await;
}

#[tokio::test]
async fn an_admin_key_is_revoked_by_an_admin_only() {
    let server = Server::start().await;
    let made = |scope: &'static str| server.post("/v1/api-keys", json!({ "name": scope, "scopes": [scope] }));
    let (admin, reader) = (made("admin").await.expect(201), made("read").await.expect(201));
    let path = |key: &serde_json::Value| format!("/v1/api-keys/{}", key["id"].as_str().unwrap());
    let manager = server.key(&["manage"]).await;
    let problem = server.call(Method::DELETE, &path(&admin), &manager, "").await.problem(403);
    assert!(problem["detail"].as_str().unwrap().contains("by an admin key only"), "{problem}");
    server.call(Method::GET, "/v1/organizations", admin["key"].as_str().unwrap(), "").await.expect(200);
    server.call(Method::DELETE, &path(&reader), &manager, "").await.expect(204);
    server.delete(&path(&admin)).await.expect(204);
    server.call(Method::GET, "/v1/organizations", admin["key"].as_str().unwrap(), "").await.problem(401);
    server.stop().await;
}

#[tokio::test]
async fn the_values_of_custom_headers_are_shown_to_those_who_may_manage() {
    let server = Server::start().await;
    let headers = json!({ "Authorization": "Bearer of the receiver", "X-Team": "a" });
    let made = server.endpoint(json!({ "uid": "shop", "headers": headers })).await;
    assert_eq!(made["headers"], headers);
    let hidden = json!({ "Authorization": "***", "X-Team": "***" });
    for (scope, shown) in [("read", &hidden), ("manage", &headers), ("admin", &headers)] {
        let key = server.key(&[scope]).await;
        for name in ["endpoints", "webhooks", "subscriptions"] {
            let one = server.call(Method::GET, &format!("/v1/{name}/shop"), &key, "").await.expect(200);
            let list = server.call(Method::GET, &format!("/v1/{name}"), &key, "").await.expect(200);
            assert_eq!((&one["headers"], &list["data"][0]["headers"]), (shown, shown), "{scope} {name}");
        }
    }
    server.stop().await;
}
