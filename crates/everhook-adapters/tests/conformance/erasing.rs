//! What erasing promises: the data is gone from every row, nothing more is sent, and the event stays as something that was there.

use std::sync::Arc;

use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, EventId, OperationId, OrganizationId, Ref},
    model::{
        Attempt, AuditAction, AuditEntry, CancelCause, Cursor, Cut, DeadLetterStatus, DeathCause, EndpointState, ErasureSelection,
        Operation, OperationKind, OperationStatus, OrderingKey, OrderingMode, PageRequest, Placement, Priority, Response, Selection,
        ShardSet, Stage,
    },
    ports::{
        Alert, AlertCondition, AuditFilter, Begun, Cleared, Erased, Erasure, ErasureBatch, ErasureStep, EventFilter, EventStore, History,
        KeyOrigin, KeyReused, NewEvent, Phase, Recorded, ReplayAnswer, Scan, Settled, Settlement, SettlementAlert, TimeRange,
    },
    time::Timestamp,
};
use uuid::Uuid;

use super::given::{Given, NOW, after, disabling, entry, event_type, failure, id, settlement, success};

pub const SECRET: &str = "a-very-private-thing";
pub const ERASED: Stage = Stage::Cancelled { at: Timestamp::from_secs(1_700_000_007), cause: CancelCause::Erased };

impl Given {
    /// An event for the endpoint with the secret in its data, its labels, its headers, and what was answered to it.
    pub async fn secret_event(&self, bytes: usize) -> NewEvent {
        let mut new = self.event(&[self.endpoint]).await;
        new.event.data = Bytes::from(format!("{{\"secret\": \"{}\"}}", SECRET.repeat(bytes / SECRET.len() + 1)));
        new.event.labels.insert("customer".to_owned(), SECRET.to_owned());
        new.event.ordering_key = OrderingKey::parse(SECRET);
        new.deliveries[0].placement = Placement { mode: OrderingMode::PerKey, behind_barrier: false };
        new.event.headers = vec![("X-Customer".to_owned(), SECRET.to_owned())];
        new
    }

    pub async fn erase(&self, event: EventId) -> Erased {
        let entry = AuditEntry { organization: self.organization, action: AuditAction::EventErase, resource: *event.as_uuid(), ..entry() };
        self.store.erase(Erasure { organization: self.organization, event, at: after(7), entry }).await.unwrap()
    }

    async fn attempts(&self, delivery: DeliveryId) -> Vec<Attempt> {
        self.store.delivery(self.organization, delivery).await.unwrap().unwrap().1
    }

    /// Begins an operation that erases these events.
    pub async fn erasing(&self, events: &[EventId]) -> OperationId {
        let operation = OperationId::from_uuid(id());
        let new = Operation {
            id: operation,
            organization: self.organization,
            application: None,
            endpoint: None,
            kind: OperationKind::Erase,
            status: OperationStatus::Pending,
            total: 0,
            done: 0,
            failed: 0,
            skipped: 0,
            rate: None,
            priority: Priority::Low,
            start_at: None,
            created_at: NOW,
            started_at: None,
            finished_at: None,
        };
        let selection =
            ErasureSelection { deleted_organization: None, application: Some(self.application), label: None, from: None, to: after(100) };
        assert_eq!(self.store.begin(new, Selection::Erasure(selection), 10, entry()).await.unwrap(), Begun::Begun);
        let until = id();
        for (after, phase) in [(Uuid::nil(), Phase::Selecting(until)), (until, Phase::Selected)] {
            // The second time adds nothing.
            let step = ErasureStep { operation, after, events: events.to_vec(), phase };
            self.store.select_for_erasure(step).await.unwrap();
        }
        assert!(self.store.start(operation, NOW).await.unwrap());
        operation
    }

    async fn erase_listed(&self, operation: OperationId, events: &[EventId]) -> bool {
        let batch = ErasureBatch { operation, events: events.to_vec(), at: after(7) };
        self.store.erase_listed(batch).await.unwrap().is_some()
    }

    async fn counts(&self, operation: OperationId) -> (u64, u64, u64, u64) {
        let found = self.look(operation).await;
        (found.total, found.done, found.failed, found.skipped)
    }
}

/// An attempt whose answer repeats the secret.
pub fn answered(attempt: Attempt) -> Attempt {
    let headers = vec![("x-echo".to_owned(), Bytes::from(SECRET))];
    let response = Response { status: 503, headers, body_sample: Bytes::from(SECRET), cut: Cut::default(), retry_after: None };
    Attempt { response: Some(response), ..attempt }
}

#[tokio::test]
async fn an_erased_event_keeps_its_row_and_loses_everything_that_says_what_it_was() {
    let given = Given::new().await;
    let new = given.secret_event(100).await;
    let (event, delivery) = (new.event.id, new.deliveries[0].id);
    given.record(new).await;
    let retry = settlement(delivery, given.endpoint, answered(failure(1)), Stage::Waiting { due_at: after(5) });
    given.store.settle(Arc::new(vec![retry])).await.unwrap();
    assert!(matches!(given.erase(event).await, Erased::Erased(_)));
    let given = given.reopened().await;
    let (summary, data) = History::event(&*given.store, given.organization, event).await.unwrap().unwrap();
    assert_eq!((summary.erased_at, summary.deliveries, data), (Some(after(7)), 1, None));
    let all = PageRequest { limit: 10, cursor: Cursor::Newest };
    let listed = given.store.events(given.organization, EventFilter::default(), all).await.unwrap().rows;
    assert_eq!(listed, [summary]);
    assert_eq!(EventStore::event(&*given.store, event).await.unwrap(), None);
    assert!(given.store.is_erased(event).await.unwrap());
    assert_eq!(given.stage(delivery).await, ERASED);
    let response = given.attempts(delivery).await[0].response.clone().unwrap();
    assert_eq!((response.status, response.headers, response.body_sample), (503, Vec::new(), Bytes::new()));
}

#[tokio::test]
async fn erasing_again_answers_the_same_and_is_entered_once() {
    let given = Given::new().await;
    let (event, delivery) = given.published().await;
    for _ in 0..2 {
        assert!(matches!(given.erase(event).await, Erased::Erased(_)));
    }
    assert_eq!(given.stage(delivery).await, ERASED);
    let all = PageRequest { limit: 10, cursor: Cursor::Newest };
    let filter = AuditFilter { action: Some(AuditAction::EventErase), ..AuditFilter::default() };
    let entries = given.store.audit_log(given.organization, filter, all).await.unwrap().rows;
    assert_eq!(entries.iter().map(|entry| entry.resource).collect::<Vec<_>>(), [*event.as_uuid()]);
    let stranger = Erasure { organization: OrganizationId::from_uuid(id()), event, at: after(7), entry: entry() };
    assert!(matches!(given.store.erase(stranger).await.unwrap(), Erased::NotFound));
}

#[tokio::test]
async fn the_idempotency_key_stays_so_that_publishing_again_brings_nothing_back() {
    let given = Given::new().await;
    let given_key = |mut new: NewEvent| {
        new.event.idempotency_key = "order-1".to_owned();
        new.key = KeyOrigin::Given { valid_since: NOW };
        new
    };
    let new = given_key(given.event(&[given.endpoint]).await);
    let event = new.event.id;
    given.record(new).await;
    given.erase(event).await;
    // Nobody can say any more whether it is the same: nothing is left that could be compared, or guessed.
    let again = given_key(given.event(&[given.endpoint]).await);
    let told = given.record_all(vec![again.clone()]).await;
    assert_eq!(told, [Recorded::KeyReused(KeyReused { original: event, is_erased: true })]);
    // The very event, once more after an unknown outcome.
    let mut itself = again;
    itself.event.id = event;
    let told = given.record_all(vec![itself]).await.remove(0);
    assert!(matches!(told, Recorded::Duplicate { event: original, .. } if original == event), "{told:?}");
    assert_eq!(EventStore::event(&*given.store, event).await.unwrap(), None);
}

#[tokio::test]
async fn an_outcome_that_comes_after_the_erasure_is_stale_and_leaves_nothing() {
    let given = Given::new().await;
    let (event, delivery) = given.published().await;
    given.erase(event).await;
    let late = settlement(delivery, given.endpoint, answered(success(1)), Stage::Delivered { at: after(8) });
    let settled = given.store.settle(Arc::new(vec![late])).await.unwrap();
    assert!(matches!(settled[..], [Settled::Stale]));
    assert_eq!((given.stage(delivery).await, given.attempts(delivery).await.len()), (ERASED, 0));
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_disabled_also_if_it_says_so_of_an_erased_event() {
    let given = Given::new().await;
    let (event, delivery) = given.published().await;
    given.erase(event).await;
    let gone = Stage::Dead { at: after(8), cause: DeathCause::Gone };
    let alert = |name| Alert { id: id(), organization: given.organization, event_type: event_type(name), data: Bytes::from("{}") };
    let told = vec![alert("endpoint.disabled")];
    let alerts = vec![
        SettlementAlert { alert: told[0].clone(), condition: AlertCondition::IfDisabledByThis },
        SettlementAlert { alert: alert("message.attempt.exhausted"), condition: AlertCondition::Always },
    ];
    let late = Settlement { disables: Some(disabling()), alerts, ..settlement(delivery, given.endpoint, failure(1), gone) };
    assert!(matches!(given.store.settle(Arc::new(vec![late])).await.unwrap()[..], [Settled::Stale]));
    let endpoint = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap();
    assert!(matches!(endpoint.state, EndpointState::Disabled { .. }));
    // Of the delivery nothing is told: it did not die of that.
    assert_eq!(given.store.pending(10).await.unwrap(), told);
    assert_eq!(given.stage(delivery).await, ERASED);
}

#[tokio::test]
async fn a_dead_letter_goes_with_its_event_and_a_retry_is_told_so() {
    let given = Given::new().await;
    let dead = Stage::Dead { at: NOW, cause: DeathCause::RetriesExhausted };
    let (event, first) = given.published().await;
    given.store.settle(Arc::new(vec![settlement(first, given.endpoint, failure(1), dead.clone())])).await.unwrap();
    let (other, second) = given.published().await;
    given.store.settle(Arc::new(vec![settlement(second, given.endpoint, failure(1), dead)])).await.unwrap();
    let mut item = given.replay_item(other).await;
    (item.of, item.only_dead) = (Some(second), true);
    let retried = item.delivery;
    assert!(matches!(given.replay(vec![item]).await[..], [ReplayAnswer::Made { .. }]));
    for (event, letter) in [(event, first), (other, second)] {
        given.erase(event).await;
        let letter = given.store.dead_letter(given.organization, letter).await.unwrap().unwrap();
        assert_eq!(letter.status, DeadLetterStatus::Discarded);
        let item = given.replay_item(event).await;
        assert!(matches!(given.replay(vec![item]).await[..], [ReplayAnswer::Erased]));
    }
    assert_eq!(given.stage(retried).await, ERASED);
}

#[tokio::test]
async fn what_was_held_behind_an_erased_event_waits_in_the_same_write() {
    let given = Given::new().await;
    let mut made = Vec::new();
    for _ in 0..3 {
        let mut new = given.event(&[given.endpoint]).await;
        new.event.event_type = event_type("order.paid");
        new.deliveries[0].placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };
        made.push((new.event.id, new.deliveries[0].id));
        given.record(new).await;
    }
    // The one in the middle frees nobody, because the first is still open.
    assert!(matches!(given.erase(made[1].0).await, Erased::Erased(freed) if freed.is_empty()));
    let Erased::Erased(freed) = given.erase(made[0].0).await else { panic!("it is there") };
    let freed: Vec<_> = freed.iter().map(|freed| (freed.lane_id, freed.freed.due.delivery)).collect();
    assert_eq!(freed, [(given.endpoint.into(), made[2].1)]);
    assert_eq!(given.stage(made[2].1).await, Stage::Waiting { due_at: after(7) });
}

#[tokio::test]
async fn an_event_with_more_deliveries_than_a_commit_holds_is_erased_whole() {
    let given = Given::new().await;
    let mut endpoints = vec![given.endpoint];
    for _ in 0..3 {
        endpoints.push(given.another_endpoint().await);
    }
    // As many deliveries as it takes, in a few lanes.
    let many: Vec<_> = endpoints.iter().copied().cycle().take(1_000).collect();
    let new = given.event(&many).await;
    let (event, deliveries) = (new.event.id, new.deliveries.clone());
    given.record(new).await;
    given.erase(event).await;
    for delivery in [0, 399, 400, 401, 999] {
        assert_eq!(given.stage(deliveries[delivery].id).await, ERASED, "{delivery}");
    }
    assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap(), []);
}

#[tokio::test]
async fn an_operation_erases_what_is_on_its_list_once_however_often_it_is_asked() {
    let given = Given::new().await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(given.published().await.0);
    }
    given.erase(events[1]).await;
    let operation = given.erasing(&events).await;
    assert_eq!(given.store.next_for_erasure(operation, 2).await.unwrap(), events[..2]);
    assert!(given.erase_listed(operation, &events[..2]).await);
    // The answer was lost: the same ones are asked for again, after a crash.
    let given = given.reopened().await;
    assert!(given.erase_listed(operation, &events[..2]).await);
    assert_eq!(given.counts(operation).await, (3, 1, 0, 1));
    assert_eq!(given.store.next_for_erasure(operation, 2).await.unwrap(), events[2..]);
    // Once it is stopped, nothing more is erased and its list is forgotten.
    given.end(operation, OperationStatus::Cancelled).await;
    assert!(!given.erase_listed(operation, &events[2..]).await);
    assert!(!given.store.is_erased(events[2]).await.unwrap());
    assert_eq!(given.store.clear(operation, 10).await.unwrap(), Cleared::All);
    assert_eq!(given.store.next_for_erasure(operation, 2).await.unwrap(), []);
}

#[tokio::test]
async fn a_step_of_an_erasures_selection_that_began_elsewhere_changes_nothing() {
    let given = Given::new().await;
    let events = [given.published().await.0, given.published().await.0];
    let operation = given.erasing(&events).await;
    assert!(given.erase_listed(operation, &events[..1]).await);
    // A node that lost its duty comes late with what it found from the beginning on.
    let step = ErasureStep { operation, after: Uuid::nil(), events: events.to_vec(), phase: Phase::Selecting(*events[0].as_uuid()) };
    given.store.select_for_erasure(step).await.unwrap();
    assert_eq!(given.counts(operation).await, (2, 1, 0, 0));
    assert_eq!(given.store.open_operations(1).await.unwrap()[0].phase, Phase::Selected);
    assert_eq!(given.store.next_for_erasure(operation, 10).await.unwrap(), events[1..]);
}

#[tokio::test]
async fn a_scan_for_an_erasure_goes_on_where_it_stopped_and_says_what_is_erased() {
    let given = Given::new().await;
    let mut events = Vec::new();
    for number in 0..3 {
        let mut new = given.event(&[]).await;
        new.event.labels.insert("number".to_owned(), number.to_string());
        events.push(new.event.id);
        given.record(new).await;
    }
    given.erase(events[1]).await;
    let scan = async |after, limit| {
        let scan = Scan { after, limit };
        given.store.scan_for_erasure(given.organization, TimeRange::default(), scan).await.unwrap()
    };
    let first = scan(Uuid::nil(), 2).await;
    assert_eq!(first.goes_on_after, Some(*events[1].as_uuid()));
    let told: Vec<_> = first.rows.iter().map(|row| (row.event, row.labels.get("number").map(String::as_str), row.is_erased)).collect();
    assert_eq!(told, [(events[0], Some("0"), false), (events[1], None, true)]);
    let rest = scan(*events[1].as_uuid(), 2).await;
    assert_eq!((rest.rows.len(), rest.rows[0].event, rest.goes_on_after), (1, events[2], None));
}
