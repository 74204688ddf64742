//! Breaker, retries, hedges, coalescing and limits, as callers and apps see them.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{
    Given,
    app::{Answer, App},
    ok, steps,
};

fn failing() -> Answer {
    Answer::Body(503, String::new())
}

#[tokio::test]
async fn five_failures_open_the_breaker_one_call_tests_the_app_and_a_person_may_decide() {
    let breaker = json!({ "sleep_window_ms": 1_000, "success_threshold": 1 });
    let given = Given::new(
        App::answering(failing()).await,
        json!({ "circuit_breaker": breaker, "fallback": [{ "type": "default", "static": 0 }] }),
    )
    .await;
    for _ in 0..5 {
        assert_eq!(steps(&given.call(json!({ "payload": 1 })).await.expect(200))[0], "app failed");
    }
    let open = given.call(json!({ "payload": 1 })).await.expect(200);
    assert_eq!((&open["circuit"], steps(&open)[0].as_str(), given.app.count()), (&json!("open"), "app skipped", 5));
    let list = given.server.get(&given.path("capabilities")).await.expect(200);
    assert_eq!(list["data"][0]["circuit_breaker"]["state"], "open", "{list}");

    given.app.answer(ok());
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    let probe = given.call(json!({ "payload": 1 })).await.expect(200);
    assert_eq!((&probe["source"], &probe["circuit"]), (&json!("app"), &json!("closed")));

    let path = given.path("capabilities/ask/circuit-breaker");
    assert_eq!(given.server.patch(&path, json!({ "action": "force_open" })).await.expect(200)["state"], "open");
    assert_eq!(given.call(json!({ "payload": 1 })).await.expect(200)["source"], "default");
    assert_eq!(given.server.patch(&path, json!({ "action": "reset" })).await.expect(200)["state"], "closed");
    assert_eq!(given.call(json!({ "payload": 1 })).await.expect(200)["source"], "app");
    given.server.patch(&given.path("capabilities/none/circuit-breaker"), json!({ "action": "reset" })).await.problem(404);
    assert_eq!(given.server.patch(&path, json!({ "action": "x" })).await.faults(422), ["action"]);
    given.server.stop().await;
}

#[tokio::test]
async fn a_failed_request_is_repeated_as_the_manifest_says_with_the_same_id() {
    let retry = json!({ "enabled": true, "maxAttempts": 3 });
    let given =
        Given::new(App::start(|n, _| if n < 3 { failing() } else { ok() }).await, json!({ "retry": retry, "timeout": 5_000 })).await;
    let out = given.call(json!({ "payload": 1 })).await.expect(200);
    assert_eq!(out["source"], "app");
    let seen = given.app.seen();
    assert_eq!(seen.iter().map(|seen| seen.header("x-retry-attempt").unwrap()).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert!(seen.iter().all(|seen| seen.header("x-request-id") == out["request_id"].as_str()));
    given.app.answer(Answer::Body(503, r#"{"success":false,"error":{"retryable":false}}"#.to_owned()));
    given.call(json!({ "payload": 1 })).await.problem(502);
    assert_eq!(given.app.count(), 4, "the app said that it makes no sense");
    given.server.stop().await;
}

#[tokio::test]
async fn in_an_outage_retries_are_few() {
    let fields = json!({ "retry": { "enabled": true, "max_attempts": 3 }, "circuit_breaker": { "enabled": false }, "timeout": 5_000 });
    let given = Given::new(App::answering(failing()).await, fields).await;
    for _ in 0..60 {
        given.call(json!({ "payload": 1 })).await.problem(502);
    }
    let retries = given.app.count() - 60;
    assert!(retries <= 6, "{retries} retries of 60 calls");
    given.server.stop().await;
}

#[tokio::test]
async fn equal_calls_at_the_same_moment_are_one_request() {
    // Long enough for all of them to arrive on a busy machine.
    let slow = Answer::After(Duration::from_secs(5), Box::new(ok()));
    let given = Given::new(App::answering(slow).await, json!({ "timeout": 30_000 })).await;
    let calls = (0..200).map(|_| given.call(json!({ "payload": 1, "cache_key": "same" })));
    for answer in join_all(calls).await {
        assert_eq!(answer.expect(200)["source"], "app");
    }
    assert_eq!(given.app.count(), 1);
    given.server.stop().await;
}

#[tokio::test]
async fn a_slow_answer_is_overtaken_by_a_second_request_of_an_idempotent_capability() {
    let script = |_, seen: &super::app::Seen| {
        if seen.header("x-retry-attempt") == Some("2") { ok() } else { Answer::After(Duration::from_secs(3), Box::new(ok())) }
    };
    let hedge = json!({ "after": 50, "budget_percent": 50 });
    let given = Given::new(App::start(script).await, json!({ "idempotent": true, "hedge": hedge, "timeout": 10_000 })).await;
    // The budget grows with the calls: the first two fill it.
    let mut quick = 0;
    for _ in 0..4 {
        let out = given.call(json!({ "payload": 1, "timeout_ms": 1_500 })).await;
        quick += u32::from(out.status == 200);
    }
    assert!(quick >= 1, "none was overtaken");
    assert!(given.app.count() <= 6, "{} requests for 4 calls", given.app.count());
    given.server.stop().await;
}

#[tokio::test]
async fn an_app_is_not_sent_more_than_its_manifest_allows() {
    let slow = Answer::After(Duration::from_millis(300), Box::new(ok()));
    let given =
        Given::new(App::answering(slow).await, json!({ "max_concurrency": 3, "fallback": [{ "type": "default", "static": 0 }] })).await;
    let answers = join_all((0..30).map(|_| given.call(json!({ "payload": 1 })))).await;
    let of = |source: &str| answers.iter().filter(|answer| answer.expect(200)["source"] == source).count();
    assert!(given.app.most_at_once() <= 3, "{} at once", given.app.most_at_once());
    assert_eq!(of("app") + of("default"), 30);
    assert!(of("default") >= 1);
    let turned_away = answers.iter().map(client_json).find(|out| out["source"] == "default").unwrap();
    assert!(turned_away["warning"].as_str().unwrap().starts_with("at_capacity"), "{turned_away}");
    given.server.stop().await;
}

fn client_json(answer: &crate::api::client::Answer) -> Value {
    answer.json()
}

#[tokio::test]
async fn a_capability_has_statistics() {
    let given = Given::new(App::answering(ok()).await, json!({})).await;
    for _ in 0..3 {
        given.call(json!({ "payload": 1 })).await.expect(200);
    }
    given.app.answer(failing());
    given.call(json!({ "payload": 1 })).await.problem(502);
    let mut stats = Value::Null;
    for _ in 0..200 {
        stats = given.server.get(&given.path("capabilities/ask/stats?window=1h")).await.expect(200);
        if stats["total"] == 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(
        (&stats["total"], &stats["success"], &stats["failure"], &stats["success_rate"]),
        (&json!(4), &json!(3), &json!(1), &json!(75.0))
    );
    given.server.stop().await;
}

#[tokio::test]
async fn whoever_joins_an_equal_call_waits_until_their_own_deadline() {
    let slow = Answer::After(Duration::from_millis(1_500), Box::new(ok()));
    let given = Given::new(App::answering(slow).await, json!({ "timeout": 30_000 })).await;
    let ask = |timeout_ms: u64| given.call(json!({ "payload": 1, "cache_key": "same", "timeout_ms": timeout_ms }));
    let follower = async {
        while given.app.count() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ask(20_000).await
    };
    let (first, follower) = tokio::join!(ask(700), follower);
    assert_eq!(first.problem(504)["reason"], "timeout");
    let follower = follower.expect(200);
    assert_eq!((&follower["source"], given.app.count()), (&json!("app"), 1), "{follower}");
    // Whoever waits for less than the one before is answered by then.
    given.app.answer(Answer::Hangs);
    let (longer, shorter) = tokio::join!(ask(2_500), async {
        while given.app.count() == 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let begun = std::time::Instant::now();
        let answer = ask(200).await;
        (answer, begun.elapsed())
    });
    longer.problem(504);
    assert_eq!(shorter.0.problem(504)["reason"], "timeout");
    assert!(shorter.1 < Duration::from_millis(200) + super::BUSY_SLACK, "{:?}", shorter.1);
    given.server.stop().await;
}

#[tokio::test]
async fn whoever_goes_away_takes_the_request_along_unless_its_answer_is_kept() {
    let slow = Answer::After(Duration::from_secs(2), Box::new(ok()));
    let given = Given::new(App::answering(slow).await, json!({ "timeout": 20_000, "cache": { "fresh": "1h" } })).await;
    let until = async |is_so: &dyn Fn() -> bool| {
        let begun = std::time::Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not come about");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        begun.elapsed()
    };
    let leave = async |body: Value| {
        let before = given.app.count();
        let has_arrived = || given.app.count() > before;
        tokio::select! {
            answer = given.call(body) => panic!("it was answered: {}", answer.json()),
            _ = until(&has_arrived) => {}
        }
    };
    leave(json!({ "payload": 1 })).await;
    let took = until(&|| given.app.at_once() == 0).await;
    assert!(took < Duration::from_millis(1_500), "the app sees at once that nobody waits: {took:?}");
    leave(json!({ "payload": 1, "cache_key": "k" })).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(given.app.at_once(), 1, "the request goes on");
    until(&|| given.app.at_once() == 0).await;
    let mut kept = Value::Null;
    for _ in 0..100 {
        kept = given.call(json!({ "payload": 1, "cache_key": "k" })).await.expect(200);
        if kept["source"] == "cache" {
            break;
        }
    }
    assert_eq!((&kept["source"], given.app.count()), (&json!("cache"), 2), "{kept}");
    given.server.stop().await;
}
