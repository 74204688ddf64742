//! The archive: what expires is in it before it is gone, an archive that refuses or is cut off by a crash loses nothing, and deliveries never wait for it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::{
    ids::EventId,
    inbound::Item,
    line::receive::{Push, PushedItem, receive},
    manage::{
        Change,
        sources::{self, NewSource, SourceChange},
    },
    model::{Cursor, EventType, PageRequest, Source},
    ports::{Archive, ArchiveError, ArchiveRecord, ArchiveStatus, Clock},
    time::Timestamp,
};
use everhook_testbed::{Answer, World, hours, mins};

/// An archive in memory that does as it is told.
#[derive(Default)]
struct ScriptedArchive {
    behavior: Mutex<Behavior>,
    records: Mutex<Vec<ArchiveRecord>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Behavior {
    #[default]
    Keeps,
    /// Its disk is full.
    Refuses,
    /// Keeps everything and never says so: whoever waits is killed meanwhile.
    KeepsAndHangs,
}

impl ScriptedArchive {
    fn set(&self, behavior: Behavior) {
        *self.behavior.lock().expect("no panic while it was held") = behavior;
    }

    /// How often each event is there.
    fn times(&self, event: EventId) -> usize {
        let is_it = |record: &&ArchiveRecord| matches!(record, ArchiveRecord::Event { summary, .. } if summary.id == event);
        self.records.lock().expect("no panic while it was held").iter().filter(is_it).count()
    }

    fn dead_letters(&self) -> usize {
        let is_one = |record: &&ArchiveRecord| matches!(record, ArchiveRecord::DeadLetter(_));
        self.records.lock().expect("no panic while it was held").iter().filter(is_one).count()
    }

    /// Whether a delivery of this event is there, with its attempts.
    fn has_delivery(&self, event: EventId) -> bool {
        let is_it = |record: &ArchiveRecord| matches!(record, ArchiveRecord::Delivery(delivery, attempts) if delivery.event == event && !attempts.is_empty());
        self.records.lock().expect("no panic while it was held").iter().any(is_it)
    }
}

#[async_trait]
impl Archive for ScriptedArchive {
    async fn append(&self, _at: Timestamp, records: Vec<ArchiveRecord>) -> Result<(), ArchiveError> {
        let behavior = *self.behavior.lock().expect("no panic while it was held");
        if behavior == Behavior::Refuses {
            return Err(ArchiveError { place: "memory".to_owned(), source: "no space left on device".into() });
        }
        self.records.lock().expect("no panic while it was held").extend(records);
        if behavior == Behavior::KeepsAndHangs {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    fn status(&self) -> ArchiveStatus {
        ArchiveStatus { place: "memory".to_owned(), written_at: None, failing: None }
    }
}

fn days(count: u64) -> Duration {
    hours(24 * count)
}

/// The machine sleeps, and wakes up for long enough that a pass is made.
async fn sleep(world: &mut World, span: Duration) {
    world.clock.move_to(world.clock.now() + span);
    world.pass(hours(2)).await;
}

/// A world with an archive, from its second life on.
async fn archiving() -> (World, Arc<ScriptedArchive>) {
    let (mut world, archive) = (World::new().await, Arc::new(ScriptedArchive::default()));
    world.archive = Some(archive.clone());
    world.crash().await;
    (world, archive)
}

async fn source(world: &World) -> Source {
    let settings =
        SourceChange { name: Change::Set("partner".to_owned()), kind: Change::Set("garmin".to_owned()), ..SourceChange::default() };
    sources::create(world.line(), &world.author(), NewSource { application: None, settings }).await.expect("it is created")
}

/// Receives an event through the source.
async fn push(world: &World, source: &Source, text: &str) -> EventId {
    let item = Item {
        event_type: EventType::parse("order.paid").expect("a type"),
        id: None,
        external_user: Some("user-7".to_owned()),
        body: Bytes::from(format!(r#"{{"text":"{text}"}}"#)),
        content_type: Some("application/json".to_owned()),
    };
    let items = vec![PushedItem { item, key: None }];
    let push = Push { source, items, kept_headers: Vec::new(), forwarded_headers: Vec::new(), traceparent: None };
    receive(world.line(), push).await.expect("it is accepted");
    world.settle_down().await;
    let newest = PageRequest { limit: 1, cursor: Cursor::Newest };
    world.line().ports.history.events(world.organization, Default::default(), newest).await.expect("the store answers").rows[0].id
}

async fn is_there(world: &World, event: EventId) -> bool {
    world.line().ports.history.event(world.organization, event).await.expect("the store answers").is_some()
}

#[tokio::test]
async fn received_events_and_dead_letters_are_archived_before_they_are_gone_and_published_events_are_not() {
    let (mut world, archive) = archiving().await;
    world.endpoint().wanting("order.paid").create().await;
    world.endpoint().wanting("order.lost").answering_in_turn([Answer::Status(500)]).retrying_after([]).create().await;
    let source = source(&world).await;
    let received = push(&world, &source, "a").await;
    let published = world.event("order.paid").publish().await.event;
    let dead = world.event("order.lost").publish().await.event;
    world.pass(mins(1)).await;
    sleep(&mut world, days(89)).await;
    assert_eq!((archive.times(received), archive.dead_letters()), (0, 0));
    sleep(&mut world, days(2)).await;
    assert!(!is_there(&world, received).await && !is_there(&world, published).await && is_there(&world, dead).await);
    assert_eq!((archive.times(received), archive.times(published), archive.times(dead)), (1, 0, 0));
    assert!(archive.has_delivery(received));
    // A year later the dead letter goes, with its event.
    sleep(&mut world, days(366)).await;
    assert!(!is_there(&world, dead).await && world.dead_letters().await.is_empty());
    assert_eq!((archive.dead_letters(), archive.times(dead), archive.times(received)), (1, 1, 1));
    assert!(archive.has_delivery(dead));
    world.end().await;
}

#[tokio::test]
async fn while_the_archive_refuses_nothing_is_removed_and_everything_is_delivered() {
    let (mut world, archive) = archiving().await;
    let receiver = world.endpoint().wanting("order.paid").create().await;
    let source = source(&world).await;
    archive.set(Behavior::Refuses);
    let received = push(&world, &source, "a").await;
    world.pass(mins(1)).await;
    sleep(&mut world, days(91)).await;
    assert!(is_there(&world, received).await);
    let published = world.event("order.paid").publish().await.event;
    world.pass(mins(1)).await;
    assert_eq!(world.arrivals_of(&receiver).len(), 2, "deliveries do not wait for the archive");
    // When there is room again, it goes by itself.
    archive.set(Behavior::Keeps);
    world.pass(hours(2)).await;
    assert!(!is_there(&world, received).await && is_there(&world, published).await);
    assert_eq!(archive.times(received), 1);
    world.end().await;
}

#[tokio::test]
async fn a_crash_between_archiving_and_removing_loses_nothing() {
    let (mut world, archive) = archiving().await;
    world.endpoint().wanting("order.paid").create().await;
    let source = source(&world).await;
    let received = [push(&world, &source, "a").await, push(&world, &source, "b").await];
    world.pass(mins(1)).await;
    archive.set(Behavior::KeepsAndHangs);
    sleep(&mut world, days(91)).await;
    for event in received {
        assert!(is_there(&world, event).await && archive.times(event) == 1, "it is in both places");
    }
    archive.set(Behavior::Keeps);
    world.crash().await;
    world.pass(hours(2)).await;
    for event in received {
        assert!(!is_there(&world, event).await);
        assert_eq!(archive.times(event), 2, "it was archived once more");
    }
    world.end().await;
}
