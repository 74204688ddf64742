//! How much is in the store: counted over all organizations, and only what waits for somebody.

use everhook_core::{
    ids::Ref,
    model::{DisabledReason, Endpoint, EndpointState, Priority, Stage},
    ports::{EndpointUpdated, QueueMeasurements},
};

use super::given::{Given, NOW, after, entry, failure, settlement, success};

/// More than there is.
const ENOUGH: u32 = 1_000;

#[tokio::test]
async fn what_waits_is_counted_by_priority_and_what_is_due_of_it() {
    let given = Given::new().await;
    assert_eq!(given.store.queue_measurements(NOW, ENOUGH).await.unwrap(), QueueMeasurements::default());
    let mut high = given.event(&[given.endpoint]).await;
    high.event.priority = Priority::High;
    given.record(high).await;
    let (_, later) = given.published().await;
    let (_, delivered) = given.published().await;
    let failed = settlement(later, given.endpoint, failure(1), Stage::Waiting { due_at: after(60) });
    given.settle_one(failed).await;
    given.settle_one(settlement(delivered, given.endpoint, success(1), Stage::Delivered { at: NOW })).await;
    let found = given.store.queue_measurements(after(1), ENOUGH).await.unwrap();
    assert_eq!(found, QueueMeasurements { waiting: [1, 1, 0], due: [1, 0, 0], oldest_due_at: Some(NOW) });
    let all_due = given.store.queue_measurements(after(60), ENOUGH).await.unwrap();
    assert_eq!(all_due.due, [1, 1, 0]);
    let bounded = given.store.queue_measurements(after(60), 1).await.unwrap();
    assert_eq!(bounded.waiting.iter().sum::<u64>(), 1, "no more than asked for are counted");
}

#[tokio::test]
async fn dead_letters_are_counted_until_somebody_brings_them_back() {
    let given = Given::new().await;
    assert_eq!(given.store.dead_letters_by_organization(10).await.unwrap(), []);
    let (first, _) = (given.died().await, given.died().await);
    assert_eq!(given.store.dead_letters_by_organization(10).await.unwrap(), [(given.organization, 2)]);
    given.recall(first).await;
    assert_eq!(given.store.dead_letters_by_organization(10).await.unwrap(), [(given.organization, 1)]);
    assert_eq!(given.store.dead_letters_by_organization(0).await.unwrap(), []);
}

#[tokio::test]
async fn disabled_endpoints_are_counted() {
    let given = Given::new().await;
    assert_eq!(given.store.disabled_endpoint_count().await.unwrap(), 0);
    let found = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap();
    let read_at = found.updated_at;
    let disabled = Endpoint { state: EndpointState::Disabled { at: NOW, reason: DisabledReason::ByOwner }, ..found };
    assert_eq!(given.store.update_endpoint(disabled, read_at, entry()).await.unwrap(), EndpointUpdated::Updated);
    assert_eq!(given.store.disabled_endpoint_count().await.unwrap(), 1);
}
