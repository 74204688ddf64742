//! Manifests over HTTP: put, shown, refused with every fault; and what signs.

use serde_json::{Value, json};

use super::{Given, app::App, ok};
use crate::api::client::Server;

const PATH: &str = "/v1/applications/default/manifest";

#[tokio::test]
async fn a_manifest_is_kept_as_it_was_written_and_its_version_rises() {
    let server = Server::start().await;
    assert_eq!(server.get(PATH).await.problem(404)["status"], 404);
    let document =
        r#"{"webhooks": {"winnerSelection": {"path": "/api/platform/winner-selection", "timeout": 5000, "retry": {"enabled": false}}}}"#;
    let put = server.call(http::Method::PUT, PATH, &server.admin, document).await;
    assert_eq!(put.expect(200)["version"], 1);
    assert!(String::from_utf8_lossy(&server.get(PATH).await.body).contains(document), "byte for byte");
    assert_eq!(server.put(PATH, json!({ "capabilities": {} })).await.expect(200)["version"], 2);
    let log = server.get("/v1/audit-log?action=application.put_manifest").await.json();
    assert!(log["data"].as_array().is_none_or(|rows| rows.len() == 2), "{log}");
    server.stop().await;
}

#[tokio::test]
async fn a_call_without_a_base_url_says_so() {
    let server = Server::start().await;
    server.put(PATH, json!({ "capabilities": { "ask": { "path": "/ask" } } })).await.expect(200);
    let problem = server.post("/v1/applications/default/call/ask", json!({ "payload": 1 })).await.problem(409);
    assert_eq!(problem["type"], "/docs/problems/app-not-callable");
    server.stop().await;
}

#[tokio::test]
async fn what_a_manifest_leaves_open_can_be_set_on_the_application() {
    let given = Given::new(App::answering(ok()).await, json!({})).await;
    let (server, app) = (&given.server, &given.app);
    server.put(PATH, json!({ "capabilities": { "ask": { "path": "/ask" } } })).await.expect(200);
    let application = json!({ "owner_email": "shop@example.com", "base_url": app.url(), "health_path": null });
    let changed = server.put("/v1/applications/default", application.clone()).await.expect(200);
    for field in ["owner_email", "base_url", "health_path"] {
        assert_eq!(changed[field], application[field], "{field}");
    }
    let answer = server.post("/v1/applications/default/call/ask", json!({ "payload": 1 })).await.expect(200);
    assert_eq!(answer["source"], "app");
    let channels = server.get("/v1/channels").await.expect(200);
    assert_eq!(channels["data"][0]["name"], "shop@example.com");
    // Without it, nothing can be called again.
    server.put("/v1/applications/default", json!({ "base_url": null })).await.expect(200);
    server.post("/v1/applications/default/call/ask", json!({ "payload": 1 })).await.problem(409);
    let bad = json!({ "owner_email": "nobody", "base_url": "http://127.0.0.1/?a=1", "health_path": "health" });
    assert_eq!(server.put("/v1/applications/default", bad).await.faults(422), ["owner_email", "base_url", "health_path"]);
    let log = server.get("/v1/audit-log?action=application.update&limit=1").await.expect(200);
    assert!(log.to_string().contains("base_url"), "{log}");
    given.server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_is_named_and_nothing_is_changed() {
    let server = Server::start().await;
    let of = |fields: Value| json!({ "base_url": "https://app.example", "capabilities": { "one": fields } });
    let cases = [
        (json!({}), vec!["capabilities"]),
        (json!({ "base_url": "https://user:pw@app.example", "capabilities": {} }), vec!["base_url"]),
        (of(json!({ "path": "/a", "async": true, "timeout": 1, "hedge": {} })), vec!["capabilities.one.timeout", "capabilities.one.hedge"]),
        (of(json!({ "path": "/a", "response_schema": { "type": 7 } })), vec!["capabilities.one.response_schema"]),
        (
            of(json!({ "path": "/a", "fallback": [{ "type": "manual", "expires_after": 1 }] })),
            vec!["capabilities.one.fallback[0].expires_after"],
        ),
    ];
    for (document, expected) in cases {
        assert_eq!(server.put(PATH, document.clone()).await.faults(422), expected, "{document}");
    }
    let many: serde_json::Map<String, Value> = (0..101).map(|n| (format!("c{n}"), json!({ "path": "/" }))).collect();
    assert_eq!(server.put(PATH, json!({ "capabilities": many })).await.faults(422), ["capabilities"]);
    server.put(PATH, json!({ "capabilities": { "a": { "path": "/", "x": "y".repeat(300_000) } } })).await.problem(413);
    server.put(PATH, json!([])).await.problem(400);
    assert_eq!(server.put("/v1/applications/operational/manifest", json!({ "capabilities": {} })).await.faults(422), ["manifest"]);
    server.get(PATH).await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn a_secret_is_rotated_with_a_grace_in_which_both_sign() {
    let given = Given::new(App::answering(ok()).await, json!({})).await;
    let path = given.path("secret");
    let old = given.server.get(&path).await.expect(200);
    assert!(old["secret"].as_str().unwrap().starts_with("whsec_") && old["previous"].is_null());
    given.call(json!({ "payload": 1 })).await.expect(200);
    let rotated = given.server.post(&format!("{path}/rotate"), json!({ "grace_seconds": 60 })).await.expect(200);
    assert_eq!(rotated["previous"]["secret"], old["secret"]);
    assert_ne!(rotated["secret"], old["secret"]);
    given.call(json!({ "payload": 1 })).await.expect(200);
    let seen = given.app.seen();
    assert_eq!(seen[1].header("x-platform-signature"), seen[0].header("x-platform-signature"), "still the old one's");
    assert!(seen[1].header("x-platform-signature-next").is_some_and(|next| Some(next) != seen[0].header("x-platform-signature")));
    given.server.post(&format!("{path}/rotate"), json!({})).await.problem(409);
    let reader = given.server.key(&["read"]).await;
    given.server.call(http::Method::GET, &path, &reader, "").await.problem(403);
    given.server.stop().await;
}
