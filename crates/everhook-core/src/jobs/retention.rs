//! Removes what is past its time: one task beside the owner, which takes small steps and rests much longer than each took.
//!
//! Started by the supervisor; where nodes share a store, it works while the duty is this node's. It remembers nothing that matters: a pass begins
//! anew after a failure or a crash, and finds what is left.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;

use super::archiving::{self, ArchivingError};
use crate::{
    line::Line,
    model::Duty,
    policy::retention::horizons,
    ports::{Archive, ArchiveError, Place, Purge, Purged, RetentionClass},
    time::Timestamp,
};

/// How long after a start the first pass begins: a start has better things to do.
const FIRST_AFTER: Duration = Duration::from_secs(60);

/// About how many rows a step may touch: some milliseconds of a writer's time.
const ROWS_A_STEP: u32 = 500;

/// How much longer than a step took the task rests after it, so that at most a ninth of the store's time goes into it.
const REST_FACTOR: u32 = 8;

/// How long before a pass that failed is begun again, at the most.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// Removes what is old, for ever. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    let interval = line.retention.interval;
    let clock = line.ports.clock.clone();
    clock.sleep_until(clock.now() + FIRST_AFTER.min(interval)).await;
    let mut task = Task { line, attempts_until: Place::default() };
    loop {
        let begun_at = clock.now();
        let delay = match AssertUnwindSafe(task.pass(begun_at)).catch_unwind().await {
            Ok(Ok(())) => interval,
            Ok(Err(ArchivingError::Archive(error))) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "cannot write to the archive: dead letters, events and attempts that have expired are not removed until it can be written to. Free space in {}, or unset `archive`",
                    error.place
                );
                RETRY_DELAY.min(interval)
            }
            Ok(Err(ArchivingError::Store(error))) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot remove expired data now; it is tried again");
                RETRY_DELAY.min(interval)
            }
            Err(_) => {
                tracing::error!("panic while removing expired data; it is tried again");
                RETRY_DELAY.min(interval)
            }
        };
        clock.sleep_until(clock.now() + delay).await;
    }
}

struct Task {
    line: Arc<Line>,
    /// Where the next pass over attempts that go before their events begins: where the last one ended. What was passed over goes with its event, and
    /// is not looked at twice; a store that has put something off says so in the place.
    attempts_until: Place,
}

impl Task {
    /// Goes through everything that may be past its time. While nothing can be archived, what is archived stays, with what belongs to it, and all else goes.
    async fn pass(&mut self, now: Timestamp) -> Result<(), ArchivingError> {
        let mut failed: Option<ArchiveError> = None;
        for (what, before) in horizons(&self.line.retention, self.line.idempotency_window, now) {
            if failed.is_some() && (is_archived(what) || what == RetentionClass::Attempts) {
                continue;
            }
            match self.pass_over(what, before).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(ArchivingError::Archive(error)) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Goes through one kind of things. Says `false` if the duty is another node's.
    async fn pass_over(&mut self, what: RetentionClass, before: Timestamp) -> Result<bool, ArchivingError> {
        let mut from = if what == RetentionClass::Attempts { self.attempts_until } else { Place::default() };
        let mut removed: u64 = 0;
        loop {
            if !self.line.held_lease.does(Duty::Retention) {
                return Ok(false);
            }
            let purged = self.step(Purge { what, before, from, limit: ROWS_A_STEP }).await?;
            removed += u64::from(purged.removed);
            match purged.next {
                Some(next) => from = next,
                None => break,
            }
            if what == RetentionClass::Attempts {
                self.attempts_until = from;
            }
        }
        if removed > 0 {
            tracing::info!(?what, removed, "removed {removed} expired rows of {what:?}");
        }
        Ok(true)
    }

    /// One step, and the rest after it.
    async fn step(&self, purge: Purge) -> Result<Purged, ArchivingError> {
        let clock = &self.line.ports.clock;
        let begun_at = clock.now();
        let purged = match &self.line.ports.archive {
            Some(archive) if is_archived(purge.what) => self.archive_and_purge(&**archive, purge).await?,
            _ => self.line.ports.retention.purge(purge).await?,
        };
        let took = clock.now().since(begun_at);
        clock.sleep_until(clock.now() + took * REST_FACTOR).await;
        // A clock that stands still in a test still lets the others have their turn.
        tokio::task::yield_now().await;
        Ok(purged)
    }

    /// What goes is on the archive's disk before. A crash in between leaves it in both places, and it is archived once more.
    async fn archive_and_purge(&self, archive: &dyn Archive, purge: Purge) -> Result<Purged, ArchivingError> {
        let retention = &self.line.ports.retention;
        let expiring = retention.expiring(purge).await?;
        archiving::archive(&self.line, archive, &expiring).await?;
        Ok(retention.purge_archived(purge, expiring).await?)
    }
}

/// Whether some of what goes is archived.
fn is_archived(what: RetentionClass) -> bool {
    matches!(what, RetentionClass::DeadLetters | RetentionClass::Events)
}
