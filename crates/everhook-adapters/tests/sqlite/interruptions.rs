//! Work that takes several commits, and stops between two of them.

use everhook_core::{
    ids::DeliveryId,
    ports::{EventStore, NewEvent, Recorded, StoreError},
};

use crate::sqlite::{conformance::event_store::deliveries_of, given::Given};

#[tokio::test]
async fn deliveries_that_a_crash_left_to_be_made_are_made_at_the_next_opening() {
    // Given an event whose last 2,500 deliveries exist only on the list.
    let given = Given::new().await;
    let new = given.event(&vec![given.endpoint; 4_500]).await;
    let mut expected: Vec<DeliveryId> = new.deliveries.iter().map(|delivery| delivery.id).collect();
    let event = new.event.id;
    given.record(new.clone()).await;
    put_back_on_the_list(&given.file(), &new);
    // When the store is opened again.
    let given = given.reopened().await;
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
            entries.extend(delivery.lane_id.as_uuid().as_bytes());
            entries.extend(delivery.retry_schedule.0.to_le_bytes());
        }
        let parameters = rusqlite::params![new.event.id.as_uuid().as_bytes(), step, entries, new.made_at.as_micros()];
        connection
            .execute("INSERT INTO unfinished_fanouts (event_id, step, deliveries, made_at) VALUES (?1, ?2, ?3, ?4)", parameters)
            .unwrap();
    }
    connection.commit().unwrap();
}

#[tokio::test]
async fn a_batch_that_fails_midway_keeps_what_was_recorded_before() {
    // Given a batch of three commits, each as large as one may be, whose second cannot be recorded: its event's id belongs to another application.
    let given = Given::new().await;
    let taken = given.event(&[]).await;
    let mut culprit = taken.clone();
    given.record(taken).await;
    culprit.event.application = given.another_application().await;
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
        assert_eq!(EventStore::event(&*given.store, id).await.unwrap().is_some(), is_recorded);
    }
}

/// An event that almost fills a commit.
async fn large(given: &Given) -> NewEvent {
    given.event(&vec![given.endpoint; 1_990]).await
}
