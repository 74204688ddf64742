//! What happens at sources, counted in memory and added up in the store once a second, as the owner of the lanes does for endpoints (decision 0016).
//!
//! The door counts requests, attempts count what became of events. One look-up each, and no memory but for the first of a source, a minute and a type.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustc_hash::FxHashMap;

use crate::{
    ids::SourceId,
    model::{SourceStatistics, SourceTally, Stage, minute_of},
    ports::{Statistics, StoreError},
    time::Timestamp,
};

/// Of how many sources and minutes counts are kept until they are written. One takes about a kilobyte. Past it they are lost.
const TALLIES_MAX: usize = 10_000;

/// How many are written in one go, so that no event waits long for its own write.
const WRITTEN_AT_ONCE: usize = 200;

/// What an attempt meant for an event of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedOutcome {
    /// It was handled; so long after its receipt, unless it was brought back.
    Completed(Option<Duration>),
    /// It failed and is tried again.
    Failed,
    /// It failed for the last time.
    Dead,
}

impl ReceivedOutcome {
    /// What the stage after an attempt means. One that waits for something outside, or was cancelled, has neither succeeded nor failed.
    pub fn of(stage: &Stage, latency: Option<Duration>) -> Option<Self> {
        match stage {
            Stage::Delivered { .. } => Some(Self::Completed(latency)),
            Stage::Waiting { .. } => Some(Self::Failed),
            Stage::Dead { .. } => Some(Self::Dead),
            Stage::Held | Stage::Parked(_) | Stage::Cancelled { .. } => None,
        }
    }
}

/// Counts that wait to be added up.
#[derive(Default)]
pub struct SourceTallies(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    tallies: FxHashMap<(SourceId, Timestamp), SourceStatistics>,
    /// What was not counted because there was no room.
    lost: u64,
}

impl SourceTallies {
    /// Counts a request that was accepted, with the types of its events.
    pub fn accepted<'t>(&self, source: SourceId, event_types: impl Iterator<Item = &'t str>, now: Timestamp) {
        self.count(source, now, |statistics| {
            statistics.accepted += 1;
            event_types.for_each(|event_type| statistics.events_mut(event_type).received += 1);
        });
    }

    /// Counts a request that was rejected.
    pub fn rejected(&self, source: SourceId, reason: &str, now: Timestamp) {
        self.count(source, now, |statistics| statistics.reject(reason, 1));
    }

    /// Counts a handshake that was answered.
    pub fn handshake_answered(&self, source: SourceId, now: Timestamp) {
        self.count(source, now, |statistics| statistics.handshakes += 1);
    }

    /// Counts an attempt at an event.
    pub fn attempted(&self, source: SourceId, event_type: &str, outcome: ReceivedOutcome, now: Timestamp) {
        self.count(source, now, |statistics| {
            let events = statistics.events_mut(event_type);
            match outcome {
                ReceivedOutcome::Completed(latency) => {
                    events.completed += 1;
                    latency.into_iter().for_each(|latency| statistics.took(latency));
                }
                ReceivedOutcome::Failed => events.failed += 1,
                ReceivedOutcome::Dead => {
                    events.failed += 1;
                    events.dead += 1;
                }
            }
        });
    }

    /// Adds up what was counted.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be written to: it is added the next time.
    pub async fn write(&self, store: &dyn Statistics) -> Result<(), StoreError> {
        let mut tallies = self.take();
        while !tallies.is_empty() {
            let some = tallies.split_off(tallies.len().saturating_sub(WRITTEN_AT_ONCE));
            if let Err(error) = store.add_source_tallies(some.clone()).await {
                some.into_iter().chain(tallies).for_each(|tally| self.put_back(&tally));
                return Err(error);
            }
        }
        Ok(())
    }

    /// In the order of sources and minutes: nodes that write at the same moment then wait for each other in one order.
    fn take(&self) -> Vec<SourceTally> {
        let Counted { tallies, lost } = std::mem::take(&mut *self.counted());
        if lost > 0 {
            tracing::warn!(lost, "lost {lost} counts of what happened at sources because they could not be written for too long");
        }
        let tally = |((source, minute), statistics)| SourceTally { source, minute, statistics };
        let mut tallies: Vec<SourceTally> = tallies.into_iter().map(tally).collect();
        tallies.sort_by_key(|tally| (tally.source, tally.minute));
        tallies
    }

    fn put_back(&self, tally: &SourceTally) {
        self.count(tally.source, tally.minute, |statistics| statistics.merge(&tally.statistics));
    }

    fn count(&self, source: SourceId, now: Timestamp, change: impl FnOnce(&mut SourceStatistics)) {
        let (mut counted, key) = (self.counted(), (source, minute_of(now)));
        if counted.tallies.len() < TALLIES_MAX || counted.tallies.contains_key(&key) {
            change(counted.tallies.entry(key).or_default());
        } else {
            counted.lost += 1;
        }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::{CancelCause, DeathCause, Parking, WaitsFor};

    const NOW: Timestamp = Timestamp::from_secs(90);

    fn source(n: usize) -> SourceId {
        SourceId::from_uuid(Uuid::from_u128(n as u128))
    }

    #[test]
    fn what_happens_is_counted_by_source_and_minute() {
        let tallies = SourceTallies::default();
        tallies.accepted(source(1), ["sleeps", "dailies", "sleeps"].into_iter(), NOW);
        tallies.accepted(source(1), std::iter::empty(), NOW + Duration::from_secs(29));
        tallies.rejected(source(1), "bad_signature", NOW + Duration::from_secs(30));
        tallies.handshake_answered(source(2), NOW);
        tallies.attempted(source(2), "sleeps", ReceivedOutcome::Completed(Some(Duration::from_secs(3))), NOW);
        tallies.attempted(source(2), "sleeps", ReceivedOutcome::Completed(None), NOW);
        tallies.attempted(source(2), "sleeps", ReceivedOutcome::Failed, NOW);
        tallies.attempted(source(2), "sleeps", ReceivedOutcome::Dead, NOW);
        let taken = tallies.take();
        let found: Vec<_> = taken.iter().map(|tally| (tally.source, tally.minute.as_secs(), tally.statistics.accepted)).collect();
        assert_eq!(found, [(source(1), 60, 2), (source(1), 120, 0), (source(2), 60, 0)]);
        assert_eq!(taken[0].statistics.events["sleeps"].received, 2);
        assert_eq!(taken[1].statistics.rejected["bad_signature"], 1);
        let sleeps = taken[2].statistics.events["sleeps"];
        assert_eq!((sleeps.completed, sleeps.failed, sleeps.dead, taken[2].statistics.handshakes), (2, 2, 1, 1));
        // The replay did not count for the latency.
        assert_eq!(taken[2].statistics.mean_latency(), Some(Duration::from_secs(3)));
        taken.iter().for_each(|tally| tallies.put_back(tally));
        assert_eq!(tallies.take(), taken);
    }

    #[test]
    fn what_waits_is_bounded_and_sources_that_are_known_are_still_counted() {
        let tallies = SourceTallies::default();
        (0..TALLIES_MAX + 3).for_each(|n| tallies.handshake_answered(source(n), NOW));
        tallies.handshake_answered(source(0), NOW);
        assert_eq!(tallies.counted().lost, 3);
        let taken = tallies.take();
        assert_eq!((taken.len(), taken[0].statistics.handshakes), (TALLIES_MAX, 2));
    }

    #[test]
    fn only_what_succeeded_or_failed_is_an_outcome() {
        let latency = Some(Duration::from_secs(1));
        let parking = Parking { waits_for: WaitsFor::parse("connection").unwrap(), expiry: None };
        let table = [
            (Stage::Delivered { at: NOW }, Some(ReceivedOutcome::Completed(latency))),
            (Stage::Waiting { due_at: NOW }, Some(ReceivedOutcome::Failed)),
            (Stage::Dead { at: NOW, cause: DeathCause::Gone }, Some(ReceivedOutcome::Dead)),
            (Stage::Parked(parking), None),
            (Stage::Cancelled { at: NOW, cause: CancelCause::ByPerson }, None),
        ];
        for (stage, outcome) in table {
            assert_eq!(ReceivedOutcome::of(&stage, latency), outcome, "{stage:?}");
        }
    }
}
