//! What the owner has done for it in the background: reads of backlogs, looks at endpoints, sweeps, alerts. None holds up a delivery.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use rustc_hash::FxHashSet;

use crate::{
    ids::{ApplicationId, LaneId, OrganizationId},
    lanes::{board::QueueKey, sweep::sweep},
    lifecycle,
    line::{
        Line, alert,
        claim::{DueReads, claim},
        parking,
    },
    model::{CancelCause, Duty, LanePolicy, ShardSet, Tally},
    ports::{BreakerChange, BreakerKept, BreakerRow, Departure, DueRead, LaneHead, LaneWindow, StoreError, WaitingQueue},
    time::Timestamp,
};

/// How many tallies one write adds: a few milliseconds of it, between which events are written.
const TALLIES_PER_WRITE: usize = 500;

/// How often a survey frees what is held behind nothing: many thousand deliveries. The next survey goes on.
const FREE_ROUNDS_MAX: u32 = 100;

/// How long to wait before breakers that could not be read are read again.
const LEARN_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Something to be done.
#[derive(Clone)]
pub(super) enum BackgroundTask {
    /// Read what is due in some queues.
    DueReads(DueReads),
    /// Find every queue of these shards that has something waiting.
    Survey(ShardSet),
    /// Find out how breakers of these shards stand, which another node had until now.
    LoadBreakers(ShardSet),
    /// Find out how breakers stand because organizations came from another pool.
    LoadMovedBreakers(Vec<Arrival>),
    /// Note that nothing of an organization is left here.
    Depart(Departure),
    /// See how the endpoints of some queues stand in which something waits, says another node.
    LookUpHinted(Vec<WaitingQueue>),
    /// See how an endpoint stands.
    Inspect(ApplicationId, LaneId),
    /// Cancel what waits for an endpoint that gets no events any more.
    Sweep(LaneId, CancelCause, Timestamp),
    /// Keep how breakers stand.
    KeepBreakers(Vec<BreakerChange>),
    /// Note that an endpoint has sent what gathered during its pause.
    EndDrain(ApplicationId, LaneId),
    /// Add up what happened at endpoints.
    AddTallies(Arc<Vec<Tally>>),
    /// Tell the alerts that wait.
    PublishAlerts,
}

/// Its result. A failure of the store or a panic is an answer too: the owner decides when to try again.
pub(super) enum Done {
    Looked(Vec<(QueueKey, Option<DueRead>)>),
    Surveyed(ShardSet, Option<Vec<(LaneHead, LaneState)>>),
    BreakersLoaded(ShardSet, Option<BreakersLoaded>),
    MovedBreakersLoaded(Vec<Arrival>, Option<Vec<BreakerRow>>),
    Departed(Departure),
    HintedLookedUp(Vec<(WaitingQueue, Option<LaneState>)>),
    Inspected(ApplicationId, LaneId, Option<Inspection>),
    Swept(LaneId),
    BreakersKept(Vec<BreakerChange>, Option<Vec<BreakerKept>>),
    DrainEnded,
    /// So many of the first are added.
    TalliesAdded(Arc<Vec<Tally>>, usize),
    AlertsPublished(bool),
}

/// An organization that came from another pool, and by which of its moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) organization: OrganizationId,
    pub(super) moves: i64,
}

/// The state of breakers whose lanes another node had.
pub(super) struct BreakersLoaded {
    /// How all stand that were ever other than closed.
    pub(super) rows: Vec<BreakerRow>,
    /// What those of gained lanes have counted.
    pub(super) windows: Vec<LaneWindow>,
}

/// The state of an endpoint and its breaker.
pub(super) struct Inspection {
    pub(super) state: LaneState,
    /// What the store keeps of its breaker.
    pub(super) breaker: Option<BreakerRow>,
}

/// How an endpoint stands.
#[derive(Clone)]
pub(super) enum LaneState {
    /// It gets events.
    Open(Arc<LanePolicy>),
    /// It does not; what was made until the instant is cancelled.
    Closed(CancelCause, Timestamp),
    /// Another worker pool sends for it, whether it gets events or not.
    Elsewhere,
}

/// Runs a background task. Never panics.
pub(super) async fn run(line: Arc<Line>, background_task: BackgroundTask) -> Done {
    match AssertUnwindSafe(run_task(&line, background_task.clone())).catch_unwind().await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => {
            line.log_delay(background_task.name(), &error);
            background_task.failed()
        }
        Err(_) => {
            tracing::error!("panic while {}; it is tried again", background_task.name());
            background_task.failed()
        }
    }
}

async fn run_task(line: &Line, background_task: BackgroundTask) -> Result<Done, StoreError> {
    Ok(match background_task {
        BackgroundTask::DueReads(look) => {
            let keys: Vec<QueueKey> = keys(&look).collect();
            let reads = claim(&*line.ports.deliveries, look, line.ports.clock.now()).await?;
            Done::Looked(keys.into_iter().zip(reads.into_iter().map(Some)).collect())
        }
        BackgroundTask::Survey(shards) => Done::Surveyed(shards, Some(survey(line, shards).await?)),
        BackgroundTask::LoadBreakers(shards) => Done::BreakersLoaded(shards, learn(line, shards).await),
        // What was counted in the former pool is not asked for: most lanes of these shards are ours, and have counted themselves.
        BackgroundTask::LoadMovedBreakers(arrivals) => {
            Done::MovedBreakersLoaded(arrivals, learn(line, ShardSet::NONE).await.map(|learned| learned.rows))
        }
        BackgroundTask::Depart(departure) => {
            line.ports.leases.depart(vec![departure]).await?;
            Done::Departed(departure)
        }
        BackgroundTask::LookUpHinted(queues) => Done::HintedLookedUp(look_up_hinted(line, queues).await),
        BackgroundTask::Inspect(application, lane_id) => {
            let breaker = line.ports.breakers.breaker(lane_id).await?;
            let state = inspect(line, application, lane_id).await?;
            Done::Inspected(application, lane_id, Some(Inspection { state, breaker }))
        }
        BackgroundTask::Sweep(lane_id, cause, made_until) => {
            sweep(line, lane_id, cause, made_until).await;
            Done::Swept(lane_id)
        }
        BackgroundTask::KeepBreakers(changes) => {
            let kept = keep_breakers(line, changes.clone()).await?;
            Done::BreakersKept(changes, Some(kept))
        }
        BackgroundTask::EndDrain(application, lane_id) => {
            line.ports.endpoints.end_drain(lane_id.endpoint()).await?;
            line.catalog.forget(application);
            Done::DrainEnded
        }
        BackgroundTask::AddTallies(tallies) => {
            let added = add_tallies(line, &tallies).await;
            Done::TalliesAdded(tallies, added)
        }
        BackgroundTask::PublishAlerts => {
            alert::publish_pending(line).await?;
            Done::AlertsPublished(true)
        }
    })
}

/// Which queues are looked at.
fn keys(look: &DueReads) -> impl Iterator<Item = QueueKey> {
    look.queues.iter().map(|queue| (queue.lane_id, queue.priority))
}

/// Looks for what should wait and does not, then for everything that waits.
async fn survey(line: &Line, shards: ShardSet) -> Result<Vec<(LaneHead, LaneState)>, StoreError> {
    if line.held_lease.does(Duty::FreeHeads)
        && let Err(error) = free_heads(line).await
    {
        line.log_delay("releasing held deliveries", &error);
    }
    if line.held_lease.does(Duty::FreeHeads)
        && let Err(error) = parking::look_after(line).await
    {
        line.log_delay("releasing parked deliveries", &error);
    }
    let heads = line.ports.deliveries.lanes(shards).await?;
    let mut surveyed = Vec::with_capacity(heads.len());
    for head in heads {
        match inspect_own(line, head.application, head.lane_id).await {
            Ok(state) => surveyed.push((head, state)),
            // One application that cannot be read must not keep the others from being looked at.
            Err(error @ StoreError::Unavailable(_)) => line.log_delay("reading the destination of waiting deliveries", &error),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, lane.id = %head.lane_id, "cannot read the destination of a lane; its deliveries wait until it can be read. Check the row of this id in the database");
            }
        }
    }
    Ok(surveyed)
}

/// The state of all breakers. `None`, a little later, if they cannot be read: the caller asks again.
async fn learn(line: &Line, shards: ShardSet) -> Option<BreakersLoaded> {
    match line.ports.breakers.breakers().await {
        Ok(rows) => Some(BreakersLoaded { rows, windows: line.ports.breaker_windows.windows(shards).await }),
        Err(error) => {
            line.log_delay("loading circuit-breaker state", &error);
            let clock = &line.ports.clock;
            clock.sleep_until(clock.now() + LEARN_RETRY_DELAY).await;
            None
        }
    }
}

/// Frees what is held behind nothing.
async fn free_heads(line: &Line) -> Result<(), StoreError> {
    for _ in 0..FREE_ROUNDS_MAX {
        let freed = line.ports.deliveries.free_heads(line.ports.clock.now()).await?;
        freed.applications.into_iter().for_each(|application| line.catalog.forget(application));
        if !freed.may_be_more {
            break;
        }
    }
    Ok(())
}

/// Writes the state of breakers, with the alerts to their owners.
pub(super) async fn keep_breakers(line: &Line, mut changes: Vec<BreakerChange>) -> Result<Vec<BreakerKept>, StoreError> {
    for change in &mut changes {
        if let Some(transition) = change.transition {
            change.alerts = match alert::of_breaker(line, change.application, change.lane_id, transition).await {
                Ok(alerts) => alerts,
                // Trying again would not heal that, and would hold up everybody else's.
                Err(error @ StoreError::Corrupt(_)) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, lane.id = %change.lane_id, "cannot read the destination of a lane; its circuit breaker is saved, but no operational event about it is published. Check the row of this id in the database");
                    Vec::new()
                }
                Err(error) => return Err(error),
            };
        }
    }
    line.ports.breakers.keep(changes).await
}

/// Adds tallies to what is kept, with what was counted beside them, and says how many of the first it could.
pub(super) async fn add_tallies(line: &Line, tallies: &[Tally]) -> usize {
    let mut added = 0;
    for some in tallies.chunks(TALLIES_PER_WRITE) {
        if let Err(error) = line.ports.statistics.add(some.to_vec(), line.endpoint_health.rule).await {
            line.log_delay("writing statistics", &error);
            break;
        }
        added += some.len();
        if some.iter().any(|tally| tally.statistics.last_success_at.is_some()) {
            line.recoveries_bell.notify_one();
        }
    }
    if let Err(error) = line.breakdowns.write(&*line.ports.statistics).await {
        line.log_delay("writing statistics", &error);
    }
    added
}

/// How an endpoint stands whose lane is this pool's, says the store. If what is remembered says otherwise, its organization has just come here.
async fn inspect_own(line: &Line, application: ApplicationId, lane_id: LaneId) -> Result<LaneState, StoreError> {
    match inspect(line, application, lane_id).await? {
        LaneState::Elsewhere => {
            line.catalog.forget(application);
            inspect(line, application, lane_id).await
        }
        state => Ok(state),
    }
}

/// How the endpoints of hinted queues stand. An application is read again for one of them at most: the others see what that brought.
async fn look_up_hinted(line: &Line, queues: Vec<WaitingQueue>) -> Vec<(WaitingQueue, Option<LaneState>)> {
    let mut read = FxHashSet::default();
    let mut found = Vec::with_capacity(queues.len());
    for queue in queues {
        let is_first = read.insert(queue.application);
        let looked_up = match is_first {
            true => inspect(line, queue.application, queue.lane_id).await,
            false => lane_state(line, queue.application, queue.lane_id).await,
        };
        if let Err(error) = &looked_up {
            line.log_delay("reading endpoints named by hints", error);
        }
        found.push((queue, looked_up.ok()));
    }
    found
}

/// How an endpoint stands. Where nodes share a store, another may have made or enabled it a moment ago: nothing is cancelled because of what this one
/// remembers.
async fn inspect(line: &Line, application: ApplicationId, lane_id: LaneId) -> Result<LaneState, StoreError> {
    let state = lane_state(line, application, lane_id).await?;
    if line.held_lease.is_shared() && matches!(state, LaneState::Closed(..)) {
        line.catalog.forget(application);
        return lane_state(line, application, lane_id).await;
    }
    Ok(state)
}

/// What waits for a closed endpoint and was made until now is cancelled. The time is taken before the look: whatever is made for an endpoint that
/// is open again is made after it.
async fn lane_state(line: &Line, application: ApplicationId, lane_id: LaneId) -> Result<LaneState, StoreError> {
    let now = line.ports.clock.now();
    let view = line.catalog.application(application).await?;
    if view.as_ref().is_some_and(|view| !view.pool.is_here) {
        return Ok(LaneState::Elsewhere);
    }
    let Some(destination) = view.as_ref().and_then(|view| view.destination(lane_id)) else {
        // What was deleted is no longer part of its application.
        return Ok(LaneState::Closed(CancelCause::DestinationDeleted, now));
    };
    Ok(match lifecycle::cancellation(destination.state()) {
        Some(cause) => LaneState::Closed(cause, now),
        None => LaneState::Open(destination.lane().clone()),
    })
}

impl BackgroundTask {
    fn name(&self) -> &'static str {
        match self {
            Self::DueReads(_) => "reading a backlog",
            Self::Survey(_) => "querying waiting deliveries",
            Self::LoadBreakers(_) => "loading circuit-breaker state of lanes",
            Self::LoadMovedBreakers(_) => "taking over lanes from another pool",
            Self::Depart(_) => "releasing lanes to another pool",
            Self::LookUpHinted(_) => "reading endpoints named by hints",
            Self::Inspect(..) => "reading a changed endpoint",
            Self::Sweep(..) => "cancelling deliveries",
            Self::KeepBreakers(_) => "writing circuit-breaker state",
            Self::EndDrain(..) => "ending a drain",
            Self::AddTallies(_) => "writing statistics",
            Self::PublishAlerts => "publishing operational events",
        }
    }

    fn failed(self) -> Done {
        match self {
            Self::DueReads(look) => Done::Looked(keys(&look).map(|key| (key, None)).collect()),
            Self::Survey(shards) => Done::Surveyed(shards, None),
            Self::LoadBreakers(shards) => Done::BreakersLoaded(shards, None),
            Self::LoadMovedBreakers(arrivals) => Done::MovedBreakersLoaded(arrivals, None),
            // The next renewal names it again.
            Self::Depart(departure) => Done::Departed(departure),
            Self::LookUpHinted(queues) => Done::HintedLookedUp(queues.into_iter().map(|queue| (queue, None)).collect()),
            Self::Inspect(application, lane_id) => Done::Inspected(application, lane_id, None),
            Self::Sweep(lane_id, ..) => Done::Swept(lane_id),
            Self::KeepBreakers(changes) => Done::BreakersKept(changes, None),
            Self::EndDrain(..) => Done::DrainEnded,
            // What was added before a panic is not known: counting twice is worse than losing a second of statistics.
            Self::AddTallies(tallies) => {
                let all = tallies.len();
                Done::TalliesAdded(tallies, all)
            }
            Self::PublishAlerts => Done::AlertsPublished(false),
        }
    }
}
