//! Carries backfills out: asks the provider for one piece after the other, within its limits.
//!
//! A task of its own beside that of the other operations: it waits for the provider, and nobody else's operation should. Started by the supervisor, woken by
//! the line's bell; where nodes share a store, the node that has the duty of operations does it. Each step begins with what the store says and ends in one
//! write: a node that dies between the two costs one request, which another node repeats, and the provider answers that it was asked before.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use rustc_hash::FxHashMap;

use crate::{
    ids::{OperationId, OrganizationId},
    line::{Line, alert},
    model::{Duty, OperationStatus, health::ChunkOutcome},
    ports::{Ending, KeptBackfill, StoreError},
    processors::ChunkAsked,
    time::Timestamp,
};

/// How long to wait before trying again what the store refused, or what panicked; and at least, before the provider is asked again that refused.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How often is looked for something to do where nodes share a store.
const SHARED_INTERVAL: Duration = Duration::from_secs(1);
/// How many backfills take turns, organization by organization. The provider's limit lets some hundred pieces an hour through: others wait in the store.
const OPEN_MAX: u32 = 1_000;
/// How often a piece is asked for that the provider does not answer while it answers others: over about an hour.
const TRIES_MAX: u32 = 8;
/// How long a piece is asked for while the provider answers nothing at all. The pieces behind it would meet the same outage.
const OUTAGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long after the first time a piece is asked for the second time. It doubles.
const FIRST_WAIT: Duration = Duration::from_secs(30);
const WAIT_MAX: Duration = Duration::from_secs(20 * 60);

/// Carries backfills out for ever. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    let mut task = Task::new(line.clone());
    loop {
        let next = match AssertUnwindSafe(task.round()).catch_unwind().await {
            Ok(Ok(next)) => next,
            Ok(Err(error)) => {
                line.log_delay("continuing backfills", &error);
                Some(line.ports.clock.now() + RETRY_DELAY)
            }
            Err(_) => {
                tracing::error!("panic in a step of a backfill; it is tried again");
                Some(line.ports.clock.now() + RETRY_DELAY)
            }
        };
        // Other nodes ring only their own bells, and duties change hands.
        let poll_at = line.held_lease.is_shared().then(|| line.ports.clock.now() + SHARED_INTERVAL);
        match next.into_iter().chain(poll_at).min() {
            None => line.backfills_bell.notified().await,
            Some(at) if at <= line.ports.clock.now() => tokio::task::yield_now().await,
            Some(at) => tokio::select! {
                () = line.backfills_bell.notified() => {}
                () = line.ports.clock.sleep_until(at) => {}
            },
        }
    }
}

/// How often the next piece of a backfill was asked for in vain.
#[derive(Clone, Copy)]
struct Trying {
    piece: usize,
    tries: u32,
    /// When it was asked for the first time.
    since: Timestamp,
    not_before: Timestamp,
}

struct Task {
    line: Arc<Line>,
    /// Whose backfill was carried on last: organizations take turns.
    last: Option<OrganizationId>,
    /// Forgotten with the process: then a piece has all its tries again.
    trying: FxHashMap<OperationId, Trying>,
    /// Until when the provider's limit is used up.
    not_before: Timestamp,
    /// When the provider last answered.
    answered_at: Timestamp,
    /// Whether an end may have been recorded that was not told yet.
    has_untold: bool,
}

impl Task {
    fn new(line: Arc<Line>) -> Self {
        let (trying, never) = (FxHashMap::default(), Timestamp::EPOCH);
        Self { line, last: None, trying, not_before: never, answered_at: never, has_untold: false }
    }

    /// One step of one backfill. Says when there is something to do again; `None` if not before the bell.
    async fn round(&mut self) -> Result<Option<Timestamp>, StoreError> {
        if self.has_untold {
            alert::publish_pending(&self.line).await?;
            self.has_untold = false;
        }
        if !self.line.held_lease.does(Duty::Operations) {
            self.trying.clear();
            return Ok(None);
        }
        let open = self.line.ports.backfills.open_backfills(OPEN_MAX).await?;
        self.trying.retain(|id, _| open.iter().any(|kept| kept.operation.id == *id));
        let now = self.line.ports.clock.now();
        let due = |kept: &KeptBackfill| self.due_at(kept);
        if let Some(kept) = next_in_turn(&open, self.last, |kept| due(kept) <= now) {
            self.last = Some(kept.operation.organization);
            self.step(kept).await?;
            return Ok(Some(self.line.ports.clock.now()));
        }
        Ok(open.iter().map(due).min())
    }

    /// When a backfill can be carried on.
    fn due_at(&self, kept: &KeptBackfill) -> Timestamp {
        if kept.operation.remaining() == 0 {
            return Timestamp::EPOCH;
        }
        let tried = self.trying.get(&kept.operation.id).map(|trying| trying.not_before);
        [Some(self.not_before), kept.operation.start_at, tried].into_iter().flatten().max().unwrap_or(Timestamp::EPOCH)
    }

    async fn step(&mut self, kept: &KeptBackfill) -> Result<(), StoreError> {
        let (operation, now) = (&kept.operation, self.line.ports.clock.now());
        if operation.status == OperationStatus::Pending && !self.line.ports.operations.start(operation.id, now).await? {
            return Ok(());
        }
        let piece = kept.outcomes.len();
        let Some(chunk) = kept.backfill.chunks().get(piece).copied() else { return self.end(kept).await };
        match self.line.processors.ask_backfill(operation.organization, kept.backfill.connection, chunk).await? {
            ChunkAsked::Settled(outcome) => {
                if outcome.is_an_answer() {
                    self.answered_at = self.line.ports.clock.now();
                }
                self.settle(kept, outcome).await
            }
            ChunkAsked::NotBefore(until) => {
                self.not_before = until.max(self.line.ports.clock.now() + RETRY_DELAY);
                Ok(())
            }
            ChunkAsked::Failed(error) => self.try_later(kept, &error).await,
        }
    }

    async fn settle(&mut self, kept: &KeptBackfill, outcome: ChunkOutcome) -> Result<(), StoreError> {
        let count = if outcome.holds_for_the_rest() { usize::try_from(kept.operation.remaining()).unwrap_or(1) } else { 1 };
        self.trying.remove(&kept.operation.id);
        // If it was not added, the operation was stopped, or another node carries it on: the next look tells.
        self.line.ports.backfills.add_outcomes(kept.operation.id, kept.outcomes.len(), vec![outcome; count]).await?;
        Ok(())
    }

    /// The provider did not answer: the same piece is asked for again, later and later, and then given up.
    async fn try_later(&mut self, kept: &KeptBackfill, error: &str) -> Result<(), StoreError> {
        let (id, piece, now) = (kept.operation.id, kept.outcomes.len(), self.line.ports.clock.now());
        let before = self.trying.get(&id).filter(|trying| trying.piece == piece);
        let (tries, since) = before.map_or((1, now), |before| (before.tries + 1, before.since));
        tracing::debug!(operation.id = %id, piece, tries, error, "the provider did not answer a request of a backfill");
        let trying = Trying { piece, tries, since, not_before: now + wait_after(tries) };
        if trying.is_given_up(self.answered_at, now) {
            return self.settle(kept, ChunkOutcome::Unanswered).await;
        }
        self.trying.insert(id, trying);
        Ok(())
    }

    async fn end(&mut self, kept: &KeptBackfill) -> Result<(), StoreError> {
        let (organization, id, at) = (kept.operation.organization, kept.operation.id, self.line.ports.clock.now());
        let status = OperationStatus::Finished;
        let alert = alert::of_operation(&self.line, &kept.operation, status, at);
        self.has_untold = true;
        self.line.ports.operations.end(Ending { organization, operation: id, status, at, alert, entry: None }).await?;
        Ok(())
    }
}

impl Trying {
    /// Whether the piece is given up, after a provider that last answered then.
    fn is_given_up(&self, answered_at: Timestamp, now: Timestamp) -> bool {
        let answers_others = answered_at >= self.since;
        (self.tries >= TRIES_MAX && answers_others) || now.since(self.since) >= OUTAGE_MAX
    }
}

fn wait_after(tries: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(WAIT_MAX)
}

/// The backfill to carry on: organizations take turns, and each has its oldest one carried on that can be.
fn next_in_turn(open: &[KeptBackfill], last: Option<OrganizationId>, is_due: impl Fn(&KeptBackfill) -> bool) -> Option<&KeptBackfill> {
    let due = || open.iter().filter(|kept| is_due(kept));
    let behind_last = due().filter(|kept| Some(kept.operation.organization) > last).map(|kept| kept.operation.organization).min();
    let turn = behind_last.or_else(|| due().map(|kept| kept.operation.organization).min())?;
    due().find(|kept| kept.operation.organization == turn)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        ids::HealthConnectionId,
        model::{Operation, OperationKind, Priority, health::Backfill},
    };

    #[test]
    fn eight_tries_take_about_an_hour() {
        let waits: Vec<u64> = (1..TRIES_MAX).map(|tries| wait_after(tries).as_secs()).collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1_200]);
        assert_eq!(wait_after(u32::MAX), WAIT_MAX);
    }

    #[test]
    fn a_piece_is_given_up_after_an_hour_if_others_are_answered_and_after_a_day_if_none_is() {
        let at = |hours: u64| Timestamp::from_secs(1_000_000) + Duration::from_secs(hours * 3_600);
        for (tries, answered_at, now, is_given_up) in [
            (TRIES_MAX - 1, at(2), at(2), false),
            (TRIES_MAX, at(0), at(2), true),
            (TRIES_MAX, Timestamp::EPOCH, at(2), false),
            (TRIES_MAX + 60, Timestamp::EPOCH, at(23), false),
            (TRIES_MAX + 60, Timestamp::EPOCH, at(24), true),
        ] {
            let trying = Trying { piece: 0, tries, since: at(0), not_before: now };
            assert_eq!(trying.is_given_up(answered_at, now), is_given_up, "{tries} {answered_at} {now}");
        }
    }

    #[test]
    fn organizations_take_turns_whoever_has_more_backfills() {
        let open: Vec<KeptBackfill> = [(1, 1), (2, 1), (3, 1), (4, 2), (5, 3)].map(|(id, of)| kept(id, of)).into();
        let (mut last, mut turns) = (None, Vec::new());
        for _ in 0..5 {
            let next = next_in_turn(&open, last, |_| true).unwrap();
            last = Some(next.operation.organization);
            turns.push(next.operation.id.as_uuid().as_u128());
        }
        assert_eq!(turns, [1, 4, 5, 1, 4]);
        // One that waits lets the next of its organization go on.
        let is_due = |kept: &KeptBackfill| kept.operation.id.as_uuid().as_u128() != 1;
        assert_eq!(next_in_turn(&open, None, is_due).map(|kept| kept.operation.id.as_uuid().as_u128()), Some(2));
        assert!(next_in_turn(&open, None, |_| false).is_none());
    }

    fn kept(id: u128, organization: u128) -> KeptBackfill {
        let now = Timestamp::EPOCH;
        let operation = Operation {
            id: OperationId::from_uuid(Uuid::from_u128(id)),
            organization: OrganizationId::from_uuid(Uuid::from_u128(organization)),
            application: None,
            endpoint: None,
            kind: OperationKind::Backfill,
            status: OperationStatus::Running,
            total: 1,
            done: 0,
            failed: 0,
            skipped: 0,
            rate: None,
            priority: Priority::Low,
            start_at: None,
            created_at: now,
            started_at: None,
            finished_at: None,
        };
        let connection = HealthConnectionId::from_uuid(Uuid::nil());
        let backfill = Backfill { connection, types: Vec::new(), from: now, to: now, chunk: Duration::ZERO };
        KeptBackfill { operation, backfill, outcomes: Vec::new() }
    }
}
