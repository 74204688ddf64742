//! Statistics of calls: of a capability, its application and its organization, with what callers were answered with.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::{
    Given,
    app::{Answer, App},
    ok,
};

/// What was counted, once it says so: it is written once a second.
async fn counted(given: &Given, query: &str, total: u64) -> Value {
    let begun = Instant::now();
    loop {
        let stats = given.server.get(&format!("/v1/stats{query}")).await.expect(200);
        if stats["answers"]["total"] == total {
            return stats;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{stats}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn calls_are_counted_by_capability_application_and_organization_and_by_what_answered() {
    let fields = json!({ "timeout": 200, "cache": { "fresh": "1m" }, "fallback": [{ "type": "default", "static": 1 }] });
    let given = Given::new(App::answering(ok()).await, fields).await;
    given.server.post("/v1/applications", json!({ "name": "Other", "uid": "other" })).await.expect(201);
    for body in [json!({ "payload": 1 }), json!({ "payload": 1, "cache_key": "k" }), json!({ "payload": 1, "cache_key": "k" })] {
        given.call(body).await.expect(200);
    }
    given.app.answer(Answer::Hangs);
    given.call(json!({ "payload": 1 })).await.expect(200);
    given.app.answer(Answer::Body(500, String::new()));
    given.call(json!({ "payload": 1 })).await.expect(200);
    let of_capability = counted(&given, "?application_id=default&capability=ask&window=1h", 5).await;
    assert_eq!(
        of_capability["answers"],
        json!({ "total": 5, "app": 2, "cache": 1, "default": 2, "queued": 0, "pending": 0, "error": 0, "fallback": 2, "failed_open": 2, "late": 0, "shadow_same": 0, "shadow_different": 0 })
    );
    let numbers = ["total", "success", "failure", "timeout", "success_rate"].map(|name| of_capability[name].as_f64().unwrap());
    assert_eq!(numbers, [4.0, 2.0, 2.0, 1.0, 50.0], "what came from the cache is no request");
    assert!(of_capability["p99_ms"].as_f64().unwrap() > 100.0, "{of_capability}");
    assert_eq!(counted(&given, "?application_id=default", 5).await, of_capability);
    assert_eq!(counted(&given, "", 5).await, of_capability);
    assert_eq!(given.server.get(&given.path("capabilities/ask/stats")).await.expect(200), of_capability);
    let nothing = given.server.get("/v1/stats?application_id=other").await.expect(200);
    assert_eq!((&nothing["total"], nothing.get("answers")), (&json!(0), None));
    given.server.stop().await;
}

#[tokio::test]
async fn answers_without_the_app_and_answers_that_come_late_are_counted_apart() {
    let late = Answer::After(Duration::from_millis(450), Box::new(ok()));
    let fields = json!({ "timeout": 300, "fallback": [{ "type": "default", "static": 1 }, { "type": "error" }] });
    let given = Given::new(App::answering(late).await, fields).await;
    assert_eq!(given.call(json!({ "payload": 1 })).await.expect(200)["source"], "default");
    let begun = Instant::now();
    let answers = loop {
        let stats = given.server.get("/v1/stats?application_id=default&capability=ask&window=1h").await.expect(200);
        if stats["answers"]["late"] == 1 {
            break stats["answers"].clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{stats}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!((&answers["total"], &answers["default"], &answers["failed_open"]), (&json!(1), &json!(1), &json!(1)), "{answers}");
    let metrics = given.server.get("/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body);
    for sample in ["call_failed_open_total 1", "everhook_call_late_answers_total 1"] {
        assert!(metrics.lines().any(|line| line == sample), "{sample} is not in\n{metrics}");
    }
    // What fails closed is not counted.
    given.put(json!({ "timeout": 300 })).await;
    given.app.answer(Answer::Body(500, String::new()));
    given.call(json!({ "payload": 1 })).await.problem(502);
    assert_eq!(counted(&given, "?application_id=default&capability=ask", 2).await["answers"]["failed_open"], 1);
    given.server.stop().await;
}

#[tokio::test]
async fn statistics_are_of_one_thing_that_the_key_reaches() {
    let given = Given::new(App::answering(ok()).await, json!({})).await;
    given.call(json!({ "payload": 1 })).await.expect(200);
    counted(&given, "", 1).await;
    let server = &given.server;
    server.post("/v1/applications", json!({ "name": "Other", "uid": "other" })).await.expect(201);
    server.endpoint(json!({ "uid": "shop" })).await;
    assert_eq!(server.get("/v1/stats?endpoint_id=shop").await.expect(200)["total"], 0);
    server.get("/v1/stats?endpoint_id=none").await.problem(404);
    server.get("/v1/stats?application_id=none").await.problem(404);
    for (query, field) in [
        ("capability=ask", "application_id"),
        ("endpoint_id=shop&application_id=default", "endpoint_id"),
        ("endpoint_id=shop&capability=ask", "endpoint_id"),
        ("source=x&endpoint_id=shop", "endpoint_id"),
        ("source=x&application_id=default", "source"),
        ("event_type=a&retry_schedule_id=standard", "retry_schedule_id"),
        ("event_type=a&capability=ask", "event_type"),
        ("window=2h", "window"),
    ] {
        assert_eq!(server.get(&format!("/v1/stats?{query}")).await.faults(400), [field], "{query}");
    }
    server.get("/v1/stats?source=x").await.problem(404);
    server.get("/v1/stats?sources=x").await.problem(400);
    let bound = server.post("/v1/api-keys", json!({ "name": "Bound", "scopes": ["read"], "application_id": "other" })).await.expect(201);
    let bound = bound["key"].as_str().unwrap();
    let of = |path: &'static str| server.call(Method::GET, path, bound, "");
    assert_eq!(of("/v1/stats").await.expect(200)["total"], 0, "only its own application is counted");
    of("/v1/stats?application_id=default").await.problem(404);
    of("/v1/stats?endpoint_id=shop").await.problem(404);
    given.server.stop().await;
}
