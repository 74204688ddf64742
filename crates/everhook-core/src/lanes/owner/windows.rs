//! What closed breakers have counted, handed on from one owner of a lane to the next, where somebody keeps it. No delivery waits for it.

use std::time::Duration;

use crate::{lanes::owner::Owner, time::Timestamp};

/// How often what changed is handed over to be kept.
const KEEP_EVERY: Duration = Duration::from_secs(1);

impl Owner<'_> {
    /// When what was counted is to be handed over, if something was.
    pub(super) fn keeping_windows_at(&self) -> Option<Timestamp> {
        self.board.breakers.has_counted().then_some(self.keep_windows_at)
    }

    /// Hands over what changed, if it is time.
    pub(super) fn keep_windows(&mut self, now: Timestamp) {
        if self.keeping_windows_at().is_some_and(|at| at <= now) {
            self.hand_windows_over(now);
        }
    }

    /// Hands over what changed: the next owner of a lane may ask for it at any moment.
    pub(super) fn hand_windows_over(&mut self, now: Timestamp) {
        self.keep_windows_at = now + KEEP_EVERY;
        let windows = self.board.take_windows(now);
        if !windows.is_empty() {
            self.line.ports.breaker_windows.keep(windows);
        }
    }
}
