//! Parking, and what is read of deliveries, works for every kind of lane, as [`super::lane_kinds`] tests it for sending. [`super::parking`] has the whole
//! contract of parking.

use std::sync::Arc;

use everhook_core::{
    ids::{DeliveryId, SourceId},
    model::{
        AfterExpiry, Attempt, AttemptStatus, CancelCause, Cursor, Expiry, OrderingKey, OrderingMode, PageRequest, Parking, Placement,
        Priority, Stage, WaitsFor,
    },
    ports::{CancelWaiting, EventFilter, KeyOrigin, OrphanedLane, QueueMeasurements, ReceivedFilter, Release, Scan, TimeRange, Unparked},
};
use uuid::Uuid;

use super::{
    delivery_queue::waiting,
    given::{Given, NOW, after, failure, id, settlement, success},
    lane_kinds::KINDS,
};

const ALL: PageRequest = PageRequest { limit: 100, cursor: Cursor::Newest };

fn name() -> WaitsFor {
    WaitsFor::parse("user \u{fc}").unwrap()
}

fn ids(unparked: Unparked) -> (Vec<DeliveryId>, bool) {
    (unparked.deliveries.into_iter().map(|one| one.freed.due.delivery).collect(), unparked.may_be_more)
}

impl Given {
    /// Publishes an event whose delivery is parked by its first attempt.
    async fn published_parked(&self, expiry: Option<Expiry>) -> DeliveryId {
        let (_, delivery) = self.published().await;
        let attempt = Attempt { status: AttemptStatus::Parked, error: Some("waits".to_owned()), ..success(1) };
        let stage = Stage::Parked(Parking { waits_for: name(), expiry });
        self.store.settle(Arc::new(vec![settlement(delivery, self.endpoint, attempt, stage)])).await.unwrap();
        delivery
    }
}

#[tokio::test]
async fn a_parked_delivery_is_released_in_steps_or_by_time() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let next_look = async || given.store.next_look().await.unwrap();
        let waiting = [given.published_parked(None).await, given.published_parked(None).await];
        assert_eq!(next_look().await, None, "{kind}");
        let release = Release { organization: given.organization, waits_for: name(), at: after(2), limit: 1 };
        assert_eq!(ids(given.store.release(release).await.unwrap()), (vec![waiting[0]], true), "{kind}");
        assert!(next_look().await.is_some(), "{kind}: the release is not complete");
        assert_eq!(ids(given.store.resume_releases(after(3), 10).await.unwrap()).0, [waiting[1]], "{kind}");
        assert_eq!(given.stage(waiting[1]).await, Stage::Waiting { due_at: after(3) }, "{kind}");
        let given = Given::of_kind(kind).await;
        let expiring = given.published_parked(Some(Expiry { at: after(60), then: AfterExpiry::Fails })).await;
        assert_eq!(given.store.next_look().await.unwrap(), Some(after(60)), "{kind}");
        assert_eq!(ids(given.store.expire(after(60), 10).await.unwrap()), (vec![expiring], false), "{kind}");
    }
}

#[tokio::test]
async fn only_the_lane_of_a_processor_is_orphaned_when_its_source_is_gone() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        // Deliveries of processors are in order, each behind those about the same user.
        let mut new = given.event(&[given.endpoint]).await;
        (new.event.ordering_key, new.parked) = (OrderingKey::parse("user"), Some(name()));
        new.deliveries[0].placement = Placement { mode: OrderingMode::PerKey, behind_barrier: false };
        given.record(new).await;
        let (organization, application, lane_id) = (given.organization, given.application, given.endpoint.into());
        let expected = Vec::from_iter((kind == "processor").then_some(OrphanedLane { organization, application, lane_id }));
        assert_eq!(given.store.orphaned_lanes(10).await.unwrap(), expected, "{kind}");
        let (made_until, cause, at) = (after(60), CancelCause::DestinationDeleted, after(5));
        given.store.cancel_waiting(CancelWaiting { lane_id, made_until, cause, at, limit: 10 }).await.unwrap();
        assert_eq!(given.store.orphaned_lanes(10).await.unwrap(), [], "{kind}: nothing is open in it");
    }
}

#[tokio::test]
async fn what_waits_is_scanned_and_measured() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let (_, due) = given.published().await;
        let (event, later) = given.published().await;
        given.store.settle(Arc::new(vec![settlement(later, given.endpoint, failure(1), waiting(after(60)))])).await.unwrap();
        // One queue after the other, from the highest priority. What is due already is left out.
        let (mut found, mut place) = (Vec::new(), Some(Uuid::nil()));
        while let Some(after) = place {
            let scanned = given.store.scan_waiting(given.endpoint.into(), NOW, Scan { after, limit: 10 }).await.unwrap();
            found.extend(scanned.rows.iter().map(|row| (row.event, row.delivery)));
            place = scanned.goes_on_after;
        }
        assert_eq!(found, [(event, later)], "{kind}: {due} is due");
        let measured = given.store.queue_measurements(after(1), 100).await.unwrap();
        let normal = |count| Priority::ALL.map(|priority| if priority == Priority::Normal { count } else { 0 });
        assert_eq!(measured, QueueMeasurements { waiting: normal(2), due: normal(1), oldest_due_at: Some(NOW) }, "{kind}");
        given.published_dead().await;
        // Those of notifications are left out: they would be reported through the channel that fails.
        let expected = Vec::from_iter((kind != "channel").then_some((given.organization, 1)));
        assert_eq!(given.store.dead_letters_by_organization(10).await.unwrap(), expected, "{kind}");
    }
}

#[tokio::test]
async fn an_event_is_listed_and_found_by_its_key_and_its_source() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let source = SourceId::from_uuid(id());
        let mut new = given.received_event(source, "user-7").await;
        (new.event.idempotency_key, new.key) = ("key-7".to_owned(), KeyOrigin::Given { valid_since: NOW });
        let event = new.event.id;
        given.record(new).await;
        let listed = given.store.events(given.organization, EventFilter::default(), ALL).await.unwrap().rows;
        assert_eq!(listed.iter().map(|found| (found.id, found.deliveries)).collect::<Vec<_>>(), [(event, 1)], "{kind}");
        for application in [None, Some(given.application)] {
            let found = given.store.event_of_key(given.organization, application, "key-7".to_owned()).await.unwrap();
            assert_eq!(found, Some(event), "{kind}");
        }
        let filter = ReceivedFilter { source, event_type: None, external_user: None, accepted: TimeRange::default() };
        let received = given.store.received_events(given.organization, filter, ALL).await.unwrap().rows;
        assert_eq!(received.iter().map(|found| found.event.id).collect::<Vec<_>>(), [event], "{kind}");
    }
}
