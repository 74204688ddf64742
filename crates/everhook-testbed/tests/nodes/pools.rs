//! Worker pools with real nodes: who sends for whom, also while an organization is moved under load.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use everhook::cli::client::Connection;
use everhook_testbed::{
    database::Database,
    node::{ADMIN_KEY, Node, is_nothing_open},
};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::{
    assert_order,
    hints::{Notified, QUICK, broker},
    publishers::{self, Publishers},
    sink::{Behavior, Sink},
    start_node, tell,
};

/// How long something may take that should happen at once, or when a lease has ended: this machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How often an organization is moved under load, and the time between.
const MOVES: usize = 6;
const STAY: Duration = Duration::from_millis(2_500);
/// How many events of each organization are timed.
const TIMED: u64 = 20;

/// A database, nodes of it, and a sink.
struct Pools {
    nodes: Vec<Node>,
    sink: Arc<Sink>,
    /// What all of them are started with.
    flags: Vec<String>,
    // Dropped last: the nodes use it.
    database: Database,
}

impl Pools {
    /// One node in each of these pools.
    async fn start(pools: &[&str]) -> Self {
        Self::start_with(pools, &[]).await
    }

    async fn start_with(pools: &[&str], flags: &[&str]) -> Self {
        let (sink, database) = (Sink::start(Behavior::Steady).await, Database::create().await);
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut trial = Self { nodes: Vec::new(), sink, flags, database };
        for pool in pools {
            trial.start_in(pool).await;
        }
        trial
    }

    async fn start_in(&mut self, pool: &str) {
        let flags: Vec<&str> = ["--pool", pool].into_iter().chain(self.flags.iter().map(String::as_str)).collect();
        self.nodes.push(start_node(&self.database.url(), &flags).await);
    }

    /// Asks a node as an admin, within an organization.
    async fn ask(&self, node: usize, organization: &str, method: Method, path: &str, body: Option<Value>) -> Value {
        let request = Request::builder().method(method).uri(path).header("host", "localhost").header("x-organization", organization);
        let request = request.header("authorization", format!("Bearer {ADMIN_KEY}")).header("content-type", "application/json");
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let mut connection = Connection::new(self.nodes[node].server());
        let response = connection.open().await.expect("a connection").send_request(request).await.expect("an answer");
        let status = response.status();
        let body = response.into_body().collect().await.expect("its body").to_bytes();
        assert!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    async fn make_organization(&self, uid: &str, pool: &str) {
        let made = json!({"name": uid, "uid": uid, "worker_pool": pool});
        let made = self.ask(0, "default", Method::POST, "/v1/organizations", Some(made)).await;
        assert_eq!(made["worker_pool"], json!(pool));
    }

    async fn make_endpoint(&self, organization: &str, number: u32, ordering: &str) {
        let url = format!("http://{}/e/{number}", self.sink.address);
        let endpoint = json!({"url": url, "event_types": ["kill.test"], "ordering": ordering});
        self.ask(0, organization, Method::POST, "/v1/endpoints", Some(endpoint)).await;
    }

    async fn publish(&self, node: usize, organization: &str, number: u64) {
        self.ask(node, organization, Method::POST, "/v1/events", Some(publishers::body("kill.test", number))).await;
    }

    /// Publishes the event of this number for each of two organizations, for the first at the first node, and says how long each was under way.
    async fn publish_across(&self, organizations: [&str; 2], number: u64) -> Vec<Duration> {
        let mut waits = Vec::new();
        for (node, organization) in organizations.into_iter().enumerate() {
            self.publish(node, organization, number).await;
            let accepted_at = Instant::now();
            self.wait_for_arrivals(2 * number as usize + node + 1).await;
            let arrival = self.sink.arrivals()[&(node as u32, number)][0].at;
            waits.push(arrival.saturating_duration_since(accepted_at));
        }
        waits
    }

    async fn move_to(&self, node: usize, organization: &str, pool: &str) {
        let path = format!("/v1/organizations/{organization}");
        let moved = self.ask(node, "default", Method::PUT, &path, Some(json!({"worker_pool": pool}))).await;
        assert_eq!(moved["worker_pool"], json!(pool));
    }

    async fn wait_for_arrivals(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.sink.accepted() < count {
            assert!(Instant::now() < deadline, "{} of {count} arrived within {PATIENCE:?}", self.sink.accepted());
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// The ports of the nodes that made an organization's attempts, once everything of it is delivered.
    async fn senders(&self, organization: &str) -> BTreeSet<String> {
        let deadline = Instant::now() + PATIENCE;
        let deliveries = loop {
            let page = self.ask(0, organization, Method::GET, "/v1/deliveries?limit=100", None).await;
            let rows = page["data"].as_array().expect("rows").clone();
            if !rows.is_empty() && rows.iter().all(|row| row["status"] == json!("delivered")) {
                break rows;
            }
            assert!(Instant::now() < deadline, "not everything is delivered: {page}");
            tokio::time::sleep(LOOK_INTERVAL).await;
        };
        let mut senders = BTreeSet::new();
        for delivery in deliveries {
            let path = format!("/v1/deliveries/{}", delivery["id"].as_str().expect("an id"));
            let delivery = self.ask(0, organization, Method::GET, &path, None).await;
            let nodes = delivery["attempts"].as_array().expect("rows").iter().filter_map(|attempt| attempt["node"].as_str());
            senders.extend(nodes.map(|node| node.rsplit(':').next().expect("a port").to_owned()));
        }
        senders
    }

    fn port(&self, node: usize) -> BTreeSet<String> {
        let url = self.nodes[node].url();
        BTreeSet::from([url.rsplit(':').next().expect("a port").to_owned()])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_organizations_requests_come_from_the_node_of_its_pool_wherever_they_are_published() {
    // Given a node in each of two pools, and an organization in each.
    let pools = Pools::start(&["default", "heavy"]).await;
    pools.make_organization("light", "default").await;
    pools.make_organization("acme", "heavy").await;
    for (number, organization) in ["light", "acme"].into_iter().enumerate() {
        // Several, so that they are in several shards.
        for endpoint in 0..4 {
            pools.make_endpoint(organization, 4 * number as u32 + endpoint, "none").await;
        }
    }
    // When each is published to at both.
    for number in 0..4 {
        for organization in ["light", "acme"] {
            pools.publish(number as usize % 2, organization, number).await;
        }
    }
    pools.wait_for_arrivals(2 * 4 * 4).await;
    // Then each was sent for by its pool's node alone.
    assert_eq!((pools.senders("light").await, pools.senders("acme").await), (pools.port(0), pools.port(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_at_a_node_of_another_pool_is_sent_at_once_because_the_broker_brought_the_hint() {
    // Given a node in each of two pools, an organization in each, and a broker that leads to both.
    let Some(broker) = broker() else { return };
    let pools = Pools::start_with(&["default", "heavy"], &["--amqp", &broker]).await;
    let sides = ["acme", "light"];
    for (number, (organization, pool)) in sides.into_iter().zip(["heavy", "default"]).enumerate() {
        pools.make_organization(organization, pool).await;
        pools.make_endpoint(organization, number as u32, "none").await;
    }
    let notified = Notified::listen(&pools.database).await;
    let (deadline, mut settling, mut told_before) = (Instant::now() + PATIENCE, 0, usize::MAX);
    while notified.count() != told_before {
        assert!(Instant::now() < deadline, "the broker does not lead to both");
        told_before = notified.count();
        pools.publish_across(sides, settling).await;
        settling += 1;
        tokio::time::sleep(4 * LOOK_INTERVAL).await;
    }
    // When each is published to at the other's node,
    let mut waits = Vec::new();
    for number in settling..settling + TIMED {
        waits.extend(pools.publish_across(sides, number).await);
    }
    // then PostgreSQL is not asked to tell anybody,
    assert_eq!(notified.count() - told_before, 0, "notifications of PostgreSQL");
    // and it is quick.
    waits.sort();
    let late = waits[waits.len() * 9 / 10];
    tell(&format!("hints to another pool by RabbitMQ: median {:?}, nine of ten within {late:?}", waits[waits.len() / 2]));
    assert!(late < QUICK, "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_organization_that_is_moved_under_load_loses_nothing_and_stays_in_order_and_nothing_is_sent_twice() {
    let pools = Pools::start(&["default", "heavy"]).await;
    for number in 0..3 {
        pools.make_endpoint("default", number, if number == 0 { "strict" } else { "none" }).await;
    }
    let servers: Vec<_> = pools.nodes.iter().map(Node::server).collect();
    let mut publishers = Publishers::start_at(&servers, "kill.test");
    // When it is moved again and again, at one node and the other, while events are published at both.
    for number in 0..MOVES {
        tokio::time::sleep(STAY).await;
        pools.move_to(number % 2, "default", ["heavy", "default"][number % 2]).await;
    }
    let accepted = publishers.stop().await;
    pools.wait_for_arrivals(accepted.len() * 3).await;
    let mut connection = Connection::new(pools.nodes[0].server());
    let deadline = Instant::now() + PATIENCE;
    while !is_nothing_open(&mut connection).await {
        assert!(Instant::now() < deadline, "something is still open");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    // Then everything arrived, once, and in order.
    let arrivals = pools.sink.arrivals();
    let repeated: usize = arrivals.values().map(|of_event| of_event.len() - 1).sum();
    assert_eq!((arrivals.len(), repeated), (accepted.len() * 3, 0));
    assert_order(&accepted, &arrivals);
    tell(&format!("{MOVES} moves, {} accepted, {} delivered, none repeated", accepted.len(), arrivals.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_without_a_node_waits_and_delivers_when_one_starts() {
    let mut pools = Pools::start(&["default"]).await;
    pools.make_endpoint("default", 0, "none").await;
    pools.move_to(0, "default", "later").await;
    // The node that had it lets go of it at its next renewal, and sends nothing from its first look at the change on.
    tokio::time::sleep(STAY).await;
    for number in 0..5 {
        pools.publish(0, "default", number).await;
    }
    tokio::time::sleep(STAY).await;
    assert_eq!(pools.sink.accepted(), 0);
    pools.start_in("later").await;
    pools.wait_for_arrivals(5).await;
    assert_eq!(pools.senders("default").await, pools.port(1));
}
