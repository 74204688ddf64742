//! API keys: what they may do, until when, and when they were last used.

use http::Method;
use serde_json::{Value, json};

use crate::api::client::Server;

#[tokio::test]
async fn a_key_is_shown_once_and_its_record_says_scopes_expiry_and_last_use() {
    let server = Server::start().await;
    let asked = json!({ "name": "ci", "scopes": ["read"], "expires_at": "2100-01-01T00:00:00Z" });
    let made = server.post("/v1/api-keys", asked).await.expect(201);
    let (path, text) = (format!("/v1/api-keys/{}", made["id"].as_str().unwrap()), made["key"].as_str().unwrap());
    let unused = server.get(&path).await.expect(200);
    assert_eq!((&unused["last_used_at"], &unused["key"]), (&Value::Null, &Value::Null));
    assert_eq!((unused["prefix"].as_str().unwrap(), &unused["application_id"]), (&text[..7], &Value::Null));
    assert_eq!((&unused["scopes"], &unused["expires_at"]), (&json!(["read"]), &json!("2100-01-01T00:00:00Z")));
    server.call(Method::GET, "/v1/endpoints", text, "").await.expect(200);
    let used = server.get(&path).await.expect(200);
    assert!(used["last_used_at"].is_string());
    let listed = server.get("/v1/api-keys?limit=1").await.expect(200);
    assert_eq!(listed["data"][0], used);
    server.delete(&path).await.expect(204);
    server.call(Method::GET, "/v1/endpoints", text, "").await.problem(401);
    server.get(&path).await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn a_key_is_limited_to_an_application_of_its_organization_and_no_admin_key_is() {
    let server = Server::start().await;
    let application = server.post("/v1/applications", json!({ "name": "Shop", "uid": "shop" })).await.expect(201);
    for (scopes, named, status) in
        [(["publish"], "shop", 201), (["publish"], "nobody", 422), (["publish"], "no name", 422), (["admin"], "shop", 422)]
    {
        let made = server.post("/v1/api-keys", json!({ "name": "k", "scopes": scopes, "application_id": named })).await;
        let made = made.expect(status);
        match status {
            201 => assert_eq!(made["application_id"], application["id"]),
            _ => assert_eq!(made["errors"][0]["field"], "application_id"),
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_last_use_is_written_when_the_server_stops() {
    let server = Server::start().await;
    let organization = server.get("/v1/organizations/default").await.expect(200)["id"].as_str().unwrap().parse().unwrap();
    let api_keys = server.line().ports.api_keys.clone();
    let _left_behind = server.stop().await;
    let page = everhook_core::model::PageRequest { limit: 1, cursor: Default::default() };
    let keys = api_keys.api_keys(organization, page).await.unwrap();
    assert!(keys.rows[0].last_used_at.is_some());
}

#[tokio::test]
async fn an_expired_key_is_refused_and_no_key_grants_more_than_it_has() {
    let server = Server::start().await;
    let manager = server.key(&["manage"]).await;
    let grant = async |scopes: Value| {
        server.call(Method::POST, "/v1/api-keys", &manager, json!({ "name": "k", "scopes": scopes }).to_string()).await
    };
    for (scopes, status) in
        [(json!(["publish", "read"]), 201), (json!(["manage"]), 201), (json!(["admin"]), 422), (json!(["read", "admin"]), 422)]
    {
        grant(scopes).await.expect(status);
    }
    let soon = (server.line().ports.clock.now() + std::time::Duration::from_millis(300)).to_string();
    let made = server.post("/v1/api-keys", json!({ "name": "k", "scopes": ["read"], "expires_at": soon })).await.expect(201);
    let key = made["key"].as_str().unwrap();
    server.call(Method::GET, "/v1/endpoints", key, "").await.expect(200);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let problem = server.call(Method::GET, "/v1/endpoints", key, "").await.problem(401);
    assert_eq!(problem["type"], "/docs/problems/api-key-expired");
    server.stop().await;
}
