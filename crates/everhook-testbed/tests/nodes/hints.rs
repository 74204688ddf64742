//! Nodes that hint each other through a real broker: it brings what it should, and nothing depends on it.
//!
//! Needs the RabbitMQ that `scripts/services up` starts; without one, every test says loudly that it was skipped.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use everhook::cli::client::{Connection, Server};
use everhook_testbed::database::Database;
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::{ENDPOINTS, NODES, Trial, proxy::Proxy, publishers::body, services, sink::Behavior, tell};

/// Long enough for a loaded machine.
const AMPLE: Duration = Duration::from_secs(60);
/// How many events are timed, one after the other.
const TIMED: u64 = 40;
/// Half of what would pass on average until the owner of a lane looks for itself, which it does each second.
pub(super) const QUICK: Duration = Duration::from_millis(250);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_for_a_lane_of_another_node_is_sent_at_once_because_the_broker_brought_the_hint() {
    // Given three nodes that hint each other through a broker, each with its share of the shards.
    let Some(broker) = broker() else { return };
    let trial = Trial::start_with(Behavior::Steady, &["--amqp", &broker]).await;
    let notified = Notified::listen(&trial.database).await;
    until_settled(&trial, &notified).await;
    // When events are published at one of them,
    let told_before = notified.count();
    let mut publisher = Connection::new(trial.nodes[0].server());
    let mut waits = Vec::new();
    for number in 0..TIMED {
        publisher.ask(Method::POST, "/v1/events", Some(&body("kill.test", number))).await.expect("it is accepted");
        let accepted_at = Instant::now();
        until("it arrives", || arrived(&trial, number) == ENDPOINTS as usize).await;
        let arrivals = trial.sink.arrivals();
        waits.extend((0..ENDPOINTS).map(|endpoint| arrivals[&(endpoint, number)][0].at.saturating_duration_since(accepted_at)));
    }
    // then they are quick at every endpoint, whoever owns its lane, and PostgreSQL was not asked to tell anybody.
    waits.sort();
    let late = waits[waits.len() * 9 / 10];
    tell(&format!("hints by RabbitMQ: median {:?}, nine of ten within {late:?}", waits[waits.len() / 2]));
    assert_eq!(notified.count() - told_before, 0, "notifications of PostgreSQL");
    assert!(late < QUICK, "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_refused_while_the_broker_is_away_and_it_is_used_again_when_it_is_back() {
    let Some(broker) = broker() else { return };
    let port = broker.parse::<http::Uri>().expect("a URL").port_u16().unwrap_or(5672);
    let wire = Proxy::to(port).await;
    let trial = Trial::start_with(Behavior::Steady, &["--amqp", &broker.replace(&format!(":{port}/"), &format!(":{}/", wire.port))]).await;
    let notified = Notified::listen(&trial.database).await;
    until_settled(&trial, &notified).await;
    // Given publishers at every node, none of which is ever refused,
    let load = Load::start(&trial.servers());
    let arrived_before = trial.sink.accepted();
    until("a hundred are published", || load.published() >= 100).await;
    let told_before = notified.count();
    // when the broker goes away in the middle of it,
    wire.block();
    until_said(&trial, json!("away")).await;
    let when_away = load.published();
    until("publishing goes on", || load.published() >= when_away + 200).await;
    until("what was published then arrives", || trial.sink.accepted() >= arrived_before + (when_away + 100) * ENDPOINTS as usize).await;
    assert!(notified.count() > told_before, "PostgreSQL tells meanwhile");
    // and comes back,
    wire.unblock();
    until_said(&trial, Value::Null).await;
    until_only_the_broker_tells(&load, &notified).await;
    // then everything that was published has arrived everywhere.
    let published = load.stop().await;
    trial.wait_until_quiet(published.len() * ENDPOINTS as usize).await;
    let arrivals = trial.sink.arrivals();
    let is_lost = |number: &&u64| (0..ENDPOINTS).any(|endpoint| !arrivals.contains_key(&(endpoint, **number)));
    assert_eq!(published.iter().filter(is_lost).collect::<Vec<_>>(), Vec::<&u64>::new());
    tell(&format!("RabbitMQ away under load: {} published, none refused, none lost; {} notifications", published.len(), notified.count()));
}

/// The broker's URL, or a loud word that there is none.
pub(super) fn broker() -> Option<String> {
    services::address("EVERHOOK_TEST_AMQP")
}

/// What nodes tell each other through PostgreSQL.
pub(super) struct Notified {
    count: Arc<AtomicUsize>,
    client: Client,
    _listening: JoinHandle<()>,
}

impl Notified {
    pub(super) async fn listen(database: &Database) -> Self {
        let (client, mut connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("the server answers");
        let count = Arc::<AtomicUsize>::default();
        let counted = count.clone();
        let listening = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(_) = message {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let channel: String = client.query_one("SELECT hint_channel FROM installation", &[]).await.expect("nodes have started").get(0);
        client.batch_execute(&format!("LISTEN \"{channel}\"")).await.expect("it listens");
        Self { count, client, _listening: listening }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// How many nodes hold shards, and how many shards have no node.
    async fn holders(&self) -> (i64, i64) {
        let holders = "SELECT count(DISTINCT boot), count(*) FILTER (WHERE boot IS NULL) FROM shards";
        let row = self.client.query_one(holders, &[]).await.expect("who holds what");
        (row.get(0), row.get(1))
    }
}

/// Waits until every node has shards, every shard a node, and the broker leads to each of them: an event passes without a notification.
async fn until_settled(trial: &Trial, notified: &Notified) {
    until_said(trial, Value::Null).await;
    let settling = async {
        let mut publisher = Connection::new(trial.nodes[0].server());
        for number in 1_000_000.. {
            let before = notified.count();
            publisher.ask(Method::POST, "/v1/events", Some(&body("kill.test", number))).await.expect("it is accepted");
            until("it arrives", || arrived(trial, number) == ENDPOINTS as usize).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            if notified.holders().await == (NODES as i64, 0) && notified.count() == before {
                return;
            }
        }
    };
    tokio::time::timeout(AMPLE, settling).await.expect("the nodes share the work");
}

/// Waits until every node says this of the broker; a broker that is there is not mentioned.
async fn until_said(trial: &Trial, amqp: Value) {
    let saying = async {
        for server in trial.servers() {
            let mut connection = Connection::new(server);
            while connection.ask(Method::GET, "/readyz", None).await.expect("it is ready")["amqp"] != amqp {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(AMPLE, saying).await.unwrap_or_else(|_| panic!("not every node says `{amqp}`"));
}

/// Waits until many events in a row cost no notification.
async fn until_only_the_broker_tells(load: &Load, notified: &Notified) {
    let looking = async {
        loop {
            let (published, told) = (load.published(), notified.count());
            until("a hundred more", || load.published() >= published + 100).await;
            if notified.count() == told {
                return;
            }
        }
    };
    tokio::time::timeout(AMPLE, looking).await.expect("the broker is used again");
}

fn arrived(trial: &Trial, number: u64) -> usize {
    trial.sink.arrivals().keys().filter(|(_, arrived)| *arrived == number).count()
}

/// Publishers that take no refusal, one at each node.
struct Load {
    must_stop: Arc<AtomicBool>,
    published: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<Vec<u64>>>,
}

impl Load {
    /// The pause between two events of a publisher: together they stay below what a debug build delivers on a busy machine.
    const PAUSE: Duration = Duration::from_millis(60);

    fn start(servers: &[Arc<Server>]) -> Self {
        let (must_stop, published) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let one = |(place, server): (usize, &Arc<Server>)| {
            let (mut connection, must_stop, published) = (Connection::new(server.clone()), must_stop.clone(), published.clone());
            tokio::spawn(async move {
                let mut numbers = Vec::new();
                while !must_stop.load(Ordering::SeqCst) {
                    let number = 2_000_000 * (place as u64 + 1) + numbers.len() as u64;
                    connection.ask(Method::POST, "/v1/events", Some(&body("kill.test", number))).await.expect("it is accepted");
                    published.fetch_add(1, Ordering::SeqCst);
                    numbers.push(number);
                    tokio::time::sleep(Self::PAUSE).await;
                }
                numbers
            })
        };
        let tasks = servers.iter().enumerate().map(one).collect();
        Self { must_stop, published, tasks }
    }

    fn published(&self) -> usize {
        self.published.load(Ordering::SeqCst)
    }

    /// Ends it, and says what was published.
    async fn stop(self) -> Vec<u64> {
        self.must_stop.store(true, Ordering::SeqCst);
        let mut numbers = Vec::new();
        for task in self.tasks {
            numbers.extend(task.await.expect("nothing was refused"));
        }
        numbers
    }
}

/// Waits until something is true.
async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(AMPLE, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}
