//! Erasing: once it was answered nothing of the event is sent, whatever waited where, whatever fails or is killed in between.

use std::num::NonZeroU32;

use everhook_core::{
    ids::{EventId, OperationId},
    line::recall::{self, NotResendable, RecallError, Retry},
    manage::{
        Refusal, deliveries,
        erasing::{self, ErasureInput},
        operations::{self, Pace, ReplayInput},
        why,
    },
    model::{
        AuditAction, Cursor, DeadLetterStatus, Operation, OperationKind, OperationStatus, OrderingMode, PageRequest, RateLimit, Wanted,
    },
    ports::{AuditFilter, EndpointFilter},
};
use everhook_testbed::{Answer, Receiver, World, faults::Kind, hours, mins, secs, world::BEGINNING};

const ALL_ROWS: PageRequest = PageRequest { limit: 250, cursor: Cursor::Newest };

/// More calls than a scenario makes.
const CALLS_MAX: u32 = 500;

async fn publish(world: &World, count: usize) -> Vec<EventId> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(world.event("order.paid").publish().await.event);
    }
    events
}

async fn erase(world: &World, event: EventId) {
    erasing::erase_event(world.line(), &world.author(), event).await.expect("it is erased");
}

fn by_label(key: &str, value: &str) -> ErasureInput {
    ErasureInput { application: None, label: Some((key.to_owned(), value.to_owned())), from: None, to: None }
}

fn of_application(world: &World) -> ErasureInput {
    ErasureInput { application: Some(world.application), label: None, from: None, to: None }
}

async fn look(world: &World, id: OperationId) -> Operation {
    world.line().ports.operations.operation(world.organization, id).await.expect("the store answers").expect("it is there")
}

fn counts(operation: &Operation) -> (u64, u64, u64, u64) {
    (operation.total, operation.done, operation.failed, operation.skipped)
}

fn arrived(world: &World, receiver: &Receiver) -> Vec<String> {
    world.arrivals_of(receiver).into_iter().map(|arrival| arrival.event).collect()
}

#[tokio::test]
async fn a_retry_that_waits_is_cancelled_and_never_made() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering_in_turn([Answer::Status(503)]).create().await;
    let event = publish(&world, 1).await[0];
    world.settle_down().await;
    erase(&world, event).await;
    assert_eq!(world.stages(event).await, ["cancelled: erased"]);
    world.pass(hours(24)).await;
    assert_eq!(world.arrivals_at(&endpoint), [secs(0)]);
    world.assert_promises(&[event]).await;
    world.end().await;
}

#[tokio::test]
async fn what_waits_in_memory_with_its_data_is_not_sent() {
    // Given a lane that sends one a minute, so that the others wait in its window, with their events.
    let mut world = World::new().await;
    let limit = RateLimit::per_minute(NonZeroU32::new(1).expect("not zero"), None);
    let endpoint = world.endpoint().limited_to(limit).create().await;
    let events = publish(&world, 5).await;
    world.settle_down().await;
    // When two of them are erased, and longer passes than anybody remembers an erasure.
    erase(&world, events[2]).await;
    erase(&world, events[3]).await;
    world.pass(mins(30)).await;
    // Then the others were sent.
    assert_eq!(arrived(&world, &endpoint), [0, 1, 4].map(|n: usize| events[n].to_string()));
    world.assert_promises(&events).await;
    world.end().await;
}

#[tokio::test]
async fn an_event_that_is_erased_before_its_lane_heard_of_it_is_not_sent() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    // The hint is still in its channel when the event is erased, unless there is a server to wait for: then it may be sent meanwhile, but no more.
    let event = publish(&world, 1).await[0];
    erase(&world, event).await;
    let sent = arrived(&world, &endpoint);
    world.pass(hours(1)).await;
    assert_eq!(arrived(&world, &endpoint), sent);
    assert!(sent.is_empty() || world.is_shared());
    assert_eq!(world.stages(event).await, ["cancelled: erased"]);
    world.end().await;
}

#[tokio::test]
async fn a_request_that_is_on_the_wire_may_end_and_leaves_nothing() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().always(Answer::Slow(503, secs(10))).create().await;
    let event = publish(&world, 1).await[0];
    world.pass(secs(1)).await;
    erase(&world, event).await;
    world.pass(hours(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 1);
    let delivery = world.deliveries_of(event).await.remove(0);
    let (_, attempts) = world.delivery(delivery.id).await;
    assert_eq!((world.stages(event).await, attempts.len()), (vec!["cancelled: erased".to_owned()], 0));
    world.end().await;
}

#[tokio::test]
async fn what_was_held_behind_an_erased_event_is_sent_at_once() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).answering_in_turn([Answer::Status(503)]).create().await;
    let events = publish(&world, 3).await;
    world.settle_down().await;
    erase(&world, events[1]).await;
    erase(&world, events[0]).await;
    world.settle_down().await;
    assert_eq!(arrived(&world, &endpoint), [0, 2].map(|n: usize| events[n].to_string()));
    world.pass(mins(10)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 2);
    world.assert_promises(&events).await;
    world.end().await;
}

#[tokio::test]
async fn every_way_to_do_it_again_says_that_it_is_erased() {
    let mut world = World::new().await;
    world.endpoint().answering(500).retrying_after([]).create().await;
    let events = publish(&world, 2).await;
    world.pass(secs(10)).await;
    let letter = world.dead_letters().await.remove(0);
    assert_eq!(letter.event, events[0]);
    erase(&world, events[0]).await;
    let (line, organization) = (world.line().clone(), world.organization);
    let retry = Retry { delivery: letter.id, endpoint: None, priority: None };
    let refused = [
        recall::recall(&line, organization, letter.id).await.err(),
        deliveries::retry(&line, &world.author(), retry).await.err(),
        deliveries::retry_event(&line, &world.author(), events[0]).await.err(),
    ];
    for error in refused {
        assert!(matches!(error, Some(RecallError::Refused(NotResendable::Erased))), "{error:?}");
    }
    assert_eq!(world.dead_letters().await.remove(0).status, DeadLetterStatus::Discarded);
    // A replay counts it as failed, and does the other.
    let input = ReplayInput {
        application: world.application,
        from: BEGINNING,
        to: None,
        event_types: Vec::new(),
        endpoints: Vec::new(),
        wanted: Wanted::Any,
    };
    let replay = operations::replay(&line, &world.author(), OperationKind::Replay, input, Pace::default()).await.expect("it begins");
    world.pass(mins(1)).await;
    assert_eq!(counts(&look(&world, replay).await), (2, 1, 1, 0));
    world.end().await;
}

#[tokio::test]
async fn why_says_that_it_was_erased_in_words() {
    let mut world = World::new().await;
    world.endpoint().answering(503).create().await;
    world.endpoint().wanting("order.paid").create().await;
    let event = publish(&world, 1).await[0];
    world.pass(secs(1)).await;
    erase(&world, event).await;
    let line = world.line();
    let (summary, data) = line.ports.history.event(world.organization, event).await.expect("an answer").expect("it stays");
    let endpoints = line.ports.endpoints.endpoints(world.organization, EndpointFilter::default(), ALL_ROWS).await.expect("an answer").rows;
    let told = why::explain(line, &summary, data.as_ref(), endpoints).await.expect("an answer");
    let told: Vec<_> = told.into_iter().map(|told| (told.why.reason, told.why.words)).collect();
    assert_eq!(told[1], ("erased", "cancelled at 2027-01-15T08:00:01Z because the event's data was erased".to_owned()));
    assert_eq!(told[0].0, "delivered");
    world.end().await;
}

#[tokio::test]
async fn an_operation_erases_what_has_the_label_and_was_accepted_until_it_began() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering_in_turn([]).always(Answer::Status(503)).retrying_after([hours(1)]).create().await;
    let (mut meant, mut others) = (Vec::new(), publish(&world, 3).await);
    for _ in 0..120 {
        meant.push(world.event("order.paid").label("customer", "7").publish().await.event);
    }
    others.push(world.event("order.paid").label("customer", "8").publish().await.event);
    world.pass(secs(1)).await;
    let (line, by) = (world.line().clone(), world.author());
    let total = erasing::count_events(&line, world.organization, by_label("customer", "7")).await.expect("an answer");
    assert_eq!(total, 120);
    let operation = erasing::erase_events(&line, &by, by_label("customer", "7")).await.expect("it begins");
    world.pass(secs(1)).await;
    others.push(world.event("order.paid").label("customer", "7").publish().await.event);
    world.pass(secs(1)).await;
    let ended = look(&world, operation).await;
    assert_eq!((ended.status, counts(&ended)), (OperationStatus::Finished, (120, 120, 0, 0)));
    world.pass(hours(2)).await;
    for event in &meant {
        assert_eq!(world.stages(*event).await, ["cancelled: erased"]);
    }
    for event in &others {
        assert_eq!(world.stages(*event).await, ["dead: retries_exhausted"]);
    }
    let retried = arrived(&world, &endpoint).into_iter().skip(125);
    assert!(retried.into_iter().all(|event| !meant.iter().any(|erased| erased.to_string() == event)));
    // It is one entry, which says what was meant.
    let filter = AuditFilter { action: Some(AuditAction::OperationBegin), ..AuditFilter::default() };
    let entries = line.ports.audit_log.audit_log(world.organization, filter, ALL_ROWS).await.expect("an answer").rows;
    assert_eq!((entries.len(), entries[0].resource), (1, *operation.as_uuid()));
    let told = entries[0].note.after.clone().expect("what was meant");
    assert!(told.contains(r#""kind":"erase""#) && told.contains(r#"{"key":"customer","value":"7"}"#), "{told}");
    world.end().await;
}

#[tokio::test]
async fn an_erasure_without_an_application_or_a_label_is_refused() {
    let world = World::new().await;
    let input = ErasureInput { application: None, label: None, from: None, to: None };
    let refused = erasing::erase_events(world.line(), &world.author(), input).await;
    assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
    world.end().await;
}

#[tokio::test]
async fn an_erasure_goes_on_after_crashes() {
    let mut world = World::seeded(3).await;
    let endpoint = world.endpoint().always(Answer::Status(503)).retrying_after([hours(1)]).create().await;
    let events = publish(&world, 300).await;
    world.pass(secs(1)).await;
    let operation = erasing::erase_events(world.line(), &world.author(), of_application(&world)).await.expect("it begins");
    for _ in 0..5 {
        world.crash().await;
    }
    world.pass(secs(5)).await;
    let ended = look(&world, operation).await;
    assert_eq!((ended.status, ended.total, ended.remaining()), (OperationStatus::Finished, 300, 0));
    let before = world.arrivals_of(&endpoint).len();
    world.pass(hours(2)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), before);
    for event in &events {
        assert_eq!(world.stages(*event).await, ["cancelled: erased"]);
    }
    world.end().await;
}

/// An operation erases what waits in memory and in the store, with one fault in between. Says whether the fault struck.
async fn erase_with_a_fault(passing: u32, kind: Kind) -> bool {
    let mut world = World::new().await;
    let limit = RateLimit::per_minute(NonZeroU32::new(1).expect("not zero"), None);
    let slow = world.endpoint().limited_to(limit).create().await;
    let ordered = world.endpoint().in_order(OrderingMode::Strict).always(Answer::Slow(503, secs(3))).create().await;
    let events = publish(&world, 6).await;
    world.pass(secs(1)).await;
    let operation = erasing::erase_events(world.line(), &world.author(), of_application(&world)).await.expect("it begins");
    world.faults.plan(passing, kind);
    world.pass(secs(20)).await;
    let has_struck = world.faults.has_struck();
    world.faults.forget();
    let ended = look(&world, operation).await;
    assert_eq!((ended.status, counts(&ended)), (OperationStatus::Finished, (6, 6, 0, 0)), "call {passing} failing {kind:?}");
    let before = (world.arrivals_of(&slow).len(), world.arrivals_of(&ordered).len());
    world.pass(mins(8)).await;
    let after = (world.arrivals_of(&slow).len(), world.arrivals_of(&ordered).len());
    assert_eq!(after, before, "something was sent after its erasure, with call {passing} failing {kind:?}");
    world.assert_promises(&events).await;
    world.end().await;
    has_struck
}

#[tokio::test]
async fn nothing_is_sent_after_the_erasure_whichever_call_fails_or_answer_is_lost() {
    for kind in [Kind::Before, Kind::After] {
        let struck = async |passing| erase_with_a_fault(passing, kind).await;
        let mut passing = 0;
        while struck(passing).await {
            passing += 1;
            assert!(passing < CALLS_MAX, "the scenario makes more than {CALLS_MAX} calls");
        }
        assert!(passing > 5, "the scenario made only {passing} calls");
    }
}
