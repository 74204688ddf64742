//! A data folder with something of everything: what was published and the results, in [`directory`] whose it is, and in [`lanes`] deliveries of destinations
//! that are no endpoints.

mod directory;
mod lanes;

use std::{fs, num::NonZeroU32, sync::Arc, time::Duration};

use bytes::Bytes;
use everhook_core::{
    ids::{
        ApiKeyId, ApplicationId, AuditEntryId, DeliveryId, EndpointId, EventId, HealthConnectionId, LaneId, OperationId, OrganizationId,
    },
    model::{
        Actor, AfterExpiry, ApiKeyHash, Attempt, AttemptStatus, AuditAction, AuditEntry, AuditNote, AutoReplay, BreakerConfig, CancelCause,
        Cut, DeadLetterSelection, DeathCause, ErasureSelection, Expiry, FailingRule, KeptBreaker, KeptStage, Operation, OperationKind,
        OperationStatus, OrderingKey, OrderingMode, Parking, PhaseTimes, Placement, Priority, Response, RetryAfter, Selection, Stage,
        Tally, WaitsFor,
        health::{Backfill, BackfillType, ChunkOutcome},
        minute_of,
    },
    policy::breaker::Breaker,
    ports::{
        Alert, AlertCondition, BreakerChange, BreakerKept, CancelWaiting, Ending, Erasure, ErasureStep, EventAlias, KeyOrigin, NewEvent,
        Phase, Release, Replay, ReplayBy, ReplayItem, SelectionStep, Settled, Settlement, SettlementAlert,
    },
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::sqlite::conformance::given::{Given, NOW, after, endpoint, event_type, failure, id, settlement, success};

/// A text that every quoting and every collation could stumble over.
pub const ODD: &str = "Ünïcødé \u{1F980} 'quoted' \"twice\" \\back\\ \u{feff}\u{202e}tab\tline\n{} -- ;";
/// The call that was answered by a draw, and the hash under which an answer is kept.
pub const DRAWN: Uuid = Uuid::from_u128(0xd4a3);
/// A job whose app was asked.
pub const JOB: EventId = EventId::from_uuid(Uuid::from_u128(0x10b));
pub const CACHED_HASH: [u8; 32] = [128; 32];
const STRICT: Placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };
/// A day that nobody would make a partition for.
const LONG_AGO_DAYS: u64 = 700;

/// What a test may want to name of a filled folder.
pub struct Filled {
    pub given: Given,
    pub organizations: Vec<OrganizationId>,
    pub applications: Vec<ApplicationId>,
    /// Every endpoint, deleted ones too.
    pub endpoints: Vec<EndpointId>,
    pub api_key: ApiKeyHash,
    /// The lanes of other destinations: a processor, a capability, callers of jobs, a channel.
    pub lanes: Vec<LaneId>,
    /// An event that was published with a key of its own.
    pub keyed: NewEvent,
    /// The endpoint that wants strict order, and its deliveries in that order: the first waits.
    pub ordered: (EndpointId, Vec<DeliveryId>),
    pub operations: Vec<OperationId>,
}

impl Filled {
    /// A folder that is filled and still open.
    pub async fn new() -> Self {
        let given = Given::new().await;
        let mut filled = Self {
            organizations: vec![given.organization],
            applications: vec![given.application],
            endpoints: vec![given.endpoint],
            lanes: Vec::new(),
            api_key: ApiKeyHash([9; 32]),
            keyed: given.event(&[given.endpoint]).await,
            ordered: (given.endpoint, Vec::new()),
            operations: Vec::new(),
            given,
        };
        filled.define().await;
        filled.make_endpoints().await;
        filled.publish().await;
        filled.go_through_every_stage().await;
        filled.go_in_order().await;
        filled.park().await;
        filled.bring_back().await;
        filled.erase().await;
        filled.operate().await;
        filled.count().await;
        filled.fill_other_lanes().await;
        filled
    }

    fn entry(&self, action: AuditAction) -> AuditEntry {
        AuditEntry {
            id: AuditEntryId::from_uuid(id()),
            organization: self.given.organization,
            at: NOW,
            actor: Actor::Key { id: ApiKeyId::from_uuid(id()), name: ODD.to_owned() },
            action,
            resource: id(),
            note: AuditNote { before: None, after: Some("{\"name\":\"ü\\u0000\"}".to_owned()), is_cut: true },
        }
    }

    /// Events with odd texts, with large data, with keys, of long ago, of another application, and for nobody.
    async fn publish(&mut self) {
        self.keyed.event.idempotency_key = ODD.to_owned();
        self.keyed.event.source = Some(ODD.to_owned());
        self.keyed.event.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
        self.keyed.event.ordering_key = OrderingKey::parse("customer ü");
        self.keyed.event.labels = [("region".to_owned(), "ü".to_owned())].into();
        self.keyed.event.headers = vec![("X-A".to_owned(), "\"ü".to_owned())];
        self.keyed.event.priority = Priority::High;
        self.keyed.event.data = Bytes::from_static("{ \"a\" : 1.0, \"ü\\u0000\": \"\u{1F980}\" }".as_bytes());
        self.keyed.key = KeyOrigin::Given { valid_since: NOW };
        self.keyed.config_version = self.given.config_version().await;
        self.given.record(self.keyed.clone()).await;
        let noise: Vec<u8> = (0..300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for data in ["a".repeat(200_000).into_bytes(), noise] {
            let mut large = self.given.event(&[self.given.endpoint]).await;
            large.event.data = data.into();
            self.given.record(large).await;
        }
        let old = NOW - Duration::from_secs(LONG_AGO_DAYS * 86_400);
        let at = |uuid: Uuid| Uuid::from_u128(uuid.as_u128() - (u128::from(LONG_AGO_DAYS * 86_400_000) << 80));
        let mut long_ago = self.given.event(&[self.given.endpoint]).await;
        (long_ago.event.id, long_ago.event.created_at, long_ago.made_at) = (EventId::from_uuid(at(id())), old, old);
        long_ago.event.idempotency_key = long_ago.event.id.to_string();
        long_ago.deliveries[0].id = DeliveryId::from_uuid(at(id()));
        let delivery = long_ago.deliveries[0].id;
        self.given.record(long_ago).await;
        self.settle(settlement(delivery, self.given.endpoint, success(1), Stage::Delivered { at: old })).await;
        let other = self.given.event_of(self.applications[1], &[self.endpoints[3]]).await;
        self.given.record(other).await;
        let for_nobody = self.given.event(&[]).await;
        let alias = EventAlias { alias: EventId::from_uuid(id()), event: for_nobody.event.id };
        self.given.record(for_nobody).await;
        self.given.store.alias(vec![alias]).await.unwrap();
    }

    async fn settle(&self, settlement: Settlement) {
        let settled = self.given.store.settle(Arc::new(vec![settlement])).await.unwrap();
        assert!(matches!(settled[..], [Settled::Recorded { .. }]), "{settled:?}");
    }

    /// Deliveries that wait after a failure, were delivered, died of every cause, and were cancelled.
    async fn go_through_every_stage(&mut self) {
        let endpoint = self.given.endpoint;
        let (_, retried) = self.given.published().await;
        self.settle(settlement(retried, endpoint, answered(failure(1)), Stage::Waiting { due_at: after(500) })).await;
        let (_, delivered) = self.given.published().await;
        self.settle(settlement(delivered, endpoint, answered(failure(1)), Stage::Waiting { due_at: after(5) })).await;
        let second = Attempt { node: "node-2".to_owned(), user_agent: "Everhook/2".into(), ..answered(success(2)) };
        self.settle(settlement(delivered, endpoint, second, Stage::Delivered { at: after(6) })).await;
        for cause in [DeathCause::RetriesExhausted, DeathCause::GivenUp, DeathCause::Gone, DeathCause::TlsFailed] {
            let (_, dead) = self.given.published().await;
            let data = Bytes::from_static("{\"ü\": 1}".as_bytes());
            let alert =
                Alert { id: id(), organization: self.given.organization, event_type: event_type("message.attempt.exhausted"), data };
            let death = settlement(dead, endpoint, failure(1), Stage::Dead { at: after(7), cause });
            self.settle(Settlement { alerts: vec![SettlementAlert { alert, condition: AlertCondition::Always }], ..death }).await;
        }
        let elsewhere = self.endpoints[3];
        let cancel = CancelWaiting {
            lane_id: elsewhere.into(),
            made_until: after(60),
            cause: CancelCause::EndpointDisabled,
            at: after(8),
            limit: 10,
        };
        assert_eq!(self.given.store.cancel_waiting(cancel).await.unwrap(), 1);
    }

    /// A strict lane: one delivered, one waits, three are held.
    async fn go_in_order(&mut self) {
        let mut strict = endpoint(self.given.organization, self.given.application);
        strict.ordering = everhook_core::model::Ordering { mode: OrderingMode::Strict, barrier: None };
        self.endpoints.push(strict.id);
        self.given.store.create_endpoint(strict.clone(), self.entry(AuditAction::EndpointCreate)).await.unwrap();
        let mut deliveries = Vec::new();
        for _ in 0..5 {
            let mut new = self.given.event(&[strict.id]).await;
            new.deliveries[0].placement = STRICT;
            deliveries.push(new.deliveries[0].id);
            self.given.record(new).await;
        }
        let first = settlement(deliveries[0], strict.id, success(1), Stage::Delivered { at: after(9) });
        self.settle(Settlement { ordered: true, ..first }).await;
        self.ordered = (strict.id, deliveries.split_off(1));
    }

    /// One waits for something outside as long as it takes, one until an instant; and something came that nobody waits for.
    async fn park(&mut self) {
        for expiry in [None, Some(Expiry { at: after(900), then: AfterExpiry::GivesUp })] {
            let (_, delivery) = self.given.published().await;
            let parked = Stage::Parked(Parking { waits_for: WaitsFor::parse("user ü").unwrap(), expiry });
            let attempt = Attempt { status: AttemptStatus::Parked, error: Some("waits for user ü".to_owned()), ..success(1) };
            self.settle(settlement(delivery, self.given.endpoint, attempt, parked)).await;
        }
        let waits_for = WaitsFor::parse("job ü").unwrap();
        let release = Release { organization: self.given.organization, waits_for, at: NOW, limit: 1 };
        assert!(self.given.store.release(release).await.unwrap().deliveries.is_empty());
    }

    /// Dead letters that are retried, resolved, died again by themselves, and discarded.
    async fn bring_back(&mut self) {
        let endpoint = self.given.endpoint;
        for (by, end) in [
            (ReplayBy::Hand, None),
            (ReplayBy::Hand, Some(Stage::Delivered { at: after(70) })),
            (ReplayBy::Automatic, Some(Stage::Dead { at: after(71), cause: DeathCause::RetriesExhausted })),
        ] {
            let (event, dead) = self.dead().await;
            let item = ReplayItem { of: Some(dead), only_dead: true, ..self.given.replay_item(event).await };
            let replay = Replay { organization: self.given.organization, by, items: vec![item], at: after(60) };
            self.given.store.replay(replay).await.unwrap();
            if let Some(stage) = end {
                let attempt = if matches!(stage, Stage::Delivered { .. }) { success(1) } else { failure(1) };
                let again = settlement(item.delivery, endpoint, attempt, stage);
                self.settle(Settlement { replay_of: Some(dead), ..again }).await;
            }
        }
        let (_, dead) = self.dead().await;
        self.given.store.discard(self.given.organization, dead, self.entry(AuditAction::DeadLetterDiscard)).await.unwrap();
    }

    async fn dead(&self) -> (EventId, DeliveryId) {
        let (event, delivery) = self.given.published().await;
        let dead = Stage::Dead { at: NOW, cause: DeathCause::RetriesExhausted };
        self.settle(settlement(delivery, self.given.endpoint, answered(failure(1)), dead)).await;
        (event, delivery)
    }

    /// An event without data, whose delivery was waiting.
    async fn erase(&mut self) {
        let mut new = self.given.event(&[self.given.endpoint]).await;
        new.event.data = Bytes::from("\"private\"".repeat(1_000));
        new.event.labels = [("customer".to_owned(), "7".to_owned())].into();
        let (event, delivery) = (new.event.id, new.deliveries[0].id);
        self.given.record(new).await;
        self.settle(settlement(delivery, self.given.endpoint, answered(failure(1)), Stage::Waiting { due_at: after(5) })).await;
        let erasure = Erasure { organization: self.given.organization, event, at: after(11), entry: self.entry(AuditAction::EventErase) };
        self.given.store.erase(erasure).await.unwrap();
    }

    /// An operation that has done one of its items, one that erases, one that was cancelled; and dead letters that come back by themselves.
    async fn operate(&mut self) {
        let (first, second) = (self.dead().await, self.dead().await);
        let replaying = self.begin(OperationKind::Replay, Selection::DeadLetters(DeadLetterSelection::default())).await;
        let items = [first, second].map(|(event, of)| (event, self.given.endpoint.into(), Some(of))).to_vec();
        let step = SelectionStep { operation: replaying, after: Uuid::nil(), items, skipped: 2, phase: Some(Phase::Selected) };
        self.given.store.select(step).await.unwrap();
        assert!(self.given.store.start(replaying, after(20)).await.unwrap());
        let next = self.given.store.items(replaying, 1).await.unwrap()[0];
        let item = ReplayItem { position: Some(next.position), of: next.of, ..self.given.replay_item(next.event).await };
        let by = ReplayBy::Operation { id: replaying, failed: Vec::new() };
        let replay = Replay { organization: self.given.organization, by, items: vec![item], at: after(60) };
        self.given.store.replay(replay).await.unwrap();
        let about = ErasureSelection {
            deleted_organization: None,
            application: Some(self.given.application),
            label: None,
            from: None,
            to: after(100),
        };
        let erasing = self.begin(OperationKind::Erase, Selection::Erasure(about)).await;
        let events = vec![first.0, second.0];
        let step = ErasureStep { operation: erasing, after: Uuid::nil(), events, phase: Phase::Selecting(id()) };
        self.given.store.select_for_erasure(step).await.unwrap();
        let cancelled = self.begin(OperationKind::RetryBatch, Selection::DeadLetters(DeadLetterSelection::default())).await;
        let organization = self.given.organization;
        let alert = Alert { id: id(), organization, event_type: event_type("operation.finished"), data: Bytes::from("{}") };
        let ending = Ending { organization, operation: cancelled, status: OperationStatus::Cancelled, at: after(90), alert, entry: None };
        self.given.store.end(ending).await.unwrap();
        let on = AutoReplay { enabled: true, max_tries: 3, after: Duration::from_secs(77), requests_per_second: NonZeroU32::MIN };
        self.given.store.set_auto_replay(organization, on).await.unwrap();
        self.operations = vec![replaying, erasing, cancelled, self.backfill().await];
    }

    /// A backfill that has come to its second piece.
    async fn backfill(&self) -> OperationId {
        let backfill = Backfill {
            connection: HealthConnectionId::from_uuid(id()),
            types: BackfillType::ALL.to_vec(),
            from: NOW,
            to: after(86_400),
            chunk: Duration::from_secs(86_400),
        };
        let operation = self.begin(OperationKind::Backfill, Selection::Backfill(backfill)).await;
        assert!(self.given.store.start(operation, after(20)).await.unwrap());
        assert!(self.given.store.add_outcomes(operation, 0, vec![ChunkOutcome::DoneBefore]).await.unwrap());
        operation
    }

    async fn begin(&self, kind: OperationKind, selection: Selection) -> OperationId {
        let total = if let Selection::Backfill(backfill) = &selection { backfill.chunks().len() as u64 } else { 0 };
        let operation = Operation {
            id: OperationId::from_uuid(id()),
            organization: self.given.organization,
            application: Some(self.given.application),
            endpoint: selection.endpoint(),
            kind,
            status: OperationStatus::Pending,
            total,
            done: 0,
            failed: 0,
            skipped: 0,
            rate: NonZeroU32::new(7),
            priority: Priority::Low,
            start_at: Some(after(3)),
            created_at: NOW,
            started_at: None,
            finished_at: None,
        };
        let id = operation.id;
        self.given.store.begin(operation, selection, 10, self.entry(AuditAction::OperationBegin)).await.unwrap();
        id
    }

    /// Breakers and statistics.
    async fn count(&mut self) {
        let mut breaker = Breaker::new(BreakerConfig::window(), NOW);
        let opened = breaker.force_open(None, after(10));
        let change = |endpoint: EndpointId, kept, transition| BreakerChange {
            application: self.given.application,
            lane_id: endpoint.into(),
            revision: 1,
            kept,
            transition,
            alerts: Vec::new(),
            entry: None,
        };
        let half_open = KeptBreaker { stage: KeptStage::HalfOpen, since: NOW, failed_recoveries: 3 };
        let changes = vec![change(self.given.endpoint, breaker.keep(), Some(opened)), change(self.endpoints[1], half_open, None)];
        assert_eq!(self.given.store.keep(changes).await.unwrap(), [BreakerKept::Kept, BreakerKept::Kept]);
        let mut tally = Tally::new(self.given.endpoint.into(), minute_of(NOW));
        tally.add(&success(1), NOW);
        tally.add(&failure(2), after(1));
        let mut later = Tally::new(self.endpoints[1].into(), minute_of(after(600)));
        later.add(&success(1), after(600));
        self.given.store.add(vec![tally, later], FailingRule::default()).await.unwrap();
        self.given.alert().await;
    }
}

/// An attempt with an answer and a time for everything.
fn answered(attempt: Attempt) -> Attempt {
    let headers = vec![("x-echo".to_owned(), Bytes::from_static(b"\xff\x00ok"))];
    let response = Response {
        status: 503,
        headers,
        body_sample: Bytes::from_static(b"\x00\xfe busy"),
        cut: Cut { body: true, headers: false },
        retry_after: Some(RetryAfter::Delay(Duration::from_secs(3))),
    };
    let micros = |n| Some(Duration::from_micros(n));
    let phases = PhaseTimes { dns: micros(1), connect: micros(2), tls: micros(3), first_byte: micros(4) };
    Attempt { response: Some(response), phases, picked_at: after(1), executed_at: after(2), next_retry_at: Some(after(9)), ..attempt }
}

impl Filled {
    /// What a server that was killed at this moment would leave behind: all that was written is in the log.
    pub fn copy(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        for name in ["everhook.db", "everhook.db-wal", "lock"] {
            fs::copy(self.given.backing.folder.path().join(name), copy.path().join(name)).unwrap();
        }
        copy
    }

    /// What a server that was stopped leaves behind.
    pub fn closed(self) -> TempDir {
        let Given { store, backing, .. } = self.given;
        drop(store);
        backing.folder
    }
}
