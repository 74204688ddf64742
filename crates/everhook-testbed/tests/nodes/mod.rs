//! Several real nodes on one PostgreSQL, killed one after another under load: nothing that any of them accepted may be lost, and what goes in
//! order stays in order.
//!
//! `KILLS` (10, or 6 among duties) says how often, `SEED` repeats the dice. The sum of each test is written to standard error, also when it passes.

mod alone;
mod breakers;
mod duties;
mod health;
mod hints;
mod limits;
mod metrics;
mod other_database;
mod outage;
mod outage_log;
mod outage_received;
mod pools;
mod server_alerts;
mod traces;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use everhook::cli::client::{Connection, Server};
use everhook_testbed::{
    database::{Database, SEAL_KEY},
    dice::{Dice, seed_of_run},
    node::{Node, is_nothing_open},
};
use http::Method;
use serde_json::{Value, json};

use self::{
    publishers::{Accepted, Publishers},
    sink::{Arrivals, Behavior, Sink},
};
use crate::{
    killed::{publishers, sink},
    proxy, redis_server, services,
};

/// How many nodes there are.
const NODES: usize = 3;
/// The endpoints, of which the first goes in order.
const ENDPOINTS: u32 = 6;
/// How long nothing may arrive while something is still to come: a lease of five seconds, a look a second later, and a busy machine. An ordered
/// endpoint gets one after the other, so that all of it may take much longer.
const STALL_MAX: Duration = Duration::from_secs(20);
/// The time from one kill to the next, in milliseconds.
const LIFE: std::ops::Range<u64> = 500..3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_any_node_accepted_is_delivered_in_order_however_often_nodes_are_killed() {
    // Given three nodes that share a database, and publishers at each of them.
    let mut trial = Trial::start(Behavior::Steady).await;
    let mut publishers = Publishers::start_at(&trial.servers(), "kill.test");
    // When one of them is killed and started again, again and again.
    let kills = trial.kill_again_and_again().await;
    let accepted = publishers.stop().await;
    trial.wait_until_quiet(accepted.len() * ENDPOINTS as usize).await;
    // Then each event arrived everywhere, as one event,
    let arrivals = trial.sink.arrivals();
    for event in &accepted {
        for endpoint in 0..ENDPOINTS {
            let of_event =
                arrivals.get(&(endpoint, event.number)).unwrap_or_else(|| panic!("event {} is lost at endpoint {endpoint}", event.number));
            assert!(of_event.iter().all(|arrival| arrival.webhook_id == event.id), "event {} became two events", event.number);
        }
    }
    // and the endpoint that wants order got it.
    assert_order(&accepted, &arrivals);
    let repeated: usize = arrivals.values().map(|of_event| of_event.len() - 1).sum();
    tell(&format!("{kills} kills, {} accepted, {} delivered, {repeated} repeated", accepted.len(), arrivals.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_published_at_all_nodes_at_once_makes_one_event() {
    let trial = Trial::start(Behavior::Steady).await;
    let servers = trial.servers();
    // When a thousand publishers use one key at the same moment, at different nodes.
    let publish = |place: usize| {
        let server = servers[place % NODES].clone();
        tokio::spawn(async move { Connection::new(server).ask(Method::POST, "/v1/events", Some(&publishers::body("kill.test", 1))).await })
    };
    let asked: Vec<_> = (0..1_000).map(publish).collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.expect("no panic").expect("an answer"));
    }
    trial.wait_until_quiet(ENDPOINTS as usize).await;
    // Then one made the event, and the others found it. On a busy machine some are spooled: one of those may have made it, and the others were told
    // an id that finds it once it is forwarded.
    let (spooled, recorded): (Vec<&Value>, Vec<&Value>) = answers.iter().partition(|answer| answer["spooled"] == json!(true));
    let made = recorded.iter().filter(|answer| answer["duplicate"] != json!(true)).count();
    assert!(made == 1 || (made == 0 && !spooled.is_empty()), "{made} made it, {} were spooled", spooled.len());
    trial.wait_until_forwarded().await;
    let told: BTreeSet<&str> = answers.iter().map(|answer| answer["id"].as_str().expect("an id")).collect();
    let mut found = BTreeMap::new();
    for id in told {
        let event = trial.event(id).await;
        found.insert(event["id"].to_string(), event);
    }
    let found: Vec<Value> = found.into_values().collect();
    let [event] = &found[..] else { panic!("one key became several events: {found:?}") };
    assert!(recorded.iter().all(|answer| answer["id"] == event["id"] && answer["sequence_number"] == event["sequence_number"]), "{event}");
    assert!(trial.sink.arrivals().values().all(|of_event| of_event.len() == 1));
}

/// Starts a node on this database, with these flags as well, and waits until it takes events.
async fn start_node(database: &str, flags: &[&str]) -> Node {
    let mut node = Node::new(Path::new(env!("CARGO_TARGET_TMPDIR"))).with_flags(["--database", database, "--seal-key", SEAL_KEY]);
    node.add_flags(flags);
    node.start();
    node.wait_until_ready().await;
    node
}

/// Starts as many, one after the other.
async fn start_nodes(count: usize, database: &str, flags: &[&str]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(start_node(database, flags).await);
    }
    nodes
}

/// Nodes that share a database, and a sink.
struct Trial {
    nodes: Vec<Node>,
    sink: Arc<Sink>,
    dice: Dice,
    seed: u64,
    // Dropped last: the nodes use it.
    database: Database,
}

impl Trial {
    async fn start(manners: Behavior) -> Self {
        Self::start_with(manners, &[]).await
    }

    /// Starts nodes with these flags as well.
    async fn start_with(manners: Behavior, flags: &[&str]) -> Self {
        let trial = Self::of_nodes(manners, flags).await;
        trial.make_endpoints().await;
        trial
    }

    /// The nodes and the sink, with nothing between them yet.
    async fn of_nodes(manners: Behavior, flags: &[&str]) -> Self {
        let database = Database::create().await;
        let sink = Sink::start(manners).await;
        let nodes = start_nodes(NODES, &database.url(), flags).await;
        let seed = seed_of_run();
        Self { nodes, sink, dice: Dice::new(seed), seed, database }
    }

    async fn make_endpoints(&self) {
        let mut connection = Connection::new(self.nodes[0].server());
        for number in 0..ENDPOINTS {
            let ordering = if number == 0 { "strict" } else { "none" };
            let endpoint = json!({
                "url": format!("http://{}/e/{number}", self.sink.address),
                "event_types": ["kill.test"],
                "ordering": ordering,
            });
            connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
        }
    }

    fn servers(&self) -> Vec<Arc<Server>> {
        self.nodes.iter().map(Node::server).collect()
    }

    async fn kill_again_and_again(&mut self) -> usize {
        let kills = std::env::var("KILLS").ok().map_or(10, |text| text.parse().expect("KILLS is a number"));
        for _ in 0..kills {
            tokio::time::sleep(Duration::from_millis(self.dice.within(LIFE))).await;
            self.kill_one();
        }
        for node in &self.nodes {
            node.wait_until_ready().await;
        }
        kills
    }

    /// Kills any of the nodes and starts it again.
    fn kill_one(&mut self) {
        let victim = &mut self.nodes[self.dice.below(NODES as u64) as usize];
        victim.kill();
        victim.start();
    }

    /// Waits until that many (event, endpoint) were accepted by the sink, and none is open.
    async fn wait_until_quiet(&self, delivered: usize) {
        let (mut before, mut deadline) = (0, Instant::now() + STALL_MAX);
        let mut connection = Connection::new(self.nodes[0].server());
        loop {
            let arrived = self.sink.accepted();
            if arrived >= delivered && is_nothing_open(&mut connection).await {
                return;
            }
            if arrived > before {
                (before, deadline) = (arrived, Instant::now() + STALL_MAX);
            }
            assert!(Instant::now() < deadline, "nothing arrived for {STALL_MAX:?}: {arrived} of {delivered} delivered");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until no node has anything in its spool.
    async fn wait_until_forwarded(&self) {
        let deadline = Instant::now() + STALL_MAX;
        for server in self.servers() {
            let mut connection = Connection::new(server);
            while connection.ask(Method::GET, "/readyz", None).await.expect("the node is ready")["status"] != "ok" {
                assert!(Instant::now() < deadline, "something is spooled after {STALL_MAX:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// The event that an id finds.
    async fn event(&self, id: &str) -> Value {
        let path = format!("/v1/events/{id}");
        Connection::new(self.nodes[0].server()).ask(Method::GET, &path, None).await.expect("the event is found")
    }
}

/// Nobody may arrive at the ordered endpoint for the first time before one that was accepted earlier.
fn assert_order(accepted: &[Accepted], arrivals: &Arrivals) {
    // On a busy machine some may have been spooled: they got their place later.
    let mut in_order: Vec<(&Accepted, i64)> = accepted.iter().filter_map(|event| Some((event, event.sequence_number?))).collect();
    assert!(2 * in_order.len() > accepted.len(), "only {} of {} were not spooled", in_order.len(), accepted.len());
    in_order.sort_by_key(|(_, place)| *place);
    let firsts: Vec<(u64, i64, Instant)> =
        in_order.iter().map(|(event, place)| (event.number, *place, arrivals[&(0, event.number)][0].at)).collect();
    for pair in firsts.windows(2) {
        assert!(pair[0].2 <= pair[1].2, "event {} (place {}) overtook event {} (place {})", pair[1].0, pair[1].1, pair[0].0, pair[0].1);
    }
}

fn tell(what: &str) {
    let _ = writeln!(std::io::stderr(), "nodes: {what}");
}
