//! The applications that were called, opened: what a call would otherwise read and prepare each time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::OpenApp;
use crate::ids::{ApplicationId, OrganizationId, Ref, Uid};

/// How many bytes of manifests are kept, as they take in memory. Past it all are dropped and those in use are read again.
const BYTES_MAX: usize = 64 << 20;

/// What is known.
#[derive(Default)]
pub(super) struct Known(Mutex<State>);

#[derive(Default)]
struct State {
    apps: FxHashMap<ApplicationId, Arc<OpenApp>>,
    uids: FxHashMap<(OrganizationId, Uid), ApplicationId>,
    bytes: usize,
    /// Counts what was forgotten: what was read before is not kept after.
    moment: u64,
}

impl Known {
    /// When something is read that may be kept.
    pub(super) fn moment(&self) -> u64 {
        self.state().moment
    }

    pub(super) fn find(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Option<Arc<OpenApp>> {
        let state = self.state();
        let id = match of {
            Ref::Id(id) => *id,
            Ref::Uid(uid) => *state.uids.get(&(organization, uid.clone()))?,
        };
        state.apps.get(&id).filter(|app| app.organization == organization).cloned()
    }

    /// Keeps what was read, unless something was forgotten since.
    pub(super) fn keep(&self, app: &Arc<OpenApp>, uid: Option<&Uid>, moment: u64) {
        let mut state = self.state();
        if state.moment != moment {
            return;
        }
        if state.bytes + app.bytes > BYTES_MAX {
            *state = State { moment: state.moment, ..State::default() };
        }
        if let Some(old) = state.apps.insert(app.application, app.clone()) {
            state.bytes -= old.bytes;
        }
        state.bytes += app.bytes;
        if let Some(uid) = uid {
            state.uids.insert((app.organization, uid.clone()), app.application);
        }
    }

    pub(super) fn forget(&self, is_stale: impl Fn(&OpenApp) -> bool) {
        let mut state = self.state();
        state.moment += 1;
        let State { apps, uids, bytes, .. } = &mut *state;
        apps.retain(|_, app| {
            let stays = !is_stale(app);
            if !stays {
                *bytes -= app.bytes;
            }
            stays
        });
        uids.retain(|_, id| apps.contains_key(id));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
