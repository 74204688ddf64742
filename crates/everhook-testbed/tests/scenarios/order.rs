//! Order: an event never passes one that was published before it, whatever happens to either.

use everhook_core::{
    line::recall::recall,
    model::{EndpointState, OrderingMode, Priority},
    ports::Clock,
};
use everhook_testbed::{Answer, Receiver, World, hours, mins, secs};

/// The events in the order in which they first arrived.
fn first_arrivals(world: &World, receiver: &Receiver) -> Vec<String> {
    let mut seen = Vec::new();
    for arrival in world.arrivals_of(receiver) {
        if !seen.contains(&arrival.event) {
            seen.push(arrival.event);
        }
    }
    seen
}

async fn publish(world: &World, event_type: &str, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    for n in 0..count {
        let priority = Priority::ALL[n % 3];
        events.push(world.event(event_type).priority(priority).publish().await.event.to_string());
    }
    events
}

#[tokio::test]
async fn a_strict_endpoint_gets_events_one_at_a_time_in_order_through_retries() {
    // Given a strict endpoint that fails the first request, hangs at the third, and takes five at once if it were asked to.
    let mut world = World::new().await;
    let answers = [Answer::Status(503), Answer::Status(200), Answer::Hangs, Answer::Status(200)];
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).answering_in_turn(answers).create().await;
    // When events of all priorities are published at once.
    let events = publish(&world, "order.paid", 10).await;
    world.pass(mins(10)).await;
    // Then priority did not matter, and each waited until the one before it had ended.
    assert_eq!(first_arrivals(&world, &endpoint), events);
    let tried: Vec<_> = world.arrivals_of(&endpoint).into_iter().map(|arrival| (arrival.event, arrival.attempt)).collect();
    assert_eq!(tried[..4], [(events[0].clone(), 1), (events[0].clone(), 2), (events[1].clone(), 1), (events[1].clone(), 2)]);
    assert_eq!(tried.len(), 12);
}

#[tokio::test]
async fn a_dead_head_frees_the_next() {
    let mut world = World::new().await;
    let answers = [Answer::Status(500), Answer::Status(500)];
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).retrying_after([secs(5)]).answering_in_turn(answers).create().await;
    let events = publish(&world, "order.paid", 3).await;
    world.pass(mins(1)).await;
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(5), secs(5), secs(5)]);
    assert_eq!(first_arrivals(&world, &endpoint), events);
    assert_eq!(world.dead_letters().await.len(), 1);
}

#[tokio::test]
async fn order_by_type_lets_other_types_pass() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().in_order(OrderingMode::PerEventType).answering_in_turn([Answer::Status(503)]).create().await;
    let paid = publish(&world, "order.paid", 3).await;
    let shipped = publish(&world, "order.shipped", 2).await;
    world.settle_down().await;
    let arrived = first_arrivals(&world, &endpoint);
    assert!(shipped.iter().all(|event| arrived.contains(event)), "another type does not wait");
    assert_eq!(arrived.iter().filter(|event| paid.contains(event)).count(), 1);
    world.pass(secs(6)).await;
    let arrived = first_arrivals(&world, &endpoint);
    assert_eq!(arrived.into_iter().filter(|event| paid.contains(event)).collect::<Vec<_>>(), paid);
}

#[tokio::test]
async fn order_by_key_lets_other_keys_and_events_without_one_pass() {
    // Given an endpoint ordered by key that refuses the first request.
    let mut world = World::new().await;
    let endpoint = world.endpoint().in_order(OrderingMode::PerKey).answering_in_turn([Answer::Status(503)]).create().await;
    let publish = async |world: &World, event_type: &str, key: Option<&str>| {
        let event = world.event(event_type);
        let event = match key {
            Some(key) => event.ordering_key(key),
            None => event,
        };
        event.publish().await.event.to_string()
    };
    // When two customers' events and others are published, and the node crashes.
    let mut anna = Vec::new();
    for event_type in ["order.paid", "order.shipped", "user.created"] {
        anna.push(publish(&world, event_type, Some("anna")).await);
    }
    let others = [publish(&world, "order.paid", Some("berta")).await, publish(&world, "order.paid", None).await];
    world.settle_down().await;
    // Then one customer's failure holds up only what is about that customer, whatever the type.
    let arrived = first_arrivals(&world, &endpoint);
    assert!(others.iter().all(|event| arrived.contains(event)), "others do not wait");
    assert_eq!(arrived.iter().filter(|event| anna.contains(event)).count(), 1);
    world.crash().await;
    anna.push(publish(&world, "order.paid", Some("anna")).await);
    world.pass(mins(1)).await;
    let arrived = first_arrivals(&world, &endpoint);
    assert_eq!(arrived.into_iter().filter(|event| anna.contains(event)).collect::<Vec<_>>(), anna);
}

#[tokio::test]
async fn a_dead_letter_of_a_key_joins_at_the_tail_of_its_key() {
    let mut world = World::new().await;
    let endpoint = world
        .endpoint()
        .in_order(OrderingMode::PerKey)
        .retrying_after([])
        .answering_in_turn([Answer::Status(500), Answer::Slow(200, secs(10))])
        .create()
        .await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(world.event("order.paid").ordering_key("anna").publish().await.event.to_string());
    }
    world.pass(secs(1)).await;
    // The first is dead, the second under way, the third held.
    let dead = world.dead_letters().await.remove(0);
    recall(world.line(), world.organization, dead.id).await.expect("it is dead");
    world.pass(mins(1)).await;
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().map(|arrival| arrival.event).collect();
    assert_eq!(arrived, [0, 1, 2, 0].map(|n| events[n].clone()));
}

#[tokio::test]
async fn order_holds_over_crashes() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).always(Answer::Slow(200, secs(1))).create().await;
    let mut events = publish(&world, "order.paid", 10).await;
    for _ in 0..5 {
        world.pass(std::time::Duration::from_millis(1_500)).await;
        world.crash().await;
        events.extend(publish(&world, "order.paid", 2).await);
    }
    world.pass(mins(2)).await;
    assert_eq!(first_arrivals(&world, &endpoint), events);
    // A repeat is of the last one that was under way, never of an older one.
    let arrived = world.arrivals_of(&endpoint);
    for pair in arrived.windows(2) {
        let place = |event: &String| events.iter().position(|known| known == event).expect("published");
        assert!(place(&pair[1].event) >= place(&pair[0].event), "an older event came after a newer one");
    }
}

#[tokio::test]
async fn a_dead_letter_that_is_brought_back_comes_after_what_was_published_meanwhile() {
    let mut world = World::new().await;
    let endpoint = world
        .endpoint()
        .in_order(OrderingMode::Strict)
        .retrying_after([])
        .answering_in_turn([Answer::Status(500), Answer::Slow(200, secs(10))])
        .create()
        .await;
    let events = publish(&world, "order.paid", 3).await;
    world.pass(secs(1)).await;
    // The first is dead, the second under way, the third held.
    let dead = world.dead_letters().await.remove(0);
    recall(world.line(), world.organization, dead.id).await.expect("it is dead");
    world.pass(mins(1)).await;
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().map(|arrival| arrival.event).collect();
    assert_eq!(arrived, [0, 1, 2, 0].map(|n| events[n].clone()));
}

#[tokio::test]
async fn after_a_change_of_mode_new_events_wait_for_those_before_it() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering_in_turn([Answer::Status(503)]).create().await;
    let unordered = publish(&world, "order.paid", 2).await;
    world.settle_down().await;
    // The first waits for its retry when the endpoint becomes strict.
    world.change(&endpoint, |endpoint| endpoint.ordering.mode = OrderingMode::Strict).await;
    let strict = publish(&world, "order.paid", 3).await;
    world.pass(secs(4)).await;
    assert_eq!(first_arrivals(&world, &endpoint), unordered, "the new ones wait");
    world.pass(secs(20)).await;
    assert_eq!(first_arrivals(&world, &endpoint), [unordered, strict].concat());
}

#[tokio::test]
async fn disabling_a_strict_endpoint_cancels_what_is_held_and_enabling_it_starts_anew() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).answering_in_turn([Answer::Status(503)]).create().await;
    let before = publish(&world, "order.paid", 5).await;
    world.settle_down().await;
    let disabled = EndpointState::Disabled { at: world.clock.now(), reason: everhook_core::model::DisabledReason::ByOwner };
    world.set_state(&endpoint, disabled).await;
    world.pass(secs(10)).await;
    world.set_state(&endpoint, EndpointState::Enabled).await;
    let after = publish(&world, "order.paid", 3).await;
    world.pass(hours(1)).await;
    assert_eq!(first_arrivals(&world, &endpoint), [vec![before[0].clone()], after].concat());
    for delivery in world.deliveries().await {
        assert!(!matches!(delivery.stage, everhook_core::model::Stage::Held | everhook_core::model::Stage::Waiting { .. }));
    }
}
