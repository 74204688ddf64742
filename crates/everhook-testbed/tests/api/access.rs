//! Whom a key speaks for, who may make and revoke one, and what it shows. Every route × every kind of key: `matrix`.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::json;

use crate::api::client::Server;

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
    assert!(problem["detail"].as_str().unwrap().contains("only an admin key"), "{problem}");
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
