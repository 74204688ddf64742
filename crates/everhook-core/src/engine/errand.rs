//! What the owner has done for it in the background: reads of backlogs, looks at endpoints, sweeps, alerts. None holds up a delivery.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use rustc_hash::FxHashSet;

use super::{board::QueueKey, sweep::sweep};
use crate::{
    flow::{
        Line, alert,
        claim::{Look, claim},
    },
    ids::{ApplicationId, EndpointId, OrganizationId},
    lifecycle,
    model::{CancelCause, Duty, LanePolicy, ShardSet, Tally},
    ports::{BreakerChange, BreakerKept, BreakerRow, Departure, DueRead, EndpointWindow, LaneHead, StoreError, WaitingQueue},
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
pub(super) enum Errand {
    /// Read what is due in some queues.
    Look(Look),
    /// Find every queue of these shards that has something waiting.
    Survey(ShardSet),
    /// Find out how breakers of these shards stand, which another node had until now.
    Learn(ShardSet),
    /// Find out how breakers stand because organizations came from another pool.
    Greet(Vec<Arrival>),
    /// Note that nothing of an organization is left here.
    Depart(Departure),
    /// See how the endpoints of some queues stand in which something waits, says another node.
    LookUpHinted(Vec<WaitingQueue>),
    /// See how an endpoint stands.
    Inspect(ApplicationId, EndpointId),
    /// Cancel what waits for an endpoint that gets no events any more.
    Sweep(EndpointId, CancelCause, Timestamp),
    /// Keep how breakers stand.
    KeepBreakers(Vec<BreakerChange>),
    /// Note that an endpoint has sent what gathered during its pause.
    EndDrain(ApplicationId, EndpointId),
    /// Add up what happened at endpoints.
    AddTallies(Arc<Vec<Tally>>),
    /// Tell the alerts that wait.
    TellAlerts,
}

/// What came of it. A failure of the store or a panic is an answer too: the owner decides when to try again.
pub(super) enum Done {
    Looked(Vec<(QueueKey, Option<DueRead>)>),
    Surveyed(ShardSet, Option<Vec<(LaneHead, Standing)>>),
    Learned(ShardSet, Option<Learned>),
    Greeted(Vec<Arrival>, Option<Vec<BreakerRow>>),
    Departed(Departure),
    HintedLookedUp(Vec<(WaitingQueue, Option<Standing>)>),
    Inspected(ApplicationId, EndpointId, Option<Inspection>),
    Swept(EndpointId),
    BreakersKept(Vec<BreakerChange>, Option<Vec<BreakerKept>>),
    DrainEnded,
    /// So many of the first are added.
    TalliesAdded(Arc<Vec<Tally>>, usize),
    AlertsTold(bool),
}

/// An organization that came from another pool, and by which of its moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) organization: OrganizationId,
    pub(super) moves: i64,
}

/// What there is to know of breakers whose lanes another node had.
pub(super) struct Learned {
    /// How all stand that were ever other than closed.
    pub(super) rows: Vec<BreakerRow>,
    /// What those of gained lanes have counted.
    pub(super) windows: Vec<EndpointWindow>,
}

/// What there is to know of an endpoint.
pub(super) struct Inspection {
    pub(super) standing: Standing,
    /// What the store keeps of its breaker.
    pub(super) breaker: Option<BreakerRow>,
}

/// How an endpoint stands.
#[derive(Clone)]
pub(super) enum Standing {
    /// It gets events.
    Open(Arc<LanePolicy>),
    /// It does not; what was made until the instant is cancelled.
    Closed(CancelCause, Timestamp),
    /// Another worker pool sends for it, whether it gets events or not.
    Elsewhere,
}

/// Runs an errand. Never panics.
pub(super) async fn run(line: Arc<Line>, errand: Errand) -> Done {
    match AssertUnwindSafe(attend(&line, errand.clone())).catch_unwind().await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => {
            line.tell_delay(errand.name(), &error);
            errand.failed()
        }
        Err(_) => {
            tracing::error!("{} panicked and is tried again", errand.name());
            errand.failed()
        }
    }
}

async fn attend(line: &Line, errand: Errand) -> Result<Done, StoreError> {
    Ok(match errand {
        Errand::Look(look) => {
            let keys: Vec<QueueKey> = keys(&look).collect();
            let reads = claim(line, look).await?;
            Done::Looked(keys.into_iter().zip(reads.into_iter().map(Some)).collect())
        }
        Errand::Survey(shards) => Done::Surveyed(shards, Some(survey(line, shards).await?)),
        Errand::Learn(shards) => Done::Learned(shards, learn(line, shards).await),
        // What was counted in the former pool is not asked for: most lanes of these shards are ours, and have counted themselves.
        Errand::Greet(arrivals) => Done::Greeted(arrivals, learn(line, ShardSet::NONE).await.map(|learned| learned.rows)),
        Errand::Depart(departure) => {
            line.ports.leases.depart(vec![departure]).await?;
            Done::Departed(departure)
        }
        Errand::LookUpHinted(queues) => Done::HintedLookedUp(look_up_hinted(line, queues).await),
        Errand::Inspect(application, endpoint) => {
            let breaker = line.ports.breakers.breaker(endpoint).await?;
            let standing = inspect(line, application, endpoint).await?;
            Done::Inspected(application, endpoint, Some(Inspection { standing, breaker }))
        }
        Errand::Sweep(endpoint, cause, made_until) => {
            sweep(line, endpoint, cause, made_until).await;
            Done::Swept(endpoint)
        }
        Errand::KeepBreakers(changes) => {
            let kept = keep_breakers(line, changes.clone()).await?;
            Done::BreakersKept(changes, Some(kept))
        }
        Errand::EndDrain(application, endpoint) => {
            line.ports.directory.end_drain(endpoint).await?;
            line.catalog.forget(application);
            Done::DrainEnded
        }
        Errand::AddTallies(tallies) => {
            let added = add_tallies(line, &tallies).await;
            Done::TalliesAdded(tallies, added)
        }
        Errand::TellAlerts => {
            alert::tell_pending(line).await?;
            Done::AlertsTold(true)
        }
    })
}

/// Which queues are looked at.
fn keys(look: &Look) -> impl Iterator<Item = QueueKey> {
    look.queues.iter().map(|queue| (queue.endpoint, queue.priority))
}

/// Looks for what should wait and does not, then for everything that waits.
async fn survey(line: &Line, shards: ShardSet) -> Result<Vec<(LaneHead, Standing)>, StoreError> {
    if line.tenure.does(Duty::FreeHeads)
        && let Err(error) = free_heads(line).await
    {
        line.tell_delay("freeing what is held behind nothing", &error);
    }
    let heads = line.ports.deliveries.lanes(shards).await?;
    let mut surveyed = Vec::with_capacity(heads.len());
    for head in heads {
        match inspect_own(line, head.application, head.endpoint).await {
            Ok(standing) => surveyed.push((head, standing)),
            // One application that cannot be read must not keep the others from being looked at.
            Err(error @ StoreError::Unavailable(_)) => line.tell_delay("looking at an endpoint that has something waiting", &error),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, endpoint.id = %head.endpoint, "an endpoint cannot be read; its deliveries wait");
            }
        }
    }
    Ok(surveyed)
}

/// How breakers stand. `None`, a little later, if they cannot be read: it is asked for again.
async fn learn(line: &Line, shards: ShardSet) -> Option<Learned> {
    match line.ports.breakers.breakers().await {
        Ok(rows) => Some(Learned { rows, windows: line.ports.breaker_windows.windows(shards).await }),
        Err(error) => {
            line.tell_delay("learning how breakers stand", &error);
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

/// Writes how breakers stand, with what their owners are told.
pub(super) async fn keep_breakers(line: &Line, mut changes: Vec<BreakerChange>) -> Result<Vec<BreakerKept>, StoreError> {
    for change in &mut changes {
        if let Some(transition) = change.transition {
            change.alerts = match alert::of_breaker(line, change.application, change.endpoint, transition).await {
                Ok(alerts) => alerts,
                // Trying again would not heal that, and would hold up everybody else's.
                Err(error @ StoreError::Corrupt(_)) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, endpoint.id = %change.endpoint, "nobody is told of a breaker: its endpoint cannot be read");
                    Vec::new()
                }
                Err(error) => return Err(error),
            };
        }
    }
    line.ports.breakers.keep(changes).await
}

/// Adds tallies to what is kept, and says how many of the first it could.
pub(super) async fn add_tallies(line: &Line, tallies: &[Tally]) -> usize {
    let mut added = 0;
    for some in tallies.chunks(TALLIES_PER_WRITE) {
        if let Err(error) = line.ports.statistics.add(some.to_vec()).await {
            line.tell_delay("adding up figures", &error);
            break;
        }
        added += some.len();
    }
    added
}

/// How an endpoint stands whose lane is this pool's, says the store. If what is remembered says otherwise, its organization has just come here.
async fn inspect_own(line: &Line, application: ApplicationId, endpoint: EndpointId) -> Result<Standing, StoreError> {
    match inspect(line, application, endpoint).await? {
        Standing::Elsewhere => {
            line.catalog.forget(application);
            inspect(line, application, endpoint).await
        }
        standing => Ok(standing),
    }
}

/// How the endpoints of hinted queues stand. An application is read again for one of them at most: the others see what that brought.
async fn look_up_hinted(line: &Line, queues: Vec<WaitingQueue>) -> Vec<(WaitingQueue, Option<Standing>)> {
    let mut read = FxHashSet::default();
    let mut found = Vec::with_capacity(queues.len());
    for queue in queues {
        let is_first = read.insert(queue.application);
        let looked_up = match is_first {
            true => inspect(line, queue.application, queue.endpoint).await,
            false => standing(line, queue.application, queue.endpoint).await,
        };
        if let Err(error) = &looked_up {
            line.tell_delay("looking up endpoints that another node hinted at", error);
        }
        found.push((queue, looked_up.ok()));
    }
    found
}

/// How an endpoint stands. Where nodes share a store, another may have made or enabled it a moment ago: nothing is cancelled because of what this one
/// remembers.
async fn inspect(line: &Line, application: ApplicationId, endpoint: EndpointId) -> Result<Standing, StoreError> {
    let standing = standing(line, application, endpoint).await?;
    if line.tenure.is_shared() && matches!(standing, Standing::Closed(..)) {
        line.catalog.forget(application);
        return self::standing(line, application, endpoint).await;
    }
    Ok(standing)
}

/// What waits for a closed endpoint and was made until now is cancelled. The time is taken before the look: whatever is made for an endpoint that
/// is open again is made after it.
async fn standing(line: &Line, application: ApplicationId, endpoint: EndpointId) -> Result<Standing, StoreError> {
    let now = line.ports.clock.now();
    let view = line.catalog.application(application).await?;
    if view.as_ref().is_some_and(|view| !view.post.is_here) {
        return Ok(Standing::Elsewhere);
    }
    let Some(destination) = view.as_ref().and_then(|view| view.destination(endpoint)) else {
        // A deleted endpoint is no longer part of its application.
        return Ok(Standing::Closed(CancelCause::EndpointDeleted, now));
    };
    Ok(match lifecycle::cancellation(destination.endpoint.state) {
        Some(cause) => Standing::Closed(cause, now),
        None => Standing::Open(destination.lane.clone()),
    })
}

impl Errand {
    fn name(&self) -> &'static str {
        match self {
            Self::Look(_) => "reading a backlog",
            Self::Survey(_) => "looking for waiting deliveries",
            Self::Learn(_) => "reading how breakers stand",
            Self::Greet(_) => "taking over lanes of another pool",
            Self::Depart(_) => "leaving lanes to another pool",
            Self::LookUpHinted(_) => "looking up endpoints that another node hinted at",
            Self::Inspect(..) => "looking at a changed endpoint",
            Self::Sweep(..) => "cancelling deliveries",
            Self::KeepBreakers(_) => "keeping how breakers stand",
            Self::EndDrain(..) => "ending a drain",
            Self::AddTallies(_) => "adding up figures",
            Self::TellAlerts => "telling alerts",
        }
    }

    fn failed(self) -> Done {
        match self {
            Self::Look(look) => Done::Looked(keys(&look).map(|key| (key, None)).collect()),
            Self::Survey(shards) => Done::Surveyed(shards, None),
            Self::Learn(shards) => Done::Learned(shards, None),
            Self::Greet(arrivals) => Done::Greeted(arrivals, None),
            // The next renewal names it again.
            Self::Depart(departure) => Done::Departed(departure),
            Self::LookUpHinted(queues) => Done::HintedLookedUp(queues.into_iter().map(|queue| (queue, None)).collect()),
            Self::Inspect(application, endpoint) => Done::Inspected(application, endpoint, None),
            Self::Sweep(endpoint, ..) => Done::Swept(endpoint),
            Self::KeepBreakers(changes) => Done::BreakersKept(changes, None),
            Self::EndDrain(..) => Done::DrainEnded,
            // What was added before a panic is not known: counting twice is worse than losing a second of figures.
            Self::AddTallies(tallies) => {
                let all = tallies.len();
                Done::TalliesAdded(tallies, all)
            }
            Self::TellAlerts => Done::AlertsTold(false),
        }
    }
}
