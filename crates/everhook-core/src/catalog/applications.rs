//! The applications that the catalog keeps, and what it knows of how current they are.

use std::{collections::VecDeque, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};

use super::view::{ApplicationView, SharedDefinitions};
use crate::ids::{ApplicationId, OrganizationId};

/// How many applications are kept. Past it those of the organizations that have most are dropped, and read again when they are needed.
pub(super) const APPLICATIONS_MAX: usize = 10_000;

/// How many changes are remembered to tell whether one of them concerns what was read meanwhile: a second of many busy organizations.
pub(super) const RECENT_CHANGES_MAX: usize = 1_000;

/// The applications that are known, current or not.
pub(super) struct Applications {
    known: FxHashMap<ApplicationId, Known>,
    /// What organizations define for all their applications. Those of organizations without a known application are dropped when room is made.
    definitions: FxHashMap<OrganizationId, Arc<SharedDefinitions>>,
    /// How many bytes all of these take in memory, about,
    bytes: usize,
    /// how many more are being read,
    being_read: usize,
    /// and what all of it may take. Past it those of the organizations that have most are dropped.
    bytes_max: usize,
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

/// What an organization has in here.
#[derive(Default)]
struct Held {
    applications: usize,
    bytes: usize,
    /// By what it is compared with others: its bytes, those that it needs now included.
    counted: usize,
}

impl Held {
    fn add(&mut self, applications: usize, bytes: usize) {
        self.applications += applications;
        self.bytes += bytes;
        self.counted += bytes;
    }
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
    /// None yet, and room for so many bytes.
    pub(super) fn within(bytes_max: usize) -> Self {
        Self {
            known: FxHashMap::default(),
            definitions: FxHashMap::default(),
            bytes: 0,
            being_read: 0,
            bytes_max,
            changes: 0,
            recent: VecDeque::new(),
        }
    }

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
        self.remove(id);
        if self.known.len() >= APPLICATIONS_MAX || self.bytes + view.bytes() > self.bytes_max {
            self.make_room(organization, view.bytes());
        }
        self.bytes += view.bytes();
        self.known.insert(id, Known { view: view.clone(), is_current });
        self.keep_definitions(organization, &view.definitions);
    }

    /// What an organization is having read has grown from so many bytes to so many.
    pub(super) fn count_growth(&mut self, organization: OrganizationId, before: usize, grown: usize) {
        self.being_read = self.being_read - before + grown;
        if self.bytes + self.being_read > self.bytes_max {
            self.make_room(organization, self.being_read);
        }
    }

    /// So many bytes that were being read are known now, or were dropped.
    pub(super) fn end_growth(&mut self, grown: usize) {
        self.being_read -= grown;
    }

    fn keep_definitions(&mut self, organization: OrganizationId, read: &Arc<SharedDefinitions>) {
        if self.definitions.get(&organization).is_some_and(|known| known.version >= read.version) {
            return;
        }
        self.bytes += read.bytes();
        if let Some(before) = self.definitions.insert(organization, read.clone()) {
            self.bytes -= before.bytes();
        }
    }

    /// Drops the applications of those organizations that have most in here, until an eighth is free beside so many bytes that an organization needs:
    /// what a tenant has much of pushes out its own.
    fn make_room(&mut self, for_whom: OrganizationId, needed: usize) {
        let mut held: FxHashMap<OrganizationId, Held> = FxHashMap::default();
        held.entry(for_whom).or_default().counted = needed;
        for known in self.known.values() {
            held.entry(known.view.application.organization).or_default().add(1, known.view.bytes());
        }
        for (organization, definitions) in &self.definitions {
            held.entry(*organization).or_default().add(0, definitions.bytes());
        }
        let mut held: Vec<_> = held.into_iter().collect();
        held.sort_unstable_by_key(|(organization, held)| (held.counted, *organization));
        let (mut dropped, mut applications, mut bytes) = (FxHashSet::default(), self.known.len(), self.bytes);
        let bytes_wanted = (self.bytes_max / 8 * 7).saturating_sub(needed);
        while (applications > APPLICATIONS_MAX / 8 * 7 || bytes > bytes_wanted)
            && let Some((organization, held)) = held.pop()
        {
            dropped.insert(organization);
            applications -= held.applications;
            bytes -= held.bytes;
        }
        self.known.retain(|_, known| !dropped.contains(&known.view.application.organization));
        self.definitions.retain(|organization, _| !dropped.contains(organization));
        self.bytes = bytes;
    }

    /// How many bytes are kept.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many applications are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// There is no such application any more.
    pub(super) fn remove(&mut self, id: ApplicationId) {
        self.bytes -= self.known.remove(&id).map_or(0, |known| known.view.bytes());
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
                self.bytes = 0;
            }
        }
    }
}
