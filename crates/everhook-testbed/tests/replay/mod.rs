//! The real binary replays many events while others are published, and is killed with SIGKILL in the middle.
//!
//! `EVENTS` (2,000) says how many, `KILLS` (3) how often. Run it with `EVENTS=100000` by hand; the sum is written to standard error.

mod sink;

use std::{
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use everhook::cli::client::Connection;
use everhook_testbed::node::Node;
use http::Method;
use serde_json::{Value, json};

use self::sink::Sink;

/// How many events one publish takes.
const BATCH: u64 = 1_000;
/// How many live events are timed, at the least, and the pause between two.
const LIVE_EVENTS: u64 = 200;
const LIVE_PAUSE: Duration = Duration::from_millis(5);
/// How long a debug build on a busy machine may take for each event, and beside that.
const TIME_AN_EVENT: Duration = Duration::from_millis(20);
const TIME_BESIDE: Duration = Duration::from_secs(60);
/// A live event that waits longer than this during a replay waits for somebody else.
const LIVE_MAX: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_survives_kills_and_lets_live_events_pass() {
    let (events, kills) = (number("EVENTS", 2_000), number("KILLS", 3));
    let mut trial = Trial::start(events).await;
    // Given many events that were delivered.
    trial.publish_all().await;
    trial.wait_for_arrivals(1).await;
    let mut live = Live::new(&trial);
    live.publish_while(|sent| sent < LIVE_EVENTS).await;
    let quiet = live.p99().await;
    // When they are replayed while others are published, until the last has arrived.
    let begun_at = Instant::now();
    let operation = trial.begin().await;
    live.publish_while(|sent| sent < LIVE_EVENTS || trial.sink.delivered(2) < events).await;
    let busy = live.p99().await;
    trial.wait_until_finished(&operation).await;
    let took = begun_at.elapsed();
    trial.wait_for_arrivals(2).await;
    // And once more, while the server is killed.
    let operation = trial.begin().await;
    for n in 0..kills {
        tokio::time::sleep(Duration::from_millis(150 + 170 * n)).await;
        trial.node.kill();
        trial.node.start();
        trial.node.wait_until_ready().await;
    }
    let finished = trial.wait_until_finished(&operation).await;
    trial.wait_for_arrivals(3).await;
    // Then each was done once by each operation, and none was left out.
    assert_eq!((&finished["total"], &finished["done"]), (&json!(events), &json!(events)), "{finished}");
    trial.sink.assert_deliveries(events, 3);
    let _ = writeln!(
        std::io::stderr(),
        "replay: {events} events delivered again in {} ms, live p99 {} ms before and {} ms meanwhile; then {kills} kills, none lost, none twice",
        took.as_millis(),
        quiet.as_millis(),
        busy.as_millis()
    );
    assert!(busy <= LIVE_MAX, "a live event waited {busy:?} during a replay");
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

struct Trial {
    node: Node,
    sink: Arc<Sink>,
    application: String,
    events: u64,
}

impl Trial {
    async fn start(events: u64) -> Self {
        let sink = Sink::start().await;
        let mut node = Node::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
        node.start();
        node.wait_until_ready().await;
        let mut connection = Connection::new(node.server());
        for (route, event_type) in [("replayed", "replay.test"), ("live", "live.test")] {
            let url = format!("http://{}/{route}", sink.address);
            let endpoint = json!({ "url": url, "event_types": [event_type], "max_concurrency": 20 });
            connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
        }
        let applications = connection.ask(Method::GET, "/v1/applications", None).await.expect("the applications");
        let rows = applications["data"].as_array().expect("rows");
        let found = rows.iter().find(|row| row["kind"] == "default").expect("every organization has one");
        let application = found["id"].as_str().expect("an id").to_owned();
        Self { node, sink, application, events }
    }

    async fn publish_all(&self) {
        let mut connection = Connection::new(self.node.server());
        let mut first = 0;
        while first < self.events {
            let last = (first + BATCH).min(self.events);
            let event = |number| json!({ "type": "replay.test", "data": { "number": number } });
            let batch = json!({ "events": (first..last).map(event).collect::<Vec<_>>() });
            connection.ask(Method::POST, "/v1/events/batch", Some(&batch)).await.expect("they are accepted");
            first = last;
        }
    }

    async fn begin(&self) -> String {
        let input = json!({ "from": "2020-01-01", "to": "2100-01-01", "event_types": ["replay.test"] });
        let path = format!("/v1/applications/{}/replay", self.application);
        let begun = Connection::new(self.node.server()).ask(Method::POST, &path, Some(&input)).await.expect("it begins");
        begun["operation_id"].as_str().expect("an id").to_owned()
    }

    async fn wait_until_finished(&self, operation: &str) -> Value {
        let mut connection = Connection::new(self.node.server());
        let deadline = Instant::now() + self.patience();
        loop {
            let found = connection.ask(Method::GET, &format!("/v1/operations/{operation}"), None).await.expect("the operation");
            if found["status"] == "finished" {
                return found;
            }
            assert!(Instant::now() < deadline, "it does not finish: {found}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until every event was delivered by so many deliveries, and nothing is open.
    async fn wait_for_arrivals(&self, deliveries: usize) {
        let mut connection = Connection::new(self.node.server());
        let deadline = Instant::now() + self.patience();
        loop {
            let arrived = self.sink.delivered(deliveries);
            if arrived == self.events {
                let open = connection.ask(Method::GET, "/v1/deliveries?status=pending&limit=1", None).await.expect("a page");
                if open["data"].as_array().is_some_and(Vec::is_empty) {
                    return;
                }
            }
            assert!(Instant::now() < deadline, "{arrived} of {} events arrived {deliveries} times", self.events);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn patience(&self) -> Duration {
        TIME_BESIDE + TIME_AN_EVENT * u32::try_from(self.events).expect("few enough")
    }
}

/// A publisher of live events, which are timed.
struct Live {
    connection: Connection,
    sink: Arc<Sink>,
    published: Vec<(u64, Instant)>,
    next: u64,
}

impl Live {
    fn new(trial: &Trial) -> Self {
        Self { connection: Connection::new(trial.node.server()), sink: trial.sink.clone(), published: Vec::new(), next: 0 }
    }

    /// Publishes at a steady pace as long as `has_more` says so, which is told how many were published.
    async fn publish_while(&mut self, has_more: impl Fn(u64) -> bool) {
        let deadline = Instant::now() + TIME_BESIDE * 10;
        let first = self.next;
        while has_more(self.next - first) && Instant::now() < deadline {
            self.published.push((self.next, Instant::now()));
            let event = json!({ "type": "live.test", "data": { "number": self.next } });
            self.connection.ask(Method::POST, "/v1/events", Some(&event)).await.expect("it is accepted");
            self.next += 1;
            tokio::time::sleep(LIVE_PAUSE).await;
        }
    }

    /// From publishing to arrival, for 99 of 100 of those that were published since it was last asked.
    async fn p99(&mut self) -> Duration {
        let mut waits = Vec::new();
        for (number, published_at) in self.published.drain(..) {
            waits.push(self.sink.live_arrival(number).await.saturating_duration_since(published_at));
        }
        waits.sort_unstable();
        waits[waits.len() * 99 / 100]
    }
}
