//! Parking: what waits for something outside is neither attempted nor lost, whatever happens meanwhile.

use everhook_core::{
    line::parking::release,
    model::{AfterExpiry, OrderingMode, Stage},
};
use everhook_testbed::{Answer, World, hours, mins, secs, waited_for};

#[tokio::test]
async fn what_is_parked_goes_on_when_what_it_waits_for_has_come_and_its_schedule_has_lost_nothing() {
    // Given a destination that knows nothing of a user for now, and a schedule of two attempts.
    let mut world = World::new().await;
    let answers = [Answer::Parks(None), Answer::Parks(None), Answer::Status(503), Answer::Status(200)];
    let endpoint = world.endpoint().retrying_after([secs(5)]).answering_in_turn(answers).create().await;
    let event = world.event("user.created").publish().await.event;
    // When days pass, and the node crashes.
    world.pass(hours(48)).await;
    world.crash().await;
    world.pass(hours(1)).await;
    let parked = world.deliveries_of(event).await.remove(0);
    assert!(matches!(parked.stage, Stage::Parked(_)), "{parked:?}");
    assert_eq!(world.arrivals_at(&endpoint).len(), 1, "it is not attempted meanwhile");
    // Then it goes on twice as what it waits for comes, and still has both attempts of its schedule.
    for _ in 0..2 {
        assert_eq!(release(world.line(), world.organization, &waited_for()).await.unwrap(), 1);
        world.pass(secs(1)).await;
    }
    world.pass(mins(1)).await;
    assert_eq!(world.arrivals_at(&endpoint).len(), 4);
    world.assert_promises(&[event]).await;
    assert_eq!(world.dead_letters().await.len(), 0);
}

#[tokio::test]
async fn something_that_comes_during_the_attempt_is_not_missed() {
    let mut world = World::new().await;
    let answers = [Answer::SlowlyParks(secs(5)), Answer::Status(200)];
    let endpoint = world.endpoint().answering_in_turn(answers).create().await;
    let event = world.event("user.created").publish().await.event;
    world.settle_down().await;
    // The request is under way: nobody knows yet that it parks its delivery.
    assert_eq!(release(world.line(), world.organization, &waited_for()).await.unwrap(), 0);
    world.pass(mins(1)).await;
    assert_eq!(world.arrivals_at(&endpoint).len(), 2);
    world.assert_promises(&[event]).await;
}

#[tokio::test]
async fn a_parking_that_is_over_fails_by_the_schedule_or_gives_up() {
    // Given one that waits a minute for its callback, twice, and one that gives up after that.
    let mut world = World::new().await;
    let waits = Answer::Parks(Some((mins(1), AfterExpiry::Fails)));
    let retried = world.endpoint().retrying_after([secs(5)]).always(waits).create().await;
    let gives_up = world.endpoint().always(Answer::Parks(Some((mins(1), AfterExpiry::GivesUp)))).create().await;
    let event = world.event("job.queued").publish().await.event;
    world.pass(mins(30)).await;
    // Then the first was tried as often as its schedule says, the second once, and both are dead letters that say why.
    assert_eq!((world.arrivals_at(&retried).len(), world.arrivals_at(&gives_up).len()), (2, 1));
    world.assert_promises(&[event]).await;
    let dead = world.dead_letters().await;
    assert_eq!(dead.len(), 2);
    assert!(dead.iter().all(|letter| letter.last_error == "timed out while parked"), "{dead:?}");
}

#[tokio::test]
async fn in_an_ordered_lane_a_parked_delivery_keeps_its_place() {
    let mut world = World::new().await;
    let answers = [Answer::Parks(None), Answer::Status(200)];
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).answering_in_turn(answers).create().await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(world.event("order.paid").publish().await.event);
    }
    world.pass(hours(1)).await;
    assert_eq!(world.arrivals_at(&endpoint).len(), 1, "nothing passes it");
    release(world.line(), world.organization, &waited_for()).await.unwrap();
    world.pass(secs(1)).await;
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().map(|arrival| arrival.event).collect();
    assert_eq!(arrived, [0, 0, 1, 2].map(|n: usize| events[n].to_string()));
    world.assert_promises(&events).await;
}
