//! Recording events.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, EventId, OrganizationId},
    model::{OrderingKey, Priority},
    ports::{DeliveryFilter, EventAlias, EventStore, History, KeyOrigin, KeyReused, NewEvent, Recorded},
    time::Timestamp,
};

use super::{
    given::{Given, NOW, after, event_type, id},
    store::Backing as _,
};

pub fn keyed(new: NewEvent, key: &str) -> NewEvent {
    keyed_since(new, key, NOW - Duration::from_secs(86_400))
}

fn keyed_since(mut new: NewEvent, key: &str, valid_since: Timestamp) -> NewEvent {
    new.event.idempotency_key = key.to_owned();
    new.key = KeyOrigin::Given { valid_since };
    new
}

#[tokio::test]
async fn an_event_is_read_back_byte_for_byte() {
    let given = Given::new().await;
    for data in [Bytes::from_static(b"{\"a\" :  1.50, \"a\": 2}"), Bytes::from(vec![b'7'; 200_000])] {
        let mut new = given.event(&[given.endpoint]).await;
        new.event.data = data;
        new.event.source = Some("billing".to_owned());
        new.event.traceparent = Some("00-abc-def-01".to_owned());
        new.event.ordering_key = OrderingKey::parse("customer ü");
        new.event.priority = Priority::High;
        new.event.timestamp = Timestamp::from_micros(1_234_567_890_123_457);
        new.event.created_at = NOW + Duration::from_micros(1);
        new.event.labels = [("region".to_owned(), "ü".to_owned())].into();
        new.event.headers = vec![("X-Key".to_owned(), "a\"b".to_owned()), ("X-Key".to_owned(), String::new())];
        let mut event = new.event.clone();
        event.sequence_number = given.record(new).await;
        assert_eq!(EventStore::event(&*given.store, event.id).await.unwrap(), Some(event));
    }
}

#[tokio::test]
async fn an_event_that_nobody_recorded_is_not_found() {
    let given = Given::new().await;
    assert_eq!(EventStore::event(&*given.store, EventId::from_uuid(id())).await.unwrap(), None);
}

#[tokio::test]
async fn sequence_numbers_rise_in_the_order_of_the_batch_and_over_a_reopening() {
    let given = Given::new().await;
    let mut batch = Vec::new();
    for _ in 0..3 {
        batch.push(given.event(&[]).await);
    }
    let answers = given.record_all(batch).await;
    assert_eq!(answers, [1, 2, 3].map(|sequence_number| Recorded::Accepted { sequence_number, held: Vec::new() }));
    let given = given.reopened().await;
    let next = given.event(&[]).await;
    assert_eq!(given.record(next).await, 4);
}

#[tokio::test]
async fn a_key_that_was_given_before_finds_the_original() {
    let given = Given::new().await;
    let first = keyed(given.event(&[given.endpoint]).await, "order-1");
    let original = first.event.id;
    let sequence_number = given.record(first).await;
    let given = given.reopened().await;
    let again = keyed(given.event(&[]).await, "order-1");
    let answer = given.record_all(vec![again]).await;
    assert_eq!(answer, [Recorded::Duplicate { event: original, deliveries: 1, sequence_number }]);
}

#[tokio::test]
async fn the_same_key_twice_in_one_batch_makes_one_event() {
    let given = Given::new().await;
    let first = keyed(given.event(&[]).await, "order-1");
    let second = keyed(given.event(&[]).await, "order-1");
    let (original, twin) = (first.event.id, second.event.id);
    let answers = given.record_all(vec![first, second]).await;
    let duplicate = Recorded::Duplicate { event: original, deliveries: 0, sequence_number: 1 };
    assert_eq!(answers, [Recorded::Accepted { sequence_number: 1, held: Vec::new() }, duplicate]);
    assert_eq!(EventStore::event(&*given.store, twin).await.unwrap(), None);
}

/// The same event, with other data.
fn saying(mut new: NewEvent, data: &'static str) -> NewEvent {
    new.event.data = Bytes::from_static(data.as_bytes());
    new
}

fn reused(original: EventId) -> Recorded {
    Recorded::KeyReused(KeyReused { original, is_erased: false })
}

#[tokio::test]
async fn another_event_under_a_key_that_was_given_is_told_so_and_records_nothing() {
    let given = Given::new().await;
    let first = keyed(given.event(&[given.endpoint]).await, "order-1");
    let original = first.event.id;
    let sequence_number = given.record(first).await;
    let given = given.reopened().await;
    let mut other_type = keyed(given.event(&[given.endpoint]).await, "order-1");
    other_type.event.event_type = event_type("order.other");
    let other = saying(keyed(given.event(&[given.endpoint]).await, "order-1"), "\"other\"");
    let same = keyed(given.event(&[]).await, "order-1");
    let ids = [other_type.event.id, other.event.id];
    let duplicate = Recorded::Duplicate { event: original, deliveries: 1, sequence_number };
    // Each by itself, and all of them at once: what comes first of a batch need not be the original.
    for new in [other_type.clone(), other.clone()] {
        assert_eq!(given.record_all(vec![new]).await, [reused(original)]);
    }
    let answers = given.record_all(vec![other_type, other, same]).await;
    assert_eq!(answers, [reused(original), reused(original), duplicate]);
    for id in ids {
        assert_eq!(EventStore::event(&*given.store, id).await.unwrap(), None);
    }
    let next = given.event(&[]).await;
    assert_eq!(given.record(next).await, sequence_number + 1, "nothing took a place");
}

#[tokio::test]
async fn two_events_under_one_key_in_one_batch_are_one_event_and_one_refusal() {
    let given = Given::new().await;
    let first = keyed(given.event(&[]).await, "order-1");
    let other = saying(keyed(given.event(&[]).await, "order-1"), "\"other\"");
    let same = keyed(given.event(&[]).await, "order-1");
    let original = first.event.id;
    let answers = given.record_all(vec![first, other, same]).await;
    let duplicate = Recorded::Duplicate { event: original, deliveries: 0, sequence_number: 1 };
    assert_eq!(answers, [Recorded::Accepted { sequence_number: 1, held: Vec::new() }, reused(original), duplicate]);
}

#[tokio::test]
async fn a_key_that_we_made_belongs_to_what_its_event_said() {
    let given = Given::new().await;
    for data in ["{}", include_str!("event_store.rs")] {
        let first = saying(given.event(&[]).await, data);
        let (original, key) = (first.event.id, first.event.id.to_string());
        let sequence_number = given.record(first).await;
        let same = saying(keyed(given.event(&[]).await, &key), data);
        let other = saying(keyed(given.event(&[]).await, &key), "\"other\"");
        let duplicate = Recorded::Duplicate { event: original, deliveries: 0, sequence_number };
        assert_eq!(given.record_all(vec![same]).await, [duplicate]);
        assert_eq!(given.record_all(vec![other.clone()]).await, [reused(original)]);
        // The key was not taken by the one that was refused.
        assert_eq!(given.record_all(vec![other]).await, [reused(original)]);
    }
}

#[tokio::test]
async fn a_key_is_forgotten_when_its_window_has_passed_and_then_belongs_to_the_new_event() {
    let given = Given::new().await;
    given.record(keyed(given.event(&[]).await, "order-1")).await;
    let mut late = keyed_since(given.event(&[]).await, "order-1", after(1));
    late.event.created_at = after(2);
    let event = late.event.id;
    let sequence_number = given.record(late).await;
    let again = keyed_since(given.event(&[]).await, "order-1", after(1));
    let answer = given.record_all(vec![again]).await;
    assert_eq!(answer, [Recorded::Duplicate { event, deliveries: 0, sequence_number }]);
}

#[tokio::test]
async fn each_event_of_a_batch_has_a_window_of_its_own() {
    let given = Given::new().await;
    let made = given.event(&[]).await;
    let made_key = made.event.id.to_string();
    given.record_all(vec![keyed(given.event(&[]).await, "order-1"), keyed(given.event(&[]).await, "order-2"), made]).await;
    // The first was accepted long ago and waited since; for the others, these keys are forgotten.
    let batch = vec![
        keyed(given.event(&[]).await, "order-1"),
        keyed_since(given.event(&[]).await, "order-2", after(1)),
        keyed_since(given.event(&[]).await, &made_key, after(1)),
    ];
    let answers = given.record_all(batch).await;
    let is_new: Vec<bool> = answers.iter().map(|answer| matches!(answer, Recorded::Accepted { .. })).collect();
    assert_eq!(is_new, [false, true, true], "{answers:?}");
}

#[tokio::test]
async fn a_key_that_was_made_can_be_given_by_whoever_was_told_it() {
    let given = Given::new().await;
    let first = given.event(&[]).await;
    let original = first.event.id;
    let sequence_number = given.record(first).await;
    let again = keyed(given.event(&[]).await, &original.to_string());
    let answer = given.record_all(vec![again]).await;
    assert_eq!(answer, [Recorded::Duplicate { event: original, deliveries: 0, sequence_number }]);
    // Also for a made key the window counts.
    given.record(keyed_since(given.event(&[]).await, &original.to_string(), after(1))).await;
}

#[tokio::test]
async fn an_event_that_is_recorded_again_after_an_unknown_outcome_is_a_duplicate_of_itself() {
    let given = Given::new().await;
    let new = given.event(&[given.endpoint]).await;
    let sequence_number = given.record(new.clone()).await;
    let answer = given.record_all(vec![new.clone()]).await;
    assert_eq!(answer, [Recorded::Duplicate { event: new.event.id, deliveries: 1, sequence_number }]);
}

#[tokio::test]
async fn keys_and_sequence_numbers_are_an_applications_own() {
    let given = Given::new().await;
    let other = given.another_application().await;
    let answers =
        given.record_all(vec![keyed(given.event(&[]).await, "order-1"), keyed(given.event_of(other, &[]).await, "order-1")]).await;
    assert_eq!(answers, [1, 1].map(|sequence_number| Recorded::Accepted { sequence_number, held: Vec::new() }));
    // A made key is found only where it was made.
    let made = given.event(&[]).await;
    let key = made.event.id.to_string();
    assert_eq!(given.record(made).await, 2);
    assert_eq!(given.record(keyed(given.event_of(other, &[]).await, &key)).await, 2);
}

#[tokio::test]
async fn what_is_answered_is_what_is_there_however_a_batch_is_mixed() {
    let given = Given::new().await;
    let first = keyed(given.event(&[given.endpoint]).await, "order-1");
    let (twin, repeated) = (keyed(given.event(&[given.endpoint]).await, "order-1"), first.clone());
    let mut stale = given.event(&[given.endpoint]).await;
    stale.config_version -= 1;
    let last = given.event(&[given.endpoint]).await;
    let ids = [&first, &twin, &stale, &last].map(|new| new.event.id);
    let original = Recorded::Duplicate { event: first.event.id, deliveries: 1, sequence_number: 1 };
    let accepted = |sequence_number| Recorded::Accepted { sequence_number, held: Vec::new() };
    let answers = given.record_all(vec![first, twin, repeated, stale, last]).await;
    assert_eq!(answers, [accepted(1), original.clone(), original, Recorded::ConfigChanged, accepted(2)]);
    for (id, is_there) in ids.into_iter().zip([true, false, false, true]) {
        assert_eq!(EventStore::event(&*given.store, id).await.unwrap().is_some(), is_there);
        assert_eq!(deliveries_of(&given, id).await.len(), usize::from(is_there));
    }
}

#[tokio::test]
async fn old_keys_are_forgotten_a_few_at_a_time() {
    let given = Given::new().await;
    for key in ["a", "b", "c"] {
        given.record(keyed(given.event(&[]).await, key)).await;
    }
    assert_eq!(given.backing.forget_keys(NOW, 10).await, 0);
    assert_eq!(given.backing.forget_keys(after(1), 2).await, 2);
    assert_eq!(given.backing.forget_keys(after(1), 2).await, 1);
    given.record(keyed(given.event(&[]).await, "a")).await;
}

#[tokio::test]
async fn nothing_is_written_for_an_event_that_was_matched_with_an_older_configuration() {
    let given = Given::new().await;
    let stale = given.event(&[given.endpoint]).await;
    given.another_endpoint().await;
    let fresh = given.event(&[]).await;
    let id = stale.event.id;
    let answers = given.record_all(vec![stale, fresh]).await;
    assert_eq!(answers, [Recorded::ConfigChanged, Recorded::Accepted { sequence_number: 1, held: Vec::new() }]);
    assert_eq!(EventStore::event(&*given.store, id).await.unwrap(), None);
}

#[tokio::test]
async fn an_event_with_more_deliveries_than_a_commit_holds_is_recorded_whole() {
    let given = Given::new().await;
    let new = given.event(&vec![given.endpoint; 4_500]).await;
    let mut expected: Vec<DeliveryId> = new.deliveries.iter().map(|delivery| delivery.id).collect();
    let event = new.event.id;
    given.record(new).await;
    expected.reverse();
    assert_eq!(deliveries_of(&given, event).await, expected);
}

pub async fn deliveries_of(given: &Given, event: EventId) -> Vec<DeliveryId> {
    let filter = DeliveryFilter { event: Some(event), ..DeliveryFilter::default() };
    let page = everhook_core::model::PageRequest { limit: 10_000, cursor: everhook_core::model::Cursor::Newest };
    let page = given.store.deliveries(given.organization, filter, page).await.unwrap();
    page.rows.into_iter().map(|delivery| delivery.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_fails_takes_none_of_those_beside_it_down() {
    // Given one event that cannot be recorded, because its id belongs to an event of another application.
    let given = Given::new().await;
    let taken = given.event(&[]).await;
    let id = taken.event.id;
    given.record(taken).await;
    let mut culprit = given.event(&[]).await;
    culprit.event.id = id;
    culprit.event.idempotency_key = id.to_string();
    culprit.deliveries = vec![];
    let other = given.event(&[given.endpoint]).await;
    culprit.event.application = given.another_application().await;
    culprit.config_version = 1;
    // When it is recorded together with many others.
    let store = given.store;
    let mut tasks = Vec::new();
    for number in 0..100 {
        let mut new = other.clone();
        new.event.id = EventId::from_uuid(super::given::id());
        new.event.idempotency_key = new.event.id.to_string();
        new.deliveries[0].id = DeliveryId::from_uuid(super::given::id());
        let new = if number == 50 { culprit.clone() } else { new };
        let store = std::sync::Arc::clone(&store);
        tasks.push(tokio::spawn(async move { store.record(vec![new]).await.remove(0) }));
    }
    // Then all others are recorded, and it is not.
    for (number, task) in tasks.into_iter().enumerate() {
        let answer = task.await.unwrap();
        assert_eq!(matches!(answer, Ok(Recorded::Accepted { .. })), number != 50, "{number}: {answer:?}");
    }
}

#[tokio::test]
async fn an_alias_shows_its_event_and_an_events_own_id_comes_first() {
    let given = Given::new().await;
    let (first, second) = (given.event(&[given.endpoint]).await, given.event(&[]).await);
    let (original, other) = (first.event.id, second.event.id);
    given.record(first).await;
    given.record(second).await;
    let alias = EventId::from_uuid(id());
    // Made twice, as after an answer that was lost; and never instead of an event.
    for _ in 0..2 {
        let aliases = vec![EventAlias { alias, event: original }, EventAlias { alias: other, event: original }];
        given.store.alias(aliases).await.unwrap();
    }
    let given = given.reopened().await;
    let shown = |organization, id| {
        let store = given.store.clone();
        async move { History::event(&*store, organization, id).await.unwrap().map(|(summary, _)| summary.id) }
    };
    assert_eq!(shown(given.organization, alias).await, Some(original));
    assert_eq!(shown(given.organization, other).await, Some(other));
    assert_eq!(shown(OrganizationId::from_uuid(id()), alias).await, None);
    assert_eq!(shown(given.organization, EventId::from_uuid(id())).await, None);
}
