//! Shadow mode: the app is called, and the caller is answered by the fallback.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    Given,
    app::{Answer, App},
    steps,
};

fn shadowed(instead: &Value) -> Value {
    json!({ "mode": "shadow", "timeout": 400, "fallback": [{ "type": "default", "static": instead }] })
}

/// The differences, once there are so many: they are known when the app has answered.
async fn differences(given: &Given, count: usize) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let found = given.server.get(&given.path("capabilities/ask/shadow")).await.expect(200);
        let found = found["data"].as_array().unwrap().clone();
        if found.len() == count {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_caller_is_answered_by_the_fallback_and_what_differs_is_listed() {
    let app = App::answering(Answer::After(Duration::from_millis(100), Box::new(Answer::data(&json!({ "a": 1, "b": [1, 2] }))))).await;
    let given = Given::new(app, shadowed(&json!({ "a": 1, "b": [1, 3], "c": 1 }))).await;
    let (answer, took) = given.timed(json!({ "payload": { "q": 1 }, "cache_key": "k" })).await;
    let answer = answer.expect(200);
    assert_eq!((&answer["source"], &answer["data"]), (&json!("default"), &json!({ "a": 1, "b": [1, 3], "c": 1 })));
    assert_eq!(steps(&answer), ["app shadowed", "static answered"]);
    assert!(answer["warning"].as_str().unwrap().starts_with("shadow: "), "{answer}");
    assert!(answer["duration_ms"].as_f64().unwrap() < 100.0, "nobody waits for the app: {took:?}");
    let found = differences(&given, 1).await.remove(0);
    assert_eq!((&found["request_id"], &found["app"]), (&answer["request_id"], &json!({ "a": 1, "b": [1, 2] })));
    assert_eq!((&found["fallback"], &found["differences"]), (&answer["data"], &json!(["/b/1", "/c"])));
    assert!(found["app_duration_ms"].as_f64().unwrap() >= 100.0, "{found}");
    assert_eq!(given.app.seen()[0].body, br#"{"q":1}"#);
    // An app that answers the same is counted, and not listed; one that fails is.
    given.app.answer(Answer::data(&answer["data"]));
    given.call(json!({ "payload": 1 })).await.expect(200);
    given.app.answer(Answer::Hangs);
    given.call(json!({ "payload": 1 })).await.expect(200);
    let found = differences(&given, 2).await.remove(0);
    assert_eq!((&found["app"], &found["differences"]), (&json!(null), &json!([])));
    assert!(found["app_failure"].as_str().unwrap().starts_with("timeout: "), "{found}");
    let begun = Instant::now();
    loop {
        let answers = &given.server.get("/v1/stats").await.expect(200)["answers"];
        if answers["shadow_same"] == 1 && answers["shadow_different"] == 2 && answers["default"] == 3 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{answers}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Another version of the manifest begins anew.
    given.put(shadowed(&json!(1))).await;
    differences(&given, 0).await;
    given.server.get(&given.path("capabilities/none/shadow")).await.problem(404);
    given.server.stop().await;
}

#[tokio::test]
async fn a_shadowed_app_that_is_ill_is_left_alone_and_a_call_without_a_fallback_is_a_problem() {
    let given = Given::new(App::answering(Answer::Body(500, String::new())).await, json!({ "mode": "shadow" })).await;
    for _ in 0..20 {
        assert_eq!(given.call(json!({ "payload": 1 })).await.problem(502)["reason"], "shadow");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(given.app.count() < 20, "its breaker opens as it would if its answers were used: {} requests", given.app.count());
    assert!(differences(&given, 20).await.iter().all(|one| one["fallback"] == json!(null)));
    given.server.stop().await;
}
