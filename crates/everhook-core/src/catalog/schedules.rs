//! Versions of retry schedules in memory. Pure.
//!
//! Versions never change, so that what was read once holds for ever; but each change of a schedule makes one, and a tenant may make many. Past the
//! bound, those of the organization that has the most are dropped, so that no tenant drops another's.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError, RwLock},
};

use rustc_hash::FxHashMap;

use crate::{
    ids::{OrganizationId, ScheduleVersion},
    model::RetrySchedule,
};

/// How many versions are kept, of 2 KiB at most.
const SCHEDULES_MAX: usize = 10_000;

/// Versions of retry schedules that were read.
pub(super) struct Schedules {
    most: usize,
    kept: RwLock<Kept>,
}

#[derive(Default)]
struct Kept {
    by_version: FxHashMap<ScheduleVersion, Arc<RetrySchedule>>,
    /// Whose delivery or change had each read, the oldest first.
    read_for: FxHashMap<OrganizationId, VecDeque<ScheduleVersion>>,
}

impl Default for Schedules {
    fn default() -> Self {
        Self::up_to(SCHEDULES_MAX)
    }
}

impl Schedules {
    fn up_to(most: usize) -> Self {
        Self { most, kept: RwLock::default() }
    }

    pub(super) fn get(&self, version: ScheduleVersion) -> Option<Arc<RetrySchedule>> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).by_version.get(&version).cloned()
    }

    /// Keeps one that was read for an organization.
    pub(super) fn keep(&self, organization: OrganizationId, version: ScheduleVersion, schedule: Arc<RetrySchedule>) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.by_version.contains_key(&version) {
            return;
        }
        if kept.by_version.len() >= self.most {
            kept.drop_oldest_of_largest();
        }
        kept.by_version.insert(version, schedule);
        kept.read_for.entry(organization).or_default().push_back(version);
    }
}

impl Kept {
    /// Drops the oldest version of the organization that has the most.
    fn drop_oldest_of_largest(&mut self) {
        let largest = self.read_for.iter().max_by_key(|(organization, versions)| (versions.len(), *organization));
        let Some(organization) = largest.map(|(organization, _)| *organization) else { return };
        let Some(versions) = self.read_for.get_mut(&organization) else { return };
        if let Some(version) = versions.pop_front() {
            self.by_version.remove(&version);
        }
        if versions.is_empty() {
            self.read_for.remove(&organization);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::policy::presets;

    #[test]
    fn who_has_the_most_loses_the_oldest_and_nobody_else_loses_any() {
        let (schedules, schedule) = (Schedules::up_to(100), Arc::new(presets::standard()));
        let organization = |number| OrganizationId::from_uuid(Uuid::from_u128(number));
        let (attacker, neighbor) = (organization(1), organization(2));
        for version in 0..10 {
            schedules.keep(neighbor, ScheduleVersion(version), schedule.clone());
        }
        for version in 1_000..2_000 {
            schedules.keep(attacker, ScheduleVersion(version), schedule.clone());
        }
        assert!((0..10).all(|version| schedules.get(ScheduleVersion(version)).is_some()), "the neighbor's are there");
        let left: Vec<_> = (1_000..2_000).filter(|version| schedules.get(ScheduleVersion(*version)).is_some()).collect();
        assert_eq!(left, (1_910..2_000).collect::<Vec<_>>(), "the attacker's newest are there");
        assert_eq!(schedules.kept.read().unwrap().by_version.len(), 100);
    }
}
