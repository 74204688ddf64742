//! That a day's partitions are dropped, that nothing needed goes with them whatever happens in between, and that nobody waits for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{DeadLetterStatus, Stage},
    ports::{
        DeliveryFilter, Erased, EventAlias, EventFilter, Expiring, ExpiringId, NewEvent, Place, Purge, Recorded, ReplayAnswer,
        RetentionClass,
    },
    time::Timestamp,
};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::postgres::conformance::{
    archived::noise,
    given::{Given, NOW, id, replay_of, settlement, success},
    retention::Traced,
};

/// The day that the tests' ids are of.
const DAY: i64 = 1_700_000_000 / 86_400;
/// Past that day, and what ended on it may go.
const HORIZON: Timestamp = Timestamp::from_secs((DAY + 2) * 86_400);
/// An end that is too recent.
const RECENT: Timestamp = Timestamp::from_secs((DAY + 3) * 86_400);
const TABLES: [&str; 3] = ["events", "deliveries", "attempts"];
/// More steps than a pass over one small day takes.
const STEPS_MAX: usize = 60;

/// A store with partitions for the day of the tests.
async fn given() -> Given {
    let given = Given::new().await;
    given.backing.node().await.make_partitions(NOW).await.unwrap();
    given
}

impl Given {
    async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.backing.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Which tables have a partition for the day.
    async fn partitions(&self) -> Vec<&'static str> {
        let client = self.client().await;
        let mut found = Vec::new();
        for table in TABLES {
            let sql = format!("SELECT to_regclass('{table}_{DAY}') IS NOT NULL");
            if client.query_one(&sql, &[]).await.unwrap().get(0) {
                found.push(table);
            }
        }
        found
    }

    /// How many rows a table has.
    async fn count(&self, table: &str) -> i64 {
        self.client().await.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
    }

    /// A pass over attempts; says where it ended, which is where the engine begins the next one.
    async fn pass_over_attempts(&self, mut from: Place, before: Timestamp) -> Place {
        for _ in 0..STEPS_MAX {
            match self.store.purge(Purge { what: RetentionClass::Attempts, before, from, limit: 500 }).await.unwrap().next {
                Some(next) => from = next,
                None => return from,
            }
        }
        panic!("the pass does not end");
    }

    /// Takes some steps of a pass; says where it goes on, if it does.
    async fn steps(&self, mut from: Option<Place>, count: usize) -> Option<Place> {
        for _ in 0..count {
            let purge = Purge { what: RetentionClass::Events, before: HORIZON, from: from?, limit: 500 };
            from = self.store.purge(purge).await.unwrap().next;
        }
        from
    }
}

#[tokio::test]
async fn a_day_is_dropped_and_what_is_needed_of_it_stays_whole() {
    let given = given().await;
    let made = given.of_every_kind(RECENT).await;
    // Each has other ids, too: as many as do not fit in one step.
    let aliases = made.iter().flat_map(|(_, traced, _)| [traced.event; 4]);
    given.store.alias(aliases.map(|event| EventAlias { alias: EventId::from_uuid(id()), event }).collect()).await.unwrap();
    assert_eq!((given.count("events_rest").await, given.partitions().await), (0, TABLES.to_vec()));
    // A step of three rows makes many of them, and each may be the last before a crash.
    for limit in [3, 500] {
        given.purge_in_steps(RetentionClass::Events, HORIZON, limit).await;
    }
    assert_eq!(given.partitions().await, [""; 0]);
    let given = given.reopened().await;
    for (name, traced, goes) in &made {
        match goes {
            true => given.assert_gone(traced, name).await,
            false => given.assert_whole(traced, name).await,
        }
    }
    let stayed = made.iter().filter(|(_, _, goes)| !goes).count();
    assert_eq!(given.count("events_kept").await, i64::try_from(stayed).unwrap());
    assert_eq!(given.count("made_later").await, 2);
    assert_eq!(given.count("event_aliases").await, i64::try_from(4 * stayed).unwrap());
}

#[tokio::test]
async fn what_outlived_its_day_is_sent_retried_replayed_and_erased_and_then_goes() {
    let given = given().await;
    let (waiting, first) = given.published().await;
    let (dead, letter) = given.published_dead().await;
    let (erased, _) = given.published().await;
    given.purge(RetentionClass::Events, HORIZON).await;
    assert_eq!(given.partitions().await, [""; 0]);
    let read = given.due(given.endpoint, HORIZON, 10, 1 << 20).await;
    assert_eq!(read.rows.iter().map(|due| (due.event, due.loaded.is_some())).collect::<Vec<_>>(), [(waiting, true), (erased, true)]);
    // Sent, and what is written of it goes where no day takes it.
    given.ended(first, Stage::Delivered { at: RECENT }).await;
    given.assert_whole(&Traced { event: waiting, deliveries: vec![(first, 1)] }, "sent").await;
    let again = given.brought_back(dead, letter).await;
    let delivered = settlement(again, given.endpoint, success(1), Stage::Delivered { at: RECENT });
    given.store.settle(Arc::new(vec![replay_of(letter, delivered)])).await.unwrap();
    assert_eq!(given.dead_letter(letter).await.status, DeadLetterStatus::Resolved);
    assert!(matches!(given.erase(erased).await, Erased::Erased(_)));
    assert!(given.store.is_erased(erased).await.unwrap());
    let later = RECENT + Duration::from_secs(1);
    given.purge(RetentionClass::DeadLetters, later).await;
    given.purge(RetentionClass::Events, later).await;
    for table in ["events", "all_deliveries", "attempts", "made_later", "dead_letters"] {
        assert_eq!(given.count(table).await, 0, "{table}");
    }
}

/// An id so many milliseconds after the beginning of a day.
fn id_at(day: i64, millis: i64) -> Uuid {
    let millis = u128::try_from(day * 86_400_000 + millis).unwrap();
    Uuid::from_u128((millis << 80) | (0x7 << 76) | (0x2 << 62) | u128::from(Uuid::new_v4().as_u128() as u32))
}

/// An event of the last moment of the tests' day, whose delivery has another id.
async fn delivered_as(given: &Given, delivery: Uuid) -> (EventId, DeliveryId) {
    let mut new = given.event(&[given.endpoint]).await;
    (new.event.id, new.deliveries[0].id) = (EventId::from_uuid(id_at(DAY + 1, -1)), DeliveryId::from_uuid(delivery));
    new.event.idempotency_key = new.event.id.to_string();
    let ids = (new.event.id, new.deliveries[0].id);
    given.record(new).await;
    ids
}

#[tokio::test]
async fn an_event_is_needed_by_its_deliveries_whatever_day_they_were_made_on() {
    let given = given().await;
    let mut made = Vec::new();
    // Around midnight, and after hours and days in a spool; one clock was set back meanwhile.
    for millis in [-86_400_002, 2, 1_500, 3_600_000, 2 * 86_400_000 + 1] {
        for end in [None, Some(NOW), Some(RECENT)] {
            let (event, delivery) = delivered_as(&given, id_at(DAY + 1, millis)).await;
            if let Some(at) = end {
                given.ended(delivery, Stage::Delivered { at }).await;
            }
            let why = format!("{millis} ms after midnight, ended at {end:?}");
            made.push((why, Traced { event, deliveries: vec![(delivery, usize::from(end.is_some()))] }, end == Some(NOW)));
        }
    }
    // The first pass takes the day away, in steps that do not hold all of them; the second judges what outlived it.
    given.purge_in_steps(RetentionClass::Events, HORIZON, 2).await;
    assert_eq!(given.partitions().await, [""; 0]);
    given.purge(RetentionClass::Events, HORIZON).await;
    for (why, traced, goes) in made {
        match goes {
            true => given.assert_gone(&traced, &why).await,
            false => given.assert_whole(&traced, &why).await,
        }
    }
}

#[tokio::test]
async fn an_event_that_comes_out_of_a_spool_while_its_day_is_dropped_stays_whole() {
    for count in 0..12 {
        let given = given().await;
        given.delivered(NOW).await;
        let from = given.steps(Some(Place::default()), count).await;
        let (event, delivery) = delivered_as(&given, id_at(DAY + 3, 0)).await;
        assert_eq!(given.steps(from, STEPS_MAX).await, None, "after {count} steps");
        given.purge(RetentionClass::Events, HORIZON).await;
        assert_eq!(given.partitions().await, [""; 0], "after {count} steps");
        given.assert_whole(&Traced { event, deliveries: vec![(delivery, 0)] }, &format!("after {count} steps")).await;
        assert_eq!(given.count("events").await, 1, "after {count} steps");
    }
}

#[tokio::test]
async fn whatever_comes_to_be_needed_in_the_middle_of_it_stays_whole() {
    // After each number of steps: something is done again, something that was open ends, and the pass goes on.
    for count in 0..12 {
        let given = given().await;
        let (event, delivery) = given.delivered(NOW).await;
        let (opened, open) = given.published().await;
        let from = given.steps(Some(Place::default()), count).await;
        let item = given.replay_item(event).await;
        let again = item.delivery;
        let answer = given.replay(vec![item]).await.remove(0);
        given.ended(open, Stage::Delivered { at: RECENT }).await;
        assert_eq!(given.steps(from, STEPS_MAX).await, None, "after {count} steps");
        given.purge(RetentionClass::Events, HORIZON).await;
        assert_eq!(given.partitions().await, [""; 0], "after {count} steps");
        given.assert_whole(&Traced { event: opened, deliveries: vec![(open, 1)] }, &format!("after {count} steps")).await;
        let traced = Traced { event, deliveries: vec![(delivery, 1), (again, 0)] };
        match answer {
            ReplayAnswer::Made { .. } => given.assert_whole(&traced, &format!("after {count} steps")).await,
            ReplayAnswer::NotFound => given.assert_gone(&traced, &format!("after {count} steps")).await,
            other => panic!("{other:?} after {count} steps"),
        }
    }
}

#[tokio::test]
async fn a_day_that_somebody_reads_is_dropped_later_and_nobody_waits_for_that() {
    let given = given().await;
    let (event, _) = given.delivered(NOW).await;
    let mut reader = given.client().await;
    let reading = reader.transaction().await.unwrap();
    reading.query("SELECT count(*) FROM events", &[]).await.unwrap();
    let begun_at = Instant::now();
    given.purge(RetentionClass::Events, HORIZON).await;
    assert!(begun_at.elapsed() < Duration::from_secs(5), "a pass waited for {:?}", begun_at.elapsed());
    assert!(given.partitions().await.contains(&"events") && given.is_there(event).await);
    reading.commit().await.unwrap();
    given.purge(RetentionClass::Events, HORIZON).await;
    assert_eq!((given.partitions().await, given.is_there(event).await), (Vec::new(), false));
}

/// An event of today, as one more publisher would make it.
async fn event_of_today(given: &Given) -> NewEvent {
    let mut new = given.event(&[given.endpoint]).await;
    new.event.id = EventId::from_uuid(Uuid::now_v7());
    new.event.idempotency_key = new.event.id.to_string();
    new.deliveries[0].id = DeliveryId::from_uuid(Uuid::now_v7());
    new
}

#[tokio::test]
async fn publishing_and_settling_go_on_while_a_day_is_dropped() {
    let given = Arc::new(given().await);
    for _ in 0..50 {
        given.delivered(NOW).await;
    }
    given.published_dead().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let (given, is_over) = (given.clone(), is_over.clone());
        async move {
            let mut written = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let new = event_of_today(&given).await;
                let (event, delivery) = (new.event.id, new.deliveries[0].id);
                let recorded = given.store.record(vec![new]).await.remove(0).unwrap();
                assert!(matches!(recorded, Recorded::Accepted { .. }), "{recorded:?}");
                given.ended(delivery, Stage::Delivered { at: RECENT }).await;
                written.push((event, delivery));
            }
            written
        }
    });
    // One that meets the writer gives up, and another pass is taken; some soon succeed.
    let begun_at = Instant::now();
    while !given.partitions().await.is_empty() {
        given.purge(RetentionClass::Events, HORIZON).await;
        assert!(begun_at.elapsed() < Duration::from_secs(60), "no drop has succeeded beside one writer");
    }
    is_over.store(true, Ordering::Relaxed);
    let written = writing.await.unwrap();
    assert!(!written.is_empty());
    for (event, delivery) in written {
        given.assert_whole(&Traced { event, deliveries: vec![(delivery, 1)] }, "written meanwhile").await;
    }
    assert_eq!(given.count("events_kept").await, 1);
}

#[tokio::test]
async fn attempts_leave_by_the_day_before_their_events_do() {
    let given = given().await;
    let (old, first) = given.delivered(NOW).await;
    let (recent, second) = given.delivered(RECENT).await;
    let (dead, third) = given.published_dead().await;
    let (opened, fourth) = given.published().await;
    given.ended(fourth, Stage::Waiting { due_at: RECENT }).await;
    given.purge(RetentionClass::Attempts, HORIZON).await;
    assert_eq!(given.partitions().await, ["events", "deliveries"]);
    for (event, delivery, attempts) in [(old, first, 0), (recent, second, 1), (dead, third, 1), (opened, fourth, 1)] {
        given.assert_whole(&Traced { event, deliveries: vec![(delivery, attempts)] }, "attempts").await;
    }
    given.purge(RetentionClass::Events, HORIZON).await;
    assert_eq!(given.partitions().await, [""; 0]);
    let all = everhook_core::model::PageRequest { limit: 10, cursor: everhook_core::model::Cursor::Newest };
    let events = given.store.events(given.organization, EventFilter::default(), all).await.unwrap().rows;
    assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), [opened, dead, recent]);
    assert_eq!(given.store.deliveries(given.organization, DeliveryFilter::default(), all).await.unwrap().rows.len(), 3);
}

#[tokio::test]
async fn attempts_that_leave_by_the_day_stay_while_another_delivery_of_their_event_is_open_or_ended_lately() {
    for (last, attempts, why) in [(None, 1, "open"), (Some(RECENT), 1, "ended lately"), (Some(NOW), 0, "ended long ago")] {
        let given = given().await;
        given.assert_attempts_by_sibling(last, attempts, why, HORIZON).await;
        assert_eq!(given.partitions().await, ["events", "deliveries"], "{why}");
    }
}

#[tokio::test]
async fn a_day_whose_attempts_could_not_be_dropped_is_tried_again_by_the_next_pass_from_where_the_last_one_ended() {
    let given = given().await;
    given.delivered(NOW).await;
    let mut reader = given.client().await;
    let reading = reader.transaction().await.unwrap();
    reading.query("SELECT count(*) FROM attempts", &[]).await.unwrap();
    let ended = given.pass_over_attempts(Place::default(), HORIZON).await;
    assert_eq!(given.partitions().await, TABLES);
    reading.commit().await.unwrap();
    given.pass_over_attempts(ended, HORIZON + Duration::from_secs(1)).await;
    assert_eq!(given.partitions().await, ["events", "deliveries"]);
}

#[tokio::test]
async fn events_of_sources_are_archived_before_their_day_is_dropped_whatever_the_size_of_a_step() {
    for limit in [2, 500] {
        let given = given().await;
        let (mut old, mut kept) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            old.push(given.received_and_delivered(NOW).await);
            given.delivered(NOW).await;
        }
        kept.push(given.received_and_delivered(RECENT).await);
        // While nothing can be archived, the day stays.
        given.purge_archiving(RetentionClass::Events, HORIZON, limit, |_| Vec::new()).await;
        assert_eq!(given.partitions().await, TABLES.to_vec(), "in steps of {limit}");
        for traced in old.iter().chain(&kept) {
            given.assert_whole(traced, "not archived").await;
        }
        // When it can, the day is dropped, and everything of it that came through a source was named before.
        let mut named = given.purge_archiving(RetentionClass::Events, HORIZON, limit, <[_]>::to_vec).await;
        assert_eq!(given.partitions().await, [""; 0], "in steps of {limit}");
        named.sort_unstable();
        let mut expected: Vec<_> =
            old.iter().map(|traced| Expiring { organization: given.organization, id: ExpiringId::Event(traced.event) }).collect();
        expected.sort_unstable();
        assert_eq!(named, expected, "in steps of {limit}");
        for traced in &old {
            given.assert_gone(traced, "archived").await;
        }
        // What outlived its day is archived when its own time has come.
        given.assert_whole(&kept[0], "too recent").await;
        let later = RECENT + Duration::from_secs(1);
        given.purge_archiving(RetentionClass::Events, later, limit, |_| Vec::new()).await;
        given.assert_whole(&kept[0], "not archived").await;
        assert_eq!(given.purge_archiving(RetentionClass::Events, later, limit, <[_]>::to_vec).await.len(), 1);
        given.assert_gone(&kept[0], "archived").await;
    }
}

#[tokio::test]
async fn a_day_gives_its_space_back_when_it_is_dropped() {
    let given = given().await;
    let noise = noise(100_000);
    for _ in 0..100 {
        let mut new = given.event(&[]).await;
        new.event.data = noise.clone();
        given.record(new).await;
    }
    let bytes_of_events = async || {
        let stored = given.store.stored().await.unwrap();
        stored.tables.iter().find(|table| table.name == "events").and_then(|table| table.bytes).unwrap()
    };
    let full = bytes_of_events().await;
    assert!(full > 5_000_000, "the data is in the tables: {full}");
    given.purge(RetentionClass::Events, HORIZON).await;
    assert_eq!(given.partitions().await, [""; 0]);
    let left = bytes_of_events().await;
    assert!(left < full / 10, "{left} of {full} bytes are left");
}
