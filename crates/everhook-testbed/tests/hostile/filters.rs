//! Filters that take as much work as a tenant can make them take.

use http::Method;
use serde_json::{Value, json};

use crate::arena::Arena;

/// 100 conditions, none of which holds.
fn costly_filter() -> Value {
    json!({"any": (0..100).map(|n| json!({"data.list": {"contains": n + 2}})).collect::<Vec<_>>()})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_filters_hold_up_a_neighbor() {
    let arena = Arena::start([]).await;
    let mut endpoints = Vec::new();
    for _ in 0..100 {
        endpoints.push(arena.attacker.endpoint("http://127.0.0.1:9/", &["attack.filter"], json!({"filter": costly_filter()})).await);
    }
    let watch = arena.watch().await;
    // All elements are looked at, by each condition: 1.2 billion comparisons.
    let large = json!({"type": "attack.filter", "data": {"list": vec![1; 120_000]}}).to_string();
    let answers = futures_util::future::join_all((0..6).map(|_| {
        let (mut connection, body) = (arena.attacker.connect(), large.clone());
        async move { connection.send(Method::POST, "/v1/events", body).await.expect("an answer") }
    }))
    .await;
    for answer in answers {
        let problem: Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!((answer.status.as_u16(), problem["type"].as_str()), (422, Some("/docs/problems/filter-too-costly")), "{problem}");
        let detail = problem["detail"].as_str().expect("a text");
        assert!(endpoints.iter().any(|endpoint| detail.contains(endpoint.as_str())), "{detail}");
    }
    // What is within the bound is evaluated, on a thread of its own.
    let small = json!({"type": "attack.filter", "data": {"list": vec![1; 20]}}).to_string();
    let answer = arena.attacker.connect().send(Method::POST, "/v1/events", small).await.expect("an answer");
    let receipt: Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!((answer.status.as_u16(), &receipt["deliveries"]), (202, &json!(0)), "{receipt}");
    watch.end("filters").await;
}
