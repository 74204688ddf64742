//! Retention: months pass, what has ended goes, and what something still needs is sent, retried and looked at as before.

use std::time::Duration;

use everhook_core::{ids::EventId, line::recall::recall, model::DeadLetterStatus, ports::Clock};
use everhook_testbed::{Answer, World, hours, mins, secs};

fn days(count: u64) -> Duration {
    hours(24 * count)
}

/// The machine sleeps, and wakes up for long enough that a pass is made.
async fn sleep(world: &mut World, span: Duration) {
    world.clock.move_to(world.clock.now() + span);
    world.pass(hours(2)).await;
}

async fn is_there(world: &World, event: EventId) -> bool {
    world.line().ports.history.event(world.organization, event).await.expect("the store answers").is_some()
}

#[tokio::test]
async fn after_months_what_was_delivered_is_gone_and_what_waits_or_died_is_not() {
    // Given an event that is delivered, one that dies, and one for an endpoint that is paused.
    let mut world = World::new().await;
    world.endpoint().wanting("order.paid").create().await;
    world.endpoint().wanting("order.lost").answering_in_turn([Answer::Status(500)]).retrying_after([]).create().await;
    let paused = world.endpoint().wanting("order.late").create().await;
    let now = world.clock.now();
    world.change(&paused, |endpoint| endpoint.paused_at = Some(now)).await;
    let delivered = world.event("order.paid").publish().await.event;
    let dead = world.event("order.lost").publish().await.event;
    let waiting = world.event("order.late").publish().await.event;
    world.pass(mins(1)).await;
    // When the 90 days are not over, everything is there; when they are, what has ended is gone.
    sleep(&mut world, days(89)).await;
    assert!(is_there(&world, delivered).await && is_there(&world, dead).await && is_there(&world, waiting).await);
    sleep(&mut world, days(2)).await;
    assert_eq!((is_there(&world, delivered).await, world.stages(delivered).await), (false, Vec::new()));
    assert!(is_there(&world, dead).await && is_there(&world, waiting).await);
    // Then the dead letter can be brought back, and the endpoint gets what waited for it.
    let letter = world.dead_letters().await.remove(0);
    recall(world.line(), world.organization, letter.id).await.expect("it is retried");
    world.change(&paused, |endpoint| endpoint.paused_at = None).await;
    world.pass(mins(1)).await;
    assert_eq!(world.arrivals_of(&paused).len(), 1);
    assert_eq!(world.dead_letters().await[0].status, DeadLetterStatus::Resolved);
    // A year later nothing is left of either.
    sleep(&mut world, days(366)).await;
    assert!(!is_there(&world, dead).await && !is_there(&world, waiting).await);
    assert!(world.dead_letters().await.is_empty() && world.deliveries().await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_crash_in_the_middle_of_a_pass_costs_nothing_and_sending_continues() {
    // Given more events than some steps remove.
    let mut world = World::new().await;
    let receiver = world.endpoint().create().await;
    let mut old = Vec::new();
    for _ in 0..600 {
        old.push(world.event("order.paid").publish().await.event);
    }
    world.pass(mins(1)).await;
    world.clock.move_to(world.clock.now() + days(91));
    // When the process dies again and again soon after it began to remove them, and goes on publishing.
    let (mut recent, mut left) = (Vec::new(), Vec::new());
    for yields in [1, 2, 4, 8] {
        world.crash().await;
        recent.push(world.event("order.paid").publish().await.event);
        world.settle_down().await;
        world.clock.move_to(world.clock.now() + secs(60));
        world.let_run(yields).await;
        world.crash().await;
        let mut count = 0;
        for event in &old {
            count += usize::from(is_there(&world, *event).await);
        }
        left.push(count);
    }
    // The shared store drops a day whole: there, nothing is half gone.
    let came_in_the_middle = |left: &usize| if world.is_shared() { *left == 600 } else { (1..600).contains(left) };
    assert!(left.iter().any(came_in_the_middle), "no crash came in the middle: {left:?} were left");
    world.pass(hours(1)).await;
    // Then all of the old are gone, and all of the new were sent.
    for event in old {
        assert!(!is_there(&world, event).await);
    }
    assert_eq!(world.deliveries().await.len(), recent.len());
    world.assert_promises(&recent).await;
    assert!(world.arrivals_of(&receiver).len() >= 604);
    world.end().await;
}
