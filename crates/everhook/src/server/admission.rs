//! Who gets a connection. There are as many as the system has descriptors for; no peer takes more than its share of them, and a few are kept for health
//! checks, so that whatever watches the server sees how it is when it is full.
//!
//! A server that is full closes connections first that are idle: on those that never get on with a request it waits in vain.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use everhook_core::repeated_failure::RepeatedFailure;
use ipnet::IpNet;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

/// A peer may have a quarter of all connections: four that do their worst leave nothing, one leaves most.
const PEER_SHARE: usize = 4;
/// No peer's share is smaller, as far as there are as many connections.
const PEER_MIN: usize = 8;
/// What one peer may have of the reserve.
const RESERVE_PEER_SHARE: usize = 8;

/// How long a connection must have been idle before a full server closes it for another.
const IDLE_EVICTED_AFTER: Duration = Duration::from_secs(5);
/// How many connections are looked at for one that is idle: a full table of thousands would cost more to look through than a connection is worth.
const LOOKED_AT_MAX: usize = 64;

/// How many connections there may be.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// In all, beside the reserve.
    pub connections: usize,
    /// Beyond those, for health checks.
    pub reserve: usize,
    /// Peers that stand for many clients, and may take as many as there are.
    pub trusted_proxies: Vec<IpNet>,
}

impl ConnectionLimits {
    fn per_peer(&self) -> usize {
        (self.connections / PEER_SHARE).max(PEER_MIN)
    }

    fn reserve_per_peer(&self) -> usize {
        (self.reserve / RESERVE_PEER_SHARE).max(1)
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPurpose {
    /// Everything.
    Ordinary,
    /// One health check; anything else is told to come back.
    Reserve,
}

/// Decides who gets a connection, and remembers who has one.
pub struct Admission {
    limits: ConnectionLimits,
    began: Instant,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    ordinary: Vec<Arc<State>>,
    reserve: Vec<Arc<State>>,
    peers: FxHashMap<Peer, usize>,
    /// Where the next look for an idle connection begins.
    look_from: usize,
    refusals: Option<RepeatedFailure>,
}

/// Whoever is behind an address: all of a network that one customer is given, where addresses are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Peer {
    Four(u32),
    /// The /64 that it is in.
    Six(u64),
}

impl Peer {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::Four(address.to_bits()),
            IpAddr::V6(address) => Self::Six(network(address)),
        }
    }
}

fn network(address: Ipv6Addr) -> u64 {
    (address.to_bits() >> 64) as u64
}

/// What others must know of a connection.
struct State {
    peer: Peer,
    /// Where it is in its table; changed under the table's lock.
    place: AtomicUsize,
    /// How many of its requests are being answered: a second one may come while the first answer is still being written.
    requests: AtomicUsize,
    /// Since when it waits for a request if there is none, in milliseconds since the beginning.
    idle_since: AtomicU64,
    is_evicted: AtomicBool,
    evicted: Notify,
}

impl State {
    /// How long it has been idle; `None` while it is not, or if it is closed already.
    fn idle_for(&self, now: u64) -> Option<u64> {
        let is_idle = self.requests.load(Ordering::Acquire) == 0 && !self.is_evicted.load(Ordering::Relaxed);
        is_idle.then(|| now.saturating_sub(self.idle_since.load(Ordering::Relaxed)))
    }

    fn evict(&self) {
        self.is_evicted.store(true, Ordering::Relaxed);
        self.evicted.notify_one();
    }
}

impl Admission {
    /// Nobody is connected yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, began: Instant::now(), table: Mutex::default() })
    }

    /// How many have a connection.
    pub fn connection_count(&self) -> usize {
        let table = self.lock();
        table.ordinary.len() + table.reserve.len()
    }

    /// Gives a new connection its seat; `None` if there is none, not even to say so in.
    pub fn admit(self: &Arc<Self>, address: IpAddr, now: Instant) -> Option<Admitted> {
        let now_millis = self.millis(now);
        let peer = Peer::of(address);
        let state = Arc::new(State {
            peer,
            place: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(now_millis),
            is_evicted: AtomicBool::new(false),
            evicted: Notify::new(),
        });
        let mut table = self.lock();
        let seat = if self.make_room(&mut table, address, peer, now_millis) {
            *table.peers.entry(peer).or_default() += 1;
            ConnectionPurpose::Ordinary
        } else {
            self.log_refusal(&mut table, address, now);
            self.make_room_in_reserve(&table, peer, now_millis).then_some(ConnectionPurpose::Reserve)?
        };
        table.seats(seat).push(state.clone());
        let place = table.seats(seat).len() - 1;
        state.place.store(place, Ordering::Relaxed);
        Some(Admitted { seat, state, admission: self.clone() })
    }

    /// Whether there is room among the others. A full server makes some by closing a connection that is idle.
    fn make_room(&self, table: &mut Table, address: IpAddr, peer: Peer, now: u64) -> bool {
        let is_trusted = || self.limits.trusted_proxies.iter().any(|network| network.contains(&address.to_canonical()));
        let held = table.peers.get(&peer).copied().unwrap_or_default();
        if held >= self.limits.per_peer() && !is_trusted() {
            return false;
        }
        table.ordinary.len() < self.limits.connections || table.evict_idle(now)
    }

    /// Whether there is room in the reserve, or can be: whoever came first and has asked for nothing yet gives way.
    fn make_room_in_reserve(&self, table: &Table, peer: Peer, now: u64) -> bool {
        let of_peer = |state: &&Arc<State>| state.peer == peer;
        let waiting = |state: &&Arc<State>| state.idle_for(now).is_some();
        let open = |state: &&Arc<State>| !state.is_evicted.load(Ordering::Relaxed);
        let longest = |state: &&Arc<State>| state.idle_for(now);
        let evicted = if table.reserve.iter().filter(open).filter(of_peer).count() >= self.limits.reserve_per_peer() {
            table.reserve.iter().filter(of_peer).filter(waiting).max_by_key(longest)
        } else if table.reserve.iter().filter(open).count() >= self.limits.reserve {
            table.reserve.iter().filter(waiting).max_by_key(longest)
        } else {
            return true;
        };
        evicted.map(|state| state.evict()).is_some()
    }

    fn log_refusal(&self, table: &mut Table, address: IpAddr, now: Instant) {
        let refusals = table.refusals.get_or_insert(const { RepeatedFailure::reported_at_once() });
        if refusals.failed(now.duration_since(self.began)).is_none() {
            return;
        }
        let (open, most) = (table.ordinary.len(), self.limits.connections);
        if open >= most {
            tracing::warn!(
                connections = open,
                "the limit of {most} connections is reached; further connections can only make health checks"
            );
        } else {
            let most = self.limits.per_peer();
            tracing::warn!(
                peer = %address.to_canonical(),
                "a client address has reached the limit of {most} connections; further ones are refused. If it is your proxy, add it to `trusted_proxies`"
            );
        }
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn seats(&mut self, seat: ConnectionPurpose) -> &mut Vec<Arc<State>> {
        match seat {
            ConnectionPurpose::Ordinary => &mut self.ordinary,
            ConnectionPurpose::Reserve => &mut self.reserve,
        }
    }

    /// Closes the longest idle of the next few connections, if one has been idle for long enough.
    fn evict_idle(&mut self, now: u64) -> bool {
        let count = self.ordinary.len();
        let looked_at = (0..count.min(LOOKED_AT_MAX)).map(|step| &self.ordinary[(self.look_from + step) % count]);
        let longest = looked_at.filter_map(|state| Some((state.idle_for(now)?, state))).max_by_key(|(idle_for, _)| *idle_for);
        let evicted = longest.filter(|(idle_for, _)| u128::from(*idle_for) >= IDLE_EVICTED_AFTER.as_millis());
        let is_found = evicted.map(|(_, state)| state.evict()).is_some();
        self.look_from = if count == 0 { 0 } else { (self.look_from + LOOKED_AT_MAX) % count };
        is_found
    }

    fn remove(&mut self, seat: ConnectionPurpose, state: &State) {
        let place = state.place.load(Ordering::Relaxed);
        let seats = self.seats(seat);
        seats.swap_remove(place);
        if let Some(moved) = seats.get(place) {
            moved.place.store(place, Ordering::Relaxed);
        }
        if seat == ConnectionPurpose::Ordinary
            && let Some(held) = self.peers.get_mut(&state.peer)
        {
            *held -= 1;
            if *held == 0 {
                self.peers.remove(&state.peer);
            }
        }
    }
}

/// A connection that has a seat until this is dropped.
pub struct Admitted {
    /// What it is for.
    pub seat: ConnectionPurpose,
    state: Arc<State>,
    admission: Arc<Admission>,
}

impl Admitted {
    /// What tells the others how it is doing.
    pub fn activity(&self) -> Activity {
        Activity { state: self.state.clone(), admission: self.admission.clone() }
    }

    /// Returns when it must make room for another.
    pub async fn evicted(&self) {
        self.state.evicted.notified().await;
    }

    /// How long it has waited for a request; `None` while one is being answered.
    pub fn idle_for(&self, now: Instant) -> Option<Duration> {
        self.state.idle_for(self.admission.millis(now)).map(Duration::from_millis)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.lock().remove(self.seat, &self.state);
    }
}

/// Whether a connection is at work.
#[derive(Clone)]
pub struct Activity {
    state: Arc<State>,
    admission: Arc<Admission>,
}

impl Activity {
    /// A request came. It is being answered until what this returns is dropped.
    pub fn begin(&self) -> Answering {
        self.state.requests.fetch_add(1, Ordering::AcqRel);
        Answering(self.clone())
    }
}

/// A request that is being answered: its connection is at work until this is dropped.
#[must_use]
pub struct Answering(Activity);

impl Drop for Answering {
    fn drop(&mut self) {
        let Activity { state, admission } = &self.0;
        state.idle_since.store(admission.millis(Instant::now()), Ordering::Relaxed);
        state.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
