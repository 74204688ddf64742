//! Attempts counted by event type, retry schedule and source, until they are added up in the store: once a second, with the tallies of lanes.
//!
//! Counted in the task of each attempt. Statistics are for people: what finds no room or cannot be written for long is lost, and deliveries never wait.

use std::{
    cmp::Reverse,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustc_hash::FxHashMap;

use crate::{
    ids::OrganizationId,
    model::{Attempt, AttemptStatistics, Breakdown, BreakdownTally, minute_of},
    ports::{Statistics, StoreError},
    time::Timestamp,
};

/// Of how many parts and minutes counts are kept until they are written. One takes about 500 bytes. Past it they are lost.
const TALLIES_MAX: usize = 20_000;

/// How many of them one organization may have in a minute: whoever publishes a thousand types of events takes no room from others.
const TALLIES_OF_ORGANIZATION_MAX: usize = 1_000;

/// How many are written in one go, so that no event waits long for its own write.
const WRITTEN_AT_ONCE: usize = 200;

/// Counts that wait to be added up.
#[derive(Default)]
pub struct Breakdowns(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    tallies: FxHashMap<(OrganizationId, Timestamp), FxHashMap<Breakdown, AttemptStatistics>>,
    /// How many there are of all organizations.
    count: usize,
    /// What was not counted because there was no room.
    lost: u64,
}

impl Breakdowns {
    /// Counts an attempt that ended at the instant given in each of these parts of its organization.
    pub fn count(&self, organization: OrganizationId, parts: impl IntoIterator<Item = Breakdown>, attempt: &Attempt, at: Timestamp) {
        let mut counted = self.counted();
        parts.into_iter().for_each(|of| counted.change((organization, minute_of(at)), of, |statistics| statistics.add(attempt, at)));
    }

    /// Adds up what was counted.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be written to: it is added the next time.
    pub async fn write(&self, store: &dyn Statistics) -> Result<(), StoreError> {
        let mut tallies = self.take();
        while !tallies.is_empty() {
            let some = tallies.split_off(tallies.len().saturating_sub(WRITTEN_AT_ONCE));
            if let Err(error) = store.add_breakdowns(some.clone()).await {
                some.iter().chain(&tallies).for_each(|tally| self.put_back(tally));
                return Err(error);
            }
        }
        Ok(())
    }

    /// The newest minutes first, because they are written from the end. In one order, so that the same run writes the same.
    fn take(&self) -> Vec<BreakdownTally> {
        let Counted { tallies, lost, .. } = std::mem::take(&mut *self.counted());
        if lost > 0 {
            tracing::warn!(lost, "lost {lost} counts of attempts by event type, retry schedule and source: there was no room for them");
        }
        let of_minute = |((organization, minute), parts): ((_, _), FxHashMap<_, _>)| {
            parts.into_iter().map(move |(of, statistics)| BreakdownTally { organization, of, minute, statistics })
        };
        let mut tallies: Vec<BreakdownTally> = tallies.into_iter().flat_map(of_minute).collect();
        tallies.sort_by_cached_key(|tally| Reverse((tally.minute, tally.of.lane(tally.organization))));
        tallies
    }

    fn put_back(&self, tally: &BreakdownTally) {
        let add = |kept: &mut AttemptStatistics| kept.merge(&tally.statistics);
        self.counted().change((tally.organization, tally.minute), tally.of.clone(), add);
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn change(&mut self, of_minute: (OrganizationId, Timestamp), of: Breakdown, change: impl FnOnce(&mut AttemptStatistics)) {
        let parts = self.tallies.entry(of_minute).or_default();
        let has_room = self.count < TALLIES_MAX && parts.len() < TALLIES_OF_ORGANIZATION_MAX;
        match parts.get_mut(&of) {
            Some(known) => change(known),
            None if has_room => {
                self.count += 1;
                change(parts.entry(of).or_default());
            }
            None => self.lost += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::model::{AttemptStatus, BreakerState, EventType, PhaseTimes, ScheduleName};

    const NOW: Timestamp = Timestamp::from_secs(90);

    fn organization(n: usize) -> OrganizationId {
        OrganizationId::from_uuid(Uuid::from_u128(n as u128))
    }

    fn event_type(name: &str) -> Breakdown {
        Breakdown::EventType(EventType::parse(name).unwrap())
    }

    fn success() -> Attempt {
        Attempt {
            number: 1,
            status: AttemptStatus::Success,
            failure_category: None,
            error: None,
            response: None,
            duration: Duration::from_millis(5),
            phases: PhaseTimes::default(),
            scheduled_at: NOW,
            picked_at: NOW,
            executed_at: NOW,
            next_retry_at: None,
            revision: None,
            node: "node".to_owned(),
            user_agent: "Everhook/1".into(),
            breaker: BreakerState::Closed,
        }
    }

    #[test]
    fn attempts_are_counted_by_organization_part_and_minute() {
        let breakdowns = Breakdowns::default();
        let schedule = Breakdown::RetrySchedule(ScheduleName("patient".to_owned()));
        breakdowns.count(organization(1), [event_type("order.paid"), schedule.clone()], &success(), NOW);
        breakdowns.count(organization(1), [event_type("order.lost"), schedule.clone()], &success(), NOW);
        breakdowns.count(organization(1), [schedule.clone()], &success(), NOW + Duration::from_secs(30));
        breakdowns.count(organization(2), [schedule.clone()], &success(), NOW);
        let taken = breakdowns.take();
        assert_eq!((taken[0].minute.as_secs(), taken.len()), (120, 5));
        let of_schedule: Vec<_> = taken.iter().filter(|tally| tally.of == schedule && tally.organization == organization(1)).collect();
        let counts: Vec<_> = of_schedule.iter().map(|tally| (tally.minute.as_secs(), tally.statistics.deliveries.total())).collect();
        assert_eq!(counts, [(120, 1), (60, 2)]);
        taken.iter().for_each(|tally| breakdowns.put_back(tally));
        assert_eq!(breakdowns.take(), taken);
        assert_eq!(breakdowns.take(), []);
    }

    #[test]
    fn an_organization_with_many_event_types_takes_no_room_from_others() {
        let breakdowns = Breakdowns::default();
        for n in 0..TALLIES_OF_ORGANIZATION_MAX + 3 {
            breakdowns.count(organization(1), [event_type(&format!("type.{n}"))], &success(), NOW);
        }
        breakdowns.count(organization(1), [event_type("type.0")], &success(), NOW);
        breakdowns.count(organization(2), [event_type("type.0")], &success(), NOW);
        assert_eq!(breakdowns.counted().lost, 3);
        let taken = breakdowns.take();
        assert_eq!(taken.len(), TALLIES_OF_ORGANIZATION_MAX + 1);
        assert_eq!(taken.iter().map(|tally| tally.statistics.total()).sum::<u64>(), TALLIES_OF_ORGANIZATION_MAX as u64 + 2);
    }

    #[test]
    fn what_waits_is_bounded() {
        let breakdowns = Breakdowns::default();
        (0..TALLIES_MAX + 5).for_each(|n| breakdowns.count(organization(n), [event_type("a")], &success(), NOW));
        assert_eq!(breakdowns.counted().lost, 5);
        assert_eq!(breakdowns.take().len(), TALLIES_MAX);
    }
}
