//! Disabling, deleting and enabling again.

use everhook_core::{
    ids::EventId,
    model::{DisabledReason, EndpointState, Stage},
    ports::Clock,
};
use everhook_testbed::{Answer, World, hours, mins, secs};

#[tokio::test]
async fn what_waits_for_a_disabled_endpoint_is_cancelled_and_not_brought_back() {
    // Given an endpoint that fails, so that deliveries wait for their retry.
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering(500).create().await;
    let before = world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    // When it is disabled, and enabled again a minute later.
    let disabled = EndpointState::Disabled { at: world.clock.now(), reason: DisabledReason::ByOwner };
    world.set_state(&endpoint, disabled).await;
    assert_eq!(world.event("order.paid").publish().await.deliveries, 0);
    world.pass(mins(1)).await;
    world.network.script(&endpoint.url, [], Answer::Status(200));
    world.set_state(&endpoint, EndpointState::Enabled).await;
    let after = world.event("order.paid").publish().await;
    world.pass(hours(24)).await;
    // Then what waited is cancelled, and what came after is delivered.
    assert_eq!(world.stages(before.event).await, ["cancelled: endpoint_disabled"]);
    assert_eq!(world.stages(after.event).await, ["delivered"]);
    assert_eq!(world.arrivals_of(&endpoint).len(), 2);
    world.assert_promises(&[before.event, after.event]).await;
}

#[tokio::test]
async fn what_is_in_flight_when_its_endpoint_is_disabled_may_end_but_is_not_retried() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().always(Answer::Slow(500, secs(10))).create().await;
    let event = world.event("order.paid").publish().await;
    world.pass(secs(5)).await;
    world.set_state(&endpoint, EndpointState::Disabled { at: world.clock.now(), reason: DisabledReason::ByOwner }).await;
    world.pass(hours(24)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 1);
    assert_eq!(world.stages(event.event).await, ["cancelled: endpoint_disabled"]);
}

#[tokio::test]
async fn what_waits_for_a_deleted_endpoint_is_cancelled_also_after_a_restart() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering(500).create().await;
    let event = world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    world.set_state(&endpoint, EndpointState::Deleted { at: world.clock.now() }).await;
    world.crash().await;
    world.pass(mins(1)).await;
    assert_eq!(world.stages(event.event).await, ["cancelled: destination_deleted"]);
    assert_eq!(world.arrivals_of(&endpoint).len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_enabled_while_its_deliveries_are_being_cancelled_gets_only_what_is_new() {
    // Given a paused endpoint with more waiting than one step of a sweep cancels.
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    let now = world.clock.now();
    world.change(&endpoint, |endpoint| endpoint.paused_at = Some(now)).await;
    world.settle_down().await;
    let mut old = Vec::new();
    for _ in 0..3_000 {
        old.push(world.event("order.paid").publish().await.event);
    }
    world.settle_down().await;
    // When it is disabled, and enabled again as soon as the sweep has begun.
    world.set_state(&endpoint, EndpointState::Disabled { at: now, reason: DisabledReason::ByOwner }).await;
    let is_cancelled = async |event: EventId| matches!(world.deliveries_of(event).await[0].stage, Stage::Cancelled { .. });
    while !is_cancelled(old[0]).await {
        tokio::task::yield_now().await;
    }
    assert!(!is_cancelled(old[2_999]).await, "the sweep is under way");
    world.change(&endpoint, |endpoint| (endpoint.state, endpoint.paused_at) = (EndpointState::Enabled, None)).await;
    world.pass(secs(1)).await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(world.event("order.paid").publish().await.event.to_string());
    }
    world.pass(mins(1)).await;
    // Then what waited before is cancelled, and only what is new arrives.
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().map(|arrival| arrival.event).collect();
    assert_eq!(arrived, events);
}
