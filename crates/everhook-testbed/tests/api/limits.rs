//! How much an organization may have.

use http::Method;
use serde_json::{Value, json};

use crate::api::client::{Server, is_on_postgres};

#[tokio::test]
async fn limits_are_set_changed_and_lifted_one_by_one() {
    let server = Server::start().await;
    let none = json!({
        "deliveries_per_minute": null, "events_per_minute": null, "concurrency": null, "endpoints": null, "applications": null,
        "manual_retries_per_minute": null,
    });
    assert_eq!(server.get("/v1/organizations/default").await.expect(200)["limits"], none);
    let change = |limits: Value| server.put("/v1/organizations/default", json!({ "limits": limits }));
    let limits = change(json!({ "endpoints": 5, "events_per_minute": 1000 })).await.expect(200)["limits"].clone();
    assert_eq!((&limits["endpoints"], &limits["events_per_minute"]), (&json!(5), &json!(1000)));
    let limits = change(json!({ "endpoints": null, "concurrency": 10 })).await.expect(200)["limits"].clone();
    assert_eq!((&limits["endpoints"], &limits["events_per_minute"], &limits["concurrency"]), (&Value::Null, &json!(1000), &json!(10)));
    assert_eq!(server.get("/v1/organizations/default").await.expect(200)["limits"], limits);
    assert_eq!(change(Value::Null).await.expect(200)["limits"], none);
    let bad = json!({
        "deliveries_per_minute": 0, "events_per_minute": -1, "concurrency": 0, "endpoints": -1, "applications": 1_000_001,
        "manual_retries_per_minute": 0,
    });
    assert_eq!(change(bad).await.faults(422).len(), 6);
    change(json!({ "secrets": 1 })).await.problem(400);
    change(json!([1])).await.problem(400);
    server.stop().await;
}

#[tokio::test]
async fn no_more_endpoints_and_applications_are_made_than_the_limits_allow() {
    let server = Server::start().await;
    server.put("/v1/organizations/default", json!({ "limits": { "endpoints": 2, "applications": 1 } })).await.expect(200);
    server.endpoint(json!({ "uid": "a" })).await;
    server.endpoint(json!({ "uid": "b" })).await;
    let another = json!({ "url": "http://127.0.0.1:9", "event_types": ["*"] });
    let refused = server.post("/v1/endpoints", another.clone()).await.problem(409);
    assert_eq!(refused["detail"], "the organization has reached its limit of endpoints");
    // What is there can be changed, and a deleted one makes room.
    server.put("/v1/endpoints/a", json!({ "name": "A" })).await.expect(200);
    server.delete("/v1/endpoints/a").await.expect(204);
    server.post("/v1/endpoints", another.clone()).await.expect(201);
    // The built-in applications do not count.
    server.post("/v1/applications", json!({ "name": "one" })).await.expect(201);
    server.post("/v1/applications", json!({ "name": "two" })).await.problem(409);
    server.put("/v1/organizations/default", json!({ "limits": { "applications": null } })).await.expect(200);
    server.post("/v1/applications", json!({ "name": "two" })).await.expect(201);
    // Another organization has limits of its own.
    let stranger = server.stranger(&["manage"]).await;
    server.call(http::Method::POST, "/v1/endpoints", &stranger, another.to_string()).await.expect(201);
    server.stop().await;
}

#[tokio::test]
async fn an_organization_that_publishes_more_than_it_may_is_told_when_to_try_again() {
    let server = Server::start().await;
    server.put("/v1/organizations/default", json!({ "limits": { "events_per_minute": 2 } })).await.expect(200);
    let event = json!({ "type": "order.paid", "data": 1 });
    server.post("/v1/events", event.clone()).await.expect(202);
    let mut refused = server.post("/v1/events", event.clone()).await;
    if is_on_postgres() && refused.status == 202 {
        // The counters that nodes share took too long to answer, and the node went by its own once.
        refused = server.post("/v1/events", event.clone()).await;
    }
    let retry_after: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((29..=31).contains(&retry_after) || is_on_postgres() && (1..=60).contains(&retry_after), "{retry_after}");
    refused.problem(429);
    // In a batch each is told alone.
    let batch = server.post("/v1/events/batch", json!({ "events": [event.clone(), event.clone()] })).await.expect(202);
    assert_eq!(batch["data"][1]["error"]["status"], 429);
    server.put("/v1/organizations/default", json!({ "limits": null })).await.expect(200);
    server.post("/v1/events", event).await.expect(202);
    server.stop().await;
}

#[tokio::test]
async fn a_worker_pool_has_a_name_and_the_embedded_store_has_one_pool() {
    let server = Server::start().await;
    assert_eq!(server.get("/v1/organizations/default").await.expect(200)["worker_pool"], "default");
    let change = |pool: Value| server.put("/v1/organizations/default", json!({ "worker_pool": pool }));
    let table = [
        ("heavy", "other worker pools require PostgreSQL"),
        ("", "must be 1 to 32 of the characters"),
        ("Heavy", "must be 1 to 32 of the characters"),
        ("a b", "must be 1 to 32 of the characters"),
    ];
    // One that nodes share has as many as there are names.
    let table = table.iter().filter(|(pool, _)| !(is_on_postgres() && *pool == "heavy"));
    for (pool, because) in table {
        let refused = change(json!(pool)).await;
        assert_eq!(refused.faults(422), ["worker_pool"], "{pool}");
        assert!(refused.problem(422)["errors"][0].to_string().contains(*because), "{pool}");
    }
    let new = json!({ "name": "Acme", "worker_pool": "heavy" });
    let made = server.post("/v1/organizations", new).await;
    if is_on_postgres() {
        assert_eq!(made.expect(201)["worker_pool"], "heavy");
    } else {
        assert_eq!(made.faults(422), ["worker_pool"]);
    }
    change(json!(7)).await.problem(400);
    for fine in [json!("default"), Value::Null] {
        assert_eq!(change(fine).await.expect(200)["worker_pool"], "default");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_organization_changes_its_configuration_at_a_rate_and_admins_are_not_held() {
    let server = Server::start().await;
    let owner = server.key(&["manage"]).await;
    let nothing = "/v1/api-keys/01920000-0000-7000-8000-000000000000";
    let mut changes = 0;
    let refused = loop {
        let answer = server.call(Method::DELETE, nothing, &owner, "").await;
        if answer.status.as_u16() == 429 {
            break answer;
        }
        answer.problem(404);
        changes += 1;
        assert!(changes < 10_000, "nothing was refused");
    };
    assert!(changes >= 1_000, "{changes} at once");
    assert_eq!(refused.headers["retry-after"], "1");
    assert!(refused.problem(429)["detail"].as_str().unwrap().contains("50 times per second"));
    // An import is as many changes as it has things, in tens.
    let endpoints: Vec<_> = (0..500).map(|n| json!({ "url": format!("http://127.0.0.1:9/{n}"), "event_types": ["*"] })).collect();
    let document = json!({ "version": 1, "dry_run": true, "endpoints": endpoints });
    let applications = server.get("/v1/applications").await.expect(200);
    let path = format!("/v1/applications/{}/import", applications["data"][0]["id"].as_str().unwrap());
    server.call(Method::POST, &path, &owner, document.to_string()).await.problem(429);
    // Reading, publishing, and the operator are not held up.
    server.call(Method::GET, "/v1/endpoints", &owner, "").await.expect(200);
    server.call(Method::POST, "/v1/events", &owner, json!({ "type": "t", "data": 1 }).to_string()).await.expect(202);
    server.delete(nothing).await.problem(404);
    server.post(&path, document).await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn test_events_count_against_the_limits_of_the_organization_whatever_the_application() {
    let server = Server::start().await;
    server.put("/v1/organizations/default", json!({ "limits": { "events_per_minute": 2 } })).await.expect(200);
    let all = server.get("/v1/applications").await.expect(200);
    let operational = all["data"].as_array().unwrap().iter().find(|row| row["kind"] == "operational").unwrap();
    server.endpoint(json!({ "uid": "alerts", "application_id": operational["id"] })).await;
    let test = || server.post("/v1/endpoints/alerts/test", json!({}));
    test().await.expect(202);
    let mut refused = test().await;
    if is_on_postgres() && refused.status == 202 {
        refused = test().await;
    }
    assert!(refused.headers.contains_key("retry-after"));
    refused.problem(429);
    server.stop().await;
}

#[tokio::test]
async fn an_organization_sends_sixty_test_events_a_minute() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop" })).await;
    for _ in 0..60 {
        server.post("/v1/endpoints/shop/test", json!({})).await.expect(202);
    }
    // One more comes back each second: on a slow machine some did meanwhile.
    let mut refused = server.post("/v1/endpoints/shop/test", json!({})).await;
    for _ in 0..60 {
        if refused.status == 429 {
            break;
        }
        refused = server.post("/v1/endpoints/shop/test", json!({})).await;
    }
    assert!(refused.headers.contains_key("retry-after"));
    let problem = refused.problem(429);
    assert!(problem["detail"].as_str().unwrap().contains("per minute"), "{problem}");
    server.stop().await;
}
