//! The applications that were called, opened: what a call would otherwise read and prepare each time.
//!
//! Organizations share the room: whoever has more than a quarter of it makes room among its own, and past the whole the one that has most does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::OpenApp;
use crate::ids::{ApplicationId, OrganizationId, Ref, Uid};

/// How many bytes of manifests are kept, as they take in memory.
const BYTES_MAX: usize = 64 << 20;

/// How many of them one organization may have. One application may be larger by what a manifest takes beside its schemas.
const BYTES_OF_ORGANIZATION_MAX: usize = BYTES_MAX / 4;

/// How many forgotten applications and organizations are remembered, for those who read them at that moment. Past it whatever is being read is not kept,
/// once.
const FORGOTTEN_MAX: usize = 10_000;

/// What is known.
#[derive(Default)]
pub(super) struct Known(Mutex<State>);

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Changed {
    /// An application.
    Application(ApplicationId),
    /// An organization.
    Organization(OrganizationId),
    /// Perhaps everything.
    Everything,
}

#[derive(Default)]
struct State {
    apps: FxHashMap<ApplicationId, Entry>,
    uids: FxHashMap<(OrganizationId, Uid), ApplicationId>,
    bytes: FxHashMap<OrganizationId, usize>,
    /// Counts reads and changes, in one order.
    moment: u64,
    /// When what was last changed.
    changed: FxHashMap<Changed, u64>,
}

struct Entry {
    app: Arc<OpenApp>,
    used_at: u64,
}

impl Known {
    /// When something is read that may be kept.
    pub(super) fn moment(&self) -> u64 {
        self.state().next_moment()
    }

    pub(super) fn find(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Option<Arc<OpenApp>> {
        let mut state = self.state();
        let id = match of {
            Ref::Id(id) => *id,
            Ref::Uid(uid) => *state.uids.get(&(organization, uid.clone()))?,
        };
        let used_at = state.next_moment();
        let entry = state.apps.get_mut(&id).filter(|entry| entry.app.organization == organization)?;
        entry.used_at = used_at;
        Some(entry.app.clone())
    }

    /// Keeps what was read, unless it was changed since.
    pub(super) fn keep(&self, app: &Arc<OpenApp>, uid: Option<&Uid>, read_at: u64) {
        let mut state = self.state();
        if state.was_changed(app, read_at) {
            return;
        }
        state.remove(app.application);
        let used_at = state.next_moment();
        *state.bytes.entry(app.organization).or_default() += app.bytes;
        state.apps.insert(app.application, Entry { app: app.clone(), used_at });
        if let Some(uid) = uid {
            state.uids.insert((app.organization, uid.clone()), app.application);
        }
        state.make_room(app);
    }

    pub(super) fn forget(&self, changed: Changed) {
        let mut state = self.state();
        if state.changed.len() >= FORGOTTEN_MAX {
            state.changed.clear();
            let at = state.next_moment();
            state.changed.insert(Changed::Everything, at);
        }
        let at = state.next_moment();
        state.changed.insert(changed, at);
        match changed {
            Changed::Application(application) => state.remove(application),
            Changed::Organization(organization) => {
                let of_it = state.apps.values().filter(|entry| entry.app.organization == organization);
                let of_it: Vec<_> = of_it.map(|entry| entry.app.application).collect();
                of_it.into_iter().for_each(|application| state.remove(application));
            }
            Changed::Everything => {
                state.apps.clear();
                state.bytes.clear();
            }
        }
        state.forget_uids();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn was_changed(&self, app: &OpenApp, since: u64) -> bool {
        let changes = [Changed::Application(app.application), Changed::Organization(app.organization), Changed::Everything];
        changes.iter().any(|change| self.changed.get(change).is_some_and(|at| *at > since))
    }

    /// Drops what was not used for the longest time, but not what was just kept.
    fn make_room(&mut self, kept: &OpenApp) {
        let mut has_dropped = false;
        while self.bytes.get(&kept.organization).is_some_and(|bytes| *bytes > BYTES_OF_ORGANIZATION_MAX) {
            if !self.drop_oldest(kept.organization, kept.application) {
                break;
            }
            has_dropped = true;
        }
        while self.bytes.values().sum::<usize>() > BYTES_MAX {
            // What was just kept stays: without it, another organization may have more.
            let droppable =
                |(of, bytes): &(&OrganizationId, &usize)| if **of == kept.organization { **bytes - kept.bytes } else { **bytes };
            let Some((most, _)) = self.bytes.iter().max_by_key(droppable) else { break };
            if !self.drop_oldest(*most, kept.application) {
                break;
            }
            has_dropped = true;
        }
        if has_dropped {
            self.forget_uids();
        }
    }

    /// Drops the application of an organization that was not used for the longest time; says whether there was another than this one.
    fn drop_oldest(&mut self, organization: OrganizationId, but: ApplicationId) -> bool {
        let of_it = self.apps.values().filter(|entry| entry.app.organization == organization && entry.app.application != but);
        let Some(oldest) = of_it.min_by_key(|entry| entry.used_at).map(|entry| entry.app.application) else { return false };
        self.remove(oldest);
        true
    }

    fn remove(&mut self, application: ApplicationId) {
        let Some(Entry { app, .. }) = self.apps.remove(&application) else { return };
        let left = self.bytes.get_mut(&app.organization).map(|bytes| {
            *bytes -= app.bytes;
            *bytes
        });
        if left == Some(0) {
            self.bytes.remove(&app.organization);
        }
    }

    fn forget_uids(&mut self) {
        let Self { apps, uids, .. } = self;
        uids.retain(|_, id| apps.contains_key(id));
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn app(organization: u128, application: u128, bytes: usize) -> Arc<OpenApp> {
        Arc::new(OpenApp {
            application: ApplicationId::from_uuid(Uuid::from_u128(application)),
            organization: OrganizationId::from_uuid(Uuid::from_u128(organization)),
            capabilities: FxHashMap::default(),
            keys: None,
            bytes,
        })
    }

    fn knows(known: &Known, app: &OpenApp) -> bool {
        known.find(app.organization, &Ref::Id(app.application)).is_some()
    }

    #[test]
    fn what_was_changed_while_it_was_read_is_not_kept_and_changes_of_others_do_not_matter() {
        let (known, mine, other) = (Known::default(), app(1, 1, 10), app(2, 2, 10));
        for changed in [Changed::Application(mine.application), Changed::Organization(mine.organization), Changed::Everything] {
            let read_at = known.moment();
            known.forget(changed);
            known.keep(&mine, None, read_at);
            assert!(!knows(&known, &mine), "{changed:?}");
        }
        let read_at = known.moment();
        known.forget(Changed::Application(other.application));
        known.forget(Changed::Organization(other.organization));
        known.keep(&mine, None, read_at);
        assert!(knows(&known, &mine));
        // Also when more is forgotten than is remembered: what is read then is read once more, and no more than that.
        let read_at = known.moment();
        for number in 0..FORGOTTEN_MAX as u128 + 1 {
            known.forget(Changed::Application(ApplicationId::from_uuid(Uuid::from_u128(100 + number))));
        }
        known.keep(&other, None, read_at);
        assert!(!knows(&known, &other) && knows(&known, &mine));
    }

    #[test]
    fn whoever_has_most_makes_room_and_the_longest_unused_goes_first() {
        let (known, small) = (Known::default(), app(1, 1, 1 << 20));
        let keep = |app: &Arc<OpenApp>| known.keep(app, None, known.moment());
        keep(&small);
        let large: Vec<_> = (0..40).map(|number| app(2, 10 + number, 6 << 20)).collect();
        large.iter().for_each(keep);
        let kept = |apps: &[Arc<OpenApp>]| apps.iter().filter(|app| knows(&known, app)).count();
        assert_eq!((kept(&large), knows(&known, &large[39]), knows(&known, &small)), (2, true, true));
        // Many organizations together: the room is used up, and who has little keeps it.
        let others: Vec<_> = (0..20).map(|number| app(100 + number, 100 + number, 6 << 20)).collect();
        others.iter().for_each(keep);
        assert!((8..=10).contains(&kept(&others)) && knows(&known, &small));
    }
}
