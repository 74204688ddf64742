//! The applications that the catalog keeps, and what it knows of how current they are.

use std::{collections::VecDeque, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};

use super::view::{ApplicationView, SharedDefinitions};
use crate::ids::{ApplicationId, OrganizationId};

/// How many applications are kept. Past it those of the organizations that have most are dropped, and read again when they are needed.
pub(super) const APPLICATIONS_MAX: usize = 10_000;

/// How many endpoints and event types these have together: a tenant may create as many as it likes, and an endpoint takes some 4 KB here.
const ENTRIES_MAX: usize = 1_000_000;

/// How many changes are remembered to tell whether one of them concerns what was read meanwhile: a second of many busy organizations.
pub(super) const RECENT_CHANGES_MAX: usize = 1_000;

/// The applications that are known, current or not.
#[derive(Default)]
pub(super) struct Applications {
    known: FxHashMap<ApplicationId, Known>,
    /// What organizations define for all their applications. Those of organizations without a known application are dropped when room is made.
    definitions: FxHashMap<OrganizationId, Arc<SharedDefinitions>>,
    /// How many endpoints and event types there are.
    entries: usize,
    /// How many changes there were.
    changes: u64,
    /// The newest of them. What was read before one that concerns it is not current after it. Others' changes do not matter, or one tenant that changes
    /// something all the time would have everybody's applications read for every event.
    recent: VecDeque<Stale>,
}

struct Known {
    view: Arc<ApplicationView>,
    /// Whether no change is known since it was read. If one is, what changed since is read before it is used again.
    is_current: bool,
}

/// What a change concerns.
#[derive(Clone, Copy)]
pub(super) enum Stale {
    Application(ApplicationId),
    Organization(OrganizationId),
    All,
}

impl Stale {
    fn concerns(self, application: ApplicationId, organization: OrganizationId) -> bool {
        match self {
            Self::Application(changed) => changed == application,
            Self::Organization(changed) => changed == organization,
            Self::All => true,
        }
    }
}

/// The state that a read begins from.
pub(super) struct ReadFrom {
    /// How many changes there were before it.
    pub(super) changes: u64,
    /// The newest view that is known; `None` if all must be read.
    pub(super) base: Option<Arc<ApplicationView>>,
    /// Whether nothing need be read.
    pub(super) is_current: bool,
}

impl Applications {
    /// An application that need not be read.
    pub(super) fn current(&self, id: ApplicationId) -> Option<Arc<ApplicationView>> {
        self.known.get(&id).filter(|known| known.is_current).map(|known| known.view.clone())
    }

    /// What a read of an application begins from.
    pub(super) fn read_from(&self, id: ApplicationId) -> ReadFrom {
        let known = self.known.get(&id);
        ReadFrom {
            changes: self.changes,
            base: known.map(|known| known.view.clone()),
            is_current: known.is_some_and(|known| known.is_current),
        }
    }

    /// The definitions of an organization, if they are known at this version or a later one.
    pub(super) fn definitions(&self, organization: OrganizationId, version: i64) -> Option<Arc<SharedDefinitions>> {
        self.definitions.get(&organization).filter(|known| known.version >= version).cloned()
    }

    /// Keeps what was read since there were so many changes. It is current if none of the later ones concerns it.
    pub(super) fn keep(&mut self, view: &Arc<ApplicationView>, changes_before: u64) {
        let (id, organization) = (view.application.id, view.application.organization);
        let since = usize::try_from(self.changes - changes_before).unwrap_or(usize::MAX);
        let later = self.recent.iter().rev().take(since);
        if since > self.recent.len() || later.clone().any(|stale| matches!(stale, Stale::All)) {
            return;
        }
        let is_current = !later.clone().any(|stale| stale.concerns(id, organization));
        if self.known.len() >= APPLICATIONS_MAX || self.entries + view.entries() > ENTRIES_MAX {
            self.make_room();
        }
        self.entries += view.entries();
        if let Some(before) = self.known.insert(id, Known { view: view.clone(), is_current }) {
            self.entries -= before.view.entries();
        }
        self.keep_definitions(organization, &view.definitions);
    }

    fn keep_definitions(&mut self, organization: OrganizationId, read: &Arc<SharedDefinitions>) {
        if self.definitions.get(&organization).is_some_and(|known| known.version >= read.version) {
            return;
        }
        self.entries += read.entries();
        if let Some(before) = self.definitions.insert(organization, read.clone()) {
            self.entries -= before.entries();
        }
    }

    /// Drops the applications of those organizations that have most in here, until an eighth is free: what a tenant has much of pushes out its own.
    fn make_room(&mut self) {
        let mut held: FxHashMap<OrganizationId, usize> = FxHashMap::default();
        for known in self.known.values() {
            *held.entry(known.view.application.organization).or_default() += 1 + known.view.entries();
        }
        for (organization, definitions) in &self.definitions {
            *held.entry(*organization).or_default() += definitions.entries();
        }
        let mut held: Vec<_> = held.into_iter().map(|(organization, held)| (held, organization)).collect();
        held.sort_unstable();
        let (mut dropped, mut applications, mut entries) = (FxHashSet::default(), self.known.len(), self.entries);
        while (applications > APPLICATIONS_MAX / 8 * 7 || entries > ENTRIES_MAX / 8 * 7)
            && let Some((_, organization)) = held.pop()
        {
            dropped.insert(organization);
            let of_it = self.known.values().filter(|known| known.view.application.organization == organization);
            for known in of_it {
                applications -= 1;
                entries -= known.view.entries();
            }
            entries -= self.definitions.get(&organization).map_or(0, |definitions| definitions.entries());
        }
        self.known.retain(|_, known| !dropped.contains(&known.view.application.organization));
        self.definitions.retain(|organization, _| !dropped.contains(organization));
        self.entries = entries;
    }

    /// How many applications are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// There is no such application any more.
    pub(super) fn remove(&mut self, id: ApplicationId) {
        self.entries -= self.known.remove(&id).map_or(0, |known| known.view.entries());
    }

    /// Notes a change: what it concerns is not current any more.
    pub(super) fn note(&mut self, stale: Stale) {
        self.changes += 1;
        if self.recent.len() >= RECENT_CHANGES_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(stale);
        match stale {
            // By far the most frequent: not by looking through all of them.
            Stale::Application(id) => {
                self.known.entry(id).and_modify(|known| known.is_current = false);
            }
            Stale::Organization(organization) => {
                let of_it = self.known.values_mut().filter(|known| known.view.application.organization == organization);
                of_it.for_each(|known| known.is_current = false);
            }
            Stale::All => {
                // Nobody can say what changed: the store may be another one, whose versions mean something else.
                self.known.clear();
                self.definitions.clear();
                self.entries = 0;
            }
        }
    }
}
