//! What only one node does at a time: operations, automatic replay and alerts, while nodes are killed. Each is one node's, and whatever it does is
//! done once.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use everhook::cli::client::Connection;
use everhook_testbed::node::is_nothing_open;
use http::Method;
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};
use tokio_postgres::{Client, NoTls};

use super::{STALL_MAX, Trial, publishers, sink::Behavior, tell};

/// The events that operations do again.
const EVENTS: u64 = 60;
/// The time from one kill to the next, in milliseconds: a duty whose node died is taken after five seconds, and should get something done.
const LIFE: std::ops::Range<u64> = 2_000..6_000;
/// How often is looked who has which duty.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long the server may take to do something that it is asked for while nodes die.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Deliveries of operations that are not the only one of their item.
const DONE_TWICE: &str = "SELECT operation_id::text || ' did ' || event_id || ' ' || count(*) || ' times' FROM all_deliveries
    WHERE operation_id IS NOT NULL GROUP BY operation_id, event_id, lane HAVING count(*) > 1";
/// Dead letters that came back by themselves before the try before had ended, or so soon after its death that it cannot have been due: somebody else
/// brought them back too.
const BACK_TWICE: &str = "SELECT a.replay_of::text || ' by ' || a.id || ' and ' || b.id FROM all_deliveries a JOIN all_deliveries b USING (replay_of)
    WHERE a.operation_id IS NULL AND b.operation_id IS NULL AND a.id < b.id AND (a.ended_at IS NULL OR b.created_at < a.ended_at + 1000000)";
/// Operations that do not add up.
const MISCOUNTED: &str = "SELECT id::text || ' ' || status || ' ' || done || ' of ' || total FROM operations o
    WHERE status <> 'finished' OR done + failed + skipped <> total
        OR done <> (SELECT count(*) FROM all_deliveries d WHERE d.operation_id = o.id)";
const OPERATIONS: &str = "SELECT id::text FROM operations";
/// Deliveries that died; with those that an organization is told of once more, because they had come back by themselves.
const DIED: &str = "SELECT id::text FROM deliveries WHERE stage = 2";
const DIED_AGAIN: &str = "SELECT id::text FROM deliveries WHERE stage = 2 AND replay_of IS NOT NULL AND operation_id IS NULL";
/// Whether anything is left to do.
const IS_AT_REST: &str = "SELECT NOT EXISTS (SELECT FROM operations WHERE phase <> 'over') AND NOT EXISTS (SELECT FROM pending_alerts)
    AND NOT EXISTS (SELECT FROM open_deliveries)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_does_at_a_time_is_done_once_however_often_nodes_are_killed() {
    // Given three nodes, an endpoint that refuses some events for ever and some once, and dead letters that come back by themselves.
    let mut trial = Trial::of_nodes(Behavior::Flaky, &[]).await;
    let database = connect(&trial.database.url()).await;
    let alerts = Alerts::start().await;
    let application = trial.prepare(&alerts, &database).await;
    // When operations are asked for, and nodes are killed meanwhile.
    let watch = Watch::start(connect(&trial.database.url()).await);
    let kills = trial.kill_among_operations(&application).await;
    wait_until_something_died_again(&trial, &database).await;
    database.batch_execute("UPDATE auto_replays SET enabled = false").await.expect("nothing more comes back");
    wait_until_at_rest(&trial, &database).await;
    // Then no duty had two nodes, each operation did each of its items once, and nothing came back twice,
    let changes = watch.stop().await;
    for wrong in [DONE_TWICE, BACK_TWICE, MISCOUNTED] {
        assert_eq!(texts(&database, wrong).await, Vec::<String>::new(), "seed {}", trial.seed);
    }
    // and everything is told once: the end of each operation, each death, and each death of what had come back by itself.
    let told = |event_type, names| alerts.told(event_type, names);
    let operations = texts(&database, OPERATIONS).await;
    assert_eq!(told("operation.finished", "operation_id"), once(&operations));
    let (died, again) = (texts(&database, DIED).await, texts(&database, DIED_AGAIN).await);
    assert_eq!(told("message.attempt.exhausted", "delivery_id"), once(&died));
    assert_eq!(told("dlq.replay_failed", "delivery_id"), once(&again));
    assert!(operations.len() >= kills.min(2) && !again.is_empty(), "there was something to do");
    let (operations, died, again) = (operations.len(), died.len(), again.len());
    tell(&format!("{kills} kills, {changes} changes of duties, {operations} operations, {died} died, {again} of them again"));
}

impl Trial {
    /// Makes the endpoints, and publishes what operations will do again. Returns the application.
    async fn prepare(&self, alerts: &Alerts, database: &Client) -> String {
        let mut connection = Connection::new(self.nodes[0].server());
        let mut ask = async |method, path: &str, body: Value| {
            connection.ask(method, path, Some(&body)).await.unwrap_or_else(|error| panic!("{path}: {error:?}"))
        };
        let applications = self.ask(Method::GET, "/v1/applications", None).await;
        let of_kind = |kind: &str| {
            let rows = applications["data"].as_array().expect("rows");
            rows.iter().find(|row| row["kind"] == kind).expect("a built-in application")["id"].as_str().expect("an id").to_owned()
        };
        let endpoint = json!({
            "url": format!("http://{}/e/0", self.sink.address), "event_types": ["kill.test"], "circuit_breaker": {"enabled": false},
            "retry_config": {"max_attempts": 1, "base_delay_ms": 1000, "max_delay_ms": 1000},
        });
        ask(Method::POST, "/v1/endpoints", endpoint).await;
        let for_alerts =
            json!({"url": format!("http://{}/", alerts.address), "event_types": ["*"], "application_id": of_kind("operational")});
        ask(Method::POST, "/v1/endpoints", for_alerts).await;
        let organizations = self.ask(Method::GET, "/v1/organizations", None).await;
        let organization = organizations["data"][0]["id"].as_str().expect("an id").to_owned();
        let automatic = json!({"dlq_auto_replay": {"enabled": true, "after": "1m", "requests_per_second": 2, "max_tries": 4}});
        ask(Method::PUT, &format!("/v1/organizations/{organization}"), automatic).await;
        // A minute is the least that can be asked for, and too long for a test.
        database.batch_execute("UPDATE auto_replays SET after = 1000000").await.expect("a second");
        for number in 1..=EVENTS {
            ask(Method::POST, "/v1/events", publishers::body("kill.test", number)).await;
        }
        of_kind("default")
    }

    /// Before each kill another operation is asked for: everything again, or everything that is dead.
    async fn kill_among_operations(&mut self, application: &str) -> usize {
        let kills = std::env::var("KILLS").ok().map_or(6, |text| text.parse().expect("KILLS is a number"));
        for number in 0..kills {
            let rate = json!({"requests_per_second": 20});
            let (path, body) = if number % 2 == 0 {
                let span = json!({"from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z", "rate_limit": rate});
                (format!("/v1/applications/{application}/replay"), span)
            } else {
                ("/v1/dlq/retry-batch".to_owned(), json!({"filter": {}, "rate_limit": rate}))
            };
            self.ask(Method::POST, &path, Some(&body)).await;
            tokio::time::sleep(Duration::from_millis(self.dice.within(LIFE))).await;
            self.kill_one();
        }
        for node in &self.nodes {
            node.wait_until_ready().await;
        }
        kills
    }

    /// Asks the nodes in turn until one answers.
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        for node in self.nodes.iter().cycle() {
            match Connection::new(node.server()).ask(method.clone(), path, body).await {
                Ok(answer) => return answer,
                Err(error) => assert!(Instant::now() < deadline, "{path}: {error:?}"),
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        unreachable!("there are nodes")
    }
}

/// Kills may have come so close that nothing had the time to come back by itself and die again.
async fn wait_until_something_died_again(trial: &Trial, database: &Client) {
    let patience = 6 * STALL_MAX;
    let deadline = Instant::now() + patience;
    while texts(database, DIED_AGAIN).await.is_empty() {
        assert!(Instant::now() < deadline, "nothing came back by itself within {patience:?}, seed {}", trial.seed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until every operation has ended, everything is told, and nothing is on its way; as long as anything goes on.
async fn wait_until_at_rest(trial: &Trial, database: &Client) {
    let (mut before, mut deadline) = (0, Instant::now() + STALL_MAX);
    let mut connection = Connection::new(trial.nodes[0].server());
    loop {
        let is_at_rest: bool = database.query_one(IS_AT_REST, &[]).await.expect("an answer").get(0);
        if is_at_rest && is_nothing_open(&mut connection).await {
            return;
        }
        let attempts: i64 = database.query_one("SELECT count(*) FROM attempts", &[]).await.expect("an answer").get(0);
        if attempts > before {
            (before, deadline) = (attempts, Instant::now() + STALL_MAX);
        }
        assert!(Instant::now() < deadline, "nothing happened for {STALL_MAX:?}, seed {}", trial.seed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Looks all the time who has which duty.
struct Watch {
    stop: oneshot::Sender<()>,
    looking: JoinHandle<usize>,
}

impl Watch {
    fn start(database: Client) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let looking = tokio::spawn(async move {
            let (mut holders, mut changes) = (HashMap::new(), 0);
            while stopped.try_recv().is_err() {
                changes += look(&database, &mut holders).await;
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            changes
        });
        Self { stop, looking }
    }

    /// Says how often a duty went from one node to another.
    async fn stop(self) -> usize {
        self.stop.send(()).expect("it looks until now");
        self.looking.await.expect("no duty had two nodes")
    }
}

/// Whoever has a duty now is the one who had it, or that one's life is over: in one look, a duty and its former holder never live together.
async fn look(database: &Client, holders: &mut HashMap<String, String>) -> usize {
    let duties = "SELECT name, boot::text, ARRAY(SELECT id::text FROM boots) FROM duties WHERE boot IN (SELECT id FROM boots)";
    let mut changes = 0;
    for row in database.query(duties, &[]).await.expect("an answer") {
        let (duty, boot, alive): (String, String, Vec<String>) = (row.get(0), row.get(1), row.get(2));
        if let Some(former) = holders.insert(duty.clone(), boot.clone()).filter(|former| *former != boot) {
            assert!(!alive.contains(&former), "{duty} went from {former} to {boot}, and both are alive");
            changes += 1;
        }
    }
    changes
}

/// A receiver for what the organization is told. An event that arrives again is the same event.
struct Alerts {
    address: SocketAddr,
    told: Arc<Mutex<HashMap<String, Value>>>,
}

impl Alerts {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let told = Arc::<Mutex<HashMap<String, Value>>>::default();
        let app = Router::new().route("/", post(hear)).with_state(told.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, told }
    }

    /// How many events of a type named each thing, by a field of their data.
    fn told(&self, event_type: &str, field: &str) -> BTreeMap<String, usize> {
        let told = self.told.lock().expect("no panic while it was held");
        let mut counted = BTreeMap::new();
        for event in told.values().filter(|event| event["type"] == event_type) {
            *counted.entry(event["data"][field].as_str().expect("an id").to_owned()).or_default() += 1;
        }
        counted
    }
}

async fn hear(State(told): State<Arc<Mutex<HashMap<String, Value>>>>, headers: HeaderMap, body: Bytes) {
    let id = headers["webhook-id"].to_str().expect("an id").to_owned();
    told.lock().expect("no panic while it was held").insert(id, serde_json::from_slice(&body).expect("deliveries are JSON"));
}

/// Each of them, once.
fn once(names: &[String]) -> BTreeMap<String, usize> {
    names.iter().map(|name| (name.clone(), 1)).collect()
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client
}

/// The first column of each row.
async fn texts(database: &Client, sql: &str) -> Vec<String> {
    database.query(sql, &[]).await.expect("an answer").iter().map(|row| row.get(0)).collect()
}
