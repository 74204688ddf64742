//! Keeps a few connections to the mail server for the next mail, and never has more than that.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::session::Session;

/// How many connections there are at once. Mail servers commonly allow ten from one address, and mail is rare.
pub(super) const SESSIONS_MAX: usize = 4;

/// How long an unused connection is kept; mail servers close them after a minute or more.
const UNUSED_MAX: Duration = Duration::from_secs(30);

/// The connections that are not in use.
pub(super) struct Sessions {
    turns: Semaphore,
    unused: Mutex<Unused>,
}

#[derive(Default)]
struct Unused {
    sessions: Vec<Session>,
    /// A task is under way that closes those which are kept too long.
    is_reaped: bool,
}

impl Sessions {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { turns: Semaphore::new(SESSIONS_MAX), unused: Mutex::default() })
    }

    /// Waits until one more connection may be used.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("the semaphore is never closed")
    }

    /// The connection that was used last, if one is kept.
    pub(super) fn take(&self) -> Option<Session> {
        let mut unused = self.lock();
        while let Some(session) = unused.sessions.pop() {
            if session.unused_since.elapsed() < UNUSED_MAX {
                return Some(session);
            }
            tokio::spawn(session.close());
        }
        None
    }

    /// Keeps a connection for the next mail.
    pub(super) fn keep(self: &Arc<Self>, session: Session) {
        let mut unused = self.lock();
        unused.sessions.push(session);
        if !std::mem::replace(&mut unused.is_reaped, true) {
            tokio::spawn(reap(Arc::downgrade(self)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Unused> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unused {
    fn expire(&mut self, now: Instant) -> Vec<Session> {
        self.sessions.extract_if(.., |session| now.duration_since(session.unused_since) >= UNUSED_MAX).collect()
    }
}

/// Closes connections that were kept too long. Lives only while there are any.
async fn reap(sessions: Weak<Sessions>) {
    loop {
        tokio::time::sleep(UNUSED_MAX).await;
        let Some(sessions) = sessions.upgrade() else { return };
        let (expired, is_empty) = {
            let mut unused = sessions.lock();
            let expired = unused.expire(Instant::now());
            unused.is_reaped = !unused.sessions.is_empty();
            (expired, unused.sessions.is_empty())
        };
        for session in expired {
            tokio::spawn(session.close());
        }
        if is_empty {
            return;
        }
    }
}
