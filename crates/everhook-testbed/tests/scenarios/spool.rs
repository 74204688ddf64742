//! The spool: what is accepted while the store is away.

use everhook_core::{
    ids::EventId,
    line::publish::{Acceptance, PublishError, Spooled, publish},
    manage::erasing,
    model::OrderingMode,
};
use everhook_testbed::{Receiver, World, faults::Kind, secs};

/// Room for as many events as a scenario has.
const ROOMY: u64 = 1 << 20;

/// The events that arrived, in order.
fn arrived(world: &World, receiver: &Receiver) -> Vec<String> {
    world.arrivals_of(receiver).into_iter().map(|arrival| arrival.event).collect()
}

async fn accept(world: &World, count: usize) -> Vec<EventId> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(world.event("order.paid").accept().await.expect("the event is accepted").event());
    }
    events
}

fn texts(events: &[EventId]) -> Vec<String> {
    events.iter().map(EventId::to_string).collect()
}

#[tokio::test]
async fn what_is_published_while_the_store_is_away_is_delivered_in_order_when_it_is_back() {
    // Given an endpoint that wants order, and a store that goes away.
    let mut world = World::spooling(ROOMY).await;
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).create().await;
    let mut events = accept(&world, 3).await;
    world.pass(secs(1)).await;
    world.faults.set_away(true);
    // When events are published before, meanwhile and after.
    events.push(world.event("order.paid").spool().await.event);
    events.extend(accept(&world, 5).await);
    world.pass(secs(60)).await;
    assert_eq!(arrived(&world, &endpoint), texts(&events[..3]));
    world.faults.set_away(false);
    // The first one after it is back still queues behind the others.
    events.push(world.event("order.paid").spool().await.event);
    world.pass(secs(10)).await;
    events.push(world.event("order.paid").publish().await.event);
    world.pass(secs(10)).await;
    // Then all arrive, in the order in which they were accepted.
    assert_eq!(arrived(&world, &endpoint), texts(&events));
}

#[tokio::test]
async fn a_spooled_event_survives_a_crash() {
    let mut world = World::spooling(ROOMY).await;
    let endpoint = world.endpoint().create().await;
    accept(&world, 1).await;
    world.pass(secs(1)).await;
    world.faults.set_away(true);
    let spooled = world.event("order.paid").data("{\"n\":2}").label("region", "eu").header("X-Batch", "7").spool().await;
    world.crash().await;
    world.faults.set_away(false);
    world.pass(secs(10)).await;
    let arrivals = world.arrivals_of(&endpoint);
    assert_eq!(arrived(&world, &endpoint)[1..], [spooled.event.to_string()]);
    let body = String::from_utf8_lossy(&arrivals[1].request.body).into_owned();
    assert!(body.contains("\"data\":{\"n\":2}"), "{body}");
}

#[tokio::test]
async fn an_event_whose_commit_was_not_answered_is_forwarded_as_the_event_that_it_is() {
    // Given a store that records an event, and whose answer is lost.
    let mut world = World::spooling(ROOMY).await;
    let endpoint = world.endpoint().create().await;
    for key in [None, Some("order-1")] {
        let event = world.event("order.paid");
        let event = if let Some(key) = key { event.keyed(key) } else { event };
        world.faults.plan(0, Kind::After);
        // When it is spooled, and forwarded.
        let spooled = event.spool().await;
        world.pass(secs(10)).await;
        // Then there is one event, and it arrived once.
        let seen = arrived(&world, &endpoint);
        assert_eq!(seen.iter().filter(|id| **id == spooled.event.to_string()).count(), 1, "{key:?}: {seen:?}");
    }
    assert_eq!(arrived(&world, &endpoint).len(), 2);
}

#[tokio::test]
async fn a_batch_that_fails_half_way_is_spooled_from_there_on() {
    let mut world = World::spooling(ROOMY).await;
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).create().await;
    let batch = (0..4).map(|_| world.event("order.paid").publication()).collect();
    world.faults.plan(0, Kind::Midway);
    let answers: Vec<Acceptance> = publish(world.line(), batch).await.into_iter().map(|answer| answer.expect("accepted")).collect();
    let is_spooled: Vec<bool> = answers.iter().map(|answer| matches!(answer, Acceptance::Spooled(_))).collect();
    assert_eq!(is_spooled, [false, false, true, true]);
    world.pass(secs(10)).await;
    assert_eq!(arrived(&world, &endpoint), texts(&answers.iter().map(Acceptance::event).collect::<Vec<_>>()));
}

#[tokio::test]
async fn a_key_that_was_taken_makes_the_spooled_id_another_name_of_the_original() {
    // Given an event with a key, and a store that goes away.
    let mut world = World::spooling(ROOMY).await;
    let endpoint = world.endpoint().create().await;
    let original = world.event("order.paid").keyed("order-1").publish().await;
    world.pass(secs(1)).await;
    world.faults.set_away(true);
    // When the same key is published again, twice.
    let spooled = world.event("order.paid").keyed("order-1").spool().await;
    let again = world.event("order.paid").keyed("order-1").spool().await;
    assert_eq!(again, Spooled { event: spooled.event, duplicate: true });
    assert!(!spooled.duplicate && spooled.event != original.event);
    world.faults.set_away(false);
    world.pass(secs(10)).await;
    // Then nothing new was made, and the id that the publisher was told shows the original.
    assert_eq!(arrived(&world, &endpoint), texts(&[original.event]));
    let found = world.line().ports.history.event(world.organization, spooled.event).await.expect("the store answers");
    assert_eq!(found.expect("the alias finds it").0.id, original.event);
    let later = world.event("order.paid").keyed("order-1").publish().await;
    assert!(later.duplicate && later.event == original.event);
}

#[tokio::test]
async fn a_spooled_event_under_a_key_that_another_has_becomes_an_event_of_its_own() {
    // Given an event with a key, and a store that goes away.
    let mut world = World::spooling(ROOMY).await;
    let endpoint = world.endpoint().create().await;
    let original = world.event("order.paid").keyed("order-1").publish().await;
    world.pass(secs(1)).await;
    world.faults.set_away(true);
    // When something else is accepted under its key, because nobody can know, and a third under a key that waits is refused.
    let other = world.event("order.paid").keyed("order-1").data("{\"n\":2}").spool().await;
    let third = world.event("order.paid").keyed("order-1").data("{\"n\":3}").accept().await;
    assert!(matches!(third, Err(PublishError::KeyReused(reused)) if reused.original == other.event), "{third:?}");
    let behind = world.event("order.paid").keyed("order-2").spool().await;
    world.faults.keep_spooled(true);
    world.faults.set_away(false);
    world.pass(secs(5)).await;
    // And the node dies between the store's commit and the removal.
    world.crash().await;
    world.faults.keep_spooled(false);
    world.pass(secs(10)).await;
    // Then all that were accepted arrived, once each.
    let mut seen = arrived(&world, &endpoint);
    seen.sort();
    assert_eq!(seen, texts(&[original.event, other.event, behind.event]));
    let found = world.line().ports.history.event(world.organization, other.event).await.expect("the store answers").expect("it is there");
    assert_eq!((found.0.id, found.0.idempotency_key), (other.event, other.event.to_string()));
    assert_eq!(world.line().ports.spool.as_ref().expect("a spool").status().events, 0);
}

#[tokio::test]
async fn a_spooled_event_under_the_key_of_an_erased_one_brings_nothing_back() {
    let mut world = World::spooling(ROOMY).await;
    let endpoint = world.endpoint().create().await;
    let original = world.event("order.paid").keyed("order-1").publish().await;
    world.pass(secs(1)).await;
    erasing::erase_event(world.line(), &world.author(), original.event).await.expect("it is erased");
    let refused = world.event("order.paid").keyed("order-1").accept().await;
    assert!(matches!(refused, Err(PublishError::KeyReused(reused)) if reused.is_erased), "{refused:?}");
    world.faults.set_away(true);
    let again = world.event("order.paid").keyed("order-1").spool().await;
    world.faults.set_away(false);
    world.pass(secs(10)).await;
    assert_eq!(arrived(&world, &endpoint), texts(&[original.event]));
    let found = world.line().ports.history.event(world.organization, again.event).await.expect("the store answers");
    assert_eq!(found.expect("the alias finds it").0.id, original.event);
}

#[tokio::test]
async fn a_full_spool_refuses_until_there_is_room_again() {
    let mut world = World::spooling(3_000).await;
    let endpoint = world.endpoint().create().await;
    accept(&world, 1).await;
    world.faults.set_away(true);
    let first = world.event("order.paid").keyed("first").spool().await;
    let mut accepted = 2;
    let refusal = loop {
        match world.event("order.paid").accept().await {
            Ok(_) => accepted += 1,
            Err(refusal) => break refusal,
        }
        assert!(accepted < 10, "it is never full");
    };
    assert!(matches!(refusal, PublishError::SpoolFull), "{refusal:?}");
    // What waits already needs no room.
    assert_eq!(world.event("order.paid").keyed("first").spool().await, Spooled { duplicate: true, ..first });
    world.faults.set_away(false);
    world.pass(secs(10)).await;
    world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), accepted + 1);
}

#[tokio::test]
async fn a_crash_between_the_stores_commit_and_the_removal_makes_no_second_delivery() {
    // Given events that are in the store, and in the spool as well, because the node died in between.
    let mut world = World::spooling(ROOMY).await;
    let endpoint = world.endpoint().create().await;
    accept(&world, 1).await;
    world.faults.set_away(true);
    let mut events = accept(&world, 3).await;
    world.faults.keep_spooled(true);
    world.faults.set_away(false);
    world.pass(secs(5)).await;
    world.crash().await;
    // When the next life begins.
    world.faults.keep_spooled(false);
    events.push(world.event("order.paid").spool().await.event);
    world.pass(secs(10)).await;
    // Then each arrived once.
    let mut seen = arrived(&world, &endpoint)[1..].to_vec();
    seen.sort();
    assert_eq!(seen, texts(&events));
    assert_eq!(world.line().ports.spool.as_ref().expect("a spool").status().events, 0);
}

#[tokio::test]
async fn an_event_that_the_store_will_never_take_is_kept_aside_and_the_others_come_through() {
    let mut world = World::spooling(ROOMY).await;
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).create().await;
    accept(&world, 1).await;
    world.pass(secs(1)).await;
    world.faults.set_away(true);
    let mut events = accept(&world, 9).await;
    world.faults.damage(events.remove(4));
    world.faults.set_away(false);
    world.pass(secs(30)).await;
    assert_eq!(arrived(&world, &endpoint)[1..], texts(&events));
    let status = world.line().ports.spool.as_ref().expect("a spool").status();
    assert!(status.events == 0 && status.bytes > 0, "{status:?}");
}

#[tokio::test]
async fn a_delivery_is_as_old_as_its_making_however_long_its_event_waited() {
    // An endpoint that was disabled and enabled again meanwhile cancels what was made before: this was not.
    let mut world = World::spooling(ROOMY).await;
    world.endpoint().create().await;
    accept(&world, 1).await;
    world.pass(secs(1)).await;
    world.faults.set_away(true);
    let spooled = world.event("order.paid").spool().await;
    world.pass(secs(60)).await;
    let back_at = world.line().ports.clock.now();
    world.faults.set_away(false);
    world.pass(secs(10)).await;
    let deliveries = world.deliveries_of(spooled.event).await;
    assert!(deliveries.len() == 1 && deliveries[0].created_at >= back_at, "{deliveries:?}, the store was back at {back_at}");
}

#[tokio::test]
async fn an_endpoint_made_while_an_event_waits_gets_it() {
    let mut world = World::spooling(ROOMY).await;
    world.endpoint().create().await;
    accept(&world, 1).await;
    world.faults.set_away(true);
    let spooled = world.event("order.paid").spool().await;
    let late = world.endpoint().create().await;
    world.faults.set_away(false);
    world.pass(secs(10)).await;
    assert_eq!(arrived(&world, &late), texts(&[spooled.event]));
}
