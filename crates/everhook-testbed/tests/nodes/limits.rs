//! The limits of an organization hold over all nodes together, counted in PostgreSQL or in a Redis beside it; and a Redis that dies stops nothing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use everhook::cli::client::Connection;
use everhook_testbed::{database::Database, node::Node};
use http::Method;
use serde_json::{Value, json};

use super::{
    NODES, STALL_MAX, publishers,
    redis_server::Server,
    sink::{Behavior, Sink},
    start_nodes, tell,
};

/// Spread over the nodes by their ids: that all are one node's would take one in 80,000 runs.
const ENDPOINTS: u32 = 12;
/// The limit: ten a second, and six at once after a quiet time.
const PER_MINUTE: u32 = 600;
const BURST: f64 = 6.0;
/// How long it is watched.
const WATCHED_FOR: Duration = Duration::from_secs(20);
/// Enough that something waits for all of that time.
const EVENTS: u64 = 25;

/// Three nodes and a sink.
struct Trial {
    nodes: Vec<Node>,
    sink: Arc<Sink>,
    // Dropped last: the nodes use it.
    _database: Database,
}

impl Trial {
    async fn start(redis: Option<&Server>) -> Self {
        let database = Database::create().await;
        let sink = Sink::start(Behavior::Steady).await;
        let redis = redis.map(Server::url);
        let flags: Vec<&str> = redis.iter().flat_map(|url| ["--redis", url]).collect();
        let nodes = start_nodes(NODES, &database.url(), &flags).await;
        let trial = Self { nodes, sink, _database: database };
        trial.make_endpoints().await;
        trial
    }

    async fn make_endpoints(&self) {
        for number in 0..ENDPOINTS {
            let endpoint = json!({"url": format!("http://{}/e/{number}", self.sink.address), "event_types": ["limit.test"]});
            self.ask(0, Method::POST, "/v1/endpoints", Some(&endpoint)).await;
        }
    }

    async fn ask(&self, node: usize, method: Method, path: &str, body: Option<&Value>) -> Value {
        Connection::new(self.nodes[node].server()).ask(method, path, body).await.expect("an answer")
    }

    /// Sets a limit, and waits until every node has heard of it.
    async fn limit(&self, limits: Value) {
        let organizations = self.ask(0, Method::GET, "/v1/organizations", None).await;
        let id = organizations["data"][0]["id"].as_str().expect("an organization").to_owned();
        self.ask(0, Method::PUT, &format!("/v1/organizations/{id}"), Some(&json!({ "limits": limits }))).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }

    async fn publish(&self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            self.ask(number as usize % NODES, Method::POST, "/v1/events", Some(&publishers::body("limit.test", number))).await;
        }
    }

    /// When requests arrived, in order.
    fn arrivals(&self) -> Vec<Instant> {
        let mut all: Vec<Instant> = self.sink.arrivals().values().flatten().map(|arrival| arrival.at).collect();
        all.sort_unstable();
        all
    }

    async fn wait_for(&self, count: usize) {
        let (mut before, mut deadline) = (0, Instant::now() + STALL_MAX);
        while self.sink.accepted() < count {
            if self.sink.accepted() > before {
                (before, deadline) = (self.sink.accepted(), Instant::now() + STALL_MAX);
            }
            assert!(Instant::now() < deadline, "nothing arrived for {STALL_MAX:?}: {before} of {count} delivered");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends more than the limit lets through, and counts what arrives.
    async fn assert_rate(&self, name: &str) {
        self.limit(json!({ "deliveries_per_minute": PER_MINUTE })).await;
        self.publish(0..EVENTS).await;
        tokio::time::sleep(WATCHED_FOR + Duration::from_secs(1)).await;
        let arrivals = self.arrivals();
        let end = arrivals[0] + WATCHED_FOR;
        let arrived = arrivals.iter().filter(|at| **at < end).count() as f64;
        let expected = BURST + f64::from(PER_MINUTE) * WATCHED_FOR.as_secs_f64() / 60.0;
        tell(&format!("{name}: {arrived} deliveries in {WATCHED_FOR:?}, {expected} expected"));
        assert!((arrived - expected).abs() <= expected * 0.05, "{arrived} instead of {expected}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_on_one_postgresql_send_together_what_an_organization_may() {
    Trial::start(None).await.assert_rate("counted in PostgreSQL").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_a_redis_send_together_what_an_organization_may_and_go_on_when_it_dies() {
    let Some(mut redis) = Server::start() else { return };
    let trial = Trial::start(Some(&redis)).await;
    trial.assert_rate("counted in Redis").await;
    // When it dies, everything is delivered, and the nodes say that it is away.
    redis.kill();
    trial.publish(EVENTS..EVENTS + 10).await;
    trial.wait_for((EVENTS as usize + 10) * ENDPOINTS as usize).await;
    let ready = trial.ask(1, Method::GET, "/readyz", None).await;
    assert_eq!(ready, json!({"status": "ok", "redis": "away"}));
    // When it is back, that is over.
    redis.resume();
    let deadline = Instant::now() + STALL_MAX;
    while trial.ask(1, Method::GET, "/readyz", None).await != json!({"status": "ok"}) {
        assert!(Instant::now() < deadline, "it was not found");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishers_at_all_nodes_share_what_an_organization_may_publish() {
    let trial = Trial::start(None).await;
    // Two at once, and one in 250 ms.
    trial.limit(json!({ "events_per_minute": 240 })).await;
    let began_at = Instant::now();
    let mut accepted = 0;
    for number in 0..90 {
        let body = publishers::body("limit.test", number).to_string();
        let sent = Connection::new(trial.nodes[number as usize % NODES].server()).send(Method::POST, "/v1/events", body).await;
        let status = sent.expect("an answer").status;
        assert!(status.is_success() || status == http::StatusCode::TOO_MANY_REQUESTS, "{status}");
        accepted += u32::from(status.is_success());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let most = 2.0 + began_at.elapsed().as_secs_f64() * 4.0;
    tell(&format!("{accepted} events accepted, {most:.1} at most"));
    // A node whose answer takes longer than 50 ms, on a busy machine, lets one through by its own count; each for itself would be three times as many.
    assert!(f64::from(accepted) <= most * 1.3 && f64::from(accepted) >= most * 0.7, "{accepted} of {most}");
}
