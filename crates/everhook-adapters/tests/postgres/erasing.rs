//! Erasing among nodes: all of them learn of it, and whatever they do at the same moment, nothing of it is left.

use std::{sync::Arc, time::Duration};

use everhook_adapters::postgres::PostgresStore;
use everhook_core::{
    ids::{EventId, OrganizationId},
    model::{AuditAction, AuditEntry, OrderingMode, Placement, ShardSet, Stage},
    ports::{Change, ChangeCursor, Changed, Changes, DeliveryQueue, Erased, Erasure, ErasureBatch, EventStore},
};

use crate::postgres::{
    conformance::erasing::{ERASED, answered},
    given::{Given, after, entry, failure, settlement, success},
};

/// How many events are erased while their outcomes are written.
const EVENTS: usize = 40;

#[tokio::test]
async fn other_nodes_learn_which_events_were_erased() {
    let given = Given::new().await;
    let other = given.backing.node().await;
    let events = [given.published().await.0, given.published().await.0, given.published().await.0];
    let before = other.newest().await.unwrap();
    given.erase(events[0]).await;
    given.erase(events[0]).await;
    let operation = given.erasing(&events).await;
    let batch = ErasureBatch { operation, events: events.to_vec(), at: after(7) };
    given.store.erase_listed(batch).await.unwrap();
    let changed = changes(&other, before, events[2]).await;
    let erased: Vec<_> = changed.changes.iter().filter(|change| matches!(change, Change::Erased(_))).copied().collect();
    assert_eq!(erased.len(), 3, "{erased:?}");
    assert!(events.iter().all(|event| erased.contains(&Change::Erased(*event))));
    // What may still be told again is nothing new.
    let again = other.changes(changed.cursor).await.unwrap().changes;
    assert!(again.iter().all(|change| changed.changes.contains(change)), "{again:?}");
}

#[tokio::test]
async fn what_was_erased_is_told_also_where_there_were_more_changes_than_anybody_looks_at() {
    let given = Given::new().await;
    let other = given.backing.node().await;
    let event = given.published().await.0;
    let before = other.newest().await.unwrap();
    given.tamper("INSERT INTO changes (kind) SELECT 'everything' FROM generate_series(1, 1500)").await;
    given.erase(event).await;
    // Where another test of this server holds a transaction open, the others are told in several parts.
    let told = changes(&other, before, event).await.changes;
    assert!(told.contains(&Change::Erased(event)) && told.contains(&Change::Everything), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_is_written_while_its_event_is_erased_leaves_no_answer_behind() {
    let given = Given::new().await;
    let (eraser, settler) = (Arc::new(given.backing.node().await), Arc::new(given.backing.node().await));
    let mut tasks = Vec::new();
    let mut deliveries = Vec::new();
    for number in 0..EVENTS {
        let (event, delivery) = given.published().await;
        deliveries.push(delivery);
        let (eraser, settler, of, endpoint) = (eraser.clone(), settler.clone(), given.organization, given.endpoint);
        let stage = if number % 2 == 0 { Stage::Waiting { due_at: after(5) } } else { Stage::Delivered { at: after(5) } };
        let attempt = answered(if number % 2 == 0 { failure(1) } else { success(1) });
        let outcome = Arc::new(vec![settlement(delivery, endpoint, attempt, stage)]);
        tasks.push(tokio::spawn(async move {
            let (erased, settled) = tokio::join!(eraser.erase(erasure(of, event)), settler.settle(outcome));
            assert!(matches!(erased.unwrap(), Erased::Erased(_)));
            settled.unwrap();
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for delivery in deliveries {
        let (found, attempts) = given.store.delivery(given.organization, delivery).await.unwrap().unwrap();
        assert!(found.stage == ERASED || matches!(found.stage, Stage::Delivered { .. }), "{:?}", found.stage);
        let answers = attempts.iter().filter_map(|attempt| attempt.response.as_ref());
        assert!(answers.into_iter().all(|response| response.headers.is_empty() && response.body_sample.is_empty()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_one_order_are_erased_by_several_nodes_at_once_and_none_is_left_behind() {
    let given = Given::new().await;
    let nodes = [Arc::new(given.backing.node().await), Arc::new(given.backing.node().await)];
    let (mut tasks, mut deliveries) = (Vec::new(), Vec::new());
    let mut events = Vec::new();
    for _ in 0..EVENTS {
        let mut new = given.event(&[given.endpoint]).await;
        new.deliveries[0].placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };
        events.push(new.event.id);
        deliveries.push(new.deliveries[0].id);
        given.record(new).await;
    }
    let last = events.pop().expect("there are some");
    for (number, event) in events.into_iter().enumerate() {
        let (node, of) = (nodes[number % 2].clone(), given.organization);
        tasks.push(tokio::spawn(async move { node.erase(erasure(of, event)).await.unwrap() }));
    }
    for task in tasks {
        assert!(matches!(task.await.unwrap(), Erased::Erased(_)));
    }
    // The one that is left waits, whoever ended the one before it.
    let stage = given.stage(*deliveries.last().expect("there are some")).await;
    assert_eq!(stage, Stage::Waiting { due_at: after(7) });
    given.erase(last).await;
    assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap(), []);
}

#[tokio::test]
async fn a_list_with_more_deliveries_than_a_transaction_holds_is_erased_whole_and_counted_once() {
    let given = Given::new().await;
    let mut events = Vec::new();
    for _ in 0..3 {
        let new = given.event(&[given.endpoint; 1_900]).await;
        events.push(new.event.id);
        given.record(new).await;
    }
    let operation = given.erasing(&events).await;
    let batch = ErasureBatch { operation, events, at: after(7) };
    assert!(given.store.erase_listed(batch).await.unwrap().is_some());
    let found = given.look(operation).await;
    assert_eq!((found.total, found.done, found.skipped), (3, 3, 0));
    assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap(), []);
}

/// What a node is told from a place on, once it is told of this event: whatever is open anywhere on the server may put that off a little.
async fn changes(node: &PostgresStore, after: ChangeCursor, event: EventId) -> Changed {
    for _ in 0..500 {
        let changed = node.changes(after).await.unwrap();
        if changed.changes.contains(&Change::Erased(event)) {
            return changed;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody is told of {event}");
}

fn erasure(organization: OrganizationId, event: EventId) -> Erasure {
    let entry = AuditEntry { organization, action: AuditAction::EventErase, resource: *event.as_uuid(), ..entry() };
    Erasure { organization, event, at: after(7), entry }
}
