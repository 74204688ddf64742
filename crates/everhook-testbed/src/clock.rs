//! Simulated time. It stands still until the world moves it, and then wakes the sleepers one instant after another.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use everhook_core::{ports::Clock, time::Timestamp};
use tokio::sync::oneshot;

/// A clock that only the test moves.
pub struct SimClock(Mutex<State>);

struct State {
    now: Timestamp,
    /// Ordered by instant, then by who slept first, so that a run can be repeated.
    sleepers: BTreeMap<(Timestamp, u64), oneshot::Sender<()>>,
    slept: u64,
}

impl SimClock {
    /// A clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(Mutex::new(State { now, sleepers: BTreeMap::new(), slept: 0 }))
    }

    /// The instant for which the next sleeper waits. Sleepers that gave up are forgotten.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let mut state = self.state();
        state.sleepers.retain(|_, sleeper| !sleeper.is_closed());
        state.sleepers.keys().next().map(|(at, _)| *at)
    }

    /// Moves on to `at`, and wakes everyone who waited for it or for an earlier instant.
    pub fn move_to(&self, at: Timestamp) {
        let mut state = self.state();
        state.now = state.now.max(at);
        while let Some(entry) = state.sleepers.first_entry() {
            if entry.key().0 > at {
                break;
            }
            // A sleeper that gave up does not mind.
            let _ = entry.remove().send(());
        }
    }

    /// Sets the time back. Only while no process runs: within one, time never goes backwards.
    pub fn set_back(&self, by: Duration) {
        let mut state = self.state();
        state.sleepers.retain(|_, sleeper| !sleeper.is_closed());
        assert!(state.sleepers.is_empty(), "somebody sleeps while the clock is set back");
        state.now = state.now - by;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.state().now
    }

    fn uptime(&self) -> Duration {
        self.state().now.since(Timestamp::EPOCH)
    }

    async fn sleep_until(&self, at: Timestamp) {
        let woken = {
            let mut state = self.state();
            if at <= state.now {
                return;
            }
            let (sleeper, woken) = oneshot::channel();
            state.slept += 1;
            let key = (at, state.slept);
            state.sleepers.insert(key, sleeper);
            woken
        };
        // An error means that the clock is gone, and with it everybody who could wait.
        let _ = woken.await;
    }
}
