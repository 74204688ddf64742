//! How far a read has come, as its caller and its reader see it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use rusqlite::InterruptHandle;

/// A read's turn at a connection. The lock makes sure that an interrupt never hits the read after it.
#[derive(Default)]
pub(super) struct Turn(Mutex<Progress>);

#[derive(Default)]
enum Progress {
    #[default]
    Waits,
    Runs {
        since: Instant,
        on: InterruptHandle,
    },
    /// It ended, or nobody wants it any more.
    IsOver,
}

impl Turn {
    /// The reader has come to it. `None` if it is no longer wanted.
    pub(super) fn begin(&self, on: InterruptHandle) -> Option<Running<'_>> {
        let mut progress = self.progress();
        if !matches!(*progress, Progress::Waits) {
            return None;
        }
        *progress = Progress::Runs { since: Instant::now(), on };
        Some(Running(self))
    }

    /// Nobody waits for it any more: it is stopped if it runs, and never begun if it does not.
    pub(super) fn give_up(&self) {
        let mut progress = self.progress();
        if let Progress::Runs { on, .. } = &*progress {
            on.interrupt();
        }
        *progress = Progress::IsOver;
    }

    /// Since when it runs, if it does.
    pub(super) fn begun_at(&self) -> Option<Instant> {
        match *self.progress() {
            Progress::Runs { since, .. } => Some(since),
            Progress::Waits | Progress::IsOver => None,
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A read that runs, until this is dropped: also when it panics, because the connection then goes to the next read.
pub(super) struct Running<'t>(&'t Turn);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.progress() = Progress::IsOver;
    }
}
