//! What nodes agree on, in memory and on simulated time: the same rules as a shared store has, for the ports `Leases`, `RemoteHints` and `Changes`.
//! What they draw from together is in `counters`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use everhook_core::{
    ids::{LaneId, OrganizationId},
    model::{Duty, DutySet, PoolAssignment, PoolName, Shard, ShardSet},
    ports::{
        Change, ChangeCursor, Changed, Changes, Clock, Departure, Heartbeat, Held, LEASE_GOOD_FOR, LeaseRequest, Leases, RemoteHints,
        Renewed, Roles, StoreError, Terms, WaitingQueue,
    },
    time::Timestamp,
};
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use super::counters::Counters;

/// Names a boot.
type BootId = u64;

/// What all nodes of a scenario share beside the store.
pub struct Registry {
    pub(super) clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    boots: BTreeMap<BootId, Boot>,
    made: BootId,
    shards: BTreeMap<(PoolName, Shard), BootId>,
    duties: BTreeMap<Duty, BootId>,
    /// The pool of the world's one organization, and how often that was changed.
    pool: PoolName,
    moves: i64,
    /// The boots that have not let go of it.
    departures: BTreeMap<BootId, Departure>,
    changes: Vec<Change>,
    inboxes: Vec<(usize, mpsc::UnboundedSender<Vec<WaitingQueue>>)>,
    hints_are_lost: bool,
    pub(super) counters: Counters,
}

struct Boot {
    pool: PoolName,
    roles: Roles,
    good_until: Timestamp,
    renewals: u64,
}

impl Registry {
    /// One that nobody has joined.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::default() })
    }

    /// The end of it of a node of a worker pool.
    pub fn member(self: &Arc<Self>, node: usize, pool: PoolName) -> Arc<Member> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        state.inboxes.retain(|(_, inbox)| !inbox.is_closed());
        state.inboxes.push((node, sender));
        let registry = self.clone();
        Arc::new(Member {
            node,
            pool,
            registry,
            boot: Mutex::new(None),
            inbox: tokio::sync::Mutex::new(receiver),
            paused: watch::channel(false).0,
            lag: watch::channel(Duration::ZERO).0,
        })
    }

    /// Records a change, as the store would in the write that makes it.
    pub fn record(&self, change: Change) {
        self.state().changes.push(change);
    }

    /// Puts the world's organization into a pool, as the store would: each worker of the former one must let go of it first.
    pub fn move_to(&self, organization: OrganizationId, pool: &PoolName) {
        let mut state = self.state();
        if state.pool != *pool {
            state.moves += 1;
            let departure = Departure { organization, moves: state.moves };
            let former = std::mem::replace(&mut state.pool, pool.clone());
            let workers = state.boots.iter().filter(|(_, boot)| boot.pool == former && boot.roles.worker);
            let workers: Vec<BootId> = workers.map(|(id, _)| *id).collect();
            workers.into_iter().for_each(|id| _ = state.departures.entry(id).or_insert(departure));
        }
        state.changes.push(Change::Organization(organization));
    }

    /// The pool of the world's organization.
    pub fn pool(&self) -> PoolName {
        self.state().pool.clone()
    }

    /// Says whether hints are lost on their way to other nodes from now on.
    pub fn lose_hints(&self, are_lost: bool) {
        self.state().hints_are_lost = are_lost;
    }

    /// Says whether nobody answers what nodes ask of what they share.
    pub fn lose_counters(&self, are_away: bool) {
        self.state().counters.are_away = are_away;
    }

    /// Shards and duties of boots whose lease was over so long ago, although somebody lives who could have taken them; a sentence each.
    pub(crate) fn leases_of_dead_boots(&self, overdue_for: Duration) -> Vec<String> {
        let (state, now) = (self.state(), self.clock.now());
        let lives = |boot: &Boot| boot.good_until > now;
        let is_overdue = |boot: &Boot| boot.good_until + overdue_for < now;
        let has_heir = |dead: &Boot| state.boots.values().any(|boot| lives(boot) && boot.pool == dead.pool && boot.roles == dead.roles);
        let dead = state.boots.iter().filter(|(_, boot)| is_overdue(boot) && has_heir(boot));
        let holding = dead.map(|(id, _)| (id, state.held(*id))).filter(|(_, held)| *held != Held::NOTHING);
        holding.map(|(id, held)| format!("boot {id} is dead and holds {} shards", held.shards.iter().count())).collect()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn held(&self, boot: BootId) -> Held {
        Held {
            shards: self.shards.iter().filter(|(_, by)| **by == boot).map(|((_, shard), _)| *shard).collect(),
            duties: self.duties.iter().filter(|(_, by)| **by == boot).map(|(duty, _)| *duty).collect(),
        }
    }

    fn give_back(&mut self, boot: BootId, held: Held) {
        self.shards.retain(|(_, shard), by| *by != boot || !held.shards.contains(*shard));
        self.duties.retain(|duty, by| *by != boot || !held.duties.contains(*duty));
    }

    fn end(&mut self, boot: BootId) {
        self.boots.remove(&boot);
        self.departures.remove(&boot);
        self.give_back(boot, Held::EVERYTHING);
    }

    /// Ends the boots that are overdue. Called when somebody wants something: a lease that nobody minds is renewed.
    fn end_overdue(&mut self, overdue: &[Heartbeat]) {
        let ended = self.pulses().filter(|(_, heartbeat)| overdue.contains(heartbeat)).map(|(id, _)| id);
        ended.collect::<Vec<BootId>>().into_iter().for_each(|boot| self.end(boot));
    }

    fn pulses(&self) -> impl Iterator<Item = (BootId, Heartbeat)> {
        self.boots.iter().map(|(id, boot)| (*id, Heartbeat { boot: Uuid::from_u128(u128::from(*id)), renewals: boot.renewals }))
    }
}

/// One node's end of the registry. While it is paused, no call of it comes through.
pub struct Member {
    pub(super) node: usize,
    pool: PoolName,
    pub(super) registry: Arc<Registry>,
    boot: Mutex<Option<BootId>>,
    inbox: tokio::sync::Mutex<mpsc::UnboundedReceiver<Vec<WaitingQueue>>>,
    paused: watch::Sender<bool>,
    lag: watch::Sender<Duration>,
}

impl Member {
    /// Cuts the node off from the store.
    pub fn pause(&self) {
        self.paused.send_replace(true);
    }

    /// Lets its calls through again, also those that wait.
    pub fn resume(&self) {
        self.paused.send_replace(false);
    }

    /// Lets the node's clock be so far behind the store's, as far as it can see.
    pub fn lag(&self, by: Duration) {
        self.lag.send_replace(by);
    }

    /// Returns once the store can be reached.
    pub async fn reach(&self) {
        // The sender is this member's own.
        let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
    }

    /// Whether the store takes outcomes of these lanes from this node's boot: it is not dead, and holds them.
    pub fn may_settle(&self, mut lanes: impl Iterator<Item = LaneId>) -> bool {
        let held = self.held();
        lanes.all(|lane_id| held.shards.has_lane(lane_id))
    }

    /// The worker pool that the node belongs to.
    pub fn pool(&self) -> &PoolName {
        &self.pool
    }

    /// Whether this node's pool sends for the world's organization, as the store would say.
    pub fn assignment(&self) -> PoolAssignment {
        let state = self.registry.state();
        let is_here = state.pool == self.pool && state.departures.is_empty();
        PoolAssignment { pool: state.pool.clone(), is_here, moves: state.moves }
    }

    /// What the registry says this node holds.
    pub fn held(&self) -> Held {
        self.boot().map_or(Held::NOTHING, |boot| self.registry.state().held(boot))
    }

    fn boot(&self) -> Option<BootId> {
        *self.boot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The boot, if it is not dead.
    fn living(&self, state: &State) -> Option<BootId> {
        self.boot().filter(|boot| state.boots.contains_key(boot))
    }
}

#[async_trait]
impl Leases for Member {
    fn terms(&self) -> Terms {
        Terms::Shared
    }

    async fn begin(&self, roles: Roles) -> Result<(), StoreError> {
        self.reach().await;
        let former = self.boot();
        let good_until = self.registry.clock.now() + LEASE_GOOD_FOR;
        let mut state = self.registry.state();
        former.into_iter().for_each(|boot| state.end(boot));
        state.made += 1;
        let made = state.made;
        state.boots.insert(made, Boot { pool: self.pool.clone(), roles, good_until, renewals: 0 });
        *self.boot.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        Ok(())
    }

    async fn renew(&self) -> Result<Renewed, StoreError> {
        self.reach().await;
        let now = self.registry.clock.now();
        let mut state = self.registry.state();
        let Some(id) = self.living(&state) else { return Ok(Renewed::Lost) };
        state.boots.entry(id).and_modify(|boot| {
            boot.good_until = now + LEASE_GOOD_FOR;
            boot.renewals += 1;
        });
        let is_worker = |boot: &&Boot| boot.pool == self.pool && boot.roles.worker && boot.good_until > now;
        let workers = state.boots.values().filter(is_worker).count();
        Ok(Renewed::Held {
            held: state.held(id),
            departures: state.departures.get(&id).copied().into_iter().collect(),
            workers: u32::try_from(workers).expect("few nodes"),
            others: state.pulses().filter(|(other, _)| *other != id).map(|(_, heartbeat)| heartbeat).collect(),
            store_time: now + *self.lag.borrow(),
        })
    }

    async fn take(&self, request: LeaseRequest, overdue: Vec<Heartbeat>) -> Result<Held, StoreError> {
        self.reach().await;
        let mut state = self.registry.state();
        state.end_overdue(&overdue);
        let Some(id) = self.living(&state) else { return Err(StoreError::Conflict) };
        let free = ShardSet::ALL.iter().filter(|shard| !state.shards.contains_key(&(self.pool.clone(), *shard)));
        let shards: ShardSet = free.take(request.shards_max as usize).collect();
        let duties: DutySet = request.duties.iter().filter(|duty| !state.duties.contains_key(duty)).collect();
        state.shards.extend(shards.iter().map(|shard| ((self.pool.clone(), shard), id)));
        state.duties.extend(duties.iter().map(|duty| (duty, id)));
        Ok(Held { shards, duties })
    }

    async fn release(&self, held: Held) -> Result<(), StoreError> {
        self.reach().await;
        let mut state = self.registry.state();
        let Some(id) = self.living(&state) else { return Err(StoreError::Conflict) };
        state.give_back(id, held);
        Ok(())
    }

    async fn depart(&self, departures: Vec<Departure>) -> Result<(), StoreError> {
        self.reach().await;
        let mut state = self.registry.state();
        let Some(id) = self.living(&state) else { return Ok(()) };
        for departure in departures {
            if state.departures.get(&id) == Some(&departure) {
                state.departures.remove(&id);
                state.changes.push(Change::Organization(departure.organization));
            }
        }
        Ok(())
    }

    async fn end(&self) -> Result<(), StoreError> {
        self.reach().await;
        self.boot().into_iter().for_each(|boot| self.registry.state().end(boot));
        Ok(())
    }
}

#[async_trait]
impl RemoteHints for Member {
    fn waiting(&self, _pool: &PoolName, queues: Vec<WaitingQueue>) {
        let state = self.registry.state();
        if !state.hints_are_lost && !*self.paused.borrow() {
            let others = state.inboxes.iter().filter(|(node, _)| *node != self.node);
            others.for_each(|(_, inbox)| _ = inbox.send(queues.clone()));
        }
    }

    async fn next(&self) -> Vec<WaitingQueue> {
        match self.inbox.lock().await.recv().await {
            Some(queues) => queues,
            None => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Changes for Member {
    async fn newest(&self) -> Result<ChangeCursor, StoreError> {
        Ok(place(self.registry.state().changes.len()))
    }

    async fn changes(&self, after: ChangeCursor) -> Result<Changed, StoreError> {
        self.reach().await;
        let state = self.registry.state();
        let seen = usize::try_from(after.0).expect("a place that was given out");
        Ok(Changed { changes: state.changes[seen..].to_vec(), cursor: place(state.changes.len()), has_more: false })
    }
}

fn place(count: usize) -> ChangeCursor {
    ChangeCursor(i64::try_from(count).expect("few changes"))
}
