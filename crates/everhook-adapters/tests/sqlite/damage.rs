//! What a file loses costs only what needed it.

use everhook_core::{
    model::{OperationKind, ShardSet},
    ports::{EventStore, FailedItem, Replay, ReplayBy, ReplayItem, StoreError},
};

use crate::sqlite::{
    conformance::delivery_queue::{DELIVERED, Told, dead},
    given::{Given, NOW, failure, settlement, success},
};

#[tokio::test]
async fn a_missing_or_damaged_event_costs_only_its_own_delivery() {
    for damage in ["DELETE FROM events", "DELETE FROM payloads", "UPDATE payloads SET encoding = 1, body = x'00'"] {
        // Given two deliveries, the event of the older one destroyed.
        let given = Given::new().await;
        let (event, broken) = given.published().await;
        given.tamper(damage);
        let (_, whole) = given.published().await;
        // Then both are due, the broken one without its event,
        let read = given.due(given.endpoint, NOW, 10, 10_000).await;
        let found: Vec<_> = read.rows.iter().map(|due| (due.delivery, due.loaded.is_some())).collect();
        assert_eq!(found, [(broken, false), (whole, true)], "{damage}");
        let asked = EventStore::event(&*given.store, event).await;
        assert!(matches!(asked, Ok(None) | Err(StoreError::Corrupt(_))), "{damage}: {asked:?}");
        // and it can fail and die beside the other.
        let batch =
            vec![settlement(broken, given.endpoint, failure(1), dead(NOW)), settlement(whole, given.endpoint, success(1), DELIVERED)];
        assert_eq!(given.settle(batch).await, [Told::Recorded, Told::Recorded], "{damage}");
        assert_eq!(given.dead_letter(broken).await.event, event);
        assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap(), []);
    }
}

#[tokio::test]
async fn an_item_whose_event_is_gone_is_taken_off_the_list_and_counted() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await];
    let operation = given.running(OperationKind::RetryBatch, &events).await;
    let items = given.store.items(operation, 10).await.unwrap();
    let failed = vec![FailedItem { position: items[0].position, lane_id: items[0].lane_id, judged_by: None }; 2];
    given.tamper("DELETE FROM events");
    let by = ReplayBy::Operation { id: operation, failed };
    let gone = ReplayItem { position: Some(items[1].position), of: items[1].of, ..given.replay_item(items[1].event).await };
    let replay = Replay { organization: given.organization, by, items: vec![gone], at: NOW };
    given.store.replay(replay).await.unwrap();
    let found = given.look(operation).await;
    assert_eq!((found.done, found.failed, found.skipped, found.remaining()), (0, 2, 0, 0));
}
