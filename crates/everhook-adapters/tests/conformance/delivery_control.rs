//! What attempting now and cancelling promise: only what has not ended changes, the order is kept, and the audit log says who did it.

use std::sync::Arc;

use everhook_core::{
    ids::{DeliveryId, OperationId},
    model::{
        AuditAction, CancelCause, Cursor, DeadLetterStatus, DeathCause, Operation, OperationKind, OperationStatus, OrderingMode,
        PageRequest, Placement, Priority, Selection, Stage,
    },
    ports::{
        AuditFilter, Begun, BringForward, BroughtForward, CancelDelivery, DeliveryCancelled, NewEvent, Phase, ReplayAnswer, Scan,
        SelectionStep, Settled, WaitingRow,
    },
};
use uuid::Uuid;

use super::given::{Given, NOW, after, entry, failure, id, replay_of, settlement, success};

const BY_PERSON: Stage = Stage::Cancelled { at: NOW, cause: CancelCause::ByPerson };

impl Given {
    /// A delivery that failed once and waits until the instant.
    async fn failed_once(&self, due_secs: u64) -> DeliveryId {
        let (_, delivery) = self.published().await;
        let retry = settlement(delivery, self.endpoint, failure(1), Stage::Waiting { due_at: after(due_secs) });
        self.store.settle(Arc::new(vec![retry])).await.unwrap();
        delivery
    }

    async fn forward(&self, deliveries: &[DeliveryId], secs: u64) -> Vec<BroughtForward> {
        let deliveries = deliveries.iter().map(|delivery| (self.endpoint.into(), *delivery)).collect();
        let entry =
            everhook_core::model::AuditEntry { organization: self.organization, action: AuditAction::DeliveryAttemptNow, ..entry() };
        self.store.bring_forward(BringForward { deliveries, at: after(secs), entry }).await.unwrap()
    }

    async fn cancel_one(&self, delivery: DeliveryId) -> DeliveryCancelled {
        let entry = everhook_core::model::AuditEntry { organization: self.organization, action: AuditAction::DeliveryCancel, ..entry() };
        let cancel = CancelDelivery {
            delivery,
            lane_id: self.endpoint.into(),
            application: self.application,
            cause: CancelCause::ByPerson,
            at: NOW,
            entry,
        };
        self.store.cancel_delivery(cancel).await.unwrap()
    }

    /// What a scan in steps of this size finds.
    pub async fn waiting_rows(&self, limit: u32) -> Vec<WaitingRow> {
        let (mut found, mut place) = (Vec::new(), Some(Uuid::nil()));
        while let Some(after) = place {
            let scanned = self.store.scan_waiting(self.endpoint.into(), NOW, Scan { after, limit }).await.unwrap();
            found.extend(scanned.rows);
            place = scanned.goes_on_after;
        }
        found
    }

    async fn entries(&self, action: AuditAction) -> usize {
        let filter = AuditFilter { action: Some(action), ..AuditFilter::default() };
        let page = PageRequest { limit: 100, cursor: Cursor::Newest };
        self.store.audit_log(self.organization, filter, page).await.unwrap().rows.len()
    }

    /// A delivery of an ordered endpoint.
    async fn in_order(&self) -> DeliveryId {
        let mut new: NewEvent = self.event(&[self.endpoint]).await;
        new.deliveries[0].placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };
        let delivery = new.deliveries[0].id;
        self.record(new).await;
        delivery
    }
}

#[tokio::test]
async fn a_waiting_delivery_is_due_earlier_with_its_attempts_and_nothing_else_changes() {
    let given = Given::new().await;
    let waits = given.failed_once(3_600).await;
    let (_, is_due) = given.published().await;
    let (_, has_ended) = given.published().await;
    let delivered = settlement(has_ended, given.endpoint, success(1), Stage::Delivered { at: NOW });
    given.store.settle(Arc::new(vec![delivered])).await.unwrap();
    let answers = given.forward(&[has_ended, waits, is_due, DeliveryId::from_uuid(id())], 10).await;
    let expected = [BroughtForward::Ended, BroughtForward::Forwarded(Priority::Normal), BroughtForward::AlreadyDue, BroughtForward::Ended];
    assert_eq!(answers, expected);
    let given = given.reopened().await;
    assert_eq!(given.stage(waits).await, Stage::Waiting { due_at: after(10) });
    let read = given.due(given.endpoint, after(10), 10, 0).await.rows;
    let found: Vec<_> = read.iter().map(|due| (due.delivery, due.attempts)).collect();
    assert_eq!(found, [(is_due, 0), (waits, 1)]);
    // Again, there is nothing to bring forward, and the log says it once.
    assert_eq!(given.forward(&[waits], 20).await, [BroughtForward::AlreadyDue]);
    assert_eq!(given.entries(AuditAction::DeliveryAttemptNow).await, 1);
    // The attempt that follows is the second.
    let second = settlement(waits, given.endpoint, success(2), Stage::Delivered { at: NOW });
    assert!(matches!(given.store.settle(Arc::new(vec![second])).await.unwrap()[..], [Settled::Recorded { .. }]));
}

#[tokio::test]
async fn what_is_held_is_not_brought_forward() {
    let given = Given::new().await;
    let (head, held) = (given.in_order().await, given.in_order().await);
    let retry = settlement(head, given.endpoint, failure(1), Stage::Waiting { due_at: after(100) });
    given.store.settle(Arc::new(vec![retry])).await.unwrap();
    assert_eq!(given.forward(&[held, head], 1).await, [BroughtForward::Held, BroughtForward::Forwarded(Priority::Normal)]);
    assert_eq!(given.stage(held).await, Stage::Held);
}

#[tokio::test]
async fn a_cancelled_delivery_has_ended_frees_the_next_and_can_be_resent() {
    let given = Given::new().await;
    let (head, second, third) = (given.in_order().await, given.in_order().await, given.in_order().await);
    // One that is held frees nobody: the first is still before the others.
    assert!(matches!(given.cancel_one(second).await, DeliveryCancelled::Cancelled { freed: None }));
    match given.cancel_one(head).await {
        DeliveryCancelled::Cancelled { freed: Some(freed) } => assert_eq!(freed.due.delivery, third),
        other => panic!("{other:?}"),
    }
    assert!(matches!(given.cancel_one(head).await, DeliveryCancelled::Ended));
    let given = given.reopened().await;
    assert_eq!([given.stage(head).await, given.stage(second).await], [BY_PERSON; 2]);
    assert_eq!(given.stage(third).await, Stage::Waiting { due_at: NOW });
    assert_eq!(given.entries(AuditAction::DeliveryCancel).await, 2);
    // An outcome that comes later is stale.
    let late = settlement(head, given.endpoint, success(1), Stage::Delivered { at: NOW });
    assert!(matches!(given.store.settle(Arc::new(vec![late])).await.unwrap()[..], [Settled::Stale]));
    let event = given.store.delivery(given.organization, head).await.unwrap().unwrap().0.event;
    let item = everhook_core::ports::ReplayItem { of: Some(head), ..given.replay_item(event).await };
    assert!(matches!(given.replay(vec![item]).await[..], [ReplayAnswer::Made { .. }]));
}

#[tokio::test]
async fn a_dead_letter_is_dead_again_when_its_retry_is_cancelled() {
    let given = Given::new().await;
    let (event, first) = given.published().await;
    let dead = settlement(first, given.endpoint, failure(1), Stage::Dead { at: NOW, cause: DeathCause::RetriesExhausted });
    given.store.settle(Arc::new(vec![dead])).await.unwrap();
    let item = everhook_core::ports::ReplayItem { of: Some(first), ..given.replay_item(event).await };
    given.replay(vec![item]).await;
    let letter = |given: &Given| {
        let store = given.store.clone();
        let organization = given.organization;
        async move { store.dead_letter(organization, first).await.unwrap().unwrap().status }
    };
    assert_eq!(letter(&given).await, DeadLetterStatus::Retrying);
    let retry = replay_of(first, settlement(item.delivery, given.endpoint, failure(1), Stage::Waiting { due_at: after(60) }));
    given.store.settle(Arc::new(vec![retry])).await.unwrap();
    assert!(matches!(given.cancel_one(item.delivery).await, DeliveryCancelled::Cancelled { .. }));
    assert_eq!(letter(&given).await, DeadLetterStatus::Dead);
}

#[tokio::test]
async fn a_scan_finds_everything_that_waits_and_is_not_due_in_steps_of_any_size() {
    let given = Given::new().await;
    let mut expected = Vec::new();
    for n in 0..9 {
        // Some are due at the same instant.
        expected.push(given.failed_once(100 + n / 3).await);
    }
    given.published().await;
    let mut high = given.event(&[given.endpoint]).await;
    high.event.priority = Priority::High;
    let urgent = high.deliveries[0].id;
    given.record(high).await;
    let retry = settlement(urgent, given.endpoint, failure(1), Stage::Waiting { due_at: after(500) });
    given.store.settle(Arc::new(vec![retry])).await.unwrap();
    expected.push(urgent);
    expected.sort_unstable();
    for limit in [2, 4, 100] {
        let mut found: Vec<_> = given.waiting_rows(limit).await.iter().map(|row| row.delivery).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, expected, "{limit} at once");
    }
}

#[tokio::test]
async fn an_operation_brings_its_list_forward_once_and_counts_what_needed_nothing() {
    let given = Given::new().await;
    let (waits, gone) = (given.failed_once(100).await, given.failed_once(200).await);
    let operation = OperationId::from_uuid(id());
    let new = Operation {
        id: operation,
        organization: given.organization,
        application: None,
        endpoint: Some(given.endpoint),
        kind: OperationKind::AttemptNow,
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
    let selection = Selection::Waiting(given.endpoint);
    assert_eq!(given.store.begin(new, selection.clone(), 10, entry()).await.unwrap(), Begun::Begun);
    assert_eq!(given.store.open_operations(10).await.unwrap()[0].selection, selection);
    assert_eq!(given.look(operation).await.endpoint, Some(given.endpoint));
    let items: Vec<_> =
        given.waiting_rows(10).await.into_iter().map(|row| (row.event, given.endpoint.into(), Some(row.delivery))).collect();
    let step = SelectionStep { operation, after: Uuid::nil(), items, skipped: 0, phase: None };
    given.store.select(step).await.unwrap();
    let last = SelectionStep { operation, after: Uuid::nil(), items: Vec::new(), skipped: 0, phase: Some(Phase::Selected) };
    given.store.select(last).await.unwrap();
    assert_eq!(given.store.bring_listed_forward(operation, 10, after(5)).await.unwrap(), None, "it does not run yet");
    assert!(given.store.start(operation, NOW).await.unwrap());
    given.cancel_one(gone).await;
    let forwarded = given.store.bring_listed_forward(operation, 10, after(5)).await.unwrap().unwrap();
    assert_eq!(forwarded.iter().map(|one| (one.delivery, one.lane_id)).collect::<Vec<_>>(), [(waits, given.endpoint.into())]);
    assert_eq!(given.store.bring_listed_forward(operation, 10, after(6)).await.unwrap(), Some(Vec::new()), "each once");
    let found = given.store.operation(given.organization, operation).await.unwrap().unwrap();
    assert_eq!((found.total, found.done, found.failed, found.skipped), (2, 1, 0, 1));
    assert_eq!(given.stage(waits).await, Stage::Waiting { due_at: after(5) });
}

#[tokio::test]
async fn what_waits_for_a_lane_is_counted_up_to_a_limit_with_its_oldest() {
    let given = Given::new().await;
    let backlog = async |limit| given.store.waiting_backlog(given.endpoint.into(), limit).await.unwrap();
    assert_eq!((backlog(10).await.count, backlog(10).await.oldest_at), (0, None));
    for _ in 0..3 {
        given.failed_once(60).await;
    }
    let (_, delivered) = given.published().await;
    let end = settlement(delivered, given.endpoint, success(1), Stage::Delivered { at: NOW });
    given.store.settle(Arc::new(vec![end])).await.unwrap();
    assert_eq!((backlog(10).await.count, backlog(10).await.oldest_at), (3, Some(NOW)));
    assert_eq!(backlog(2).await.count, 2);
}
