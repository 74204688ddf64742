//! Whole lives of several nodes, from a seed: load, and nodes that come, stop, die and lose the store for a while. First safety, then everything heals,
//! then liveness. The `simulate` binary and the tests call [`run`].

use std::{panic::AssertUnwindSafe, time::Duration};

use everhook_core::{
    ids::EventId,
    manage::erasing,
    model::{Author, OrderingMode, PoolName},
    ports::{Change, Clock},
    time::Timestamp,
};

use super::Cluster;
use crate::{Answer, Receiver, dice::Dice, faults::Kind, mins, secs, world::BEGINNING};

/// How long everything may take to end once it has healed: longer than any schedule of a life.
const HEALED_FOR: Duration = mins(12);

/// How long a node that lost the store may go on sending.
const TRUSTED_FOR: Duration = secs(3);

/// What to live.
#[derive(Clone, Copy, Debug)]
pub struct LifePlan {
    /// Where all chance comes from.
    pub seed: u64,
    /// How many nodes there are, for most of the time.
    pub nodes: usize,
    /// How many worker pools they are in. With more than one, the organization goes from one to another.
    pub pools: usize,
    /// How long things happen, in simulated time, before they heal.
    pub span: Duration,
}

/// What came of a life.
#[derive(Clone, Debug)]
pub struct Life {
    /// The seed that gives it again.
    pub seed: u64,
    /// What was counted.
    pub tally: LifeTally,
    /// The promise that was broken, if one was.
    pub violation: Option<String>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifeTally {
    /// Events that were accepted.
    pub accepted: usize,
    /// Requests that were made.
    pub requests: usize,
    /// Nodes that died.
    pub kills: usize,
    /// Nodes that were stopped.
    pub stops: usize,
    /// Times that a node lost the store for a while.
    pub pauses: usize,
    /// Times that the organization went to another pool.
    pub moves: usize,
    /// Events that were erased.
    pub erasures: usize,
}

impl std::ops::AddAssign for LifeTally {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.requests += other.requests;
        self.kills += other.kills;
        self.stops += other.stops;
        self.pauses += other.pauses;
        self.moves += other.moves;
        self.erasures += other.erasures;
    }
}

/// Lives one seed on a runtime of its own, in this thread.
pub fn run(plan: LifePlan) -> Life {
    let mut tally = LifeTally::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    // The looks of the world say by a panic what is wrong.
    let lived = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(live(plan, &mut tally))));
    let violation = lived.err().map(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or_else(|_| "a panic without words".to_owned(), |text| (*text).to_owned()),
    });
    Life { seed: plan.seed, tally, violation }
}

/// A life under way.
struct Living<'a> {
    cluster: Cluster,
    dice: Dice,
    tally: &'a mut LifeTally,
    receivers: Vec<Receiver>,
    strict: Vec<Receiver>,
    accepted: Vec<EventId>,
    /// Nodes without the store, and when they get it back.
    paused: Vec<(usize, Timestamp)>,
    /// Which node was without the store from when until when.
    pauses: Vec<(usize, Timestamp, Timestamp)>,
    living: Vec<usize>,
    pools: Vec<PoolName>,
}

async fn live(plan: LifePlan, tally: &mut LifeTally) {
    let cluster = Cluster::seeded(plan.seed, plan.nodes).await;
    let mut living = Living {
        cluster,
        dice: Dice::new(plan.seed.rotate_left(32) ^ 0x11FE),
        tally,
        receivers: Vec::new(),
        strict: Vec::new(),
        accepted: Vec::new(),
        paused: Vec::new(),
        pauses: Vec::new(),
        living: (0..plan.nodes).collect(),
        pools: (0..plan.pools).map(pool).collect(),
    };
    for pool in living.pools.clone().into_iter().skip(1) {
        living.start_in(pool).await;
    }
    living.populate().await;
    let end = BEGINNING + plan.span;
    while living.cluster.clock.now() < end {
        living.step(plan.nodes).await;
    }
    living.heal().await;
    living.judge().await;
}

/// The first is the one that everybody is in at the beginning.
fn pool(number: usize) -> PoolName {
    if number == 0 { PoolName::default() } else { PoolName::parse(&format!("pool-{number}")).expect("a name") }
}

impl Living<'_> {
    async fn populate(&mut self) {
        let (slow, slower) = (Answer::Slow(200, Duration::from_millis(400)), Answer::Slow(200, secs(5)));
        // Breakers would hold up those that fail for longer than a life is.
        for then in [Answer::Status(200), slow, slower, Answer::Status(500), Answer::Hangs] {
            let ordered = then != Answer::Hangs;
            let delays = [secs(2), secs(10), secs(60)];
            let made = self.cluster.endpoint().always(then).retrying_after(delays).without_breaker().create().await;
            self.receivers.push(made);
            if ordered {
                let endpoint = self.cluster.endpoint().in_order(OrderingMode::Strict).answering_in_turn([then, Answer::Status(503), slow]);
                let made = endpoint.retrying_after(delays).without_breaker().create().await;
                self.strict.push(made);
            }
        }
    }

    async fn step(&mut self, nodes: usize) {
        let millis_max = [300, 2_000, 8_000][self.dice.below(3) as usize];
        self.cluster.pass(Duration::from_millis(self.dice.below(millis_max))).await;
        self.resume_some();
        match self.dice.below(100) {
            0..57 => self.publish().await,
            57..60 => self.erase().await,
            60..67 => self.kill().await,
            67..74 => self.stop().await,
            74..82 => self.pause(),
            82..90 => self.cluster.faults.plan(self.dice.below(20) as u32, [Kind::Before, Kind::After][self.dice.below(2) as usize]),
            90..93 => self.cluster.registry.lose_hints(self.dice.below(2) == 0),
            93..95 => self.suspend(),
            95..100 if self.pools.len() > 1 => self.move_somewhere().await,
            _ => {}
        }
        if self.living.len() < nodes && self.dice.below(3) == 0 {
            let pool = self.some_pool();
            self.start_in(pool).await;
        }
    }

    async fn start_in(&mut self, pool: PoolName) {
        let started = self.cluster.start_in(pool).await;
        self.living.push(started);
    }

    /// One of the pools. Where there is one, no dice are thrown for it.
    fn some_pool(&self) -> PoolName {
        let number = if self.pools.len() == 1 { 0 } else { self.dice.below(self.pools.len() as u64) as usize };
        self.pools[number].clone()
    }

    /// Now and then at once to a second one, or back.
    async fn move_somewhere(&mut self) {
        for _ in 0..=self.dice.below(2) {
            let pool = self.some_pool();
            self.cluster.move_to(&pool).await;
            self.tally.moves += 1;
        }
    }

    async fn publish(&mut self) {
        for _ in 0..=self.dice.below(6) {
            let at = self.living.get(self.dice.below(8) as usize).copied();
            let event = self.cluster.event("order.paid");
            // A node without the store takes no events.
            let event = match at.filter(|node| self.paused.iter().all(|(paused, _)| paused != node)) {
                Some(node) => event.at(self.cluster.node(node)),
                None => event,
            };
            if let Ok(published) = event.try_publish().await {
                self.accepted.push(published.event);
                self.tally.accepted += 1;
            }
        }
    }

    /// Erases one of the last events at some node. Whether anything of it arrives is not asked any more.
    async fn erase(&mut self) {
        let Some(place) = self.accepted.len().checked_sub(1 + self.dice.below(6) as usize) else { return };
        let event = self.accepted.remove(place);
        let node = self.some_node().filter(|node| self.paused.iter().all(|(paused, _)| paused != node));
        let line = node.map_or(self.cluster.line(), |node| &self.cluster.node(node).line);
        // A fault may keep it from that, or only the answer.
        if erasing::erase_event(line, &Author::server(self.cluster.organization), event).await.is_ok() {
            self.tally.erasures += 1;
        }
        self.cluster.registry.record(Change::Erased(event));
    }

    fn some_node(&self) -> Option<usize> {
        self.living.get(self.dice.below(self.living.len() as u64) as usize).copied()
    }

    async fn kill(&mut self) {
        let Some(node) = self.some_node() else { return };
        self.forget(node);
        self.tally.kills += 1;
        self.cluster.kill(node).await;
    }

    async fn stop(&mut self) {
        // A stop of one without the store would wait for it.
        let Some(node) = self.some_node().filter(|node| self.paused.iter().all(|(paused, _)| paused != node)) else { return };
        self.forget(node);
        self.tally.stops += 1;
        self.cluster.stop(node, secs(10)).await;
    }

    fn forget(&mut self, node: usize) {
        self.living.retain(|living| *living != node);
        self.end_pause(node);
    }

    /// A node has the store again, or is gone. It was away until now, whatever was planned.
    fn end_pause(&mut self, node: usize) {
        let now = self.cluster.clock.now();
        if self.paused.iter().any(|(paused, _)| *paused == node) {
            self.paused.retain(|(paused, _)| *paused != node);
            self.pauses.iter_mut().rfind(|(paused, ..)| *paused == node).into_iter().for_each(|(_, _, until)| *until = now);
        }
    }

    fn pause(&mut self) {
        let Some(node) = self.some_node().filter(|node| self.paused.iter().all(|(paused, _)| paused != node)) else { return };
        let now = self.cluster.clock.now();
        let until = now + Duration::from_millis(200 + self.dice.below(15_000));
        self.cluster.node(node).member.pause();
        self.paused.push((node, until));
        self.pauses.push((node, now, until));
        self.tally.pauses += 1;
    }

    fn resume_some(&mut self) {
        let now = self.cluster.clock.now();
        self.resume_those(|until| until <= now);
    }

    fn resume_those(&mut self, is_over: impl Fn(Timestamp) -> bool) {
        for (node, _) in self.paused.clone().into_iter().filter(|(_, until)| is_over(*until)) {
            self.cluster.node(node).member.resume();
            self.end_pause(node);
        }
    }

    /// All machines stand still for a while.
    fn suspend(&self) {
        let clock = &self.cluster.clock;
        clock.move_to(clock.now() + Duration::from_millis(self.dice.below(20_000)));
    }

    async fn heal(&mut self) {
        self.cluster.faults.forget();
        self.cluster.registry.lose_hints(false);
        for receiver in self.receivers.iter().chain(&self.strict) {
            self.cluster.network.script(&receiver.url, [], Answer::Status(200));
        }
        self.resume_those(|_| true);
        let pool = self.cluster.registry.pool();
        if !self.living.iter().any(|node| *self.cluster.node(*node).member.pool() == pool) {
            self.start_in(pool).await;
        }
        self.cluster.pass(HEALED_FOR).await;
    }

    async fn judge(&mut self) {
        let sent = self.cluster.senders.sent();
        self.tally.requests = sent.len();
        assert_eq!(self.cluster.senders.overlaps(), [""; 0], "no two nodes send for one lane at the same time");
        for (node, from, until) in &self.pauses {
            let late = sent.iter().find(|sent| sent.node == *node && sent.at > *from + TRUSTED_FOR && sent.at < *until);
            assert!(late.is_none(), "a node without the store sends nothing after three seconds: {late:?}");
        }
        let accepted: Vec<String> = self.accepted.iter().map(EventId::to_string).collect();
        for receiver in &self.strict {
            let arrivals = self.cluster.arrivals_of(receiver).into_iter().map(|arrival| arrival.event);
            // Some were recorded although their publisher was told that they failed.
            let mut arrived: Vec<String> = arrivals.filter(|event| accepted.contains(event)).collect();
            arrived.dedup();
            let differs_at = arrived.iter().zip(&accepted).position(|(arrived, accepted)| arrived != accepted);
            assert_eq!(differs_at, None, "{} gets its events in order, each once or again and again", receiver.url);
            assert_eq!(arrived.len(), accepted.len(), "{} gets all of its events", receiver.url);
            assert!(self.cluster.senders.most_to(&receiver.url) <= 1, "{} gets one event at a time", receiver.url);
        }
        for node in &self.living {
            let status = self.cluster.node(*node).status();
            assert_eq!((status.in_flight, status.unwritten), (0, 0), "something is left over in node {node}");
        }
        self.cluster.assert_promises(&self.accepted).await;
    }
}
