//! Life goes on in the database where it was in the folder.

use std::sync::Arc;

use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{RetrySchedule, Stage, WaitsFor},
    policy::presets,
    ports::{
        Created, DeliveryQueue as _, EndpointStore as _, EventStore as _, KeyOrigin, ParkedDeliveries as _, Recorded, Release,
        RetryScheduleStore as _, Settled, Settlement,
    },
};

use crate::{
    database::Database,
    moving::filled::Filled,
    sqlite::conformance::given::{NOW, after, endpoint, entry, id, settlement, success},
};

#[tokio::test]
async fn a_key_that_was_given_before_still_finds_its_event_and_sequence_numbers_continue() {
    let filled = Filled::new().await;
    let mut last = filled.given.event(&[]).await;
    let sequence = filled.given.record(last.clone()).await;
    let (database, copy) = (Database::create().await, filled.copy());
    database.take_in(copy.path()).await.unwrap();
    let store = database.open().await.unwrap();
    let mut again = filled.keyed.clone();
    again.event.id = EventId::from_uuid(id());
    again.deliveries[0].id = DeliveryId::from_uuid(id());
    again.config_version = filled.given.config_version().await;
    again.key = KeyOrigin::Given { valid_since: NOW };
    (last.event.id, last.config_version) = (EventId::from_uuid(id()), again.config_version);
    last.event.idempotency_key = last.event.id.to_string();
    let mut recorded = store.record(vec![again, last]).await;
    let new = recorded.pop().unwrap().unwrap();
    let duplicate = recorded.pop().unwrap().unwrap();
    assert!(matches!(duplicate, Recorded::Duplicate { event, .. } if event == filled.keyed.event.id), "{duplicate:?}");
    assert!(matches!(new, Recorded::Accepted { sequence_number, .. } if sequence_number == sequence + 1), "{new:?}");
}

#[tokio::test]
async fn an_ordered_lane_is_worked_off_one_after_the_other() {
    let filled = Filled::new().await;
    let (database, copy) = (Database::create().await, filled.copy());
    database.take_in(copy.path()).await.unwrap();
    let store = database.open().await.unwrap();
    let (lane, deliveries) = &filled.ordered;
    for (place, delivery) in deliveries.iter().enumerate() {
        let delivered = settlement(*delivery, *lane, success(1), Stage::Delivered { at: after(100) });
        let settled = store.settle(Arc::new(vec![Settlement { ordered: true, ..delivered }])).await.unwrap().remove(0);
        let Settled::Recorded { freed } = settled else { panic!("the delivery had moved on") };
        assert_eq!(freed.map(|freed| freed.due.delivery), deliveries.get(place + 1).copied());
    }
}

#[tokio::test]
async fn what_is_parked_is_found_by_what_it_waits_for() {
    let filled = Filled::new().await;
    let (database, copy) = (Database::create().await, filled.copy());
    database.take_in(copy.path()).await.unwrap();
    let store = database.open().await.unwrap();
    let waits_for = WaitsFor::parse("user ü").unwrap();
    let release = Release { organization: filled.given.organization, waits_for, at: after(100), limit: 10 };
    assert_eq!(store.release(release).await.unwrap().deliveries.len(), 2);
}

#[tokio::test]
async fn new_numbers_begin_after_those_that_were_moved() {
    let filled = Filled::new().await;
    let (database, copy) = (Database::create().await, filled.copy());
    database.take_in(copy.path()).await.unwrap();
    let store = database.open().await.unwrap();
    let new = endpoint(filled.given.organization, filled.given.application);
    assert_eq!(store.create_endpoint(new, entry()).await.unwrap(), Created::Created);
    let version = store.schedule_version(&presets::standard()).await.unwrap();
    let newer = store.schedule_version(&RetrySchedule { max_attempts: 2, ..presets::standard() }).await.unwrap();
    assert!(newer > version, "{newer:?} {version:?}");
    let sql = "SELECT max(lane), count(*) FROM lanes UNION ALL SELECT max(version), count(*) FROM schedules";
    for row in database.client().await.query(sql, &[]).await.unwrap() {
        assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1), "no number was given twice, and none was left out");
    }
}
