//! A tenant that reads as much as it can: searches through large events, filtered lists, exports, dry runs of alert rules and statistics. The store's
//! readers are few, and whoever compares what they read must not keep the threads that serve everybody.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::arena::{Arena, LeftToEnd, Tenant};

/// The attacker's events: some large, the others small.
const EVENTS: usize = 2_000;
const LARGE_EVERY: usize = 5;
const LARGE_BYTES: usize = 200_000;
/// How many are published at once: 4 MB.
const BATCH: usize = 100;
/// The attacker's endpoints, which its lists filter.
const ENDPOINTS: usize = 100;
const CONNECTIONS: usize = 64;
const ATTACK_FOR: Duration = Duration::from_secs(4);

/// Fills the attacker's application: most of its deliveries fail, because nobody listens there.
async fn fill(attacker: &Tenant) -> String {
    let mut connection = attacker.connect();
    let mut endpoint = String::new();
    for number in 0..ENDPOINTS {
        let event_types: &[&str] = if number == 0 { &["attack.event"] } else { &["attack.other"] };
        let settings = json!({"labels": {"number": number.to_string()}, "description": "x".repeat(4_000)});
        endpoint = attacker.endpoint("http://127.0.0.1:9/", event_types, settings).await;
    }
    let event = |number: usize| {
        let filler = if number.is_multiple_of(LARGE_EVERY) { LARGE_BYTES } else { 200 };
        json!({"type": "attack.event", "data": {"n": number, "filler": "x".repeat(filler)}, "labels": {"number": number.to_string()}})
    };
    for first in (0..EVENTS).step_by(BATCH) {
        let events: Vec<Value> = (first..first + BATCH).map(event).collect();
        connection.ask(Method::POST, "/v1/events/batch", Some(&json!({"events": events}))).await.expect("the batch is taken");
    }
    endpoint
}

/// Everything that reads much and finds little.
fn requests(endpoint: &str) -> Vec<(Method, String, String)> {
    let get = |path: &str| (Method::GET, path.to_owned(), String::new());
    let rule = json!({"name": "endpoint_success_rate_drop"}).to_string();
    vec![
        get("/v1/events?q=what-is-nowhere"),
        get("/v1/events?label.number=none"),
        get("/v1/events?event_type=nothing.*"),
        get("/v1/events?idempotency_key=what-is-nowhere"),
        get("/v1/deliveries?http_status=5xx"),
        get("/v1/endpoints?label_key=number&label_value=none&limit=250"),
        get("/v1/endpoints?event_type=nothing.here&limit=250"),
        get("/v1/events?q=xxxxxxxxxx&limit=250"),
        (Method::POST, "/v1/alert-rules/dry-run".to_owned(), rule),
        get("/v1/applications/default/export"),
        get(&format!("/v1/endpoints/{endpoint}/stats")),
        get("/v1/deliveries?count=true&offset=5000&limit=250"),
    ]
}

/// What the attacker was answered.
#[derive(Default)]
struct Answers {
    good: AtomicUsize,
    busy: AtomicUsize,
    other: AtomicUsize,
}

/// Reads over many connections until the server is gone.
fn read_without_end(attacker: &Tenant, endpoint: &str, answers: &Arc<Answers>) -> JoinSet<()> {
    let mut reading = JoinSet::new();
    for number in 0..CONNECTIONS {
        let (mut connection, requests, answers) = (attacker.connect(), requests(endpoint), answers.clone());
        reading.spawn(async move {
            for (method, path, body) in requests.into_iter().cycle().skip(number) {
                let Ok(answer) = connection.send(method, &path, body).await else { return };
                let counter = match answer.status {
                    StatusCode::OK => &answers.good,
                    StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => &answers.busy,
                    status => {
                        eprintln!("{path}: {status} {:.200}", String::from_utf8_lossy(&answer.body));
                        &answers.other
                    }
                };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    reading
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_searches_all_that_it_has_keeps_nobody_else_from_reading() {
    const ATTACK: &str = "64 connections that search, list, export and count";
    let mut arena = Arena::start([]).await;
    let endpoint = fill(&arena.attacker).await;
    let watch = arena.watch().await;
    let answers = Arc::new(Answers::default());
    let attack = read_without_end(&arena.attacker, &endpoint, &answers);
    tokio::time::sleep(ATTACK_FOR).await;
    watch.end(ATTACK).await;
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    assert_eq!(count(&answers.other), 0, "the attack is not what it should be");
    assert!(count(&answers.good) >= 20, "{} were answered, {} refused", count(&answers.good), count(&answers.busy));
    // A search ends by itself, after two seconds at most.
    arena.stop(ATTACK, LeftToEnd::Reads).await;
    drop(attack);
}
