//! Crashes: everything in memory is gone, and nothing accepted is.

use everhook_testbed::{Answer, World, hours, mins, secs};

#[tokio::test]
async fn a_crash_in_flight_repeats_the_request_under_the_same_number() {
    // Given a request under way.
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering_in_turn([Answer::Slow(200, secs(10))]).create().await;
    let event = world.event("order.paid").publish().await;
    world.pass(secs(5)).await;
    // When the process dies and comes back.
    world.crash().await;
    world.pass(secs(1)).await;
    // Then the request is made again, and nothing of the first is counted.
    let numbers: Vec<u32> = world.arrivals_of(&endpoint).iter().map(|arrival| arrival.attempt).collect();
    assert_eq!(numbers, [1, 1]);
    assert_eq!(world.stages(event.event).await, ["delivered"]);
    world.assert_promises(&[event.event]).await;
}

#[tokio::test]
async fn a_retry_is_made_on_time_after_a_crash() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering_in_turn([Answer::Status(500), Answer::Status(500)]).create().await;
    world.event("order.paid").publish().await;
    world.pass(mins(1)).await;
    world.crash().await;
    world.pass(hours(1)).await;
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(5), secs(305)]);
}

#[tokio::test]
async fn nothing_accepted_is_lost_over_many_crashes() {
    let mut world = World::seeded(42).await;
    for first in [Answer::Status(500), Answer::Slow(200, secs(3)), Answer::Hangs] {
        world.endpoint().answering_in_turn([first, Answer::Status(503)]).create().await;
    }
    let mut events = Vec::new();
    for round in 0..40 {
        for _ in 0..3 {
            events.push(world.event("order.paid").publish().await.event);
        }
        let pause = world.dice.below(4_000);
        world.pass(std::time::Duration::from_millis(pause)).await;
        if round % 2 == 0 {
            world.crash().await;
        }
    }
    world.pass(hours(48)).await;
    world.assert_promises(&events).await;
}

#[tokio::test]
async fn a_graceful_stop_lets_requests_end_and_hands_back_what_takes_too_long() {
    let mut world = World::new().await;
    let quick = world.endpoint().always(Answer::Slow(200, secs(2))).create().await;
    let event = world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    assert_eq!((world.arrivals_of(&quick).len(), world.status().in_flight), (1, 1));
    world.stop_within(secs(30)).await;
    world.start_again();
    world.pass(secs(10)).await;
    // It ended during the stop: it was not made again.
    assert_eq!(world.arrivals_of(&quick).len(), 1);
    assert_eq!(world.stages(event.event).await, ["delivered"]);
}
