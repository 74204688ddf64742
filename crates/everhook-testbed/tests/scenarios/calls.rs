//! What calls leave behind: breakers and fallbacks of which organizations are told, canaries that are withdrawn, answers that come late. None of it is lost when
//! the store is away for a while or the process dies.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::{
    calls::{
        Found,
        answered::{AnswerSource, CallAnswer},
        call::{self, CallRequest},
    },
    ids::{LaneId, Ref},
    manage::{
        endpoints::BreakerOrder,
        manifests::{self, command_breaker},
    },
    model::{AnswerCount, AttemptStatistics, BreakerState, Cursor, Page, PageRequest},
    policy::{address::AddressRules, target::TargetRules},
    ports::{Clock as _, EventFilter},
};
use everhook_testbed::{Answer, World, faults::Kind, mins, secs};
use serde_json::{Value, json};

const APP: &str = "https://app.example/ask";
const GOOD: Answer = Answer::Body(200, r#"{"success": true, "data": 1}"#);

async fn put(world: &World, fields: Value) {
    let mut ask = json!({ "path": "/ask", "timeout": "1s", "fallback": [{ "type": "default", "static": "instead" }] });
    ask.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let manifest = json!({ "base_url": "https://app.example", "health_path": null, "capabilities": { "ask": ask } });
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    manifests::put(world.line(), &world.author(), &Ref::Id(world.application), manifest.to_string(), &rules).await.expect("it is good");
}

/// Calls, and lets time pass until it is answered.
async fn ask(world: &mut World, cache_key: Option<&str>) -> CallAnswer {
    let found = world.line().calls.find(world.organization, &Ref::Id(world.application), "ask").await.unwrap();
    let Found::Capability(capability) = found else { panic!("there is no such capability") };
    let (payload, arrived_at, cache_key) = (Bytes::from_static(b"1"), world.clock.now(), cache_key.map(str::to_owned));
    let request = CallRequest { payload, charge: None, cache_key, timeout: None, trace: None, callback_url: None, arrived_at };
    let calls = world.line().calls.clone();
    let asked = tokio::spawn(async move { call::call(&calls, &capability, request).await });
    world.settle_down().await;
    while !asked.is_finished() {
        world.pass(Duration::from_millis(10)).await;
    }
    asked.await.unwrap()
}

/// What organizations were told of these, oldest first.
async fn told(world: &World, event_type: &str) -> Vec<Value> {
    let filter = EventFilter { application: Some(world.operational), ..EventFilter::default() };
    let history = &world.line().ports.history;
    let page: Page<_> = history.events(world.organization, filter, PageRequest { limit: 100, cursor: Cursor::Newest }).await.unwrap();
    let mut found = Vec::new();
    for summary in page.rows.iter().rev().filter(|event| event.event_type.as_str() == event_type) {
        let (_, event) = history.event(world.organization, summary.id).await.unwrap().unwrap();
        found.push(serde_json::from_slice(&event.unwrap().data).unwrap());
    }
    found
}

async fn statistics(world: &World) -> AttemptStatistics {
    let now = world.clock.now();
    world.line().ports.statistics.attempt_statistics(LaneId::from(world.application), now - mins(60), now + mins(1)).await.unwrap()
}

fn count(told: &[Value]) -> u64 {
    told.iter().map(|data| data["count"].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn an_organization_is_told_at_once_that_a_breaker_opened_and_closed_and_that_a_person_opened_it() {
    let mut world = World::new().await;
    world.network.script(APP, [Answer::Status(500); 5], GOOD);
    put(&world, json!({})).await;
    for _ in 0..5 {
        assert_eq!(ask(&mut world, None).await.result.unwrap().source, AnswerSource::Default);
    }
    world.settle_down().await;
    let opened = told(&world, "circuit.opened").await;
    assert_eq!((opened.len(), &opened[0]["capability"], &opened[0]["reason"]), (1, &json!("ask"), &json!("too_many_failures")));
    world.pass(mins(2)).await;
    for _ in 0..3 {
        assert_eq!(ask(&mut world, None).await.result.unwrap().source, AnswerSource::App);
    }
    world.settle_down().await;
    assert_eq!(told(&world, "circuit.closed").await.len(), 1);
    let order = BreakerOrder { action: "force_open".to_owned(), duration_seconds: None };
    command_breaker(world.line(), &world.author(), &Ref::Id(world.application), "ask", order).await.expect("the breaker obeys");
    world.settle_down().await;
    assert_eq!(told(&world, "circuit.opened").await.len(), 2);
    world.pass(secs(5)).await;
    world.end().await;
}

#[tokio::test]
async fn uses_of_fallbacks_are_told_at_once_and_then_once_a_minute_however_many_there_are() {
    let mut world = World::new().await;
    world.network.script(APP, [], Answer::Status(500));
    put(&world, json!({ "circuit_breaker": { "enabled": false } })).await;
    for _ in 0..150 {
        ask(&mut world, None).await;
        world.pass(secs(1)).await;
    }
    let first = told(&world, "call.fallback").await;
    assert_eq!((first.len(), first[0]["count"].as_u64()), (3, Some(1)), "{first:?}");
    world.pass(mins(2)).await;
    let all = told(&world, "call.fallback").await;
    assert_eq!((all.len(), count(&all)), (4, 150), "each is counted in one of them");
    assert_eq!(all[1]["failed_open"], all[1]["count"]);
    let answers = statistics(&world).await.answers;
    assert_eq!([AnswerCount::Default, AnswerCount::Fallback, AnswerCount::FailedOpen].map(|what| answers[what]), [150, 150, 150]);
    world.end().await;
}

#[tokio::test]
async fn what_calls_leave_is_written_when_the_store_is_back_and_told_after_a_crash() {
    let mut world = World::new().await;
    world.network.script(APP, [], Answer::Status(500));
    put(&world, json!({ "circuit_breaker": { "enabled": false } })).await;
    ask(&mut world, None).await;
    world.faults.set_away(true);
    for _ in 0..3 {
        world.pass(secs(1)).await;
        ask(&mut world, None).await;
    }
    assert!(told(&world, "call.fallback").await.is_empty());
    world.faults.set_away(false);
    world.pass(mins(2)).await;
    let all = told(&world, "call.fallback").await;
    assert_eq!((count(&all), statistics(&world).await.answers.calls()), (4, 4), "{all:?}");
    // It is recorded, and the process dies before it is told.
    ask(&mut world, None).await;
    world.faults.plan_last(1, Kind::Before);
    world.pass(Duration::from_millis(1_050)).await;
    world.kill().await;
    world.faults.set_away(false);
    world.start_again();
    world.pass(secs(10)).await;
    assert_eq!(count(&told(&world, "call.fallback").await), 5);
    // It is recorded, and nobody hears that it is.
    world.pass(mins(2)).await;
    ask(&mut world, None).await;
    world.faults.plan(0, Kind::After);
    world.pass(mins(2)).await;
    assert_eq!(count(&told(&world, "call.fallback").await), 6, "it is told once");
    world.end().await;
}

#[tokio::test]
async fn a_canary_is_withdrawn_when_the_store_is_back_and_the_organization_is_told_with_it() {
    let mut world = World::new().await;
    world.network.script(APP, [], GOOD);
    world.network.script("https://next.example/ask", [], Answer::Status(500));
    put(&world, json!({ "canary": { "base_url": "https://next.example", "percent": 50 } })).await;
    ask(&mut world, None).await;
    world.faults.set_away(true);
    for _ in 0..60 {
        ask(&mut world, None).await;
    }
    world.pass(secs(5)).await;
    world.faults.set_away(false);
    world.pass(secs(10)).await;
    let withdrawn = told(&world, "canary.withdrawn").await;
    assert_eq!((withdrawn.len(), &withdrawn[0]["manifest_version"]), (1, &json!(1)), "{withdrawn:?}");
    let kept = world.line().ports.manifests.manifest(world.application).await.unwrap().unwrap();
    assert!(kept.version == 2 && kept.document.contains("withdrawn_at"), "{}", kept.document);
    world.pass(mins(2)).await;
    world.end().await;
}

#[tokio::test]
async fn an_answer_after_the_deadline_is_counted_and_lets_a_breaker_recover_also_without_a_cache() {
    let mut world = World::new().await;
    let late = Answer::SlowBody(200, r#"{"success": true, "data": 1}"#, Duration::from_millis(1_500));
    world.network.script(APP, [Answer::Hangs; 5], late);
    put(&world, json!({ "circuit_breaker": { "success_threshold": 2 } })).await;
    for _ in 0..5 {
        ask(&mut world, None).await;
    }
    world.pass(mins(2)).await;
    assert_eq!(statistics(&world).await.answers[AnswerCount::Late], 0);
    // The probe's caller has the fallback in time, and nobody else is let through until the probe is decided.
    let probe = ask(&mut world, None).await;
    assert_eq!((probe.result.unwrap().source, probe.circuit), (AnswerSource::Default, BreakerState::HalfOpen));
    assert!(probe.duration <= secs(1));
    assert_eq!(ask(&mut world, None).await.steps[0].outcome, "skipped");
    world.pass(secs(1)).await;
    assert_eq!(ask(&mut world, None).await.circuit, BreakerState::HalfOpen, "the second of two");
    world.pass(secs(5)).await;
    assert_eq!(told(&world, "circuit.closed").await.len(), 1);
    let statistics = statistics(&world).await;
    assert_eq!((statistics.answers[AnswerCount::Late], statistics.answers.calls(), statistics.successes), (2, 8, 0));
    world.end().await;
}

#[tokio::test]
async fn a_cached_answer_and_an_open_breaker_survive_a_crash() {
    let mut world = World::new().await;
    world.network.script(APP, [GOOD], Answer::Status(500));
    put(&world, json!({ "cache": { "fresh": "1m", "stale_if_error": "1h" } })).await;
    assert_eq!(ask(&mut world, Some("k")).await.result.unwrap().source, AnswerSource::App);
    world.pass(secs(30)).await;
    for _ in 0..5 {
        ask(&mut world, None).await;
    }
    world.pass(secs(2)).await;
    world.crash().await;
    let asked = world.network.arrival_count();
    let kept = ask(&mut world, Some("k")).await.result.unwrap();
    assert_eq!((kept.source, &*kept.data), (AnswerSource::Cache, &b"1"[..]));
    assert!(kept.age.unwrap() >= secs(32), "{:?}", kept.age);
    let open = ask(&mut world, None).await;
    assert_eq!((open.circuit, open.steps[0].outcome), (BreakerState::Open, "skipped"));
    // No longer fresh, and the breaker is open still: it stands in, and says its age.
    world.pass(secs(25)).await;
    let stale = ask(&mut world, Some("k")).await;
    assert_eq!((stale.circuit, stale.result.unwrap().source), (BreakerState::Open, AnswerSource::Cache));
    assert_eq!(world.network.arrival_count(), asked, "the app was not asked");
    world.pass(secs(5)).await;
    world.end().await;
}
