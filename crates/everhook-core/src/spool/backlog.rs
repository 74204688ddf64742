//! What waits in the spool, as those see it who come behind it: whom it holds up, and which applications are stalled.
//!
//! Order is promised within an application. So an application whose events the store does not take, while it takes those of others, waits by
//! itself and holds up nobody else: it is *stalled*. `forward` finds that out and keeps the list; `publish` and `publishers` ask before they ask
//! the store, and so does the intake of a queue. The list is not kept on disk: after a start it is found out again.

use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxHashSet;

use crate::{
    ids::ApplicationId,
    ports::{Ports, Spool},
};

/// How many applications may be stalled at once. Each is tried by itself, and each publish looks through them; where more are, it is no longer
/// a matter of single applications.
pub(crate) const STALLED_MAX: usize = 1_000;

/// What waits, and who of it is stalled.
pub struct SpoolBacklog {
    spool: Option<Arc<dyn Spool>>,
    stalled: RwLock<FxHashSet<ApplicationId>>,
}

impl SpoolBacklog {
    /// Over these ports. Nobody is stalled.
    pub(crate) fn new(ports: &Ports) -> Self {
        Self { spool: ports.spool.clone(), stalled: RwLock::default() }
    }

    /// Whether everybody's events must queue: some wait of an application that is not stalled.
    pub fn holds_up_all(&self) -> bool {
        self.holds_up_who(None)
    }

    /// Whether this application's events must queue: everybody's must, or some of its own wait.
    pub fn holds_up(&self, application: ApplicationId) -> bool {
        self.holds_up_who(Some(application))
    }

    /// How many applications are stalled.
    pub fn stalled_count(&self) -> usize {
        self.stalled.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether an application is stalled.
    pub(crate) fn is_stalled(&self, application: ApplicationId) -> bool {
        self.stalled.read().unwrap_or_else(PoisonError::into_inner).contains(&application)
    }

    /// Notes that an application is stalled; says whether there was a place for it.
    pub(crate) fn stall(&self, application: ApplicationId) -> bool {
        let mut stalled = self.stalled.write().unwrap_or_else(PoisonError::into_inner);
        stalled.len() < STALLED_MAX && stalled.insert(application)
    }

    /// Ends the stall of an application of which nothing waits any more, which changes nothing for those who publish to it; says whether it did.
    pub(crate) fn end_stall(&self, application: ApplicationId) -> bool {
        let mut stalled = self.stalled.write().unwrap_or_else(PoisonError::into_inner);
        let is_empty = !self.spool.as_ref().is_some_and(|spool| spool.any_waits(&|waiting| waiting == application));
        is_empty && stalled.remove(&application)
    }

    fn holds_up_who(&self, application: Option<ApplicationId>) -> bool {
        let Some(spool) = self.spool.as_ref().filter(|spool| spool.status().events > 0) else { return false };
        let stalled = self.stalled.read().unwrap_or_else(PoisonError::into_inner);
        spool.any_waits(&|waiting| Some(waiting) == application || !stalled.contains(&waiting))
    }
}
