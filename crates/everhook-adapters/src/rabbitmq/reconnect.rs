//! When a lost broker is tried again, and when somebody is told. The source and the hints keep to it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// How long to wait before connecting again: doubled after each failure.
pub(super) const RECONNECT_MIN: Duration = Duration::from_secs(1);
pub(super) const RECONNECT_MAX: Duration = Duration::from_secs(300);

/// How long connecting may take, with all that is said before the link is of use.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// After how many failures in a row somebody is told.
pub(super) const FAILURES_TOLD: u32 = 3;

/// How many attempts to connect failed in a row, for whoever watches the server.
#[derive(Clone, Debug, Default)]
pub struct FailedReconnects(Arc<AtomicU32>);

impl FailedReconnects {
    /// How many, since it was last connected.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn failed(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connected(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// `first`, doubled `times` times, at most `longest`.
pub(super) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_doubles_up_to_its_longest() {
        let waits: Vec<_> = [0, 1, 2, 8, 9, 31, 32, 99].map(|times| doubled(RECONNECT_MIN, times, RECONNECT_MAX).as_secs()).into();
        assert_eq!(waits, [1, 2, 4, 256, 300, 300, 300, 300]);
    }
}
