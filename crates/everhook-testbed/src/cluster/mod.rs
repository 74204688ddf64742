//! Several nodes on one store: a [`World`] whose own node takes events and sends nothing, and as many nodes beside it that send.

mod counters;
mod fenced;
pub mod life;
mod pooled;
mod registry;
mod senders;

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use everhook_core::{
    engine::{Engine, EngineSettings, EngineStatus},
    ids::Ref,
    lanes,
    line::{Line, LineSettings},
    model::{PoolName, ShardSet},
    nodes::follow::follow,
    ports::{Changes, Ports, Roles},
};
use tokio::task::JoinHandle;

pub use pooled::{PooledConfiguration, ReachedApiKeys};
pub use registry::{Member, Registry};
pub use senders::{Senders, SentBy};

use self::{
    fenced::{Fenced, ReachedOutbox},
    senders::Watched,
};
use crate::{Receiver, World, world::Ground};

/// How long nodes take to share what there is, at the most: to notice each other, to leave, to take, and to look.
const SETTLE_IN: Duration = Duration::from_secs(4);

/// How many times every task may run while an aborted one is dropped.
const DROP_ROUNDS: u32 = 64;

/// The world's own node, which takes events and sends nothing.
pub const FRONT: usize = usize::MAX;

/// Several nodes on one store.
pub struct Cluster {
    world: World,
    /// Who sent what.
    pub senders: Arc<Senders>,
    /// What the nodes agree on.
    pub registry: Arc<Registry>,
    nodes: Vec<Option<Node>>,
}

/// A node that runs.
pub struct Node {
    /// Its line.
    pub line: Arc<Line>,
    /// Its end of the registry.
    pub member: Arc<Member>,
    engine: Option<Engine>,
    following: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl Node {
    /// What its engine is doing.
    pub fn status(&self) -> EngineStatus {
        self.engine.as_ref().map(Engine::status).unwrap_or_default()
    }

    /// Starts a node over these ports, which are those of a store with one owner.
    pub async fn start(ports: Ports, member: Arc<Member>, roles: Roles, settings: LineSettings) -> Self {
        let ports = Ports {
            configuration: Arc::new(PooledConfiguration::new(ports.configuration.clone(), member.clone())),
            api_keys: Arc::new(ReachedApiKeys::new(ports.api_keys.clone(), member.clone())),
            deliveries: Arc::new(Fenced::new(ports.deliveries.clone(), member.clone())),
            outbox: Arc::new(ReachedOutbox::new(ports.outbox.clone(), member.clone())),
            leases: member.clone(),
            remote_hints: member.clone(),
            changes: member.clone(),
            throttle: member.clone(),
            ..ports
        };
        let (wake_up, hints) = lanes::hints();
        let line = Arc::new(Line::new(ports, wake_up, settings));
        let seen = member.newest().await.expect("the registry answers");
        let following = tokio::spawn(follow(line.clone(), seen, |_| {}));
        let engine = Engine::start(line.clone(), hints, EngineSettings { concurrency: 64, roles });
        Self { line, member, engine: Some(engine), following }
    }
}

impl Cluster {
    /// A world with so many nodes, which have shared everything.
    pub async fn of(count: usize) -> Self {
        Self::seeded(1, count).await
    }

    /// The same, with other dice.
    pub async fn seeded(seed: u64, count: usize) -> Self {
        let world = World::fronting(Ground::new(seed)).await;
        let registry = world.registry().expect("a world that fronts others").clone();
        let mut cluster = Self { senders: Arc::default(), registry, world, nodes: Vec::new() };
        for _ in 0..count {
            cluster.start().await;
        }
        cluster.pass(SETTLE_IN).await;
        cluster
    }

    /// Starts one more node, and says which it is.
    pub async fn start(&mut self) -> usize {
        self.start_in(PoolName::default()).await
    }

    /// Starts one more node of a worker pool, and says which it is.
    pub async fn start_in(&mut self, pool: PoolName) -> usize {
        let number = self.nodes.len();
        let watched = Watched {
            node: number,
            transport: self.world.line().ports.transport.clone(),
            senders: self.senders.clone(),
            clock: self.world.clock.clone(),
        };
        let ports = Ports { transport: Arc::new(watched), ..self.world.bare_ports() };
        let settings = LineSettings {
            endpoint_health: self.world.endpoint_health.clone(),
            alert_interval: self.world.alert_interval,
            ..crate::world::line_settings(&format!("node-{number}"))
        };
        let node = Node::start(ports, self.registry.member(number, pool), Roles::ALL, settings).await;
        self.nodes.push(Some(node));
        number
    }

    /// Puts the organization into a worker pool, as an admin would.
    pub async fn move_to(&self, pool: &PoolName) {
        let organizations = &self.world.line().ports.organizations;
        let organization = organizations.organization(&Ref::Id(self.world.organization)).await;
        let organization = organization.ok().flatten().expect("the world's organization");
        // The embedded store knows of no pools, but gives the applications their new versions.
        organizations
            .update_organization(organization.clone(), organization, self.world.entry())
            .await
            .expect("the organization is changed");
        self.registry.move_to(self.world.organization, pool);
    }

    /// A node that runs.
    pub fn node(&self, number: usize) -> &Node {
        self.nodes[number].as_ref().expect("the node runs")
    }

    /// Kills a node: everything in its memory is gone, requests under way are cut, without notice.
    pub async fn kill(&mut self, number: usize) {
        self.nodes[number] = None;
        for _ in 0..DROP_ROUNDS {
            tokio::task::yield_now().await;
        }
    }

    /// Stops a node as an operator would, while time goes on.
    pub async fn stop(&mut self, number: usize, grace: Duration) {
        let mut node = self.nodes[number].take().expect("the node runs");
        let engine = node.engine.take().expect("it was not stopped before");
        let stopped = tokio::spawn(engine.stop(grace));
        while !stopped.is_finished() {
            self.world.settle_down().await;
            if !stopped.is_finished() {
                self.world.pass(Duration::from_millis(10)).await;
            }
        }
    }

    /// Which shards a node holds, as the registry has it.
    pub fn shards(&self, number: usize) -> ShardSet {
        self.node(number).member.held().shards
    }

    /// Which of the nodes that run owns an endpoint's lane.
    pub fn owner_of(&self, receiver: &Receiver) -> usize {
        let owns = |number: &usize| self.nodes[*number].as_ref().is_some_and(|node| node.member.held().shards.has_lane(receiver.id.into()));
        (0..self.nodes.len()).find(owns).expect("somebody owns the lane")
    }

    /// Which nodes sent to an endpoint, in order.
    pub fn senders_to(&self, receiver: &Receiver) -> Vec<usize> {
        self.senders.sent().into_iter().filter(|sent| sent.url == receiver.url).map(|sent| sent.node).collect()
    }
}

impl Drop for Cluster {
    /// # Panics
    /// If a node leaves requests or outcomes over. The rest is the world's to say.
    fn drop(&mut self) {
        if self.world.may_leave_work() || std::thread::panicking() {
            return;
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let status = node.as_ref().map(Node::status).unwrap_or_default();
            assert_eq!((status.in_flight, status.unwritten), (0, 0), "node {number} leaves requests or outcomes over");
        }
    }
}

impl Deref for Cluster {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}
