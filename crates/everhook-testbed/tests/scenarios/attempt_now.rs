//! Attempting now what waits, and cancelling it: through retries, order, crashes, several nodes, and attempts that are under way.

use std::{collections::BTreeSet, time::Duration};

use everhook_core::{
    ids::{DeliveryId, Ref},
    line::recall::{NotResendable, RecallError, Retry},
    manage::{
        Refusal,
        deliveries::{Retried, attempt_endpoint_now, cancel, retry, retry_event},
        operations::Pace,
    },
    model::{DisabledReason, EndpointState, OperationStatus, OrderingMode},
    ports::{Change, Clock},
};
use everhook_testbed::{Answer, World, cluster::Cluster, hours, mins, secs};

async fn attempt_now(world: &World, delivery: DeliveryId) -> Result<Retried, RecallError> {
    retry(world.line(), &world.author(), Retry { delivery, endpoint: None, priority: None }).await
}

#[tokio::test]
async fn a_waiting_delivery_is_attempted_now_and_its_attempts_count() {
    let mut world = World::new().await;
    let answers = [Answer::Status(503), Answer::Status(503)];
    let endpoint = world.endpoint().retrying_after([hours(1), hours(2)]).answering_in_turn(answers).create().await;
    let event = world.event("order.paid").publish().await.event;
    world.pass(secs(10)).await;
    let delivery = world.deliveries_of(event).await[0].id;
    let retried = attempt_now(&world, delivery).await.expect("it waits");
    assert_eq!((retried.forwarded[0].delivery, retried.forwarded[0].waits_for.is_none()), (delivery, true));
    assert!(retried.recalled.made.is_empty());
    world.pass(secs(1)).await;
    // The second attempt failed: the third is due by the schedule, two hours later.
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(10)]);
    // So it is by the event.
    retry_event(world.line(), &world.author(), event).await.expect("it waits");
    world.pass(secs(1)).await;
    let numbers: Vec<_> = world.arrivals_of(&endpoint).iter().map(|arrival| arrival.attempt).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(world.stages(event).await, ["delivered"]);
    world.assert_promises(&[event]).await;
}

#[tokio::test]
async fn the_answer_says_what_still_holds_it() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().retrying_after([hours(1), hours(1)]).answering_in_turn([Answer::Status(503)]).create().await;
    let event = world.event("order.paid").publish().await.event;
    world.pass(secs(1)).await;
    world.change(&endpoint, |endpoint| endpoint.paused_at = Some(endpoint.updated_at)).await;
    let delivery = world.deliveries_of(event).await[0].id;
    let retried = attempt_now(&world, delivery).await.expect("it waits");
    let why = retried.forwarded[0].waits_for.clone().expect("a pause holds it");
    assert_eq!(why.reason, "paused");
    world.pass(mins(1)).await;
    assert_eq!(world.arrivals_at(&endpoint), [secs(0)]);
    world.change(&endpoint, |endpoint| endpoint.paused_at = None).await;
    world.pass(secs(6)).await;
    assert_eq!(world.stages(event).await, ["delivered"]);
    world.set_state(&endpoint, EndpointState::Disabled { at: world.clock.now(), reason: DisabledReason::ByOwner }).await;
    let refused = attempt_endpoint_now(world.line(), &world.author(), &Ref::Id(endpoint.id), Pace::default()).await;
    assert!(matches!(refused, Err(Refusal::Conflict(..))), "{refused:?}");
}

#[tokio::test]
async fn an_attempt_that_is_under_way_is_neither_repeated_nor_cancelled() {
    let mut world = World::new().await;
    let slow = Answer::Slow(503, secs(5));
    let endpoint = world.endpoint().retrying_after([hours(1), hours(1)]).answering_in_turn([slow, slow]).create().await;
    let event = world.event("order.paid").publish().await.event;
    world.pass(secs(1)).await;
    let delivery = world.deliveries_of(event).await[0].id;
    // While the first attempt hangs there is nothing to bring forward, and nothing can be cancelled.
    let retried = attempt_now(&world, delivery).await.expect("it is due");
    assert!(retried.forwarded[0].waits_for.is_some(), "it says that an attempt may be under way");
    let refused = cancel(world.line(), &world.author(), delivery).await;
    assert!(matches!(&refused, Err(Refusal::Conflict(_, words)) if words.contains("under way")), "{refused:?}");
    world.pass(secs(10)).await;
    assert_eq!(world.arrivals_at(&endpoint), [secs(0)]);
    // Twice in a row makes one request.
    attempt_now(&world, delivery).await.expect("it waits");
    attempt_now(&world, delivery).await.expect("it is due");
    world.pass(mins(1)).await;
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(11)]);
    cancel(world.line(), &world.author(), delivery).await.expect("it waits");
    world.pass(hours(2)).await;
    assert_eq!(world.arrivals_at(&endpoint).len(), 2);
    assert_eq!(world.stages(event).await, ["cancelled: by_person"]);
    world.assert_promises(&[event]).await;
}

#[tokio::test]
async fn only_the_head_of_an_order_is_attempted_now_and_a_cancelled_head_frees_the_next() {
    let mut world = World::new().await;
    let endpoint = world
        .endpoint()
        .in_order(OrderingMode::Strict)
        .retrying_after([hours(1), hours(1)])
        .answering_in_turn([Answer::Status(503), Answer::Status(503)])
        .create()
        .await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(world.event("order.paid").publish().await.event);
    }
    world.pass(secs(1)).await;
    let deliveries: Vec<DeliveryId> = world.deliveries().await.iter().map(|delivery| delivery.id).collect();
    let refused = attempt_now(&world, deliveries[1]).await;
    assert!(matches!(refused, Err(RecallError::Refused(NotResendable::Held))), "{refused:?}");
    attempt_now(&world, deliveries[0]).await.expect("the head waits");
    world.pass(secs(1)).await;
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(1)]);
    cancel(world.line(), &world.author(), deliveries[0]).await.expect("it waits");
    world.pass(secs(1)).await;
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().skip(2).map(|arrival| arrival.event).collect();
    assert_eq!(arrived, [events[1].to_string(), events[2].to_string()]);
    // What was cancelled can be resent, and joins at the tail.
    attempt_now(&world, deliveries[0]).await.expect("it has ended");
    world.pass(secs(1)).await;
    assert_eq!(world.stages(events[0]).await, ["cancelled: by_person", "delivered"]);
    world.assert_promises(&events).await;
}

#[tokio::test]
async fn what_waits_for_an_endpoint_is_attempted_now_at_the_rate_that_was_asked_for_and_over_a_crash() {
    let mut world = World::new().await;
    let down = std::iter::repeat_n(Answer::Status(503), 30);
    let endpoint = world.endpoint().without_breaker().retrying_after([hours(10), hours(10)]).answering_in_turn(down).create().await;
    let mut events = Vec::new();
    for _ in 0..30 {
        events.push(world.event("order.paid").publish().await.event);
    }
    world.pass(secs(10)).await;
    let pace = Pace { rate: std::num::NonZeroU32::new(2), ..Pace::default() };
    let operation = attempt_endpoint_now(world.line(), &world.author(), &Ref::Id(endpoint.id), pace).await.expect("it is enabled");
    world.pass(secs(6)).await;
    let so_far = world.arrivals_of(&endpoint).len() - 30;
    assert!((10..=16).contains(&so_far), "{so_far} in six seconds");
    world.crash().await;
    world.pass(mins(1)).await;
    let found = world.line().ports.operations.operation(world.organization, operation).await.unwrap().unwrap();
    assert_eq!((found.status, found.total, found.done), (OperationStatus::Finished, 30, 30));
    // A request that the crash cut is made again under the same number.
    let attempts: BTreeSet<_> = world.arrivals_of(&endpoint).into_iter().map(|arrival| (arrival.delivery, arrival.attempt)).collect();
    assert_eq!(attempts.len(), 60);
    world.assert_promises(&events).await;
}

#[tokio::test]
async fn a_delivery_that_is_brought_forward_the_moment_its_outcome_is_written_is_attempted_at_once() {
    let mut world = World::new().await;
    let slow = Answer::Slow(503, secs(2));
    let endpoint = world.endpoint().retrying_after([hours(1), hours(1)]).answering_in_turn([slow]).create().await;
    let event = world.event("order.paid").publish().await.event;
    world.pass(Duration::from_millis(1_999)).await;
    let delivery = world.deliveries_of(event).await[0].id;
    let mut forwarded_at = None;
    for _ in 0..200 {
        world.pass(Duration::from_micros(100)).await;
        if world.delivery(delivery).await.0.attempts == 1 {
            attempt_now(&world, delivery).await.expect("it waits");
            forwarded_at = Some(world.clock.now());
            break;
        }
    }
    let forwarded_at = forwarded_at.expect("the outcome was written");
    world.pass(secs(1)).await;
    let arrivals = world.arrivals_of(&endpoint);
    assert_eq!(arrivals.len(), 2, "no survey was needed");
    assert!(arrivals[1].at.since(forwarded_at) < Duration::from_millis(100));
    world.assert_promises(&[event]).await;
}

#[tokio::test]
async fn another_nodes_lane_is_hinted_at_and_hears_of_what_was_cancelled() {
    let mut cluster = Cluster::of(2).await;
    let answers = [Answer::Status(503), Answer::Status(503)];
    let receiver = cluster.endpoint().retrying_after([hours(1), hours(1)]).answering_in_turn(answers).create().await;
    let first = cluster.event("order.paid").publish().await.event;
    cluster.pass(secs(1)).await;
    let delivery = cluster.deliveries_of(first).await[0].id;
    let other = cluster.node(1 - cluster.owner_of(&receiver)).line.clone();
    let author = cluster.author();
    retry(&other, &author, Retry { delivery, endpoint: None, priority: None }).await.expect("it waits");
    cluster.settle_down().await;
    assert_eq!(cluster.arrivals_of(&receiver).len(), 2, "the owner looked at once");
    // What is due and waits in the owner's memory because the endpoint is busy leaves it.
    let busy = cluster.endpoint().taking_at_once(1).always(Answer::Slow(200, secs(10))).wanting("busy.*").create().await;
    let events = [cluster.event("busy.a").publish().await.event, cluster.event("busy.b").publish().await.event];
    cluster.pass(secs(1)).await;
    let waits = cluster.deliveries_of(events[1]).await.into_iter().find(|delivery| delivery.lane_id == busy.id.into()).expect("made").id;
    let other = cluster.node(1 - cluster.owner_of(&busy)).line.clone();
    cancel(&other, &author, waits).await.expect("it waits");
    cluster.registry.record(Change::Cancelled(cluster.application, busy.id));
    cluster.pass(mins(1)).await;
    assert_eq!(cluster.arrivals_of(&busy).len(), 1, "what was cancelled is not sent");
}
