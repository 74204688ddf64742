//! The store's clock, which the nodes follow: as far as it can be believed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use everhook_core::{
    ports::{Clock, Offset, Ports, Roles},
    time::Timestamp,
};
use everhook_testbed::{
    clock::SimClock,
    cluster::{Cluster, Node},
    mins, secs,
    world::line_settings,
};

/// A node's clock that goes where it is told, and never back.
struct Following(Arc<SimClock>, Mutex<Duration>);

impl Following {
    fn new(clock: Arc<SimClock>) -> Self {
        Self(clock, Mutex::default())
    }

    fn ahead(&self) -> Duration {
        *self.1.lock().expect("nobody panicked")
    }
}

#[async_trait]
impl Clock for Following {
    fn now(&self) -> Timestamp {
        self.0.now() + self.ahead()
    }

    fn calendar(&self) -> Timestamp {
        self.0.now()
    }

    fn uptime(&self) -> Duration {
        self.0.uptime()
    }

    fn correct(&self, offset: Offset) {
        let mut ahead = self.1.lock().expect("nobody panicked");
        *ahead = Duration::from_micros(u64::try_from(offset.micros).unwrap_or(0)).max(*ahead);
    }

    async fn sleep_until(&self, at: Timestamp) {
        self.0.sleep_until(at - self.ahead()).await;
    }
}

#[tokio::test]
async fn a_nodes_clock_is_corrected_by_the_stores_at_each_renewal_and_far_forward_after_a_while() {
    let mut cluster = Cluster::of(1).await;
    let clock = Arc::new(Following::new(cluster.clock.clone()));
    let ports = Ports { clock: clock.clone(), ..cluster.bare_ports() };
    let node = Node::start(ports, cluster.registry.member(7, Default::default()), Roles::ALL, line_settings("late")).await;
    // How far the store is ahead, for how long, and where the node's time is then, in seconds.
    for (store, passed, expected) in [(0, 3, 0), (1, 1, 1), (3_600, 2, 1), (3_600, 2, 3_600), (3_604, 1, 3_604)] {
        node.member.lag(secs(store));
        cluster.pass(secs(passed)).await;
        assert_eq!(clock.ahead(), secs(expected), "after {passed} seconds in which the store is {store} ahead");
    }
}

#[tokio::test]
async fn a_node_knows_how_far_its_clock_is_off_and_sends_nothing_while_that_is_too_far() {
    let mut cluster = Cluster::of(1).await;
    cluster.kill(0).await;
    let node = Node::start(cluster.bare_ports(), cluster.registry.member(7, Default::default()), Roles::ALL, line_settings("wrong")).await;
    cluster.pass(secs(5)).await;
    // How far the store is ahead, in seconds, and how many shards the node holds then.
    for (lag, shards) in [(0, 64), (2, 64), (8, 0), (0, 64)] {
        node.member.lag(secs(lag));
        cluster.pass(secs(8)).await;
        assert_eq!(node.line.held_lease.clock_skew(), secs(lag));
        assert_eq!(node.member.held().shards.len(), shards, "the store is {lag} s ahead");
    }
}

#[tokio::test]
async fn when_the_stores_clock_leaps_ahead_for_a_moment_the_nodes_go_on_within_seconds() {
    let mut cluster = Cluster::of(1).await;
    cluster.kill(0).await;
    let mut nodes = Vec::new();
    for number in 1..3 {
        let ports = Ports { clock: Arc::new(Following::new(cluster.clock.clone())), ..cluster.bare_ports() };
        nodes.push(Node::start(ports, cluster.registry.member(number, Default::default()), Roles::ALL, line_settings("following")).await);
    }
    cluster.pass(secs(10)).await;
    let shards = |nodes: &[Node]| nodes.iter().map(|node| node.member.held().shards.len()).collect::<Vec<_>>();
    assert_eq!(shards(&nodes), [32, 32]);
    // Given a store that is an hour ahead for one renewal.
    nodes.iter().for_each(|node| node.member.lag(mins(60)));
    cluster.pass(secs(1)).await;
    nodes.iter().for_each(|node| node.member.lag(Duration::ZERO));
    // Then nobody's time has moved, and everything is shared again soon.
    cluster.pass(secs(6)).await;
    assert_eq!(shards(&nodes), [32, 32]);
    for node in &nodes {
        assert_eq!(node.line.ports.clock.now(), cluster.clock.now());
    }
    let receiver = cluster.endpoint().create().await;
    cluster.event("order.paid").publish().await;
    cluster.pass(secs(2)).await;
    assert_eq!(cluster.arrivals_of(&receiver).len(), 1);
}
