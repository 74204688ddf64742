//! PostgreSQL is stopped and started again while providers push: each push is answered within the time that providers wait, is one event, and the events of
//! one user of the provider arrive in order. What was pushed twice is stored twice, and the second says what it repeats.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use everhook::cli::client::{Connection, Server};
use everhook_testbed::{
    node::Node,
    postgres_server::{PostgresServer, Stop},
};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::task::JoinHandle;

use super::{
    STALL_MAX,
    sink::{Behavior, Sink},
    start_nodes, tell,
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NODES: usize = 2;
/// Each provider pushes about one user, at one node.
const PROVIDERS: u64 = 4;
/// The numbers of one provider begin at this times its own.
const STRETCH: u64 = 1_000_000;
/// Each push of this number is sent twice, as a provider does that lost its answer.
const REPEATED_EACH: u64 = 5;
const PAUSE: Duration = Duration::from_millis(40);
/// How long PostgreSQL is there before it is stopped and after it is back, and how long it is away: longer than a lease.
const BEFORE: Duration = Duration::from_secs(2);
const AWAY: Duration = Duration::from_secs(7);
const AFTER: Duration = Duration::from_secs(2);
/// How long a provider may wait for its answer: the first push of an outage waits until the store counts as away, after three seconds, and one at a
/// machine that is busy with other tests some more. Providers that are most in a hurry wait five.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// The same for nine of ten of them.
const MOSTLY_ANSWERED_WITHIN: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgresql_is_stopped_every_push_is_answered_and_is_one_event_and_repeats_are_marked() {
    for how in [Stop::Immediate, Stop::Fast] {
        let trial = Trial::start().await;
        let must_stop = Arc::new(AtomicBool::new(false));
        let provide = |user: u64| {
            let server = trial.nodes[user as usize % NODES].server();
            tokio::spawn(push_all(server, user, must_stop.clone()))
        };
        let providers: Vec<JoinHandle<Pushed>> = (0..PROVIDERS).map(provide).collect();
        tokio::time::sleep(BEFORE).await;
        // When PostgreSQL is stopped under load, and comes back.
        trial.postgres.stop(how);
        tokio::time::sleep(AWAY).await;
        trial.postgres.start_again();
        tokio::time::sleep(AFTER).await;
        must_stop.store(true, Ordering::Relaxed);
        let mut pushed = Pushed::default();
        for provider in providers {
            pushed.add(provider.await.expect("every push is answered with a success"));
        }
        trial.wait_until_arrived(pushed.numbers.len()).await;
        // Then the provider never waited for the store,
        pushed.answered_after.sort_unstable();
        let (most, longest) =
            (pushed.answered_after[pushed.answered_after.len() * 9 / 10], *pushed.answered_after.last().expect("there are some"));
        assert!(longest < ANSWERED_WITHIN && most < MOSTLY_ANSWERED_WITHIN, "{how:?}: nine of ten within {most:?}, all within {longest:?}");
        // each push was delivered as one event, in the order of its user,
        trial.assert_arrived_once_in_order(&pushed.numbers);
        // and each request is stored, of which the repeated ones are marked.
        let (events, repeats) = trial.events(pushed.answered_after.len()).await;
        assert_eq!((events, repeats), (pushed.answered_after.len(), pushed.answered_after.len() - pushed.numbers.len()));
        tell(&format!(
            "{how:?} stop: {events} pushes, {repeats} of them repeats, nine of ten answered within {most:?}, all within {longest:?}"
        ));
    }
}

/// What a provider was told yes for.
#[derive(Default)]
struct Pushed {
    numbers: Vec<u64>,
    /// How long each request took, repeats included.
    answered_after: Vec<Duration>,
}

impl Pushed {
    fn add(&mut self, other: Self) {
        self.numbers.extend(other.numbers);
        self.answered_after.extend(other.answered_after);
    }
}

/// Pushes about one user until it is told to stop, one after the other.
async fn push_all(server: Arc<Server>, user: u64, must_stop: Arc<AtomicBool>) -> Pushed {
    let (mut connection, mut pushed) = (Connection::new(server), Pushed::default());
    for number in user * STRETCH.. {
        if must_stop.load(Ordering::Relaxed) {
            break;
        }
        let times = if number % REPEATED_EACH == 0 { 2 } else { 1 };
        for _ in 0..times {
            let began_at = Instant::now();
            push(&mut connection, user, number).await;
            pushed.answered_after.push(began_at.elapsed());
        }
        pushed.numbers.push(number);
        tokio::time::sleep(PAUSE).await;
    }
    pushed
}

/// Sends one push, which must be accepted.
async fn push(connection: &mut Connection, user: u64, number: u64) {
    let sender = connection.open().await.expect("the node takes connections");
    let answer = sender.send_request(signed(user, number)).await.expect("the node answers");
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("a whole answer").to_bytes();
    assert!(status.is_success(), "push {number} was answered {status}: {}", String::from_utf8_lossy(&body));
}

fn signed(user: u64, number: u64) -> Request<Full<Bytes>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set").as_secs();
    let (id, body) = (format!("push-{number}"), json!({ "type": "kill.test", "number": number, "user": format!("u{user}") }).to_string());
    let webhook = Webhook::new(SECRET).expect("a secret");
    let signature = webhook.sign(&id, i64::try_from(now).expect("a time of today"), body.as_bytes()).expect("a signature");
    let request = Request::post("/in/partner").header("host", "hooks.example.com").header("content-type", "application/json");
    let request = request.header("webhook-id", id).header("webhook-timestamp", now).header("webhook-signature", signature);
    request.body(Full::new(Bytes::from(body))).expect("a request")
}

/// Nodes on a PostgreSQL of their own, a signed source that recognizes what comes again, and an endpoint that gets the events of one user in order.
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
        let mut connection = Connection::new(nodes[0].server());
        let endpoint = json!({ "url": format!("http://{}/e/0", sink.address), "event_types": ["kill.test"], "ordering": "per_key" });
        connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
        let source = json!({
            "name": "partner", "kind": "custom", "secrets": [SECRET],
            "recipe": RECIPE.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect::<serde_json::Map<_, _>>(),
            "dedupe": { "by": "id", "window": "1h" }, "rate_limit": { "per_ip_per_minute": 1_000_000 },
        });
        connection.ask(Method::POST, "/v1/sources", Some(&source)).await.expect("the source is made");
        // Each node has seen the source once: one that it does not know is not served while the store is away.
        for node in &nodes {
            push(&mut Connection::new(node.server()), PROVIDERS, PROVIDERS * STRETCH).await;
        }
        Self { nodes, sink, postgres }
    }

    async fn wait_until_arrived(&self, count: usize) {
        let (mut before, mut deadline) = (0, Instant::now() + STALL_MAX);
        // The one that made the source known arrives, too.
        while self.sink.accepted() < count + 1 {
            let arrived = self.sink.accepted();
            if arrived > before {
                (before, deadline) = (arrived, Instant::now() + STALL_MAX);
            }
            assert!(Instant::now() < deadline, "nothing arrived for {STALL_MAX:?}: {arrived} of {count}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn assert_arrived_once_in_order(&self, numbers: &[u64]) {
        let (arrivals, mut firsts) = (self.sink.arrivals(), BTreeMap::<u64, Instant>::new());
        for number in numbers {
            let of_push = arrivals.get(&(0, *number)).unwrap_or_else(|| panic!("push {number} is lost"));
            assert!(
                of_push.iter().all(|arrival| arrival.webhook_id == of_push[0].webhook_id),
                "push {number} became two events: {of_push:?}"
            );
            firsts.insert(*number, of_push[0].at);
        }
        let in_order: Vec<(&u64, &Instant)> = firsts.iter().collect();
        for pair in in_order.windows(2).filter(|pair| pair[0].0 / STRETCH == pair[1].0 / STRETCH) {
            assert!(pair[0].1 <= pair[1].1, "push {} overtook push {}", pair[1].0, pair[0].0);
        }
    }

    /// How many events of the providers' users there are once as many are there as were pushed, and how many of them repeat another.
    async fn events(&self, pushed: usize) -> (usize, usize) {
        let deadline = Instant::now() + STALL_MAX;
        loop {
            let events = self.all_events().await;
            if events.len() >= pushed || Instant::now() > deadline {
                return (events.len(), events.iter().filter(|event| !event["duplicate_of"].is_null()).count());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn all_events(&self) -> Vec<Value> {
        let (mut connection, mut rows) = (Connection::new(self.nodes[0].server()), Vec::new());
        for user in 0..PROVIDERS {
            let mut cursor = String::new();
            loop {
                let path = format!("/v1/sources/partner/events?limit=250&external_user_id=u{user}{cursor}");
                let page = connection.ask(Method::GET, &path, None).await.expect("a page");
                rows.extend(page["data"].as_array().expect("rows").iter().cloned());
                let Some(next) = page["next_cursor"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
        }
        rows
    }
}

/// Standard Webhooks, with a user.
const RECIPE: [(&str, &str); 8] = [
    ("mac", "sha256 base64"),
    ("key_format", "whsec"),
    ("sig", "webhook-signature list=' ' v1,"),
    ("ts", "webhook-timestamp s 5m"),
    ("over", "{id}.{ts}.{body}"),
    ("id", "H:webhook-id"),
    ("type", "/type"),
    ("user", "/user"),
];
