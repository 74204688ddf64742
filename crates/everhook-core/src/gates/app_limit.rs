//! How many requests an app is sent at once by all of its capabilities together: what one of them finds out about its queue holds for the others.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use crate::{
    ids::ApplicationId,
    policy::calls::{concurrency::ConcurrencyLimit, pace::Reading},
};

/// How many places a capability that has some leaves to others of the same app that have none: one that hangs must not stop them until its breaker opens.
const LEFT_TO_OTHERS: u32 = 2;
/// But never more than one in so many.
const LEFT_OF: u32 = 4;

/// Names an app: an application, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AppKey {
    /// The application.
    pub application: ApplicationId,
    /// A hash of its base URL: another app has another limit.
    pub base_url: u64,
}

/// The limit of an app.
pub(super) struct AppLimit {
    limit: Mutex<ConcurrencyLimit>,
    /// How many capabilities share it.
    members: AtomicU32,
}

/// A capability's part in the limit of its app.
pub(super) struct Membership(Arc<AppLimit>);

impl AppLimit {
    pub(super) fn new(max: u32) -> Arc<Self> {
        Arc::new(Self { limit: Mutex::new(ConcurrencyLimit::new(max)), members: AtomicU32::new(0) })
    }

    pub(super) fn change_max(&self, max: u32) {
        self.lock().change_max(max);
    }

    pub(super) fn limit(&self) -> u32 {
        self.lock().limit()
    }

    /// A request begins, unless as many are under way as may be. `own` is how many the capability has under way already.
    pub(super) fn begin(&self, own: u32) -> bool {
        let mut limit = self.lock();
        let shares = own > 0 && self.members.load(Ordering::Relaxed) > 1;
        let left = if shares { LEFT_TO_OTHERS.min(limit.limit() / LEFT_OF) } else { 0 };
        let may = limit.may_begin(Some(limit.limit() - left));
        if may {
            limit.begin();
        }
        may
    }

    pub(super) fn ended(&self) {
        self.lock().ended();
    }

    pub(super) fn answered(&self, reading: Reading) {
        self.lock().answered(reading);
    }

    fn lock(&self) -> MutexGuard<'_, ConcurrencyLimit> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    pub(super) fn of(app: Arc<AppLimit>) -> Self {
        app.members.fetch_add(1, Ordering::Relaxed);
        Self(app)
    }

    pub(super) fn app(&self) -> &Arc<AppLimit> {
        &self.0
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.members.fetch_sub(1, Ordering::Relaxed);
    }
}
