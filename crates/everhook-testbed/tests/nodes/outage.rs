//! PostgreSQL is stopped and started again under load: every publish is accepted meanwhile, nothing is lost, and what goes in order stays in order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use everhook::cli::client::{Connection, Server};
use everhook_testbed::{
    node::Node,
    postgres_server::{PostgresServer, Stop},
};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{
    sink::{Arrivals, Behavior, Sink},
    start_nodes, tell,
};

/// How many nodes there are, and how many publishers at each.
const NODES: usize = 2;
const PUBLISHERS_A_NODE: u64 = 3;
/// The pause between two events of a publisher.
const PAUSE: Duration = Duration::from_millis(40);
/// How long PostgreSQL is there before it is stopped, and how long it is away: longer than a lease.
const BEFORE: Duration = Duration::from_secs(2);
const AWAY: Duration = Duration::from_secs(7);
/// How soon after it is back something must arrive.
const RESUMES_WITHIN: Duration = Duration::from_secs(10);
/// How long nothing may arrive while something is still to come, on a busy machine.
const STALL_MAX: Duration = Duration::from_secs(20);
/// The numbers of one publisher begin at this times its own.
const STRETCH: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgresql_is_stopped_every_publish_is_accepted_and_arrives_in_order_when_it_is_back() {
    for how in [Stop::Immediate, Stop::Fast] {
        let trial = Trial::start().await;
        let publishers = Publishers::start(&trial.nodes);
        tokio::time::sleep(BEFORE).await;
        // When PostgreSQL is stopped under load.
        trial.postgres.stop(how);
        tokio::time::sleep(AWAY).await;
        // Then the nodes are ready all the same, and say how they are.
        assert_eq!(trial.statuses().await, ["degraded"; NODES]);
        trial.postgres.start_again();
        let back_at = Instant::now();
        trial.wait_for_an_arrival_after(back_at).await;
        let resumed_after = back_at.elapsed();
        let accepted = publishers.stop().await;
        trial.wait_until_drained(accepted.len()).await;
        // Every publish was accepted, each event arrived as itself, and each publisher's events in their order.
        let spooled = accepted.iter().filter(|event| event.spooled).count();
        assert!(spooled > 0 && spooled < accepted.len(), "{spooled} of {} were spooled", accepted.len());
        let arrivals = trial.sink.arrivals();
        assert_all_arrived(&accepted, &arrivals);
        assert_order(&accepted, &arrivals);
        assert!(resumed_after < RESUMES_WITHIN, "nothing arrived for {resumed_after:?}");
        tell(&format!("{how:?} stop: {} accepted, {spooled} of them spooled, resumed after {resumed_after:?}", accepted.len()));
    }
}

/// Nodes on a PostgreSQL of their own, and a sink with one endpoint that wants order.
struct Trial {
    nodes: Vec<Node>,
    sink: Arc<Sink>,
    // Dropped last: the nodes use it.
    postgres: PostgresServer,
}

impl Trial {
    async fn start() -> Self {
        let postgres = PostgresServer::start();
        let sink = Sink::start(Behavior::Steady).await;
        let nodes = start_nodes(NODES, &postgres.url(), &[]).await;
        let endpoint = json!({ "url": format!("http://{}/e/0", sink.address), "event_types": ["kill.test"], "ordering": "strict" });
        Connection::new(nodes[0].server()).ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
        Self { nodes, sink, postgres }
    }

    async fn statuses(&self) -> Vec<String> {
        let mut statuses = Vec::new();
        for node in &self.nodes {
            let status = Connection::new(node.server()).ask(Method::GET, "/readyz", None).await.expect("the node is ready");
            statuses.push(status["status"].as_str().expect("a status").to_owned());
        }
        statuses
    }

    async fn wait_for_an_arrival_after(&self, instant: Instant) {
        let deadline = instant + STALL_MAX;
        while !self.sink.arrivals().values().flatten().any(|arrival| arrival.at > instant) {
            assert!(Instant::now() < deadline, "nothing arrived for {STALL_MAX:?} after PostgreSQL was back");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn wait_until_drained(&self, count: usize) {
        let (mut before, mut deadline) = (0, Instant::now() + STALL_MAX);
        while self.sink.accepted() < count {
            let arrived = self.sink.accepted();
            if arrived > before {
                (before, deadline) = (arrived, Instant::now() + STALL_MAX);
            }
            assert!(Instant::now() < deadline, "nothing arrived for {STALL_MAX:?}: {arrived} of {count}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(self.statuses().await, ["ok"; NODES]);
    }
}

/// An event that was answered with a yes.
#[derive(Clone, Debug)]
struct Accepted {
    number: u64,
    id: String,
    spooled: bool,
}

/// Publishers that take no answer but a yes, each at one node.
struct Publishers {
    must_stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Vec<Accepted>>>,
}

impl Publishers {
    fn start(nodes: &[Node]) -> Self {
        let must_stop = Arc::new(AtomicBool::new(false));
        let places = (0..PUBLISHERS_A_NODE).flat_map(|_| nodes).zip(0..);
        let tasks = places.map(|(node, place)| tokio::spawn(publish(node.server(), place * STRETCH, must_stop.clone()))).collect();
        Self { must_stop, tasks }
    }

    async fn stop(self) -> Vec<Accepted> {
        self.must_stop.store(true, Ordering::Relaxed);
        let mut accepted = Vec::new();
        for task in self.tasks {
            accepted.extend(task.await.expect("every publish is accepted"));
        }
        accepted
    }
}

async fn publish(server: Arc<Server>, first: u64, must_stop: Arc<AtomicBool>) -> Vec<Accepted> {
    let mut connection = Connection::new(server);
    let mut accepted = Vec::new();
    for number in first.. {
        if must_stop.load(Ordering::Relaxed) {
            break;
        }
        let answer = connection.send(Method::POST, "/v1/events", super::publishers::body("kill.test", number).to_string()).await;
        let answer = answer.expect("the node answers");
        assert!(answer.status.is_success(), "{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
        let answer: Value = answer.into_json().expect("a 2xx is JSON");
        let spooled = answer["spooled"] == json!(true);
        assert_eq!((answer["sequence_number"].is_null(), answer["deliveries"].is_null()), (spooled, spooled), "{answer}");
        accepted.push(Accepted { number, id: answer["id"].as_str().expect("an id").to_owned(), spooled });
        tokio::time::sleep(PAUSE).await;
    }
    accepted
}

fn assert_all_arrived(accepted: &[Accepted], arrivals: &Arrivals) {
    for event in accepted {
        let of_event = arrivals.get(&(0, event.number)).unwrap_or_else(|| panic!("event {} is lost", event.number));
        assert!(of_event.iter().all(|arrival| arrival.webhook_id == event.id), "event {} became two events", event.number);
    }
}

/// What one publisher was told yes for first arrives first.
fn assert_order(accepted: &[Accepted], arrivals: &Arrivals) {
    let mut numbers: Vec<u64> = accepted.iter().map(|event| event.number).collect();
    numbers.sort_unstable();
    for pair in numbers.windows(2).filter(|pair| pair[0] / STRETCH == pair[1] / STRETCH) {
        let [before, after] = [pair[0], pair[1]].map(|number| arrivals[&(0, number)][0].at);
        assert!(before <= after, "event {} overtook event {}", pair[1], pair[0]);
    }
}
