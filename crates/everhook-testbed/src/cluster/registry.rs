//! What nodes agree on, in memory and on simulated time: the same rules as a shared store has, for the ports `Leases`, `RemoteHints` and `Changes`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use everhook_core::{
    ids::EndpointId,
    model::{Duty, DutySet, Shard, ShardSet},
    ports::{
        Change, ChangeCursor, Changed, Changes, Clock, Held, LEASE_GOOD_FOR, Leases, RemoteHints, Renewed, Roles, StoreError, Terms,
        WaitingQueue, Wish,
    },
    time::Timestamp,
};
use tokio::sync::{mpsc, watch};

/// Names a boot.
type BootId = u64;

/// What all nodes of a scenario share beside the store.
pub struct Registry {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    boots: BTreeMap<BootId, Boot>,
    made: BootId,
    shards: BTreeMap<Shard, BootId>,
    duties: BTreeMap<Duty, BootId>,
    changes: Vec<Change>,
    inboxes: Vec<(usize, mpsc::UnboundedSender<Vec<WaitingQueue>>)>,
    hints_are_lost: bool,
}

struct Boot {
    roles: Roles,
    good_until: Timestamp,
}

impl Registry {
    /// One that nobody has joined.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::default() })
    }

    /// A node's end of it.
    pub fn member(self: &Arc<Self>, node: usize) -> Arc<Member> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        state.inboxes.retain(|(_, inbox)| !inbox.is_closed());
        state.inboxes.push((node, sender));
        let registry = self.clone();
        Arc::new(Member {
            node,
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

    /// Says whether hints are lost on their way to other nodes from now on.
    pub fn lose_hints(&self, are_lost: bool) {
        self.state().hints_are_lost = are_lost;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn held(&self, boot: BootId) -> Held {
        Held {
            shards: self.shards.iter().filter(|(_, by)| **by == boot).map(|(shard, _)| *shard).collect(),
            duties: self.duties.iter().filter(|(_, by)| **by == boot).map(|(duty, _)| *duty).collect(),
        }
    }

    fn give_back(&mut self, boot: BootId, held: Held) {
        self.shards.retain(|shard, by| *by != boot || !held.shards.contains(*shard));
        self.duties.retain(|duty, by| *by != boot || !held.duties.contains(*duty));
    }

    fn end(&mut self, boot: BootId) {
        self.boots.remove(&boot);
        self.give_back(boot, Held::EVERYTHING);
    }

    /// Ends the boots whose lease has ended. Called when somebody wants something: an ended lease that nobody minds is renewed.
    fn bury(&mut self, now: Timestamp) {
        let ended: Vec<BootId> = self.boots.iter().filter(|(_, boot)| boot.good_until <= now).map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|boot| self.end(boot));
    }
}

/// One node's end of the registry. While it is paused, no call of it comes through.
pub struct Member {
    node: usize,
    registry: Arc<Registry>,
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
    pub fn may_settle(&self, mut endpoints: impl Iterator<Item = EndpointId>) -> bool {
        let held = self.held();
        endpoints.all(|endpoint| held.shards.has_lane(endpoint))
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
        state.boots.insert(made, Boot { roles, good_until });
        *self.boot.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        Ok(())
    }

    async fn renew(&self) -> Result<Renewed, StoreError> {
        self.reach().await;
        let now = self.registry.clock.now();
        let mut state = self.registry.state();
        let Some(id) = self.living(&state) else { return Ok(Renewed::Lost) };
        state.boots.entry(id).and_modify(|boot| boot.good_until = now + LEASE_GOOD_FOR);
        let workers = state.boots.values().filter(|boot| boot.roles.worker && boot.good_until > now).count();
        Ok(Renewed::Held {
            held: state.held(id),
            workers: u32::try_from(workers).expect("few nodes"),
            store_time: now + *self.lag.borrow(),
        })
    }

    async fn take(&self, wish: Wish) -> Result<Held, StoreError> {
        self.reach().await;
        let mut state = self.registry.state();
        state.bury(self.registry.clock.now());
        let Some(id) = self.living(&state) else { return Err(StoreError::Conflict) };
        let free = ShardSet::ALL.iter().filter(|shard| !state.shards.contains_key(shard));
        let shards: ShardSet = free.take(wish.shards_max as usize).collect();
        let duties: DutySet = wish.duties.iter().filter(|duty| !state.duties.contains_key(duty)).collect();
        state.shards.extend(shards.iter().map(|shard| (shard, id)));
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

    async fn end(&self) -> Result<(), StoreError> {
        self.reach().await;
        self.boot().into_iter().for_each(|boot| self.registry.state().end(boot));
        Ok(())
    }
}

#[async_trait]
impl RemoteHints for Member {
    fn waiting(&self, queues: Vec<WaitingQueue>) {
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
