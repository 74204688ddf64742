//! Sources while the store is away or slow: what a provider is answered is kept, once each, and what it repeats says so, as if the store had been there.

use std::collections::BTreeMap;

use bytes::Bytes;
use everhook_core::{
    ids::EventId,
    inbound::Item,
    line::{
        publish::PublishError,
        receive::{Push, PushedItem, receive},
        source_backlogs::SOURCE_BACKLOG_MAX,
    },
    manage::{
        Change,
        sources::{self, NewSource, SourceChange},
    },
    model::{Cursor, EventType, OrderingMode, PageRequest, Source},
    ports::{Clock as _, ReceivedFilter, TimeRange},
};
use everhook_testbed::{World, mins, secs};

const ROOMY: u64 = 1 << 20;

async fn source(world: &World, kind: &str, processor: Option<&str>) -> Source {
    let settings = SourceChange {
        name: Change::Set("shop".to_owned()),
        kind: Change::Set(kind.to_owned()),
        processor: processor.map_or(Change::Keep, |name| Change::Set(name.to_owned())),
        ..SourceChange::default()
    };
    let new = NewSource { application: Some(world.application.to_string()), settings };
    sources::create(world.line(), &world.author(), new).await.expect("the source is made")
}

/// What a provider says of a user, under an id of its own.
fn item(user: &str, number: u32) -> PushedItem {
    let body = Bytes::from(format!(r#"{{"user":"{user}","number":{number}}}"#));
    let item = Item {
        event_type: EventType::parse("order.paid").expect("a type"),
        id: None,
        external_user: Some(user.to_owned()),
        body,
        content_type: Some("application/json".to_owned()),
    };
    PushedItem { item, key: Some(format!("{user}-{number}")) }
}

async fn push(world: &World, source: &Source, items: Vec<PushedItem>) -> Result<(), PublishError> {
    let push = Push { source, items, kept_headers: Vec::new(), forwarded_headers: Vec::new(), traceparent: None };
    receive(world.line(), push).await
}

/// The events of a source, oldest first: id, user, and what each repeats.
async fn received(world: &World, source: &Source) -> Vec<(EventId, String, Option<EventId>)> {
    let filter = ReceivedFilter { source: source.id, event_type: None, external_user: None, accepted: TimeRange::default() };
    let page = PageRequest { limit: 1_000, cursor: Cursor::Newest };
    let rows = world.line().ports.history.received_events(world.organization, filter, page).await.expect("the store answers").rows;
    rows.into_iter().rev().map(|row| (row.event.id, row.external_user.expect("a user"), row.duplicate_of)).collect()
}

#[tokio::test]
async fn what_a_provider_repeats_while_the_store_is_away_is_kept_and_marked_and_each_user_keeps_the_order() {
    // Given a source whose events of one user go in order, and what came before the store went away.
    let mut world = World::spooling(ROOMY).await;
    let endpoint = world.endpoint().in_order(OrderingMode::PerKey).create().await;
    let source = source(&world, "none", None).await;
    push(&world, &source, vec![item("ann", 1), item("bob", 1)]).await.expect("it is accepted");
    world.pass(secs(1)).await;
    world.faults.set_away(true);
    // When the provider repeats all of it, byte for byte, sends more, and repeats that as well.
    push(&world, &source, vec![item("ann", 1), item("ann", 2), item("bob", 1)]).await.expect("it is accepted");
    for _ in 0..2 {
        push(&world, &source, vec![item("ann", 3), item("bob", 2)]).await.expect("it is accepted");
    }
    world.crash().await;
    world.faults.set_away(false);
    world.pass(mins(1)).await;
    // Then each push is an event, the repeated ones say what they repeat, and each was delivered once, in the order of its user.
    let events = received(&world, &source).await;
    let of_user = |user: &str| events.iter().filter(|event| event.1 == user).collect::<Vec<_>>();
    let (ann, bob) = (of_user("ann"), of_user("bob"));
    assert_eq!((ann.len(), bob.len()), (5, 4), "{events:?}");
    let originals: BTreeMap<EventId, &str> =
        events.iter().filter(|event| event.2.is_none()).map(|event| (event.0, event.1.as_str())).collect();
    assert_eq!(originals.len(), 5);
    for (event, user, repeats) in &events {
        assert!(repeats.is_none_or(|original| originals.get(&original) == Some(&user.as_str())), "{event} of {user} repeats {repeats:?}");
    }
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().map(|arrival| arrival.event).collect();
    for user in ["ann", "bob"] {
        let told: Vec<String> = originals.iter().filter(|(_, of)| **of == user).map(|(id, _)| id.to_string()).collect();
        let got: Vec<&String> = arrived.iter().filter(|id| told.contains(id)).collect();
        assert_eq!(got, told.iter().collect::<Vec<_>>(), "the events of {user}");
    }
    assert_eq!(arrived.len(), 5, "nothing is delivered twice");
}

#[tokio::test]
async fn a_repeat_that_was_carried_twice_is_one_event() {
    // Given a repeat that waits in a spool whose entries cannot be removed.
    let mut world = World::spooling(ROOMY).await;
    world.endpoint().create().await;
    let source = source(&world, "none", None).await;
    push(&world, &source, vec![item("ann", 1)]).await.expect("it is accepted");
    world.faults.set_away(true);
    push(&world, &source, vec![item("ann", 1)]).await.expect("it is accepted");
    world.faults.keep_spooled(true);
    world.faults.set_away(false);
    world.pass(secs(10)).await;
    // When the node crashes between the store's answer and the removal, and carries it again.
    world.crash().await;
    world.faults.keep_spooled(false);
    world.pass(secs(10)).await;
    let events = received(&world, &source).await;
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[1].2, Some(events[0].0));
}

#[tokio::test]
async fn a_provider_does_not_wait_for_the_count_of_what_waits_for_its_processor() {
    // Given a store that never ends counting.
    let mut world = World::new().await;
    let source = source(&world, "garmin", Some("health")).await;
    world.faults.stall_counts(true);
    let began_at = world.clock.uptime();
    push(&world, &source, vec![item("ann", 1)]).await.expect("it is accepted");
    world.let_run(8).await;
    assert_eq!(world.clock.uptime(), began_at);
    // When as much waits as may, as far as this node knows: the rest is refused, as quickly.
    let now = world.clock.now();
    world.line().source_backlogs.note_count(source.id, SOURCE_BACKLOG_MAX - 1, now);
    assert!(matches!(push(&world, &source, vec![item("ann", 2)]).await, Err(PublishError::SourceBacklogFull)));
    assert_eq!(world.clock.uptime(), began_at);
    // Then the next count finds that there is room, beside a request that is still refused.
    world.faults.stall_counts(false);
    world.pass(secs(11)).await;
    assert!(push(&world, &source, vec![item("ann", 2); 3]).await.is_err());
    world.let_run(8).await;
    push(&world, &source, vec![item("ann", 3)]).await.expect("it is accepted");
    world.pass(secs(1)).await;
    world.leaves_work_over();
}
