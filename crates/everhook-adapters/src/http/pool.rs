//! Keeps connections open between requests: a TLS handshake costs more than a hundred requests on an open connection.
//!
//! A kept connection was vetted when it was opened and stays with the address it was opened to, so that reuse needs no second look.
//! No lock is ever held across an await.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use rustc_hash::FxHashMap;

use super::connection::Connection;

/// How long a connection is kept unused. Common servers close theirs after 60 s or more, some after 5 s; those are noticed.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// How often connections that were kept too long are looked for.
const REAP_INTERVAL: Duration = Duration::from_secs(5);

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolLimits {
    pub(super) idle_per_origin_max: usize,
    pub(super) idle_total_max: usize,
}

/// The unused connections, by origin (`https://example.com:8443`, as the URL spells it).
pub(super) struct Pool {
    limits: PoolLimits,
    idle: Mutex<Idle>,
}

/// Each list is in the order of parking: the last is used first, the first is the oldest.
#[derive(Default)]
struct Idle {
    origins: FxHashMap<Box<str>, Vec<Parked>>,
    total: usize,
    is_reaped: bool,
}

struct Parked {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(limits: PoolLimits) -> Self {
        Self { limits, idle: Mutex::default() }
    }

    /// Takes a connection to the origin that is alive as far as this side knows. Each turn removes one, so the loop ends.
    pub(super) fn take(&self, origin: &str) -> Option<Connection> {
        loop {
            let mut connection = self.lock().pop(origin)?;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose exchange is complete, unless there are enough.
    pub(super) fn park(self: &Arc<Self>, origin: &str, connection: Connection) {
        if self.limits.idle_total_max == 0 {
            return;
        }
        // Whatever is closed for it is dropped after the lock.
        let (_surplus, starts_reaper) = self.lock().push(origin, connection, self.limits);
        if starts_reaper {
            tokio::spawn(reap(Arc::downgrade(self)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        // Nothing that panics runs under the lock, and a pool is never wrong in a way that matters.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn pop(&mut self, origin: &str) -> Option<Connection> {
        // The emptied list stays for the connection's return; the reaper removes those to which nothing returned.
        let parked = self.origins.get_mut(origin)?.pop()?;
        self.total -= 1;
        Some(parked.connection)
    }

    /// Returns the connection that must go, and whether somebody must begin to reap.
    fn push(&mut self, origin: &str, connection: Connection, limits: PoolLimits) -> (Option<Connection>, bool) {
        let kept = self.origins.get(origin).map_or(0, Vec::len);
        if kept >= limits.idle_per_origin_max {
            return (Some(connection), false);
        }
        let evicted = if self.total >= limits.idle_total_max { self.evict_oldest() } else { None };
        let parked = Parked { connection, since: Instant::now() };
        match self.origins.get_mut(origin) {
            Some(list) => list.push(parked),
            None => drop(self.origins.insert(origin.into(), vec![parked])),
        }
        self.total += 1;
        (evicted, !std::mem::replace(&mut self.is_reaped, true))
    }

    /// A look at every origin: it happens only when a connection beyond the limit was opened, which costs far more.
    fn evict_oldest(&mut self) -> Option<Connection> {
        let list = self.origins.values_mut().filter(|list| !list.is_empty()).min_by_key(|list| list[0].since)?;
        self.total -= 1;
        Some(list.remove(0).connection)
    }

    /// Takes out what was kept too long or was closed by the other side.
    fn expire(&mut self, now: Instant) -> Vec<Parked> {
        let mut expired = Vec::new();
        self.origins.retain(|_, list| {
            expired.extend(list.extract_if(.., |parked| parked.is_expired(now)));
            !list.is_empty()
        });
        self.total -= expired.len();
        expired
    }
}

impl Parked {
    fn is_expired(&mut self, now: Instant) -> bool {
        now.duration_since(self.since) >= IDLE_MAX || !self.connection.is_usable()
    }
}

/// Closes connections that were kept too long. Lives only while there are any.
async fn reap(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(REAP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.lock();
        let expired = idle.expire(Instant::now());
        let is_empty = idle.total == 0;
        idle.is_reaped = !is_empty;
        drop(idle);
        drop(expired);
        if is_empty {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::DuplexStream, time::timeout};

    use super::*;

    const LIMITS: PoolLimits = PoolLimits { idle_per_origin_max: 10, idle_total_max: 10 };

    /// A connection, and the end of it that a server would hold.
    fn connection() -> (Connection, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(1024);
        (Connection::new(ours), theirs)
    }

    #[tokio::test]
    async fn connections_kept_too_long_are_taken_out_and_their_origins_forgotten() {
        let mut idle = Idle::default();
        let (one, _server_of_one) = connection();
        let (other, _server_of_other) = connection();
        let (_, starts_reaper) = idle.push("http://one.example", one, LIMITS);
        assert!(starts_reaper);
        let (_, starts_another) = idle.push("http://other.example", other, LIMITS);
        assert!(!starts_another, "one is enough");
        let now = Instant::now();
        assert_eq!(idle.expire(now).len(), 0);
        assert_eq!(idle.expire(now + IDLE_MAX).len(), 2);
        assert_eq!((idle.total, idle.origins.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_connection_that_the_server_closed_or_spoiled_is_taken_out_early() {
        let mut idle = Idle::default();
        let (closed, server) = connection();
        drop(server);
        let (spoiled, mut server) = connection();
        tokio::io::AsyncWriteExt::write_all(&mut server, b"nobody asked").await.expect("it is open");
        let (good, _server_of_good) = connection();
        for connection in [closed, spoiled, good] {
            idle.push("http://one.example", connection, LIMITS);
        }
        assert_eq!((idle.expire(Instant::now()).len(), idle.total), (2, 1));
    }

    #[tokio::test]
    async fn a_dropped_connection_closes_at_once() {
        let (connection, mut server) = connection();
        drop(connection);
        let mut received = Vec::new();
        let end = tokio::io::AsyncReadExt::read_to_end(&mut server, &mut received);
        let read = timeout(Duration::from_secs(5), end).await.expect("the end comes at once");
        assert_eq!(read.expect("an end is no error"), 0);
    }
}
