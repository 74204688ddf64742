//! Canaries: a share of the calls goes to another version of the app, which is withdrawn if it fails.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    Given,
    app::{Answer, App},
    ok,
};

fn with_canary(canary: &App, percent: u32) -> Value {
    json!({ "canary": { "base_url": canary.url(), "percent": percent }, "fallback": [{ "type": "default", "static": 0 }] })
}

#[tokio::test]
async fn a_good_canary_gets_its_share_and_one_key_has_one_version() {
    let canary = App::answering(Answer::data(&json!("canary"))).await;
    let given = Given::new(App::answering(Answer::data(&json!("stable"))).await, with_canary(&canary, 50)).await;
    for _ in 0..100 {
        given.call(json!({ "payload": 1 })).await.expect(200);
    }
    assert!((20..=80).contains(&canary.count()), "{} of 100 calls", canary.count());
    assert_eq!(canary.count() + given.app.count(), 100);
    for key in ["a", "b", "c", "d"] {
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(given.call(json!({ "payload": 1, "cache_key": key })).await.expect(200)["data"].clone());
        }
        assert!(seen.iter().all(|data| *data == seen[0]), "{key}: {seen:?}");
    }
    let manifest = given.server.get(&given.path("manifest")).await.expect(200);
    assert_eq!((&manifest["version"], &manifest["manifest"]["capabilities"]["ask"]["canary"]["withdrawn_at"]), (&json!(1), &json!(null)));
    given.server.stop().await;
}

#[tokio::test]
async fn a_bad_canary_is_withdrawn_within_fifty_calls_and_its_failures_do_not_open_the_breaker() {
    let canary = App::answering(Answer::Body(500, String::new())).await;
    let given = Given::new(App::answering(ok()).await, with_canary(&canary, 50)).await;
    let operational =
        json!({ "url": format!("{}/alerts", given.app.url()), "event_types": ["canary.withdrawn"], "application_id": "operational" });
    given.server.endpoint(operational).await;
    for _ in 0..100 {
        let answer = given.call(json!({ "payload": 1 })).await.expect(200);
        assert_eq!(answer["circuit"], "closed");
    }
    assert!(canary.count() <= 50, "{} calls", canary.count());
    let begun = Instant::now();
    let canary_shown = loop {
        let manifest = given.server.get(&given.path("manifest")).await.expect(200);
        let shown = manifest["manifest"]["capabilities"]["ask"]["canary"].clone();
        if shown["withdrawn_at"].is_string() {
            assert_eq!(manifest["version"], 2);
            break shown;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{manifest}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(canary_shown["withdrawn_because"].as_str().unwrap().contains("calls failed"), "{canary_shown}");
    let calls = canary.count();
    for _ in 0..20 {
        assert_eq!(given.call(json!({ "payload": 1 })).await.expect(200)["source"], "app");
    }
    assert_eq!(canary.count(), calls, "nothing goes to it any more");
    let log = given.server.get("/v1/audit-log").await.expect(200);
    assert!(log["data"].as_array().unwrap().iter().any(|entry| entry["action"] == "application.put_manifest"), "{log}");
    let begun = Instant::now();
    while !given.app.seen().iter().any(|seen| seen.head.starts_with("POST /alerts ")) {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody was told");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Putting a manifest with the canary again begins another trial.
    canary.answer(ok());
    given.put(with_canary(&canary, 50)).await;
    for _ in 0..40 {
        given.call(json!({ "payload": 1 })).await.expect(200);
    }
    assert!(canary.count() > calls);
    given.server.stop().await;
}
