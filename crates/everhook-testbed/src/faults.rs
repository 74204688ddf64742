//! Stores that fail on demand: the n-th call fails, before it did anything, half-way or after it did everything; or an event is damaged, or an
//! application locked.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, EventId, LaneId, OperationId, OrganizationId, SourceId},
    model::{
        AttemptStatistics, AuditEntry, AutoReplay, BreakdownTally, ClockReset, DeadLetter, EndpointActivity, ErasureCandidate, Event,
        FailingRule, Operation, Page, PageRequest, Selection, ShardSet, SourceTally, Tally, health::ChunkOutcome,
    },
    ports::{
        Alert, AlertId, AutoReplayStore, BackfillStore, Begun, BreakerChange, BreakerKept, BreakerRow, BreakerStore, BringForward,
        BroughtForward, BulkErasure, CancelDelivery, CancelWaiting, Cleared, DeliveryCancelled, DeliveryControl, DeliveryQueue,
        DueDeadLetters, DueRead, DueRequest, Ending, Erased, Erasure, ErasureBatch, ErasureStep, EventAlias, EventCandidate, EventStore,
        ForwardedDelivery, FreedHeads, FreedInLane, KeptBackfill, LaneHead, NewEvent, OpenOperation, OpenPeriod, OperationCandidates,
        OperationEnded, OperationItem, OperationStore, OrphanedLane, Outbox, ParkedDeliveries, Recorded, Release, Replay, Replayed, Scan,
        Scanned, SelectionStep, Settled, Settlement, Statistics, StoreError, TimeRange, Unparked, WaitingBacklog, WaitingRow,
    },
    time::Timestamp,
};
use tokio::sync::Notify;

/// Calls the store unless the fault strikes before; hides the answer if it strikes after.
macro_rules! through {
    ($self:ident, $call:expr) => {
        match $self.faults.strikes() {
            Some(Kind::Before | Kind::Midway) => Err(injected()),
            Some(Kind::After) => {
                $call.await?;
                Err(injected())
            }
            None => $call.await,
        }
    };
}

// Behind the macro, which it uses.
mod alerts;
mod channels;
mod endpoint_health;
mod health;
mod manifests;
mod sources;
mod spool;
mod store_measurements;

pub use self::spool::FaultySpool;

/// When a store fails, and how.
#[derive(Default)]
pub struct Faults {
    /// How many calls still pass. Below zero: the fault has struck, or none is planned.
    passing: AtomicI64,
    kind: AtomicI64,
    damaged: Mutex<BTreeSet<EventId>>,
    locked: Mutex<BTreeSet<ApplicationId>>,
    is_away: AtomicBool,
    /// Whether nothing comes after the fault that is planned.
    is_last: AtomicBool,
    keeps_spooled: AtomicBool,
    stalls_counts: AtomicBool,
    holds_source_reads: AtomicBool,
    source_reads: Notify,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing was done, and the caller is told that it failed.
    Before,
    /// The first half of a batch of events was recorded, and the rest was not. Any other call fails before it does anything.
    Midway,
    /// Everything was done, and the caller is told that it failed all the same: an answer lost on its way.
    After,
}

impl Faults {
    /// No fault is planned.
    pub fn none() -> Arc<Self> {
        let faults = Self::default();
        faults.passing.store(-1, Ordering::Relaxed);
        Arc::new(faults)
    }

    /// Lets `passing` calls pass, and the next one fail.
    pub fn plan(&self, passing: u32, kind: Kind) {
        self.is_last.store(false, Ordering::Relaxed);
        self.kind.store(kind as i64, Ordering::Relaxed);
        self.passing.store(i64::from(passing), Ordering::Relaxed);
    }

    /// The same, and every call after that one fails too, as in a process that dies there. [`Faults::set_away`] ends it, once the process is gone.
    pub fn plan_last(&self, passing: u32, kind: Kind) {
        self.plan(passing, kind);
        self.is_last.store(true, Ordering::Relaxed);
    }

    /// Nothing is planned any more.
    pub fn forget(&self) {
        self.passing.store(-1, Ordering::Relaxed);
    }

    /// The store is away, or back: while it is away, every call fails before it did anything.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// Whether the spool fails to remove what was forwarded.
    pub fn keep_spooled(&self, keeps: bool) {
        self.keeps_spooled.store(keeps, Ordering::Relaxed);
    }

    /// Whether the store never ends counting what waits.
    pub fn stall_counts(&self, stalls: bool) {
        self.stalls_counts.store(stalls, Ordering::Relaxed);
    }

    /// From now on, the store's answers of what sources are stay on their way.
    pub fn hold_source_reads(&self) {
        self.holds_source_reads.store(true, Ordering::Relaxed);
    }

    /// Those that are on their way arrive, and later ones at once.
    pub fn let_source_reads_arrive(&self) {
        self.holds_source_reads.store(false, Ordering::Relaxed);
        self.source_reads.notify_waiters();
    }

    /// From now on, what the store holds of this event cannot be understood, and it does not record it.
    pub fn damage(&self, event: EventId) {
        self.damaged.lock().expect("no test panicked here").insert(event);
    }

    /// Somebody keeps what publishing to this application needs: no event of it is recorded, nor what is to be recorded with it.
    pub fn lock(&self, application: ApplicationId) {
        self.locked.lock().expect("no test panicked here").insert(application);
    }

    /// Nobody does any longer.
    pub fn unlock(&self, application: ApplicationId) {
        self.locked.lock().expect("no test panicked here").remove(&application);
    }

    /// Whether the planned fault has struck.
    pub fn has_struck(&self) -> bool {
        self.passing.load(Ordering::Relaxed) < 0
    }

    fn is_damaged(&self, event: EventId) -> bool {
        self.damaged.lock().expect("no test panicked here").contains(&event)
    }

    fn is_locked(&self, application: ApplicationId) -> bool {
        self.locked.lock().expect("no test panicked here").contains(&application)
    }

    fn strikes(&self) -> Option<Kind> {
        if self.is_away.load(Ordering::Relaxed) {
            return Some(Kind::Before);
        }
        let passing = self.passing.load(Ordering::Relaxed);
        if passing < 0 {
            return None;
        }
        self.passing.store(passing - 1, Ordering::Relaxed);
        if passing == 0 && self.is_last.load(Ordering::Relaxed) {
            self.is_away.store(true, Ordering::Relaxed);
        }
        let planned = self.kind.load(Ordering::Relaxed);
        let kind = [Kind::Before, Kind::Midway, Kind::After].into_iter().find(|kind| *kind as i64 == planned);
        kind.filter(|_| passing == 0)
    }
}

/// A store whose calls pass through [`Faults`].
pub struct Faulty<S> {
    store: Arc<S>,
    faults: Arc<Faults>,
}

impl<S> Faulty<S> {
    /// The store, with faults.
    pub fn new(store: Arc<S>, faults: Arc<Faults>) -> Self {
        Self { store, faults }
    }
}

fn injected() -> StoreError {
    StoreError::unavailable("injected fault")
}

#[async_trait]
impl<S: EventStore> EventStore for Faulty<S> {
    async fn record(&self, mut events: Vec<NewEvent>) -> Vec<Result<Recorded, StoreError>> {
        let count = events.len();
        if events.iter().any(|new| self.faults.is_locked(new.event.application)) {
            return events.iter().map(|_| Err(injected())).collect();
        }
        if events.iter().any(|new| self.faults.is_damaged(new.event.id)) {
            // As a store would: of several, nobody knows which one is the culprit.
            let refusal = || if count == 1 { StoreError::corrupt("injected damage") } else { injected() };
            return events.iter().map(|_| Err(refusal())).collect();
        }
        let mut answers = match self.faults.strikes() {
            None => return self.store.record(events).await,
            Some(Kind::Before) => Vec::new(),
            Some(Kind::Midway) => {
                events.truncate(count / 2);
                self.store.record(events).await
            }
            Some(Kind::After) => {
                self.store.record(events).await;
                Vec::new()
            }
        };
        answers.resize_with(count, || Err(injected()));
        answers
    }

    async fn event(&self, id: EventId) -> Result<Option<Event>, StoreError> {
        if self.faults.is_damaged(id) {
            return Err(StoreError::corrupt("injected damage"));
        }
        through!(self, self.store.event(id))
    }

    async fn is_erased(&self, id: EventId) -> Result<bool, StoreError> {
        through!(self, self.store.is_erased(id))
    }

    async fn erase(&self, erasure: Erasure) -> Result<Erased, StoreError> {
        through!(self, self.store.erase(erasure))
    }

    async fn alias(&self, aliases: Vec<EventAlias>) -> Result<(), StoreError> {
        through!(self, self.store.alias(aliases))
    }
}

#[async_trait]
impl<S: DeliveryQueue> DeliveryQueue for Faulty<S> {
    async fn lanes(&self, shards: ShardSet) -> Result<Vec<LaneHead>, StoreError> {
        through!(self, self.store.lanes(shards))
    }

    async fn due(&self, request: DueRequest) -> Result<Vec<DueRead>, StoreError> {
        let mut reads = through!(self, self.store.due(request))?;
        for due in reads.iter_mut().flat_map(|read| &mut read.rows) {
            due.loaded = due.loaded.take().filter(|event| !self.faults.is_damaged(event.id));
        }
        Ok(reads)
    }

    async fn settle(&self, settlements: Arc<Vec<Settlement>>) -> Result<Vec<Settled>, StoreError> {
        through!(self, self.store.settle(settlements))
    }

    async fn free_heads(&self, at: Timestamp) -> Result<FreedHeads, StoreError> {
        through!(self, self.store.free_heads(at))
    }

    async fn cancel_waiting(&self, request: CancelWaiting) -> Result<u32, StoreError> {
        through!(self, self.store.cancel_waiting(request))
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, StoreError> {
        through!(self, self.store.replay(replay))
    }
}

#[async_trait]
impl<S: Outbox> Outbox for Faulty<S> {
    async fn pending(&self, limit: u32) -> Result<Vec<Alert>, StoreError> {
        through!(self, self.store.pending(limit))
    }

    async fn done(&self, ids: Vec<AlertId>) -> Result<(), StoreError> {
        through!(self, self.store.done(ids))
    }
}

#[async_trait]
impl<S: DeliveryControl> DeliveryControl for Faulty<S> {
    async fn bring_forward(&self, request: BringForward) -> Result<Vec<BroughtForward>, StoreError> {
        through!(self, self.store.bring_forward(request))
    }

    async fn cancel_delivery(&self, request: CancelDelivery) -> Result<DeliveryCancelled, StoreError> {
        through!(self, self.store.cancel_delivery(request))
    }

    async fn scan_waiting(&self, lane_id: LaneId, created_by: Timestamp, scan: Scan) -> Result<Scanned<WaitingRow>, StoreError> {
        through!(self, self.store.scan_waiting(lane_id, created_by, scan))
    }

    async fn waiting_backlog(&self, lane_id: LaneId, limit: u32) -> Result<WaitingBacklog, StoreError> {
        if self.faults.stalls_counts.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        through!(self, self.store.waiting_backlog(lane_id, limit))
    }

    async fn bring_listed_forward(
        &self,
        operation: OperationId,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<Vec<ForwardedDelivery>>, StoreError> {
        through!(self, self.store.bring_listed_forward(operation, limit, at))
    }
}

#[async_trait]
impl<S: ParkedDeliveries> ParkedDeliveries for Faulty<S> {
    async fn release(&self, release: Release) -> Result<Unparked, StoreError> {
        through!(self, self.store.release(release))
    }

    async fn next_look(&self) -> Result<Option<Timestamp>, StoreError> {
        through!(self, self.store.next_look())
    }

    async fn resume_releases(&self, at: Timestamp, limit: u32) -> Result<Unparked, StoreError> {
        through!(self, self.store.resume_releases(at, limit))
    }

    async fn expire(&self, at: Timestamp, limit: u32) -> Result<Unparked, StoreError> {
        through!(self, self.store.expire(at, limit))
    }

    async fn orphaned_lanes(&self, limit: u32) -> Result<Vec<OrphanedLane>, StoreError> {
        through!(self, self.store.orphaned_lanes(limit))
    }
}

#[async_trait]
impl<S: BreakerStore> BreakerStore for Faulty<S> {
    async fn breakers(&self) -> Result<Vec<BreakerRow>, StoreError> {
        through!(self, self.store.breakers())
    }

    async fn breaker(&self, lane_id: LaneId) -> Result<Option<BreakerRow>, StoreError> {
        through!(self, self.store.breaker(lane_id))
    }

    async fn keep(&self, changes: Vec<BreakerChange>) -> Result<Vec<BreakerKept>, StoreError> {
        through!(self, self.store.keep(changes))
    }

    async fn open_periods(&self, lane_id: LaneId, since: Timestamp, limit: u32) -> Result<Vec<OpenPeriod>, StoreError> {
        through!(self, self.store.open_periods(lane_id, since, limit))
    }
}

#[async_trait]
impl<S: Statistics> Statistics for Faulty<S> {
    async fn add(&self, tallies: Vec<Tally>, rule: FailingRule) -> Result<(), StoreError> {
        through!(self, self.store.add(tallies, rule))
    }

    async fn add_calls(&self, tallies: Vec<Tally>, alerts: Vec<Alert>) -> Result<(), StoreError> {
        through!(self, self.store.add_calls(tallies, alerts))
    }

    async fn add_breakdowns(&self, tallies: Vec<BreakdownTally>) -> Result<(), StoreError> {
        through!(self, self.store.add_breakdowns(tallies))
    }

    async fn attempt_statistics(&self, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Result<AttemptStatistics, StoreError> {
        through!(self, self.store.attempt_statistics(lane_id, from, to))
    }

    async fn activities(&self, lanes: Vec<LaneId>) -> Result<Vec<EndpointActivity>, StoreError> {
        through!(self, self.store.activities(lanes))
    }

    async fn forget_failures(&self, lane_id: LaneId, why: ClockReset) -> Result<(), StoreError> {
        through!(self, self.store.forget_failures(lane_id, why))
    }

    async fn add_source_tallies(&self, tallies: Vec<SourceTally>) -> Result<(), StoreError> {
        through!(self, self.store.add_source_tallies(tallies))
    }

    async fn source_statistics(
        &self,
        source: SourceId,
        from: Timestamp,
        to: Timestamp,
        step: Duration,
    ) -> Result<Vec<SourceTally>, StoreError> {
        through!(self, self.store.source_statistics(source, from, to, step))
    }
}

#[async_trait]
impl<S: OperationStore> OperationStore for Faulty<S> {
    async fn begin(&self, operation: Operation, selection: Selection, open_max: u32, entry: AuditEntry) -> Result<Begun, StoreError> {
        through!(self, self.store.begin(operation, selection, open_max, entry))
    }

    async fn operation(&self, organization: OrganizationId, id: OperationId) -> Result<Option<Operation>, StoreError> {
        through!(self, self.store.operation(organization, id))
    }

    async fn operations(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        page: PageRequest,
    ) -> Result<Page<Operation>, StoreError> {
        through!(self, self.store.operations(organization, application, page))
    }

    async fn open_operations(&self, limit: u32) -> Result<Vec<OpenOperation>, StoreError> {
        through!(self, self.store.open_operations(limit))
    }

    async fn select(&self, step: SelectionStep) -> Result<(), StoreError> {
        through!(self, self.store.select(step))
    }

    async fn items(&self, operation: OperationId, limit: u32) -> Result<Vec<OperationItem>, StoreError> {
        through!(self, self.store.items(operation, limit))
    }

    async fn start(&self, operation: OperationId, at: Timestamp) -> Result<bool, StoreError> {
        through!(self, self.store.start(operation, at))
    }

    async fn discard_next(&self, operation: OperationId, limit: u32) -> Result<u32, StoreError> {
        through!(self, self.store.discard_next(operation, limit))
    }

    async fn end(&self, ending: Ending) -> Result<OperationEnded, StoreError> {
        through!(self, self.store.end(ending))
    }

    async fn clear(&self, operation: OperationId, limit: u32) -> Result<Cleared, StoreError> {
        through!(self, self.store.clear(operation, limit))
    }
}

#[async_trait]
impl<S: OperationCandidates> OperationCandidates for Faulty<S> {
    async fn scan_dead_letters(&self, organization: OrganizationId, scan: Scan) -> Result<Scanned<DeadLetter>, StoreError> {
        through!(self, self.store.scan_dead_letters(organization, scan))
    }

    async fn scan_events(
        &self,
        organization: OrganizationId,
        application: ApplicationId,
        span: (Timestamp, Timestamp),
        scan: Scan,
    ) -> Result<Scanned<EventCandidate>, StoreError> {
        through!(self, self.store.scan_events(organization, application, span, scan))
    }

    async fn newest_deliveries(&self, organization: OrganizationId, event: EventId) -> Result<Option<EventCandidate>, StoreError> {
        through!(self, self.store.newest_deliveries(organization, event))
    }
}

#[async_trait]
impl<S: BackfillStore> BackfillStore for Faulty<S> {
    async fn open_backfills(&self, limit: u32) -> Result<Vec<KeptBackfill>, StoreError> {
        through!(self, self.store.open_backfills(limit))
    }

    async fn backfill(&self, organization: OrganizationId, id: OperationId) -> Result<Option<KeptBackfill>, StoreError> {
        through!(self, self.store.backfill(organization, id))
    }

    async fn add_outcomes(&self, operation: OperationId, known: usize, outcomes: Vec<ChunkOutcome>) -> Result<bool, StoreError> {
        through!(self, self.store.add_outcomes(operation, known, outcomes))
    }
}

#[async_trait]
impl<S: BulkErasure> BulkErasure for Faulty<S> {
    async fn scan_for_erasure(
        &self,
        organization: OrganizationId,
        accepted: TimeRange,
        scan: Scan,
    ) -> Result<Scanned<ErasureCandidate>, StoreError> {
        through!(self, self.store.scan_for_erasure(organization, accepted, scan))
    }

    async fn select_for_erasure(&self, step: ErasureStep) -> Result<(), StoreError> {
        through!(self, self.store.select_for_erasure(step))
    }

    async fn next_for_erasure(&self, operation: OperationId, limit: u32) -> Result<Vec<EventId>, StoreError> {
        through!(self, self.store.next_for_erasure(operation, limit))
    }

    async fn erase_listed(&self, batch: ErasureBatch) -> Result<Option<Vec<FreedInLane>>, StoreError> {
        through!(self, self.store.erase_listed(batch))
    }
}

#[async_trait]
impl<S: AutoReplayStore> AutoReplayStore for Faulty<S> {
    async fn auto_replay(&self, organization: OrganizationId) -> Result<Option<AutoReplay>, StoreError> {
        through!(self, self.store.auto_replay(organization))
    }

    async fn set_auto_replay(&self, organization: OrganizationId, settings: AutoReplay) -> Result<(), StoreError> {
        through!(self, self.store.set_auto_replay(organization, settings))
    }

    async fn auto_replays(&self) -> Result<Vec<(OrganizationId, AutoReplay)>, StoreError> {
        through!(self, self.store.auto_replays())
    }

    async fn due_dead_letters(&self, wanted: DueDeadLetters) -> Result<Vec<DeadLetter>, StoreError> {
        through!(self, self.store.due_dead_letters(wanted))
    }
}
