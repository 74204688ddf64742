//! What holds a lane up: its breaker, its rate, its pause. Nothing is lost by waiting, and nobody else waits.

use std::num::NonZeroU32;

use everhook_core::{
    ids::Ref,
    manage::endpoints::{BreakerOrder, command_breaker},
    model::{BreakerState, OrderingMode, RateLimit},
    ports::Clock,
};
use everhook_testbed::{Answer, World, faults::Kind, hours, mins, secs};

fn per_minute(requests: u32, burst: u32) -> RateLimit {
    let number = |n| NonZeroU32::new(n).expect("not zero");
    RateLimit::per_minute(number(requests), Some(number(burst)))
}

#[tokio::test]
async fn an_endpoint_that_fails_is_left_alone_and_everything_arrives_when_it_is_back() {
    // Given an endpoint that fails 60 requests, then answers.
    let mut world = World::new().await;
    let failing = world.endpoint().answering_in_turn([Answer::Status(500); 60]).create().await;
    let healthy = world.endpoint().create().await;
    let mut events = Vec::new();
    for _ in 0..100 {
        events.push(world.event("order.paid").publish().await.event);
    }
    world.settle_down().await;
    // Then it is left alone after few failures, and the other one is not held up.
    let before = world.arrivals_of(&failing).len();
    assert!((20..30).contains(&before), "{before} requests before the breaker opened");
    assert_eq!(world.arrivals_of(&healthy).len(), 100);
    world.pass(secs(29)).await;
    assert_eq!(world.arrivals_of(&failing).len(), before, "nothing is sent while it is open");
    // Each recovery that fails costs it few probes.
    world.pass(secs(2)).await;
    let probes = world.arrivals_of(&failing).len() - before;
    assert!((3..=5).contains(&probes), "{probes} probes");
    world.pass(hours(40)).await;
    world.assert_promises(&events).await;
    assert!(world.deliveries().await.iter().all(|delivery| delivery.attempts <= 8));
    let told: Vec<String> = world.operational_types().await;
    assert_eq!(told, ["circuit.opened", "circuit.closed"]);
}

#[tokio::test]
async fn an_open_breaker_survives_a_crash() {
    let mut world = World::new().await;
    let failing = world.endpoint().answering(500).create().await;
    for _ in 0..30 {
        world.event("order.paid").publish().await;
    }
    world.settle_down().await;
    let before = world.arrivals_of(&failing).len();
    world.crash().await;
    world.event("order.paid").publish().await;
    world.pass(secs(20)).await;
    assert_eq!(world.arrivals_of(&failing).len(), before);
    let line = world.line().clone();
    let report = line.lanes.report(failing.id.into()).await.expect("the lane has work");
    assert_eq!(report.breaker.state, BreakerState::Open);
}

#[tokio::test]
async fn the_attempt_says_how_the_breaker_stood_and_the_store_when_it_was_open() {
    let mut world = World::new().await;
    let failing = world.endpoint().answering_in_turn([Answer::Status(500); 20]).taking_at_once(1).create().await;
    for _ in 0..21 {
        world.event("order.paid").publish().await;
    }
    world.pass(mins(10)).await;
    let line = world.line().clone();
    let periods = line.ports.breakers.open_periods(failing.id.into(), everhook_core::time::Timestamp::EPOCH, 10).await.expect("readable");
    assert_eq!(periods.len(), 1);
    assert!(periods[0].closed_at.is_some());
    let last = world.deliveries().await.pop().expect("a delivery");
    let (_, attempts) = line.ports.history.delivery(world.organization, last.id).await.expect("readable").expect("there");
    assert_eq!(attempts[0].breaker, BreakerState::HalfOpen, "it was a probe");
}

#[tokio::test]
async fn a_rate_limit_holds_over_every_minute_and_loses_nothing() {
    let mut world = World::new().await;
    let limited = world.endpoint().limited_to(per_minute(600, 6)).taking_at_once(50).create().await;
    let mut events = Vec::new();
    for _ in 0..2_000 {
        events.push(world.event("order.paid").publish().await.event);
    }
    world.pass(mins(10)).await;
    world.assert_promises(&events).await;
    let at = world.arrivals_at(&limited);
    assert_eq!(at.len(), 2_000);
    for (n, start) in at.iter().enumerate() {
        let within = at[n..].iter().take_while(|at| **at < *start + mins(1)).count();
        assert!(within <= 606, "{within} requests in the minute from {start:?}");
    }
    // It is not slower than it need be either: 6 at once, then 10 a second.
    assert!(at[1_999] <= secs(200), "the last one came after {:?}", at[1_999]);
}

#[tokio::test]
async fn a_429_slows_the_whole_endpoint() {
    let mut world = World::new().await;
    let limiting = world.endpoint().answering_in_turn([Answer::RetryAfter(429, secs(30))]).taking_at_once(1).create().await;
    for _ in 0..5 {
        world.event("order.paid").publish().await;
    }
    world.pass(secs(29)).await;
    assert_eq!(world.arrivals_of(&limiting).len(), 1);
    world.pass(mins(5)).await;
    assert_eq!(world.arrivals_of(&limiting).len(), 6);
}

#[tokio::test]
async fn a_paused_endpoint_gets_nothing_and_then_everything_in_order() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).create().await;
    let now = world.clock.now();
    world.change(&endpoint, |endpoint| endpoint.paused_at = Some(now)).await;
    world.settle_down().await;
    let mut events = Vec::new();
    for _ in 0..30 {
        events.push(world.event("order.paid").publish().await.event.to_string());
    }
    world.pass(hours(5)).await;
    world.crash().await;
    world.pass(mins(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 0);
    // When it is resumed at two a second, it gets them at that rate.
    let drain = RateLimit::per_second(NonZeroU32::new(2).expect("two"), NonZeroU32::new(1));
    world
        .change(&endpoint, |endpoint| {
            endpoint.paused_at = None;
            endpoint.drain = Some(drain);
        })
        .await;
    world.pass(secs(10)).await;
    assert!((20..=22).contains(&world.arrivals_of(&endpoint).len()), "{} in ten seconds", world.arrivals_of(&endpoint).len());
    world.pass(secs(10)).await;
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().map(|arrival| arrival.event).collect();
    assert_eq!(arrived, events);
    // Afterwards it flows freely again.
    for _ in 0..10 {
        world.event("order.paid").publish().await;
    }
    world.settle_down().await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 40);
}

#[tokio::test]
async fn retries_and_first_attempts_take_turns_by_age() {
    // Given an endpoint with many retries due while new events come.
    let mut world = World::new().await;
    let endpoint = world
        .endpoint()
        .without_breaker()
        .answering_in_turn([Answer::Status(500); 100])
        .always(Answer::Slow(200, secs(1)))
        .taking_at_once(10)
        .create()
        .await;
    let first: Vec<String> = {
        let mut events = Vec::new();
        for _ in 0..100 {
            events.push(world.event("order.paid").publish().await.event.to_string());
        }
        events
    };
    world.pass(secs(4)).await;
    let mut second = Vec::new();
    for _ in 0..100 {
        second.push(world.event("order.paid").publish().await.event.to_string());
    }
    world.pass(mins(5)).await;
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().skip(100).map(|arrival| arrival.event).collect();
    // The new ones that were due before the retries came first, and the retries did not wait for all of them to be over.
    assert_eq!(arrived.len(), 200);
    assert!(arrived[..10].iter().all(|event| second.contains(event)));
    let last_second = arrived.iter().rposition(|event| second.contains(event)).expect("they came");
    let first_retry = arrived.iter().position(|event| first.contains(event)).expect("they came");
    assert!(first_retry <= last_second + 1, "nobody is starved");
}

#[tokio::test]
async fn a_breaker_forced_by_hand_is_applied_although_the_look_at_it_fails() {
    // Given a lane with work, whose owner has been told that its breaker is forced open and cannot read that.
    let mut world = World::new().await;
    let endpoint = world.endpoint().always(Answer::Slow(200, secs(3))).taking_at_once(1).create().await;
    for _ in 0..30 {
        world.event("order.paid").publish().await;
    }
    world.settle_down().await;
    let order = BreakerOrder { action: "force_open".to_owned(), duration_seconds: None };
    command_breaker(world.line(), &world.author(), &Ref::Id(endpoint.id), order).await.expect("the breaker obeys");
    world.faults.plan(0, Kind::Before);
    world.settle_down().await;
    assert!(world.faults.has_struck());
    // Then it looks again.
    world.pass(hours(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 1);
}
