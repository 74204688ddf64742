//! Recording events.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, EventId},
    model::Priority,
    ports::{DeliveryFilter, EventStore, History, KeyOrigin, NewEvent, Recorded, StoreError},
    time::Timestamp,
};

use crate::given::{Given, NOW, after, entry, id};

fn keyed(new: NewEvent, key: &str) -> NewEvent {
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
        new.event.priority = Priority::High;
        let mut event = new.event.clone();
        event.sequence_number = given.record(new).await;
        assert_eq!(EventStore::event(&given.store, event.id).await.unwrap(), Some(event));
    }
}

#[tokio::test]
async fn an_event_that_nobody_recorded_is_not_found() {
    let given = Given::new().await;
    assert_eq!(EventStore::event(&given.store, EventId::from_uuid(id())).await.unwrap(), None);
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
    let given = given.reopened();
    let next = given.event(&[]).await;
    assert_eq!(given.record(next).await, 4);
}

#[tokio::test]
async fn a_key_that_was_given_before_finds_the_original() {
    let given = Given::new().await;
    let first = keyed(given.event(&[given.endpoint]).await, "order-1");
    let original = first.event.id;
    let sequence_number = given.record(first).await;
    let given = given.reopened();
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
    assert_eq!(EventStore::event(&given.store, twin).await.unwrap(), None);
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
async fn old_keys_are_forgotten_a_few_at_a_time() {
    let given = Given::new().await;
    for key in ["a", "b", "c"] {
        given.record(keyed(given.event(&[]).await, key)).await;
    }
    assert_eq!(given.store.forget_keys(NOW, 10).await.unwrap(), 0);
    assert_eq!(given.store.forget_keys(after(1), 2).await.unwrap(), 2);
    assert_eq!(given.store.forget_keys(after(1), 2).await.unwrap(), 1);
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
    assert_eq!(EventStore::event(&given.store, id).await.unwrap(), None);
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

#[tokio::test]
async fn deliveries_that_a_crash_left_to_be_made_are_made_at_the_next_opening() {
    // Given an event whose last 2,500 deliveries exist only on the list.
    let given = Given::new().await;
    let new = given.event(&vec![given.endpoint; 4_500]).await;
    let mut expected: Vec<DeliveryId> = new.deliveries.iter().map(|delivery| delivery.id).collect();
    let event = new.event.id;
    let file = given.folder.path().join("everhook.db");
    given.record(new.clone()).await;
    let Given { store, folder, organization, application, endpoint } = given;
    drop(store);
    put_back_on_the_list(&file, &new);
    // When the store is opened.
    let given = Given { store: crate::given::open(&folder), folder, organization, application, endpoint };
    // Then all are there.
    expected.reverse();
    assert_eq!(deliveries_of(&given, event).await, expected);
}

/// Undoes all commits of a fan-out but the first.
fn put_back_on_the_list(file: &std::path::Path, new: &NewEvent) {
    let mut connection = rusqlite::Connection::open(file).unwrap();
    let connection = connection.transaction().unwrap();
    for (step, stretch) in (0_i64..).zip(new.deliveries[2_000..].chunks(2_000)) {
        let mut entries = Vec::new();
        for delivery in stretch {
            connection.execute("DELETE FROM deliveries WHERE id = ?1", [delivery.id.as_uuid().as_bytes()]).unwrap();
            entries.extend(delivery.id.as_uuid().as_bytes());
            entries.extend(delivery.endpoint.as_uuid().as_bytes());
            entries.extend(delivery.retry_schedule.0.to_le_bytes());
        }
        let parameters = rusqlite::params![new.event.id.as_uuid().as_bytes(), step, entries];
        connection.execute("INSERT INTO unfinished_fanouts VALUES (?1, ?2, ?3)", parameters).unwrap();
    }
    connection.commit().unwrap();
}

async fn deliveries_of(given: &Given, event: EventId) -> Vec<DeliveryId> {
    let filter = DeliveryFilter { event: Some(event), ..DeliveryFilter::default() };
    let page = everhook_core::model::PageRequest { limit: 10_000, cursor: everhook_core::model::Cursor::Newest };
    let page = given.store.deliveries(given.organization, filter, page).await.unwrap();
    page.rows.into_iter().map(|delivery| delivery.id).collect()
}

#[tokio::test]
async fn a_batch_that_fails_midway_keeps_what_was_recorded_before() {
    // Given a batch of three commits, each as large as one may be, whose second cannot be recorded: its event's id belongs to another application.
    let given = Given::new().await;
    let taken = given.event(&[]).await;
    let mut culprit = taken.clone();
    given.record(taken).await;
    culprit.event.application = other_application(&given).await;
    culprit.config_version = 1;
    let [first, beside, third] = [large(&given).await, large(&given).await, large(&given).await];
    let ids = [&first, &beside, &third].map(|new| new.event.id);
    // When it is recorded.
    let answers = given.store.record(vec![first, beside, culprit, third]).await;
    // Then the first stands, and the rest is told to come again.
    assert_eq!(answers.len(), 4);
    assert!(matches!(answers[0], Ok(Recorded::Accepted { sequence_number: 2, .. })), "{answers:?}");
    assert!(answers[1..].iter().all(|answer| matches!(answer, Err(StoreError::Unavailable(_)))), "{answers:?}");
    for (id, is_recorded) in ids.into_iter().zip([true, false, false]) {
        assert_eq!(EventStore::event(&given.store, id).await.unwrap().is_some(), is_recorded);
    }
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
    culprit.event.application = other_application(&given).await;
    culprit.config_version = 1;
    // When it is recorded together with many others.
    let store = std::sync::Arc::new(given.store);
    let mut tasks = Vec::new();
    for number in 0..100 {
        let mut new = other.clone();
        new.event.id = EventId::from_uuid(crate::given::id());
        new.event.idempotency_key = new.event.id.to_string();
        new.deliveries[0].id = DeliveryId::from_uuid(crate::given::id());
        let new = if number == 50 { culprit.clone() } else { new };
        let store = std::sync::Arc::clone(&store);
        tasks.push(tokio::spawn(async move { store.record(vec![new]).await.remove(0) }));
    }
    // Then it alone hears of it.
    for (number, task) in tasks.into_iter().enumerate() {
        let answer = task.await.unwrap();
        assert_eq!(answer.is_err(), number == 50, "{number}: {answer:?}");
    }
}

/// An event that almost fills a commit.
async fn large(given: &Given) -> NewEvent {
    given.event(&vec![given.endpoint; 1_990]).await
}

async fn other_application(given: &Given) -> everhook_core::ids::ApplicationId {
    use everhook_core::ports::Directory as _;
    let application = crate::given::application(given.organization);
    let id = application.id;
    given.store.create_application(application, entry()).await.unwrap();
    id
}
