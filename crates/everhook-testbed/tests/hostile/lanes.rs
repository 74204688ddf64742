//! Endpoints that hang: however many requests they ask for, and whether or not they were quick before, idle endpoints of a neighbor are served at once.

use std::{
    io::Write as _,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::arena::{Arena, Bounds, LeftToEnd, Receiver, Tenant};

/// How many endpoints of the neighbor are idle until the attack is under way.
const IDLE_ENDPOINTS: usize = 4;

/// How long an attack lasts before the neighbor's idle endpoints are tried: longer than a request may take that still counts as quick.
const ATTACK_FOR: Duration = Duration::from_millis(1_500);

/// A receiver that reads requests and, from some moment on, answers none.
struct Hanging {
    address: SocketAddr,
    hangs: Arc<AtomicBool>,
    requests: Arc<AtomicUsize>,
}

impl Hanging {
    async fn start(hangs: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (hangs, requests) = (Arc::new(AtomicBool::new(hangs)), Arc::new(AtomicUsize::new(0)));
        let (is_hanging, counted) = (hangs.clone(), requests.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (is_hanging, counted) = (is_hanging.clone(), counted.clone());
                tokio::spawn(async move {
                    let mut buffer = [0; 16 * 1024];
                    // Requests of this attack are small: each is read at once.
                    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                        counted.fetch_add(1, Ordering::Relaxed);
                        if is_hanging.load(Ordering::Relaxed) {
                            std::future::pending::<()>().await;
                        }
                        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, hangs, requests }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

/// The most that an endpoint may ask for. Without a breaker, nothing else ends the attack.
fn worst() -> Value {
    json!({"max_concurrency": 1_000, "timeout_ms": 60_000, "circuit_breaker": {"enabled": false}})
}

async fn publish_batch(tenant: &Tenant, event_type: &str, count: usize) {
    let events: Vec<Value> = (0..count).map(|n| json!({"type": event_type, "data": {"n": n}})).collect();
    tenant.connect().ask(Method::POST, "/v1/events/batch", Some(&json!({"events": events}))).await.expect("the batch is taken");
}

/// The neighbor's endpoints that have nothing to do until the attack is under way: some were used before, some never, all without a breaker, so that their
/// lanes are forgotten as soon as they are idle.
struct Idle {
    receiver: Receiver,
}

impl Idle {
    async fn prepare(arena: &Arena) -> Self {
        let receiver = Receiver::start().await;
        for n in 0..IDLE_ENDPOINTS {
            let settings = json!({"circuit_breaker": {"enabled": n % 2 == 1}});
            arena.neighbor.endpoint(&receiver.url(), &[&format!("idle.event{n}")], settings).await;
        }
        let idle = Self { receiver };
        for n in 0..IDLE_ENDPOINTS / 2 {
            idle.first_attempt(arena, n).await.expect("nobody attacks yet");
        }
        idle
    }

    /// How long after an endpoint's event is published its request arrives.
    async fn first_attempt(&self, arena: &Arena, n: usize) -> Option<Duration> {
        let began = Instant::now();
        let body = json!({"type": format!("idle.event{n}"), "data": {}});
        let answer = arena.neighbor.connect().ask(Method::POST, "/v1/events", Some(&body)).await.expect("the neighbor may publish");
        let arrived = self.receiver.wait_for(answer["id"].as_str().expect("its id")).await;
        arrived.map(|at| at.saturating_duration_since(began))
    }

    /// Each of them gets an event, and must have it at once.
    async fn assert_served(&self, arena: &Arena, attack: &str) {
        let mut slowest = Duration::ZERO;
        for n in 0..IDLE_ENDPOINTS {
            let took = self.first_attempt(arena, n).await;
            let took = took.unwrap_or_else(|| panic!("{attack}: an event for an idle endpoint was not sent"));
            slowest = slowest.max(took);
        }
        let _ = writeln!(std::io::stderr(), "attack `{attack}`: first attempts of {IDLE_ENDPOINTS} idle endpoints at most {slowest:?}");
        assert!(slowest <= Bounds::of_this_run().first_attempt_max, "{attack}: an idle endpoint waited for {slowest:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_hangs_with_a_thousand_requests_at_once() {
    let mut arena = Arena::start([]).await;
    let idle = Idle::prepare(&arena).await;
    let hanging = Hanging::start(true).await;
    arena.attacker.endpoint(&hanging.url(), &["attack.event"], worst()).await;
    let watch = arena.watch().await;
    publish_batch(&arena.attacker, "attack.event", 900).await;
    tokio::time::sleep(ATTACK_FOR).await;
    idle.assert_served(&arena, "an endpoint that hangs").await;
    assert!(hanging.requests.load(Ordering::Relaxed) > 0);
    watch.end("an endpoint that hangs").await;
    arena.stop("an endpoint that hangs", LeftToEnd::Hanging).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_endpoints_that_hang() {
    let arena = Arena::start([]).await;
    let idle = Idle::prepare(&arena).await;
    let hanging = Hanging::start(true).await;
    for _ in 0..300 {
        arena.attacker.endpoint(&hanging.url(), &["attack.event"], worst()).await;
    }
    let watch = arena.watch().await;
    publish_batch(&arena.attacker, "attack.event", 20).await;
    tokio::time::sleep(ATTACK_FOR).await;
    idle.assert_served(&arena, "300 endpoints that hang").await;
    assert!(hanging.requests.load(Ordering::Relaxed) > 0);
    watch.end("300 endpoints that hang").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_quickly_and_then_hangs() {
    let arena = Arena::start([]).await;
    let idle = Idle::prepare(&arena).await;
    let turning = Hanging::start(false).await;
    arena.attacker.endpoint(&turning.url(), &["attack.event"], worst()).await;
    publish_batch(&arena.attacker, "attack.event", 10).await;
    let deadline = Instant::now() + Duration::from_secs(10);
    while turning.requests.load(Ordering::Relaxed) < 10 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    turning.hangs.store(true, Ordering::Relaxed);
    let watch = arena.watch().await;
    publish_batch(&arena.attacker, "attack.event", 900).await;
    idle.assert_served(&arena, "a quick endpoint that begins to hang, at once").await;
    tokio::time::sleep(ATTACK_FOR).await;
    idle.assert_served(&arena, "a quick endpoint that begins to hang").await;
    watch.end("a quick endpoint that begins to hang").await;
}
