//! What happened at endpoints since it was last added up in the store. Pure.
//!
//! Counted by the owner for each attempt that landed: one look-up, and no memory taken but for the first attempt of an endpoint.

use std::collections::{VecDeque, hash_map::Entry};

use rustc_hash::FxHashMap;

use crate::{
    ids::LaneId,
    model::{Attempt, Tally, minute_of},
    time::Timestamp,
};

/// How many tallies are added up at once, without waiting for the second to end. One takes about 500 bytes.
const MANY: usize = 20_000;

/// How many tallies are kept while they cannot be added up. Past it, statistics are lost; deliveries never depend on them.
const TALLIES_MAX: usize = 100_000;

/// Counts that wait to be added up.
#[derive(Default)]
pub(super) struct Tallies {
    /// The minute of `current`.
    minute: Option<Timestamp>,
    current: FxHashMap<LaneId, Tally>,
    /// Those of earlier minutes, and those that could not be added up, in the order in which they happened.
    earlier: VecDeque<Tally>,
    /// Attempts that were not counted because there was no room.
    lost: u64,
}

impl Tallies {
    /// Counts an attempt that ended now.
    pub(super) fn add(&mut self, lane_id: LaneId, attempt: &Attempt, now: Timestamp) {
        self.count(lane_id, now, |tally| tally.add(attempt, now));
    }

    /// Counts an attempt of a delivery that was brought back.
    pub(super) fn add_replay(&mut self, lane_id: LaneId, attempt: &Attempt, now: Timestamp) {
        self.count(lane_id, now, |tally| tally.add_replay(attempt, now));
    }

    fn count(&mut self, lane_id: LaneId, now: Timestamp, add: impl FnOnce(&mut Tally)) {
        let minute = minute_of(now);
        if self.minute != Some(minute) {
            self.minute = Some(minute);
            self.earlier.extend(self.current.drain().map(|(_, tally)| tally));
        }
        let has_room = self.len() < TALLIES_MAX;
        match self.current.entry(lane_id) {
            Entry::Occupied(tally) => add(tally.into_mut()),
            Entry::Vacant(place) if has_room => add(place.insert(Tally::new(lane_id, minute))),
            Entry::Vacant(_) => self.lost += 1,
        }
    }

    /// Takes everything, in an order that keeps that of each endpoint.
    pub(super) fn take(&mut self) -> Vec<Tally> {
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            tracing::warn!(attempts = lost, "lost the statistics of {lost} attempts because they could not be written for too long");
        }
        self.minute = None;
        self.earlier.drain(..).chain(self.current.drain().map(|(_, tally)| tally)).collect()
    }

    /// These could not be added up: they come before what was counted since.
    pub(super) fn put_back(&mut self, tallies: &[Tally]) {
        tallies.iter().rev().for_each(|tally| self.earlier.push_front(tally.clone()));
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether so much waits that it should be added up at once.
    pub(super) fn are_many(&self) -> bool {
        self.len() >= MANY
    }

    fn len(&self) -> usize {
        self.earlier.len() + self.current.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::model::{AttemptStatus, BreakerState, PhaseTimes};

    fn lane_id(n: usize) -> LaneId {
        LaneId::from_uuid(Uuid::from_u128(n as u128))
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn success() -> Attempt {
        Attempt {
            number: 1,
            status: AttemptStatus::Success,
            failure_category: None,
            error: None,
            response: None,
            duration: Duration::ZERO,
            phases: PhaseTimes::default(),
            scheduled_at: at(0),
            picked_at: at(0),
            executed_at: at(0),
            next_retry_at: None,
            revision: None,
            node: "node".to_owned(),
            user_agent: "Everhook/1".into(),
            breaker: BreakerState::Closed,
        }
    }

    fn in_words(tallies: &[Tally]) -> Vec<(i64, u64)> {
        tallies.iter().map(|tally| (tally.minute.as_secs(), tally.statistics.total())).collect()
    }

    #[test]
    fn attempts_of_one_endpoint_and_minute_are_one_tally() {
        let mut tallies = Tallies::default();
        for second in [10, 59, 60, 61, 119] {
            tallies.add(lane_id(1), &success(), at(second));
        }
        assert_eq!(in_words(&tallies.take()), [(0, 2), (60, 3)]);
        assert!(tallies.is_empty());
    }

    #[test]
    fn what_could_not_be_added_up_comes_before_what_happened_since() {
        let mut tallies = Tallies::default();
        tallies.add(lane_id(1), &success(), at(0));
        tallies.add(lane_id(1), &success(), at(60));
        let taken = tallies.take();
        tallies.add(lane_id(1), &success(), at(61));
        tallies.put_back(&taken);
        assert_eq!(in_words(&tallies.take()), [(0, 1), (60, 1), (60, 1)]);
    }

    #[test]
    fn what_waits_is_bounded_and_endpoints_that_are_known_are_still_counted() {
        let mut tallies = Tallies::default();
        for n in 0..TALLIES_MAX + 10 {
            tallies.add(lane_id(n), &success(), at(0));
        }
        tallies.add(lane_id(0), &success(), at(0));
        assert!(tallies.are_many());
        assert_eq!(tallies.lost, 10);
        let taken = tallies.take();
        assert_eq!(taken.len(), TALLIES_MAX);
        assert_eq!(taken.iter().map(|tally| tally.statistics.total()).sum::<u64>(), TALLIES_MAX as u64 + 1);
    }
}
