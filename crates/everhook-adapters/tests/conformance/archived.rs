//! What retention promises an archive: it names what is about to go, and nothing of it goes before it is there. And what the store says it keeps.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use everhook_core::{
    ids::SourceId,
    model::{DeathCause, Stage},
    ports::{Expiring, ExpiringId, NewEvent, Place, Purge, RetentionClass, RowCount},
    time::Timestamp,
};

use super::{
    given::{Given, NOW, failure, id, settlement},
    retention::Traced,
};

/// What ended before this may go; what the tests end by default did.
const HORIZON: Timestamp = Timestamp::from_secs(1_700_001_000);
/// An end that is too recent.
const RECENT: Timestamp = Timestamp::from_secs(1_700_002_000);
/// How many steps of a test's pass are enough for anything.
const STEPS_MAX: usize = 1_000;

/// Data that does not become smaller by compression.
pub fn noise(bytes: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..bytes).map(|_| next()).collect()
}

impl Given {
    /// Goes through one kind of things, and lets go what `archive` says of each step; says what was about to go.
    pub async fn purge_archiving(
        &self,
        what: RetentionClass,
        before: Timestamp,
        limit: u32,
        archive: impl Fn(&[Expiring]) -> Vec<Expiring>,
    ) -> Vec<Expiring> {
        let (mut from, mut seen) = (Place::default(), Vec::new());
        for _ in 0..STEPS_MAX {
            let purge = Purge { what, before, from, limit };
            let expiring = self.store.expiring(purge).await.unwrap();
            seen.extend(&expiring);
            let purged = self.store.purge_archived(purge, archive(&expiring)).await.unwrap();
            match purged.next {
                // A step that ends where it began found what is not archived.
                Some(next) if next == from && !seen.is_empty() => return seen,
                Some(next) => from = next,
                None => return seen,
            }
        }
        panic!("the pass over {what:?} does not end");
    }

    /// An event of a source, delivered at an instant.
    pub async fn received_and_delivered(&self, at: Timestamp) -> Traced {
        let new = self.received_event(SourceId::from_uuid(id()), "user-7").await;
        self.recorded_and_delivered(new, at).await
    }

    async fn recorded_and_delivered(&self, new: NewEvent, at: Timestamp) -> Traced {
        let (event, delivery) = (new.event.id, new.deliveries[0].id);
        self.record(new).await;
        self.ended(delivery, Stage::Delivered { at }).await;
        Traced { event, deliveries: vec![(delivery, 1)] }
    }
}

fn all(expiring: &[Expiring]) -> Vec<Expiring> {
    expiring.to_vec()
}

fn nothing(_: &[Expiring]) -> Vec<Expiring> {
    Vec::new()
}

#[tokio::test]
async fn an_event_of_a_source_goes_only_once_it_is_archived_and_one_that_was_published_does_not_wait() {
    let given = Given::new().await;
    let mut old = Vec::new();
    for _ in 0..7 {
        old.push(given.received_and_delivered(NOW).await);
    }
    let recent = given.received_and_delivered(RECENT).await;
    let (sent, delivery) = given.delivered(NOW).await;
    let sent = Traced { event: sent, deliveries: vec![(delivery, 1)] };
    // While nothing can be archived, nothing of it goes.
    given.purge_archiving(RetentionClass::Events, HORIZON, 500, nothing).await;
    for traced in old.iter().chain([&recent]) {
        given.assert_whole(traced, "not archived").await;
    }
    // When it can, each is named before it goes, in steps of any size.
    let mut named = given.purge_archiving(RetentionClass::Events, HORIZON, 8, all).await;
    named.extend(given.purge_archiving(RetentionClass::Events, HORIZON, 500, all).await);
    for traced in &old {
        given.assert_gone(traced, "archived").await;
        assert!(named.contains(&Expiring { organization: given.organization, id: ExpiringId::Event(traced.event) }));
    }
    // One whose rows did not fit into a step is named again by the next.
    named.sort_unstable();
    named.dedup();
    assert_eq!(named.len(), old.len(), "{named:?}");
    given.assert_gone(&sent, "published").await;
    given.assert_whole(&recent, "too recent").await;
}

#[tokio::test]
async fn of_some_events_those_go_that_are_archived() {
    let given = Given::new().await;
    let (first, second) = (given.received_and_delivered(NOW).await, given.received_and_delivered(NOW).await);
    let only_second =
        |expiring: &[Expiring]| expiring.iter().copied().filter(|one| one.id == ExpiringId::Event(second.event)).collect::<Vec<_>>();
    given.purge_archiving(RetentionClass::Events, HORIZON, 500, only_second).await;
    given.assert_whole(&first, "not archived").await;
    given.assert_gone(&second, "archived").await;
}

#[tokio::test]
async fn a_dead_letter_goes_only_once_it_is_archived_and_not_while_it_is_being_retried() {
    let given = Given::new().await;
    let mut letters = Vec::new();
    for _ in 0..5 {
        letters.push(given.published_dead().await);
    }
    let retried = given.published_dead().await;
    given.brought_back(retried.0, retried.1).await;
    let late = NOW + Duration::from_secs(86_400);
    given.purge_archiving(RetentionClass::DeadLetters, late, 2, nothing).await;
    for (_, letter) in &letters {
        assert!(given.store.dead_letter(given.organization, *letter).await.unwrap().is_some());
    }
    let mut named = given.purge_archiving_all(late).await;
    named.sort_unstable();
    let mut expected: Vec<Expiring> =
        letters.iter().map(|(_, letter)| Expiring { organization: given.organization, id: ExpiringId::DeadLetter(*letter) }).collect();
    expected.sort_unstable();
    assert_eq!(named, expected);
    for (_, letter) in &letters {
        assert!(given.store.dead_letter(given.organization, *letter).await.unwrap().is_none());
    }
    assert!(given.store.dead_letter(given.organization, retried.1).await.unwrap().is_some());
}

impl Given {
    /// All dead letters, two in each step: each step begins at the same place and sees others.
    async fn purge_archiving_all(&self, before: Timestamp) -> Vec<Expiring> {
        let purge = Purge { what: RetentionClass::DeadLetters, before, from: Place::default(), limit: 2 };
        let mut named = Vec::new();
        for _ in 0..STEPS_MAX {
            let expiring = self.store.expiring(purge).await.unwrap();
            named.extend(&expiring);
            if self.store.purge_archived(purge, expiring).await.unwrap().next.is_none() {
                return named;
            }
        }
        panic!("the pass does not end");
    }
}

#[tokio::test]
async fn other_classes_name_nothing_and_go_as_ever() {
    let given = Given::new().await;
    let traced = given.received_and_delivered(NOW).await;
    let purge = Purge { what: RetentionClass::Attempts, before: HORIZON, from: Place::default(), limit: 500 };
    assert_eq!(given.store.expiring(purge).await.unwrap(), []);
    assert_eq!(given.purge_archiving(RetentionClass::Attempts, HORIZON, 500, nothing).await, []);
    given.assert_whole(&Traced { event: traced.event, deliveries: vec![(traced.deliveries[0].0, 0)] }, "attempts").await;
}

#[tokio::test]
async fn the_store_says_what_it_keeps_without_counting_all_of_it() {
    let given = Given::new().await;
    let empty = given.store.stored().await.unwrap();
    assert_eq!((empty.oldest_event_at, empty.oldest_dead_letter_at), (None, None));
    assert!(empty.bytes > 0 && empty.free_bytes <= empty.bytes, "{empty:?}");
    for _ in 0..3 {
        given.received_and_delivered(NOW).await;
    }
    let (_, delivery) = given.published().await;
    let dead = settlement(delivery, given.endpoint, failure(1), Stage::Dead { at: RECENT, cause: DeathCause::RetriesExhausted });
    given.store.settle(Arc::new(vec![dead])).await.unwrap();
    let stored = given.store.stored().await.unwrap();
    assert_eq!(stored.oldest_event_at, Some(NOW));
    assert!(stored.bytes > 0, "{stored:?}");
    // All that grows is named, also what is empty.
    for name in ["health_metrics", "jobs", "approvals", "draws", "alerts"] {
        assert!(stored.tables.iter().any(|table| table.name == name), "{name} is missing");
    }
    for name in ["events", "deliveries", "attempts", "dead_letters", "audit_log"] {
        let table = stored.tables.iter().find(|table| table.name == name).unwrap_or_else(|| panic!("{name} is missing"));
        match table.rows {
            RowCount::Exactly(rows) => assert!(rows > 0, "{name}"),
            // A server that has not looked yet knows of none.
            RowCount::About(_) => assert!(table.bytes.is_some_and(|bytes| bytes > 0), "{name}"),
            RowCount::MoreThan(_) => panic!("{name}: {table:?}"),
        }
    }
}
