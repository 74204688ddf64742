//! Deleting applications and organizations: what is seen of it, at once and a little later.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::api::client::Server;

/// Asks until the answer is as expected: what is left of something deleted goes in the background.
async fn until(server: &Server, path: &str, is_so: impl Fn(&Value) -> bool) {
    for _ in 0..500 {
        if is_so(&server.get(path).await.expect(200)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{path} did not come to that: {}", server.get(path).await.expect(200));
}

#[tokio::test]
async fn a_deleted_application_is_gone_at_once_and_its_endpoints_a_little_later() {
    let server = Server::start().await;
    let made = server.post("/v1/applications", json!({ "name": "Shop", "uid": "shop" })).await.expect(201);
    let hook = server.endpoint(json!({ "uid": "hook", "application_id": "shop" })).await;
    let event = json!({ "type": "t", "data": 1, "application_id": "shop" });
    let published = server.post("/v1/events", event.clone()).await.expect(202);
    let key = json!({ "name": "k", "scopes": ["manage"], "application_id": "shop" });
    let key = server.post("/v1/api-keys", key).await.expect(201);
    let text = key["key"].as_str().unwrap();
    server.call(Method::GET, "/v1/endpoints", text, "").await.expect(200);

    server.delete("/v1/applications/shop").await.expect(204);
    server.get("/v1/applications/shop").await.problem(404);
    server.get(&format!("/v1/applications/{}", made["id"].as_str().unwrap())).await.problem(404);
    server.delete("/v1/applications/shop").await.problem(404);
    assert_eq!(server.post("/v1/events", event).await.problem(422)["type"], "/docs/problems/unknown-application");
    let by_id = json!({ "type": "t", "data": 1, "application_id": made["id"] });
    assert_eq!(server.post("/v1/events", by_id).await.problem(422)["type"], "/docs/problems/unknown-application");
    server.call(Method::GET, "/v1/endpoints", text, "").await.problem(401);
    server.get(&format!("/v1/api-keys/{}", key["id"].as_str().unwrap())).await.problem(404);

    // Its endpoints go, what waits for them is cancelled, and what was is still shown.
    until(&server, "/v1/endpoints", |list| list["data"] == json!([])).await;
    let deliveries = format!("/v1/endpoints/{}/deliveries", hook["id"].as_str().unwrap());
    until(&server, &deliveries, |list| list["data"][0]["reason"] == "destination_deleted").await;
    server.get(&format!("/v1/events/{}", published["id"].as_str().unwrap())).await.expect(200);
    // The names are free, and what has them is another application.
    let again = server.post("/v1/applications", json!({ "name": "Shop", "uid": "shop" })).await.expect(201);
    assert_ne!(again["id"], made["id"]);
    server.endpoint(json!({ "uid": "hook", "application_id": "shop" })).await;
    server.stop().await;
}

#[tokio::test]
async fn built_in_applications_and_the_organization_default_are_not_deleted() {
    let server = Server::start().await;
    for path in ["/v1/applications/default", "/v1/applications/operational", "/v1/organizations/default"] {
        assert_eq!(server.delete(path).await.problem(409)["type"], "/docs/problems/built-in", "{path}");
    }
    server.post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202);
    server.stop().await;
}

#[tokio::test]
async fn a_deleted_organization_is_gone_at_once_with_its_keys_and_all_that_it_has() {
    let server = Server::start().await;
    server.post("/v1/organizations", json!({ "name": "Acme", "uid": "acme" })).await.expect(201);
    let post = async |path: &str, body: Value| server.post_in("acme", path, body).await.expect(201);
    let key = post("/v1/api-keys", json!({ "name": "k", "scopes": ["manage"] })).await["key"].as_str().unwrap().to_owned();
    post("/v1/endpoints", json!({ "url": "http://127.0.0.1:9/", "event_types": ["*"] })).await;
    post("/v1/event-types", json!({ "name": "t" })).await;
    let publish = async || server.call(Method::POST, "/v1/events", &key, json!({ "type": "t", "data": 1 }).to_string()).await;
    publish().await.expect(202);

    server.delete("/v1/organizations/acme").await.expect(204);
    publish().await.problem(401);
    server.get("/v1/organizations/acme").await.problem(404);
    server.get_in("acme", "/v1/endpoints").await.problem(404);
    server.delete("/v1/organizations/acme").await.problem(404);
    let listed = server.get("/v1/organizations").await.expect(200);
    assert!(listed["data"].as_array().unwrap().iter().all(|row| row["name"] != "Acme"));
    // Its uid is free; another of that uid has nothing of it.
    server.post("/v1/organizations", json!({ "name": "Acme", "uid": "acme" })).await.expect(201);
    for list in ["endpoints", "event-types", "events", "api-keys"] {
        assert_eq!(server.get_in("acme", &format!("/v1/{list}")).await.expect(200)["data"], json!([]), "{list}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_deletion_begins_an_operation_that_erases_the_data_and_cannot_be_cancelled() {
    let server = Server::start().await;
    let shop = server.post("/v1/applications", json!({ "name": "Shop", "uid": "shop" })).await.expect(201);
    let acme = server.post("/v1/organizations", json!({ "name": "Acme", "uid": "acme" })).await.expect(201);
    for (path, action, application) in
        [("/v1/applications/shop", "application.delete", &shop["id"]), ("/v1/organizations/acme", "organization.delete", &Value::Null)]
    {
        server.delete(path).await.expect(204);
        // It is the newest operation, that of the organization one of `default`,
        let operation = server.get("/v1/operations?limit=1").await.expect(200)["data"][0].clone();
        assert_eq!((&operation["kind"], &operation["status"]), (&json!("delete_data"), &json!("pending")), "{path}: {operation}");
        assert_eq!(&operation["application_id"], application, "{path}: {operation}");
        // and is named in the audit log.
        let entry = server.get("/v1/audit-log?limit=1").await.expect(200)["data"][0].clone();
        assert_eq!(entry["action"], action, "{entry}");
        assert!(entry.to_string().contains(operation["id"].as_str().unwrap()), "{path}: {entry}");
        let refused = server.delete(&format!("/v1/operations/{}", operation["id"].as_str().unwrap())).await.problem(409);
        assert_eq!(refused["type"], "/docs/problems/operation-required", "{path}");
    }
    server.get_in("acme", "/v1/operations").await.problem(404);
    assert!(acme["id"].is_string());
    server.stop().await;
}
