//! The OpenAPI document, as a list of what there is: a change of the API shows here.

use std::fmt::Write as _;

use crate::api::client::Server;

#[tokio::test]
async fn the_document_lists_every_route_with_its_scope_and_statuses() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await.expect(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
    let mut lines = String::new();
    let mut operations = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scope = operation["security"][0]["api_key"][0].as_str().unwrap_or("-");
            let statuses: Vec<&str> = operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
            writeln!(lines, "{:6} {path} [{scope}] {}", method.to_uppercase(), statuses.join(" ")).unwrap();
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(operations.insert(id.clone()), "the operation id {id} is used twice");
        }
    }
    insta::assert_snapshot!(lines);
    server.stop().await;
}

#[tokio::test]
async fn the_documentation_page_is_served_without_a_key() {
    let server = Server::start().await;
    let answer = server.call(http::Method::GET, "/docs/", "none", "").await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.call(http::Method::GET, path, "none", "").await.expect(200)["status"], "ok");
    }
    server.stop().await;
}

#[tokio::test]
async fn every_list_is_named_as_one() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await.expect(200);
    let mut lists = 0;
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        if schema["properties"]["data"]["type"] == "array" {
            assert!(name.ends_with("List"), "{name} has an array `data` and is not called `…List`");
            lists += 1;
        }
    }
    assert!(lists > 10, "only {lists} lists");
    server.stop().await;
}
