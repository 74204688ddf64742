//! What is answered instead of the app, step by step.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use everhook_core::policy::calls::draw;
use serde_json::{Value, json};

use super::{
    Given,
    app::{Answer, App},
    ok, steps,
};

fn failing() -> Answer {
    Answer::Body(500, String::new())
}

#[tokio::test]
async fn steps_are_tried_in_the_order_of_the_manifest() {
    let other = App::answering(Answer::data(&json!("from the platform"))).await;
    let fallback = json!([
        { "type": "cache" },
        { "type": "default", "http": { "url": format!("{}/instead", other.url()), "timeout_ms": 300 } },
        { "type": "default", "static": { "winners": [] } },
    ]);
    let given = Given::new(App::answering(failing()).await, json!({ "fallback": fallback })).await;
    let out = given.call(json!({ "payload": { "a": 1 }, "cache_key": "k" })).await.expect(200);
    assert_eq!((&out["source"], &out["data"]), (&json!("default"), &json!("from the platform")));
    assert_eq!(steps(&out), ["cache miss", "app failed", "cache failed", "http answered"]);
    assert!(out["warning"].as_str().unwrap().contains("the app answered 500"), "{out}");
    assert_eq!(other.seen()[0].body, br#"{"a":1}"#);
    other.answer(Answer::Hangs);
    let out = given.call(json!({ "payload": 1 })).await.expect(200);
    assert_eq!((&out["data"], steps(&out)[3].as_str()), (&json!({ "winners": [] }), "static answered"));
    given.server.stop().await;
}

#[tokio::test]
async fn the_last_good_answer_stands_in_and_says_its_age() {
    let given = Given::new(App::answering(ok()).await, json!({ "fallback": [{ "type": "cache", "ttl": "5m" }] })).await;
    let ask = || json!({ "payload": 1, "cache_key": "room_1" });
    assert_eq!(given.call(ask()).await.expect(200)["source"], "app");
    given.app.answer(failing());
    let out = given.call(ask()).await.expect(200);
    assert_eq!((&out["source"], &out["data"]), (&json!("cache"), &json!({ "winners": ["a"] })));
    assert!(out["age_ms"].as_f64().unwrap() > 0.0 && out["warning"].is_string(), "{out}");
    given.call(json!({ "payload": 1, "cache_key": "room_2" })).await.problem(502);
    given.call(json!({ "payload": 1 })).await.problem(502);
    // Another version of the manifest may ask another question.
    given.put(json!({ "fallback": [{ "type": "cache", "ttl": "6m" }] })).await;
    given.call(ask()).await.problem(502);
    given.server.stop().await;
}

#[tokio::test]
async fn a_fresh_answer_is_given_without_asking_and_a_stale_one_while_the_next_is_asked_for() {
    let cache = json!({ "fresh": "2s", "stale_while_revalidate": "1h" });
    let given = Given::new(App::start(|n, _| Answer::data(&json!(n))).await, json!({ "cache": cache })).await;
    let ask = async || given.call(json!({ "payload": 1, "cache_key": "k" })).await.expect(200);
    assert_eq!(ask().await["data"], 1);
    let again = ask().await;
    assert_eq!((&again["source"], &again["data"], given.app.count()), (&json!("cache"), &json!(1), 1));
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert_eq!(ask().await["data"], 1, "it is stale, and answered at once");
    let mut newest = json!(1);
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        newest = ask().await["data"].clone();
        if newest != json!(1) {
            break;
        }
    }
    assert_ne!(newest, json!(1), "the app was asked for the next one");
    given.server.stop().await;
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_kept_for_the_next_call() {
    let late = Answer::After(Duration::from_millis(350), Box::new(ok()));
    let fallback = json!([{ "type": "cache" }, { "type": "default", "static": 0 }]);
    let given = Given::new(App::answering(late).await, json!({ "timeout": 300, "fallback": fallback })).await;
    let ask = async || given.call(json!({ "payload": 1, "cache_key": "k" })).await.expect(200);
    assert_eq!(ask().await["data"], 0);
    given.app.answer(failing());
    let mut kept = Value::Null;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(30)).await;
        kept = ask().await;
        if kept["source"] == "cache" {
            break;
        }
    }
    assert_eq!((&kept["source"], &kept["data"]), (&json!("cache"), &json!({ "winners": ["a"] })));
    given.server.stop().await;
}

#[tokio::test]
async fn a_draw_is_fair_recorded_and_can_be_made_again() {
    let pick = json!({ "random_pick": { "from": "/participants", "count": "/prizes" }, "type": "default" });
    let given = Given::new(App::answering(failing()).await, json!({ "fallback": [pick] })).await;
    let participants: Vec<_> = (0..100).map(|n| json!({ "id": n })).collect();
    let list = Value::from(participants.clone()).to_string();
    let out = given.call(json!({ "payload": { "participants": participants, "prizes": ["gold", "silver", "bronze"] } })).await.expect(200);
    let (data, proof) = (&out["data"], &out["data"]["draw"]);
    assert_eq!((&out["source"], &data["from"], data["picked"].as_array().unwrap().len()), (&json!("default"), &json!(100), 3));
    assert_eq!(proof["recorded"], true, "{out}");

    let path = format!("draws/{}", out["request_id"].as_str().unwrap());
    let record = given.server.get(&given.path(&path)).await.expect(200);
    for field in ["algorithm", "seed", "list_sha256", "list_length", "picks"] {
        assert_eq!(record[field], proof[field], "{field}");
    }
    let seed: [u8; 32] = BASE64_STANDARD.decode(record["seed"].as_str().unwrap()).unwrap().try_into().unwrap();
    let again = draw::draw(&seed, 100, 3);
    assert_eq!(json!(again), record["picks"]);
    let picked: Vec<_> = again.iter().map(|place| json!({ "id": place })).collect();
    assert_eq!(json!(picked), data["picked"]);
    assert_eq!(record["list_sha256"], BASE64_STANDARD.encode(draw::list_hash(list.as_bytes())));
    given.server.get(&given.path("draws/00000000-0000-7000-8000-000000000000")).await.problem(404);
    // Nothing to draw from is no answer.
    given.call(json!({ "payload": { "participants": 1, "prizes": 1 } })).await.problem(502);
    given.server.stop().await;
}

#[tokio::test]
async fn an_app_that_is_switched_off_is_not_asked() {
    let given = Given::new(App::answering(ok()).await, json!({ "mode": "off", "fallback": [{ "type": "default", "static": 1 }] })).await;
    let out = given.call(json!({ "payload": 1 })).await.expect(200);
    assert_eq!(
        (&out["data"], steps(&out), given.app.count()),
        (&json!(1), vec!["app skipped".to_owned(), "static answered".to_owned()], 0)
    );
    given.server.stop().await;
}

#[tokio::test]
async fn the_organization_is_told_that_fallbacks_are_used() {
    let given = Given::new(App::answering(failing()).await, json!({ "fallback": [{ "type": "default", "static": 1 }] })).await;
    given.call(json!({ "payload": 1 })).await.expect(200);
    let mut events = Value::Null;
    for _ in 0..200 {
        events = given.server.get("/v1/events?event_type=call.fallback&application_id=operational").await.json();
        if events["data"].as_array().is_some_and(|found| !found.is_empty()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let id = events["data"][0]["id"].as_str().unwrap_or_else(|| panic!("{events}"));
    let data = given.server.get(&format!("/v1/events/{id}")).await.expect(200)["data"].clone();
    assert_eq!((&data["capability"], &data["count"], &data["failed_open"]), (&json!("ask"), &json!(1), &json!(1)), "{data}");
    assert_eq!(data["uses"], json!([{ "step": "static", "reason": "status", "count": 1 }]));
    given.server.stop().await;
}
