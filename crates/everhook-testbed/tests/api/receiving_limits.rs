//! What strangers and careless owners cannot do with a source: send more than their share at once, or have its secret shown with its events.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;

use super::{
    client::{Answer, Server},
    retries::wait_until,
};

const SECRET: &str = "a-secret-that-nobody-may-see";

async fn push(server: &Server, path: &str, body: String) -> Answer {
    let request = Request::post(path).header("host", "hooks.example.com").header("content-type", "application/json");
    server.send(request.body(Full::new(Bytes::from(body))).unwrap()).await
}

#[tokio::test]
async fn items_of_a_source_that_verifies_nothing_count_against_its_address_limit() {
    let server = Server::start().await;
    let recipe = json!({ "each": "/*", "body": "json" });
    let source = json!({ "name": "open", "kind": "custom", "recipe": recipe, "rate_limit": { "per_ip_per_minute": 20 } });
    server.post("/v1/sources", source).await.expect(201);
    let batch = |items: usize| format!("[{}]", vec!["{\"a\":1}"; items].join(","));
    // A request and ten hundreds of items are eleven of twenty.
    push(&server, "/in/open", batch(1_000)).await.expect(200);
    let refused = push(&server, "/in/open", batch(1_000)).await.problem(429);
    assert_eq!(refused["type"], "/docs/problems/source-rate-limit");
    push(&server, "/in/open", batch(50)).await.expect(200);
    // Written once a second.
    wait_until(async || server.get("/v1/sources/open").await.expect(200)["last_refusal"] == "too_many_from_address").await;
    server.stop().await;
}

#[tokio::test]
async fn a_header_that_carries_the_secret_is_neither_kept_nor_forwarded() {
    let server = Server::start().await;
    let source = |fields: serde_json::Value| {
        let mut source = json!({ "name": "partner", "kind": "custom", "recipe": { "token": "X-Partner-Token" }, "secrets": [SECRET] });
        source.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        source
    };
    for field in ["keep_headers", "forward_headers"] {
        let refused = server.post("/v1/sources", source(json!({ field: ["X-Other", "x-partner-TOKEN"] }))).await.problem(422);
        assert!(refused.to_string().contains("carries the secret"), "{refused}");
    }
    server.post("/v1/sources", source(json!({ "keep_headers": ["X-Other"] }))).await.expect(201);
    // Nor once it is there.
    server.put("/v1/sources/partner", json!({ "forward_headers": ["X-Partner-Token"] })).await.problem(422);
    server.stop().await;
}

#[tokio::test]
async fn a_batch_of_a_thousand_is_answered_when_all_of_it_is_stored() {
    let server = Server::start().await;
    let recipe = json!({ "each": "/*", "body": "json", "id": "/id" });
    server.post("/v1/sources", json!({ "name": "open", "kind": "custom", "recipe": recipe })).await.expect(201);
    let items: Vec<String> = (0..1_000).map(|number| format!("{{\"id\":\"{number}\"}}")).collect();
    push(&server, "/in/open", format!("[{}]", items.join(","))).await.expect(200);
    let (mut seen, mut cursor) = (0, String::new());
    loop {
        let page = server.get(&format!("/v1/sources/open/events?limit=250{cursor}")).await.expect(200);
        seen += page["data"].as_array().unwrap().len();
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, 1_000);
    server.stop().await;
}
