//! Bulk actions: fixed at the start, worked off once, at their own pace, whatever is killed in between.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use everhook_core::{
    ids::{EventId, OperationId},
    line::recall::recall,
    manage::{
        auto_replay,
        operations::{self, Pace, ReplayInput},
    },
    model::{
        Author, AutoReplay, DeadLetterSelection, DeadLetterStatus, DisabledReason, EndpointState, FailureCategory, Operation,
        OperationKind, OperationStatus, OrderingMode, Priority, Wanted,
    },
    ports::Clock,
};
use everhook_testbed::{Answer, Receiver, World, faults::Kind, hours, mins, secs, world::BEGINNING};

/// More calls than a scenario makes.
const CALLS_MAX: u32 = 500;

async fn publish(world: &World, count: usize) -> Vec<EventId> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(world.event("order.paid").publish().await.event);
    }
    events
}

async fn begin(world: &World, wanted: Wanted, pace: Pace) -> OperationId {
    let kind = if wanted == Wanted::Missed { OperationKind::Recover } else { OperationKind::Replay };
    let input =
        ReplayInput { application: world.application, from: BEGINNING, to: None, event_types: Vec::new(), endpoints: Vec::new(), wanted };
    operations::replay(world.line(), &world.author(), kind, input, pace).await.expect("it begins")
}

async fn look(world: &World, id: OperationId) -> Operation {
    world.line().ports.operations.operation(world.organization, id).await.expect("the store answers").expect("it is there")
}

/// How often each event arrived.
fn arrivals_by_event(world: &World, receiver: &Receiver) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for arrival in world.arrivals_of(receiver) {
        *counts.entry(arrival.event).or_default() += 1;
    }
    counts
}

fn counts(operation: &Operation) -> (u64, u64, u64, u64) {
    (operation.total, operation.done, operation.failed, operation.skipped)
}

#[tokio::test]
async fn a_replay_delivers_every_event_again_once_at_low_priority() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    let tower = world.operational;
    let watch = world.endpoint().of(tower).create().await;
    let events = publish(&world, 700).await;
    world.pass(mins(1)).await;
    let id = begin(&world, Wanted::Any, Pace::default()).await;
    // What is published from now on is not meant.
    world.pass(secs(1)).await;
    let late = publish(&world, 3).await;
    world.pass(mins(1)).await;
    let operation = look(&world, id).await;
    assert_eq!((operation.status, counts(&operation)), (OperationStatus::Finished, (700, 700, 0, 0)));
    let arrived = arrivals_by_event(&world, &endpoint);
    assert!(events.iter().all(|event| arrived[&event.to_string()] == 2));
    assert!(late.iter().all(|event| arrived[&event.to_string()] == 1));
    let replay = world.deliveries_of(events[0]).await.remove(1);
    assert_eq!((replay.operation, replay.priority, replay.replay_of.is_some()), (Some(id), Priority::Low, true));
    assert_eq!(world.operational_types().await, ["operation.finished"]);
    assert_eq!(world.arrivals_of(&watch).len(), 1);
    world.assert_promises(&events).await;
    world.end().await;
}

#[tokio::test]
async fn a_crash_in_the_middle_of_a_replay_loses_none_and_repeats_none() {
    let mut world = World::seeded(7).await;
    let endpoint = world.endpoint().create().await;
    let events = publish(&world, 100).await;
    world.pass(mins(1)).await;
    let pace = Pace { rate: NonZeroU32::new(10), ..Pace::default() };
    let id = begin(&world, Wanted::Any, pace).await;
    for _ in 0..12 {
        let pause = world.dice.below(1_500);
        world.pass(Duration::from_millis(pause)).await;
        world.crash().await;
    }
    world.pass(mins(1)).await;
    let operation = look(&world, id).await;
    assert_eq!((operation.status, counts(&operation)), (OperationStatus::Finished, (100, 100, 0, 0)));
    for event in &events {
        let made = world.deliveries_of(*event).await;
        assert_eq!(made.iter().filter(|delivery| delivery.operation == Some(id)).count(), 1, "{event}");
    }
    assert!(arrivals_by_event(&world, &endpoint).len() == 100);
    world.assert_promises(&events).await;
}

#[tokio::test]
async fn a_replay_keeps_to_its_rate_and_begins_when_it_is_told_to() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    publish(&world, 20).await;
    world.pass(mins(1)).await;
    let start_at = world.clock.now() + mins(10);
    let id = begin(&world, Wanted::Any, Pace { rate: NonZeroU32::new(2), start_at: Some(start_at), ..Pace::default() }).await;
    world.pass(mins(9)).await;
    let waiting = look(&world, id).await;
    assert_eq!((waiting.status, counts(&waiting)), (OperationStatus::Pending, (20, 0, 0, 0)));
    assert_eq!(waiting.eta(world.clock.now()), Some(mins(1) + secs(10)));
    world.pass(mins(1) + Duration::from_millis(4_750)).await;
    let running = look(&world, id).await;
    assert_eq!((running.status, running.done), (OperationStatus::Running, 10));
    assert_eq!(world.arrivals_of(&endpoint).len(), 30);
    world.pass(secs(10)).await;
    assert_eq!(look(&world, id).await.status, OperationStatus::Finished);
}

#[tokio::test]
async fn a_cancelled_operation_stops_and_what_it_did_stays_done() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    let events = publish(&world, 50).await;
    world.pass(mins(1)).await;
    let id = begin(&world, Wanted::Any, Pace { rate: NonZeroU32::new(1), ..Pace::default() }).await;
    world.pass(Duration::from_millis(9_500)).await;
    operations::cancel(world.line(), &Author::server(world.organization), id).await.expect("it runs");
    world.pass(hours(1)).await;
    let operation = look(&world, id).await;
    assert_eq!((operation.status, counts(&operation)), (OperationStatus::Cancelled, (50, 10, 0, 0)));
    assert_eq!(world.arrivals_of(&endpoint).len(), 60);
    assert_eq!(world.operational_types().await, ["operation.finished"]);
    let again = operations::cancel(world.line(), &Author::server(world.organization), id).await;
    assert_eq!(again.expect_err("it has ended").to_string(), "the operation is cancelled");
    assert_eq!(world.line().ports.operations.open_operations(10).await.expect("the store answers"), [], "nothing is left of it");
    world.assert_promises(&events).await;
}

#[tokio::test]
async fn a_replay_joins_a_strict_lane_at_its_tail_in_the_order_of_events() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).always(Answer::Slow(200, secs(1))).create().await;
    let events = publish(&world, 30).await;
    world.pass(mins(1)).await;
    let id = begin(&world, Wanted::Any, Pace::default()).await;
    world.pass(secs(5)).await;
    world.crash().await;
    let late = publish(&world, 2).await;
    world.pass(mins(2)).await;
    assert_eq!(counts(&look(&world, id).await), (30, 30, 0, 0));
    let mut arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().map(|arrival| arrival.event).collect();
    // What was under way at the crash is repeated in its place.
    arrived.dedup();
    let expected = events.iter().chain(&events).chain(&late).map(EventId::to_string).collect::<Vec<_>>();
    assert_eq!(arrived, expected);
}

#[tokio::test]
async fn recovering_brings_what_is_dead_or_cancelled_and_what_was_missed_while_disabled() {
    let mut world = World::new().await;
    let answers = [Answer::Status(200), Answer::Status(500), Answer::Status(503)];
    let endpoint = world.endpoint().answering_in_turn(answers).retrying_after([]).taking_at_once(1).create().await;
    let (delivered, dead) = (publish(&world, 1).await[0], publish(&world, 1).await[0]);
    world.pass(secs(1)).await;
    world.change(&endpoint, |endpoint| endpoint.paused_at = Some(BEGINNING)).await;
    let cancelled = publish(&world, 1).await[0];
    let disabled = EndpointState::Disabled { at: world.clock.now(), reason: DisabledReason::ByOwner };
    world.set_state(&endpoint, disabled).await;
    world.pass(mins(1)).await;
    let missed = publish(&world, 1).await[0];
    world.change(&endpoint, |endpoint| (endpoint.paused_at, endpoint.state) = (None, EndpointState::Enabled)).await;
    // An endpoint that is new missed nothing.
    world.pass(secs(1)).await;
    let newcomer = world.endpoint().create().await;
    world.network.script(&endpoint.url, [], Answer::Status(200));
    let id = begin(&world, Wanted::Missed, Pace::default()).await;
    world.pass(mins(1)).await;
    assert_eq!(counts(&look(&world, id).await), (3, 3, 0, 0));
    for (event, expected) in [
        (delivered, vec!["delivered"]),
        (dead, vec!["dead: retries_exhausted", "delivered"]),
        (cancelled, vec!["cancelled: endpoint_disabled", "delivered"]),
        (missed, vec!["delivered"]),
    ] {
        assert_eq!(world.stages(event).await, expected);
    }
    assert_eq!(world.dead_letters().await[0].status, DeadLetterStatus::Resolved);
    assert_eq!(world.arrivals_of(&newcomer).len(), 0);
}

#[tokio::test]
async fn what_is_open_is_skipped_and_what_cannot_be_made_is_counted_as_failed() {
    let mut world = World::new().await;
    let flaky = world.endpoint().answering_in_turn([Answer::Status(500)]).create().await;
    let closing = world.endpoint().create().await;
    publish(&world, 1).await;
    world.pass(secs(1)).await;
    let start_at = world.clock.now() + secs(2);
    let id = begin(&world, Wanted::Any, Pace { start_at: Some(start_at), ..Pace::default() }).await;
    world.pass(secs(1)).await;
    // The first waits for its retry; the second is disabled before it begins.
    let disabled = EndpointState::Disabled { at: world.clock.now(), reason: DisabledReason::ByOwner };
    world.set_state(&closing, disabled).await;
    world.pass(mins(1)).await;
    let operation = look(&world, id).await;
    assert_eq!((operation.status, counts(&operation)), (OperationStatus::Finished, (2, 0, 1, 1)));
    assert_eq!((world.arrivals_of(&flaky).len(), world.arrivals_of(&closing).len()), (2, 1));
}

#[tokio::test]
async fn dead_letters_are_retried_and_discarded_in_bulk() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering(500).retrying_after([]).without_breaker().create().await;
    publish(&world, 30).await;
    world.pass(secs(1)).await;
    world.network.script(&endpoint.url, [], Answer::Status(200));
    let all = DeadLetterSelection::default();
    let none = DeadLetterSelection { to: Some(BEGINNING), ..DeadLetterSelection::default() };
    let (line, organization) = (world.line().clone(), world.organization);
    assert_eq!(operations::count_dead_letters(&line, organization, &all).await.expect("the store answers"), 30);
    assert_eq!(operations::count_dead_letters(&line, organization, &none).await.expect("the store answers"), 0);
    let some = Pace { rate: NonZeroU32::new(10), ..Pace::default() };
    let id = operations::retry_dead_letters(&line, &world.author(), all.clone(), some).await.expect("it begins");
    world.pass(Duration::from_millis(1_950)).await;
    // Meanwhile somebody discards what is left: the retry finds nothing to do there.
    let second = operations::discard_dead_letters(&line, &world.author(), all).await.expect("it begins");
    world.pass(mins(1)).await;
    assert_eq!(counts(&look(&world, id).await), (30, 20, 0, 10));
    assert_eq!(counts(&look(&world, second).await), (10, 10, 0, 0));
    let mut statuses = BTreeMap::new();
    for letter in world.dead_letters().await {
        *statuses.entry(letter.status.as_str()).or_insert(0) += 1;
    }
    assert_eq!(statuses, BTreeMap::from([("resolved", 20), ("discarded", 10)]));
}

/// A recovery with one fault in between. Says whether the fault struck.
async fn recover_with_fault(passing: u32, kind: Kind) -> bool {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering(500).retrying_after([]).create().await;
    let tower = world.operational;
    let watch = world.endpoint().of(tower).wanting("operation.finished").create().await;
    let events = publish(&world, 3).await;
    world.pass(secs(10)).await;
    world.network.script(&endpoint.url, [], Answer::Status(200));
    let id = begin(&world, Wanted::Missed, Pace { rate: NonZeroU32::new(2), ..Pace::default() }).await;
    world.faults.plan(passing, kind);
    world.pass(secs(30)).await;
    let has_struck = world.faults.has_struck();
    // The look itself is not to fail.
    world.faults.plan(u32::MAX, kind);
    let operation = look(&world, id).await;
    assert_eq!((operation.status, counts(&operation)), (OperationStatus::Finished, (3, 3, 0, 0)), "call {passing} failing {kind:?}");
    for event in &events {
        assert_eq!(world.stages(*event).await, ["dead: retries_exhausted", "delivered"], "call {passing} failing {kind:?}");
    }
    assert_eq!(world.arrivals_of(&watch).len(), 1, "told once, with call {passing} failing {kind:?}");
    world.assert_promises(&events).await;
    world.end().await;
    has_struck
}

#[tokio::test]
async fn a_recovery_does_each_once_whichever_call_fails_or_answer_is_lost() {
    for kind in [Kind::Before, Kind::After] {
        let mut passing = 0;
        while recover_with_fault(passing, kind).await {
            passing += 1;
            assert!(passing < CALLS_MAX, "the scenario makes more than {CALLS_MAX} calls");
        }
        assert!(passing > 20, "the scenario made only {passing} calls");
    }
}

async fn set_auto_replay(world: &World, settings: AutoReplay) {
    auto_replay::set(world.line(), world.organization, settings).await.expect("the store answers");
}

#[tokio::test]
async fn dead_letters_come_back_by_themselves_less_and_less_often() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering(500).retrying_after([]).create().await;
    publish(&world, 1).await;
    world.pass(hours(5)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 1, "off unless it is switched on");
    set_auto_replay(&world, AutoReplay { enabled: true, max_tries: 3, ..AutoReplay::default() }).await;
    world.pass(hours(12)).await;
    let gaps: Vec<u64> = world.arrivals_at(&endpoint).windows(2).map(|pair| (pair[1] - pair[0]).as_secs() / 3_600).collect();
    assert_eq!(gaps, [5, 2, 4], "at once when it is switched on, then after pauses that double");
    let dead = world.dead_letters().await.remove(0);
    assert_eq!((dead.status, dead.failures), (DeadLetterStatus::Dead, 4));
    let told = world.operational_types().await;
    assert_eq!(told.iter().filter(|name| *name == "dlq.replay_failed").count(), 3);
    assert_eq!(told.iter().filter(|name| *name == "message.attempt.exhausted").count(), 4);
    // A retry by hand that fails is not told as an automatic one.
    recall(world.line(), world.organization, dead.id).await.expect("it is dead");
    world.pass(hours(1)).await;
    assert_eq!(world.operational_types().await.iter().filter(|name| *name == "dlq.replay_failed").count(), 3);
}

#[tokio::test]
async fn only_what_can_recover_comes_back_by_itself_at_its_own_pace() {
    let mut world = World::new().await;
    let gone = world.endpoint().answering(410).wanting("gone").create().await;
    let refused =
        world.endpoint().always(Answer::Fails(FailureCategory::BlockedAddress)).retrying_after([]).wanting("refused").create().await;
    let down = world.endpoint().answering(500).retrying_after([]).without_breaker().wanting("order.*").create().await;
    for event_type in ["gone", "refused"] {
        world.event(event_type).publish().await;
    }
    let events = publish(&world, 30).await;
    world.pass(mins(1)).await;
    world.network.script(&down.url, [], Answer::Status(200));
    let after = mins(10);
    set_auto_replay(&world, AutoReplay { enabled: true, after, ..AutoReplay::default() }).await;
    world.pass(mins(8)).await;
    assert_eq!(world.arrivals_of(&down).len(), 30);
    world.pass(mins(10)).await;
    let arrived: Vec<Duration> = world.arrivals_at(&down).split_off(30);
    assert_eq!(arrived.len(), 30);
    assert!(arrived.windows(2).all(|pair| pair[1] - pair[0] >= secs(1)), "one a second: {arrived:?}");
    assert_eq!((world.arrivals_of(&gone).len(), world.arrivals_of(&refused).len()), (1, 1));
    world.assert_promises(&events).await;
    set_auto_replay(&world, AutoReplay::default()).await;
    world.end().await;
}

#[tokio::test]
async fn a_crash_while_the_selection_is_made_changes_nothing_of_it() {
    // More events than one step looks at; the process dies after 0, 1, 2 … turns of the duty.
    for turns in 0..6 {
        let mut world = World::new().await;
        let endpoint = world.endpoint().taking_at_once(50).create().await;
        let events = publish(&world, 510).await;
        world.pass(mins(1)).await;
        let id = begin(&world, Wanted::Any, Pace::default()).await;
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        world.crash().await;
        world.pass(mins(1)).await;
        let operation = look(&world, id).await;
        assert_eq!((operation.status, counts(&operation)), (OperationStatus::Finished, (510, 510, 0, 0)), "after {turns} turns");
        let mut made = 0;
        for event in &events {
            made += world.deliveries_of(*event).await.iter().filter(|delivery| delivery.operation == Some(id)).count();
        }
        assert_eq!((made, arrivals_by_event(&world, &endpoint).len()), (510, 510), "after {turns} turns");
    }
}
