//! Keeps connections open between requests: a TLS handshake costs more than a hundred requests on an open connection.
//!
//! A kept connection was vetted when it was opened and stays with the address it was opened to, so that reuse needs no second look. It serves
//! the organization that opened it and no other: a receiver that leaves a forged answer on it can deceive only its own organization.
//! No lock is ever held across an await.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use everhook_core::ids::OrganizationId;
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
    pub(super) idle_per_organization_max: usize,
    pub(super) idle_total_max: usize,
}

/// What a connection may be used for again.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolKey<'a> {
    pub(super) organization: OrganizationId,
    /// As the URL spells it: `https://example.com:8443`.
    pub(super) origin: &'a str,
}

/// The unused connections, by organization and origin.
pub(super) struct Pool {
    limits: PoolLimits,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    organizations: FxHashMap<OrganizationId, OfOrganization>,
    total: usize,
    is_reaped: bool,
}

/// Each list is in the order of parking: the last is used first, the first is the oldest.
#[derive(Default)]
struct OfOrganization {
    origins: FxHashMap<Box<str>, Vec<Parked>>,
    total: usize,
}

struct Parked {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(limits: PoolLimits) -> Self {
        Self { limits, idle: Mutex::default() }
    }

    /// Takes a connection of this key that is alive as far as this side knows. Each turn removes one, so the loop ends.
    pub(super) fn take(&self, key: PoolKey<'_>) -> Option<Connection> {
        loop {
            let mut connection = self.lock().pop(key)?;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose exchange is complete, unless there are enough.
    pub(super) fn park(self: &Arc<Self>, key: PoolKey<'_>, connection: Connection) {
        if self.limits.idle_total_max == 0 {
            return;
        }
        // Whatever is closed for it is dropped after the lock.
        let (_surplus, starts_reaper) = self.lock().push(key, connection, self.limits);
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
    fn pop(&mut self, key: PoolKey<'_>) -> Option<Connection> {
        // The emptied list stays for the connection's return; the reaper removes those to which nothing returned.
        let organization = self.organizations.get_mut(&key.organization)?;
        let parked = organization.origins.get_mut(key.origin)?.pop()?;
        organization.total -= 1;
        self.total -= 1;
        Some(parked.connection)
    }

    /// Returns the connection that must go, and whether somebody must begin to reap.
    fn push(&mut self, key: PoolKey<'_>, connection: Connection, limits: PoolLimits) -> (Option<Connection>, bool) {
        let organization = self.organizations.entry(key.organization).or_default();
        if organization.origins.get(key.origin).map_or(0, Vec::len) >= limits.idle_per_origin_max {
            return (Some(connection), false);
        }
        let evicted = if organization.total >= limits.idle_per_organization_max {
            organization.evict_oldest()
        } else if self.total >= limits.idle_total_max {
            self.evict_from_largest()
        } else {
            None
        };
        self.total -= usize::from(evicted.is_some());
        self.organizations.entry(key.organization).or_default().push(key.origin, connection);
        self.total += 1;
        (evicted, !std::mem::replace(&mut self.is_reaped, true))
    }

    /// Whoever keeps the most gives up its oldest, so that an organization with many endpoints does not cost others their connections. A look at
    /// every organization: it happens only when a connection beyond the limit was opened, which costs far more.
    fn evict_from_largest(&mut self) -> Option<Connection> {
        self.organizations.values_mut().max_by_key(|organization| organization.total)?.evict_oldest()
    }

    /// Takes out what was kept too long or was closed by the other side.
    fn expire(&mut self, now: Instant) -> Vec<Parked> {
        let mut expired = Vec::new();
        self.organizations.retain(|_, organization| {
            let before = expired.len();
            organization.origins.retain(|_, list| {
                expired.extend(list.extract_if(.., |parked| parked.is_expired(now)));
                !list.is_empty()
            });
            organization.total -= expired.len() - before;
            !organization.origins.is_empty()
        });
        self.total -= expired.len();
        expired
    }
}

impl OfOrganization {
    fn push(&mut self, origin: &str, connection: Connection) {
        let parked = Parked { connection, since: Instant::now() };
        match self.origins.get_mut(origin) {
            Some(list) => list.push(parked),
            None => drop(self.origins.insert(origin.into(), vec![parked])),
        }
        self.total += 1;
    }

    fn evict_oldest(&mut self) -> Option<Connection> {
        let list = self.origins.values_mut().filter(|list| !list.is_empty()).min_by_key(|list| list[0].since)?;
        self.total -= 1;
        Some(list.remove(0).connection)
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

    const LIMITS: PoolLimits = PoolLimits { idle_per_origin_max: 10, idle_per_organization_max: 10, idle_total_max: 10 };

    fn key(organization: u128, origin: &str) -> PoolKey<'_> {
        PoolKey { organization: OrganizationId::from_uuid(uuid::Uuid::from_u128(organization)), origin }
    }

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
        let (_, starts_reaper) = idle.push(key(1, "http://one.example"), one, LIMITS);
        assert!(starts_reaper);
        let (_, starts_another) = idle.push(key(2, "http://other.example"), other, LIMITS);
        assert!(!starts_another, "one is enough");
        let now = Instant::now();
        assert_eq!(idle.expire(now).len(), 0);
        assert_eq!(idle.expire(now + IDLE_MAX).len(), 2);
        assert_eq!((idle.total, idle.organizations.len()), (0, 0));
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
            idle.push(key(1, "http://one.example"), connection, LIMITS);
        }
        assert_eq!((idle.expire(Instant::now()).len(), idle.total), (2, 1));
    }

    #[tokio::test]
    async fn a_connection_is_used_again_by_the_organization_that_opened_it_alone() {
        let mut idle = Idle::default();
        let (connection, _server) = connection();
        idle.push(key(1, "http://one.example"), connection, LIMITS);
        assert!(idle.pop(key(2, "http://one.example")).is_none());
        assert!(idle.pop(key(1, "http://other.example")).is_none());
        assert!(idle.pop(key(1, "http://one.example")).is_some());
    }

    #[tokio::test]
    async fn whoever_keeps_the_most_makes_room() {
        let mut idle = Idle::default();
        let limits = PoolLimits { idle_per_origin_max: 10, idle_per_organization_max: 3, idle_total_max: 4 };
        let mut servers = Vec::new();
        let mut park = |idle: &mut Idle, organization, origin| {
            let (ours, theirs) = connection();
            servers.push(theirs);
            idle.push(key(organization, origin), ours, limits).0.is_some()
        };
        assert!(!park(&mut idle, 1, "http://quiet.example"));
        for (number, origin) in ["http://a.example", "http://b.example", "http://c.example", "http://d.example"].into_iter().enumerate() {
            assert_eq!(park(&mut idle, 2, origin), number == 3, "the fourth is one too many of an organization");
        }
        assert!(idle.pop(key(2, "http://a.example")).is_none(), "its oldest has made room");
        assert!(park(&mut idle, 3, "http://quiet.example"), "one too many in all");
        assert!(idle.pop(key(2, "http://b.example")).is_none(), "again of whoever keeps the most");
        assert!(idle.pop(key(1, "http://quiet.example")).is_some());
        assert_eq!(idle.total, 3);
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
