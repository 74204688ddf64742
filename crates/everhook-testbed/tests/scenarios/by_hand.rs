//! Retries by hand: what failed, what was cancelled, and what was delivered already.

use everhook_core::{
    ids::DeliveryId,
    line::{
        recall::{NotResendable, RecallError, RecallRequest, Recalled, resend},
        request,
    },
    manage::deliveries::{retry_batch, retry_event},
    model::{DeadLetterStatus, DisabledReason, EndpointState, OrderingMode, Priority},
    ports::Clock,
};
use everhook_testbed::{Answer, World, mins, secs};

async fn retry(world: &World, delivery: DeliveryId) -> Result<Recalled, RecallError> {
    let (found, _) = world.delivery(delivery).await;
    resend(world.line(), world.organization, vec![RecallRequest::of(&found)], Some(Priority::High)).await
}

#[tokio::test]
async fn a_retry_of_an_event_reaches_only_the_endpoints_that_failed() {
    let mut world = World::new().await;
    let healthy = world.endpoint().create().await;
    let failing = world.endpoint().answering_in_turn([Answer::Status(500)]).retrying_after([]).create().await;
    let event = world.event("order.paid").publish().await.event;
    world.pass(secs(1)).await;
    let recalled = retry_event(world.line(), &world.author(), event).await.expect("one has failed").recalled;
    world.pass(secs(1)).await;
    assert_eq!((recalled.made.len(), recalled.skipped.len()), (1, 0));
    assert_eq!((world.arrivals_of(&healthy).len(), world.arrivals_of(&failing).len()), (1, 2));
    assert_eq!(world.dead_letters().await[0].status, DeadLetterStatus::Resolved);
    let none = retry_event(world.line(), &world.author(), event).await;
    assert!(matches!(none, Err(RecallError::NoneFailed)), "{none:?}");
    world.assert_promises(&[event]).await;
}

#[tokio::test]
async fn what_was_delivered_can_be_delivered_once_more_and_what_is_open_cannot() {
    let mut world = World::new().await;
    let answers = [Answer::Status(200), Answer::Status(503)];
    let endpoint = world.endpoint().answering_in_turn(answers).create().await;
    let event = world.event("order.paid").publish().await.event;
    world.pass(secs(1)).await;
    let first = world.deliveries_of(event).await[0].id;
    let second = retry(&world, first).await.expect("it has ended").made[0];
    world.pass(secs(1)).await;
    // The second waits for its retry: neither can be done again.
    for delivery in [first, second] {
        let refused = retry(&world, delivery).await;
        assert!(matches!(refused, Err(RecallError::Refused(NotResendable::Open))), "{refused:?}");
    }
    world.pass(mins(1)).await;
    let last = world.arrivals_of(&endpoint).pop().expect("three requests");
    assert_eq!(request::header(&last.request.headers, "x-webhook-replay"), Some(first.to_string().as_str()));
    assert_eq!(world.stages(event).await, ["delivered", "delivered"]);
    assert_eq!(world.delivery(second).await.0.priority, Priority::High);
}

#[tokio::test]
async fn cancelled_deliveries_of_a_strict_endpoint_come_back_in_the_order_of_events() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).answering_in_turn([Answer::Status(503)]).create().await;
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push(world.event("order.paid").publish().await.event);
    }
    world.settle_down().await;
    let disabled = EndpointState::Disabled { at: world.clock.now(), reason: DisabledReason::ByOwner };
    world.set_state(&endpoint, disabled).await;
    world.pass(secs(10)).await;
    let mut cancelled: Vec<DeliveryId> = world.deliveries().await.iter().map(|delivery| delivery.id).collect();
    // Asked for in the wrong order, and while the endpoint is disabled first.
    cancelled.reverse();
    let (line, by) = (world.line().clone(), world.author());
    let refused = retry_batch(&line, &by, endpoint.id, &cancelled, None).await;
    assert!(matches!(refused, Err(RecallError::Refused(NotResendable::EndpointClosed))), "{refused:?}");
    world.set_state(&endpoint, EndpointState::Enabled).await;
    let recalled = retry_batch(&line, &by, endpoint.id, &cancelled, None).await.expect("it is enabled").recalled;
    assert_eq!(recalled.made.len(), 4);
    world.pass(mins(1)).await;
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().skip(1).map(|arrival| arrival.event).collect();
    assert_eq!(arrived, events.iter().map(ToString::to_string).collect::<Vec<_>>());
    world.assert_promises(&events).await;
}

#[tokio::test]
async fn a_retry_that_brings_some_forward_says_why_it_did_not_resend_the_others() {
    // Given an event that failed for good at one endpoint and waits at another, and an organization that may retry one more.
    let mut world = World::new().await;
    let failed = world.endpoint().answering(500).retrying_after([]).create().await;
    let waits = world.endpoint().answering(500).retrying_after([mins(9)]).create().await;
    let event = world.event("order.paid").publish().await.event;
    world.pass(secs(1)).await;
    let deliveries = world.deliveries_of(event).await;
    let of = |id: everhook_core::ids::EndpointId| deliveries.iter().find(|delivery| delivery.lane_id == id.into()).expect("one each").id;
    world.line().retry_limit.take(world.organization, Default::default(), 59, world.clock.now()).expect("it may");
    // When the event is retried.
    let retried = retry_event(world.line(), &world.author(), event).await.expect("one is brought forward");
    // Then the answer names the one that was not resent, and why.
    assert_eq!(retried.forwarded.iter().map(|due| due.delivery).collect::<Vec<_>>(), [of(waits.id)]);
    let (refused, why) = retried.refused.expect("the other was refused");
    assert_eq!(refused, [of(failed.id)]);
    assert!(matches!(*why, RecallError::TooOften(_)), "{why}");
}

#[tokio::test]
async fn an_organization_retries_sixty_deliveries_a_minute_by_hand() {
    let mut world = World::new().await;
    world.endpoint().create().await;
    let event = world.event("order.paid").publish().await.event;
    world.pass(secs(1)).await;
    let delivery = world.deliveries_of(event).await[0].id;
    for n in 0..61 {
        match retry(&world, delivery).await {
            Ok(_) => assert!(n < 60, "the 61st was made"),
            Err(RecallError::TooOften(wait)) => assert_eq!((n, wait), (60, secs(1) - 60 * std::time::Duration::from_millis(10))),
            Err(other) => panic!("{other}"),
        }
        world.pass(std::time::Duration::from_millis(10)).await;
    }
    world.pass(secs(1)).await;
    retry(&world, delivery).await.expect("a token has come");
}
