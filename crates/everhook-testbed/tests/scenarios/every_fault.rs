//! Every single fault: a scenario is run again and again, with the 1st, 2nd, 3rd … call of the store failing, until it passes untouched. The
//! promises must hold each time.

use everhook_core::{
    ids::EventId,
    model::{AfterExpiry, DeadLetterStatus},
};
use everhook_testbed::{Answer, World, faults::Kind, secs};

/// More calls than the scenario makes.
const CALLS_MAX: u32 = 500;

/// A publisher that tries again until it is answered, as publishers must.
async fn publish_until_answered(world: &mut World, event_type: &str, key: &str) -> EventId {
    for _ in 0..10 {
        if let Ok(published) = world.event(event_type).keyed(key).try_publish().await {
            return published.event;
        }
        world.pass(secs(1)).await;
    }
    panic!("the event was never accepted");
}

/// Publishing, delivery, retry, parking, death, alert and recall, with one fault in between. Says whether the fault struck.
async fn scenario(passing: u32, kind: Kind) -> bool {
    let mut world = World::new().await;
    let flaky = world
        .endpoint()
        .answering_in_turn([Answer::Status(500), Answer::Hangs])
        .retrying_after([secs(5), secs(20)])
        .wanting("order.*")
        .create()
        .await;
    world.endpoint().answering(500).retrying_after([secs(5)]).wanting("doomed").create().await;
    let parks = Answer::Parks(Some((secs(10), AfterExpiry::Fails)));
    world.endpoint().answering_in_turn([parks, Answer::Status(200)]).retrying_after([secs(5)]).wanting("parked").create().await;
    let tower = world.operational;
    let watch = world.endpoint().of(tower).create().await;
    world.faults.plan(passing, kind);
    let mut events = Vec::new();
    for n in 0..3 {
        events.push(publish_until_answered(&mut world, "order.paid", &format!("order-{n}")).await);
    }
    events.push(publish_until_answered(&mut world, "doomed", "doomed").await);
    events.push(publish_until_answered(&mut world, "parked", "parked").await);
    world.pass(secs(90)).await;
    let has_struck = world.faults.has_struck();

    world.assert_promises(&events).await;
    let successes = |arrivals: Vec<everhook_testbed::network::Arrival>| {
        arrivals
            .into_iter()
            .filter(|arrival| matches!(arrival.answer, Answer::Status(200)))
            .map(|arrival| arrival.event)
            .collect::<Vec<_>>()
    };
    let delivered = successes(world.arrivals_of(&flaky));
    for event in &events[..3] {
        let times = delivered.iter().filter(|id| **id == event.to_string()).count();
        assert_eq!(times, 1, "{event} with call {passing} failing {kind:?}");
    }
    let dead = world.dead_letters().await;
    assert_eq!((dead.len(), dead[0].status), (1, DeadLetterStatus::Dead), "with call {passing} failing {kind:?}");
    assert_eq!(world.arrivals_of(&watch).len(), 1, "told once, with call {passing} failing {kind:?}");
    world.end().await;
    has_struck
}

async fn every_fault(kind: Kind) {
    for passing in 0..CALLS_MAX {
        if !scenario(passing, kind).await {
            assert!(passing > 20, "the scenario made only {passing} calls");
            return;
        }
    }
    panic!("the scenario makes more than {CALLS_MAX} calls");
}

#[tokio::test]
async fn the_promises_hold_whichever_call_fails() {
    every_fault(Kind::Before).await;
}

#[tokio::test]
async fn the_promises_hold_whichever_answer_is_lost() {
    every_fault(Kind::After).await;
}
