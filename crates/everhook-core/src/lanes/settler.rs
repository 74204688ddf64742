//! Writes outcomes, many at once, and keeps them until they are written.
//!
//! It runs beside the owner, so that a slow disk does not hold up requests at once. But an outcome that stays unwritten for more than a second
//! stops new requests: else a store that cannot be written to would have the same events sent again after every restart.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    ids::{ApplicationId, DeliveryId},
    lanes::{board::QueueKey, lane::UnreadRange},
    line::{
        Line,
        callback::{self, EndedJob},
    },
    model::Stage,
    ports::{Freed, Settled, Settlement, StoreError},
    repeated_failure::{REPORT_INTERVAL, RepeatedFailure},
    time::{Timestamp, millis},
};

/// How many outcomes one write holds. Large enough that a commit's fixed cost vanishes, small enough to stay a few milliseconds.
const SETTLE_BATCH: usize = 512;

/// How long the settler lets outcomes gather before it writes them. Nobody waits for them: slots are free when the answer is there. Fewer, larger
/// writes leave more of the disk to publishers, and only this much more is sent again after a crash.
const GATHER_FOR: Duration = Duration::from_millis(5);

/// The same where nodes share a store: each gathers its own, and the statement that writes them costs the server as much for few as for many.
const GATHER_FOR_SHARED: Duration = Duration::from_millis(20);

/// How many outcomes may be unwritten before no new request is started.
const UNWRITTEN_MAX: usize = 10_000;

/// How long an outcome may be unwritten before no new request is started.
const UNWRITTEN_FOR_MAX: Duration = Duration::from_secs(1);

/// How long the settler waits before it tries a failed write again.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// An outcome on its way into the store.
pub(crate) struct UnwrittenOutcome {
    pub(crate) queue: QueueKey,
    pub(crate) application: ApplicationId,
    pub(crate) settlement: Box<Settlement>,
    pub(crate) ended_job: Option<EndedJob>,
    pub(crate) landed_at: Timestamp,
}

/// An outcome that is in the store.
pub(crate) struct Written {
    pub(crate) queue: QueueKey,
    pub(crate) application: ApplicationId,
    pub(crate) delivery: DeliveryId,
    /// What the store still holds of it, if it does.
    pub(super) rest: Option<UnreadRange>,
    /// What was held behind it and waits now.
    pub(crate) freed: Option<Box<Freed>>,
    /// Whether its endpoint was disabled with it.
    pub(crate) disabled: bool,
    /// Whether alerts were recorded with it.
    pub(crate) alerts: bool,
}

/// How much is unwritten, for the owner to look at before each request.
#[derive(Default)]
pub(crate) struct Unwritten {
    count: AtomicUsize,
    /// When the oldest of the outcomes being written landed, in microseconds; 0 if none is.
    oldest_at: AtomicI64,
}

impl Unwritten {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether new requests must wait until outcomes are written.
    pub(crate) fn is_stalled(&self, now: Timestamp) -> bool {
        let oldest_at = self.oldest_at.load(Ordering::Relaxed);
        let too_long = oldest_at != 0 && now.since(Timestamp::from_micros(oldest_at)) > UNWRITTEN_FOR_MAX;
        too_long || self.count() > UNWRITTEN_MAX
    }
}

/// Writes what comes in until the channel closes, then returns. Every outcome that it was given is written by then, unless another node holds
/// the lanes.
pub(crate) async fn run(
    line: Arc<Line>,
    unwritten: Arc<Unwritten>,
    mut outcomes: mpsc::UnboundedReceiver<UnwrittenOutcome>,
    written: mpsc::UnboundedSender<Vec<Written>>,
) {
    let mut batch = Vec::with_capacity(SETTLE_BATCH);
    while outcomes.recv_many(&mut batch, SETTLE_BATCH).await > 0 {
        gather(&line, &mut outcomes, &mut batch).await;
        let oldest_at = batch.first().map_or(0, |outcome| outcome.landed_at.as_micros());
        unwritten.oldest_at.store(oldest_at, Ordering::Relaxed);
        let count = batch.len();
        let parks = batch.iter().any(|outcome| matches!(outcome.settlement.stage, Stage::Parked(_)));
        let ended: Vec<EndedJob> = batch.iter().filter_map(|outcome| outcome.ended_job).collect();
        let done = write(&line, std::mem::take(&mut batch)).await;
        if !ended.is_empty() {
            tokio::spawn(callback::announce(line.clone(), ended));
        }
        if parks {
            line.parking_looks.note_change();
        }
        unwritten.oldest_at.store(0, Ordering::Relaxed);
        unwritten.count.fetch_sub(count, Ordering::Relaxed);
        // An owner that is gone has nothing left to release.
        let _ = written.send(done);
    }
}

/// Waits a little for more outcomes, unless there are enough or no more can come.
async fn gather(line: &Line, outcomes: &mut mpsc::UnboundedReceiver<UnwrittenOutcome>, batch: &mut Vec<UnwrittenOutcome>) {
    // Somebody else's delivery is held behind an ordered one: it is written at once.
    if batch.iter().any(|outcome| outcome.settlement.ordered) {
        return;
    }
    let gather_for = if line.held_lease.is_shared() { GATHER_FOR_SHARED } else { GATHER_FOR };
    let mut time_is_up = line.ports.clock.sleep_until(line.ports.clock.now() + gather_for);
    while batch.len() < SETTLE_BATCH {
        let room = SETTLE_BATCH - batch.len();
        tokio::select! {
            // In order, not by chance: a seed must give the same run again.
            biased;
            received = outcomes.recv_many(batch, room) => {
                if received == 0 || batch.iter().rev().take(received).any(|outcome| outcome.settlement.ordered) {
                    return;
                }
            }
            () = &mut time_is_up => return,
        }
    }
}

/// Writes a batch, however long it takes. If something in it is refused for good, each outcome is written alone, so that one costs only itself. If
/// another node holds the lanes, nothing is written: that node makes the requests again.
async fn write(line: &Line, batch: Vec<UnwrittenOutcome>) -> Vec<Written> {
    let (kept, settlements): (Vec<Kept>, Vec<Settlement>) = batch.into_iter().map(UnwrittenOutcome::split).unzip();
    let settlements = Arc::new(settlements);
    let settled = match write_together(line, &settlements).await {
        Ok(settled) => settled,
        Err(StoreError::Conflict) if line.held_lease.is_shared() => {
            tracing::warn!(
                outcomes = settlements.len(),
                "outcomes of requests arrived after this node's lease had expired; another node repeats the requests"
            );
            line.held_lease.fence();
            return Vec::new();
        }
        Err(_) => write_one_by_one(line, &settlements).await,
    };
    kept.into_iter().zip(settlements.iter()).zip(settled).map(|((kept, settlement), settled)| kept.written(settlement, settled)).collect()
}

/// Tries until the store answers.
///
/// # Errors
/// Only if the store says that trying again is no use, or nothing of this boot will be written any more.
async fn write_together(line: &Line, settlements: &Arc<Vec<Settlement>>) -> Result<Vec<Settled>, StoreError> {
    let (clock, mut repeated_failure) = (&line.ports.clock, RepeatedFailure::reported_at_once());
    loop {
        let began_at = clock.uptime();
        match line.ports.deliveries.settle(settlements.clone()).await {
            Ok(settled) => {
                line.metrics.settle_commits.add(clock.uptime().saturating_sub(began_at).as_secs_f64());
                if let Some(lasted_for) = repeated_failure.worked(clock.uptime()) {
                    let delay_ms = millis(lasted_for);
                    tracing::info!(outcomes = settlements.len(), delay_ms, "outcomes are written again after {delay_ms} ms");
                }
                return Ok(settled);
            }
            Err(error @ StoreError::Unavailable(_)) => {
                if line.held_lease.is_fenced() {
                    return Err(StoreError::Conflict);
                }
                if let Some(lasts_for) = repeated_failure.failed(clock.uptime()) {
                    log_failure(&error, settlements.len(), lasts_for);
                }
                clock.sleep_until(clock.now() + RETRY_DELAY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// What is refused alone, too, counts as stale: it leaves memory, and its delivery is looked for again.
async fn write_one_by_one(line: &Line, settlements: &[Settlement]) -> Vec<Settled> {
    let mut settled = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        let alone = Arc::new(vec![settlement.clone()]);
        settled.push(match write_together(line, &alone).await {
            Ok(one) => one.into_iter().next().unwrap_or(Settled::Stale),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, delivery.id = %settlement.delivery, "cannot write the outcome of a request; the request will be repeated");
                Settled::Stale
            }
        });
    }
    settled
}

/// A server that is restarted is back before anybody could act; what lasts, or needs a person, is one's business.
fn log_failure(error: &StoreError, outcomes: usize, lasts_for: Duration) {
    let (words, secs) = (error.in_words(), lasts_for.as_secs());
    if lasts_for >= REPORT_INTERVAL || error.is_refusal() {
        tracing::error!(outcomes, "cannot write outcomes for {secs} s; they are kept in memory, and sending is paused: {words}");
    } else {
        tracing::warn!(outcomes, "cannot write outcomes; they are kept in memory, and sending is paused: {words}");
    }
}

/// What the owner needs to know again once an outcome is written.
struct Kept {
    queue: QueueKey,
    application: ApplicationId,
}

impl UnwrittenOutcome {
    fn split(self) -> (Kept, Settlement) {
        (Kept { queue: self.queue, application: self.application }, *self.settlement)
    }
}

impl Kept {
    /// A stale settlement was written before, by a try whose answer was lost, or its delivery was cancelled meanwhile. The owner then does as if it
    /// were written now, but looks from where it was due before: looking for a delivery that is not there costs a read, not looking for one that is would
    /// strand it.
    fn written(self, settlement: &Settlement, settled: Settled) -> Written {
        let (freed, is_stale) = match settled {
            Settled::Recorded { freed } => (freed, false),
            Settled::Stale => {
                tracing::debug!(delivery.id = %settlement.delivery, "an outcome was already recorded, or arrived too late");
                (None, true)
            }
        };
        let was_due_at = settlement.attempt.scheduled_at;
        Written {
            queue: self.queue,
            application: self.application,
            delivery: settlement.delivery,
            rest: match settlement.stage {
                Stage::Waiting { due_at } if is_stale => Some(UnreadRange { due_from: was_due_at.min(due_at), look_at: due_at }),
                Stage::Waiting { due_at } => Some(UnreadRange::due(due_at)),
                _ => None,
            },
            freed,
            disabled: settlement.disables.is_some(),
            alerts: !settlement.alerts.is_empty(),
        }
    }
}
