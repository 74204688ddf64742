//! Retries, dead letters and what follows.

use everhook_core::{
    line::recall::{RecallError, recall},
    model::{DeadLetterStatus, FailureCategory},
};
use everhook_testbed::{Answer, World, hours, mins, secs};

#[tokio::test]
async fn a_failing_delivery_is_dead_lettered_after_its_last_retry() {
    // Given an endpoint that always answers 503, and two retries.
    let mut world = World::new().await;
    let shop = world.endpoint().answering(503).retrying_after([secs(5), mins(5)]).create().await;
    let tower = world.operational;
    let watch = world.endpoint().of(tower).create().await;
    // When an event is published and ten minutes pass.
    let event = world.event("order.paid").publish().await;
    world.pass(mins(10)).await;
    // Then it was tried on schedule, it is dead, and somebody was told.
    assert_eq!(world.arrivals_at(&shop), [secs(0), secs(5), secs(305)]);
    assert_eq!(world.stages(event.event).await, ["dead: retries_exhausted"]);
    let dead = world.dead_letters().await;
    assert_eq!((dead.len(), dead[0].attempts, dead[0].failures), (1, 3, 1));
    assert!(dead[0].recoverable());
    let told = world.arrivals_of(&watch);
    assert_eq!(told.len(), 1);
    let body = String::from_utf8_lossy(&told[0].request.body).into_owned();
    assert!(body.contains("message.attempt.exhausted") && body.contains(&event.event.to_string()), "{body}");
    world.end().await;
}

#[tokio::test]
async fn what_this_machine_lacks_is_no_attempt_and_the_delivery_waits_a_second() {
    // Given a machine that has no descriptor to spare for three seconds, and an endpoint whose deliveries are tried once.
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering_in_turn([Answer::OutOfResources; 3]).retrying_after([]).create().await;
    // When an event is published.
    let event = world.event("order.paid").publish().await;
    world.pass(mins(1)).await;
    // Then every try was the first attempt, a second after the other, and the event arrived.
    let arrivals = world.arrivals_of(&endpoint);
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(1), secs(2), secs(3)]);
    assert!(arrivals.iter().all(|arrival| arrival.attempt == 1), "{arrivals:?}");
    assert_eq!(world.stages(event.event).await, ["delivered"]);
    world.end().await;
}

#[tokio::test]
async fn the_standard_schedule_is_kept_to_the_second() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering(500).create().await;
    world.event("order.paid").publish().await;
    world.pass(hours(48)).await;
    let delays = [secs(0), secs(5), mins(5), mins(30), hours(2), hours(5), hours(10), hours(10)];
    let mut at = secs(0);
    let expected: Vec<_> = delays
        .into_iter()
        .map(|delay| {
            at += delay;
            at
        })
        .collect();
    assert_eq!(world.arrivals_at(&endpoint), expected);
}

#[tokio::test]
async fn an_endpoint_that_recovers_gets_the_event_once() {
    let mut world = World::new().await;
    let answers = [Answer::Status(500), Answer::Fails(FailureCategory::Network), Answer::Hangs];
    let endpoint = world.endpoint().answering_in_turn(answers).create().await;
    let event = world.event("order.paid").publish().await;
    world.pass(hours(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 4);
    world.assert_promises(&[event.event]).await;
    assert_eq!(world.stages(event.event).await, ["delivered"]);
    assert!(world.dead_letters().await.is_empty());
}

#[tokio::test]
async fn retries_carry_the_same_webhook_id_and_a_rising_attempt_number() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering_in_turn([Answer::Status(500), Answer::Status(500)]).create().await;
    let event = world.event("order.paid").publish().await;
    world.pass(hours(1)).await;
    let arrivals = world.arrivals_of(&endpoint);
    assert!(arrivals.iter().all(|arrival| arrival.event == event.event.to_string()));
    let numbers: Vec<u32> = arrivals.iter().map(|arrival| arrival.attempt).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[tokio::test]
async fn gone_ends_the_delivery_and_disables_the_endpoint() {
    // Given an endpoint that says it is gone, with three deliveries waiting behind the first.
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering(410).taking_at_once(1).create().await;
    let tower = world.operational;
    let watch = world.endpoint().of(tower).wanting("endpoint.disabled").create().await;
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push(world.event("order.paid").publish().await.event);
    }
    // When time passes.
    world.pass(mins(1)).await;
    // Then it was asked once or twice at most, the rest is cancelled, nothing new is made for it, and its owner was told once.
    assert_eq!(world.stages(events[0]).await, ["dead: gone"]);
    assert_eq!(world.stages(events[3]).await, ["cancelled: endpoint_disabled"]);
    let asked = world.arrivals_of(&endpoint).len();
    assert!(asked <= 2, "asked {asked} times");
    assert_eq!(world.event("order.paid").publish().await.deliveries, 0);
    assert_eq!(world.arrivals_of(&watch).len(), 1);
    world.assert_promises(&events).await;
}

#[tokio::test]
async fn a_retry_after_header_moves_the_next_attempt() {
    let mut world = World::new().await;
    let endpoint =
        world.endpoint().answering_in_turn([Answer::RetryAfter(429, secs(90)), Answer::RetryAfter(503, hours(100))]).create().await;
    world.event("order.paid").publish().await;
    world.pass(hours(30)).await;
    // 90 s as asked; then 24 h, which is the most that can be asked for.
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(90), secs(90) + hours(24)]);
}

#[tokio::test]
async fn a_retry_after_header_holds_the_other_deliveries_of_the_endpoint_too() {
    // Given an endpoint that takes one request at a time and asks for a pause of a minute, then of an hour.
    let mut world = World::new().await;
    let answers = [Answer::RetryAfter(429, secs(60)), Answer::RetryAfter(429, hours(1))];
    let endpoint = world.endpoint().answering_in_turn(answers).taking_at_once(1).create().await;
    for _ in 0..3 {
        world.event("order.paid").publish().await;
    }
    world.pass(hours(2)).await;
    // Then the others wait as long, but never longer than five minutes; the one that was asked waits its hour.
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(60), secs(360), secs(360), secs(3_660)]);
}

#[tokio::test]
async fn a_panic_of_ours_is_a_failed_attempt_and_the_engine_continues() {
    let mut world = World::new().await;
    let poisonous = world.endpoint().always(Answer::Panics).retrying_after([secs(5)]).wanting("poison").create().await;
    let healthy = world.endpoint().wanting("order.*").create().await;
    let event = world.event("poison").publish().await;
    world.event("order.paid").publish().await;
    world.pass(mins(1)).await;
    assert_eq!(world.arrivals_of(&poisonous).len(), 2);
    assert_eq!(world.stages(event.event).await, ["dead: retries_exhausted"]);
    assert_eq!(world.arrivals_of(&healthy).len(), 1);
    assert_eq!(world.status().restarts, 0);
}

#[tokio::test]
async fn an_event_that_is_damaged_in_the_store_fails_alone_and_ends() {
    // Given two events that wait for their retry, and nothing of them in memory.
    let mut world = World::new().await;
    let answers = [Answer::Status(500), Answer::Status(500)];
    let endpoint = world.endpoint().answering_in_turn(answers).retrying_after([secs(5), secs(20)]).create().await;
    let damaged = world.event("order.paid").publish().await;
    let whole = world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    world.crash().await;
    // When the store no longer understands the first.
    world.faults.damage(damaged.event);
    world.pass(mins(1)).await;
    // Then its retries are failures that say so, and the other is delivered on time.
    assert_eq!(world.stages(damaged.event).await, ["dead: retries_exhausted"]);
    assert_eq!(world.stages(whole.event).await, ["delivered"]);
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(0), secs(5)]);
    let dead = world.dead_letters().await;
    assert_eq!((dead.len(), dead[0].attempts, dead[0].event), (1, 3, damaged.event));
    assert_eq!(dead[0].last_error, "the data of this event was removed");
    world.assert_promises(&[damaged.event, whole.event]).await;
}

#[tokio::test]
async fn a_dead_letter_that_is_retried_is_resolved_or_dies_again() {
    // Given a dead letter.
    let mut world = World::new().await;
    let answers = [Answer::Status(500), Answer::Status(500), Answer::Status(200)];
    let endpoint = world.endpoint().answering_in_turn(answers).retrying_after([]).create().await;
    let event = world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    let id = world.dead_letters().await[0].id;
    // When it is retried and fails, it is the same dead letter, once more.
    recall(world.line(), world.organization, id).await.expect("it is dead");
    assert!(matches!(recall(world.line(), world.organization, id).await, Err(RecallError::NotDead(DeadLetterStatus::Retrying))));
    world.pass(secs(1)).await;
    let dead = world.dead_letters().await;
    assert_eq!((dead.len(), dead[0].id, dead[0].status, dead[0].failures), (1, id, DeadLetterStatus::Dead, 2));
    // When it is retried and delivered, it is resolved. The request says that it is a replay, under the event's own id.
    recall(world.line(), world.organization, id).await.expect("it is dead");
    world.pass(secs(1)).await;
    assert_eq!(world.dead_letters().await[0].status, DeadLetterStatus::Resolved);
    let last = world.arrivals_of(&endpoint).pop().expect("three requests");
    assert_eq!(everhook_core::line::request::header(&last.request.headers, "x-webhook-replay"), Some(id.to_string().as_str()));
    assert_eq!((last.event, last.attempt), (event.event.to_string(), 1));
    world.assert_promises(&[event.event]).await;
}

#[tokio::test]
async fn an_operational_delivery_that_dies_raises_no_alert_of_its_own() {
    let mut world = World::new().await;
    world.endpoint().answering(500).retrying_after([]).wanting("order.*").create().await;
    let tower = world.operational;
    let watch = world.endpoint().of(tower).answering(500).retrying_after([]).create().await;
    world.event("order.paid").publish().await;
    world.pass(hours(1)).await;
    assert_eq!(world.arrivals_of(&watch).len(), 1);
    assert_eq!(world.dead_letters().await.len(), 2);
}
