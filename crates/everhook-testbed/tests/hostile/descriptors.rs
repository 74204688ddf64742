//! File descriptors: a process that may have few of them shares them out, and what it lacks is no endpoint's fault.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, extract::State, routing::post};
use everhook_testbed::{
    node::{ResourceLimits, is_nothing_open},
    skipped::skipped,
};
use http::Method;
use serde_json::json;

use super::arena::Arena;

const ENDPOINTS: u8 = 60;
const EVENTS: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_few_descriptors_no_attempt_fails_for_want_of_one() {
    let arena = Arena::start_limited(ResourceLimits { address_space_bytes: 6 << 30, open_files: 256, open_files_soft: None }, []).await;
    let arrived = Arc::new(AtomicUsize::new(0));
    let port = slow_receiver(arrived.clone()).await;
    for host in 1..=ENDPOINTS {
        // Each an origin of its own, so that no connection serves two.
        let url = format!("http://127.0.1.{host}:{port}/");
        arena.attacker.endpoint(&url, &["order.paid"], json!({"max_concurrency": 5})).await;
    }
    let mut publisher = arena.attacker.connect();
    for number in 0..EVENTS {
        let event = json!({"type": "order.paid", "data": {"n": number}});
        publisher.ask(Method::POST, "/v1/events", Some(&event)).await.expect("it is taken");
    }
    let deadline = Instant::now() + Duration::from_secs(15);
    while !is_nothing_open(&mut publisher).await && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let deliveries = publisher.ask(Method::GET, "/v1/deliveries?limit=250", None).await.expect("a page");
    for delivery in deliveries["data"].as_array().expect("rows") {
        assert_eq!((delivery["status"].as_str(), delivery["attempt_count"].as_u64()), (Some("delivered"), Some(1)), "{delivery}");
    }
    assert_eq!(arrived.load(Ordering::Relaxed), usize::from(ENDPOINTS) * EVENTS, "each arrived once");
    assert_eq!(arena.node.times_said("the limit on open files is 256: "), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_soft_limit_below_the_hard_one_is_raised() {
    let limits = ResourceLimits { address_space_bytes: 6 << 30, open_files: 2_048, open_files_soft: Some(256) };
    let arena = Arena::start_limited(limits, []).await;
    assert_eq!(arena.node.times_said("the limit on open files is 2048: "), 1);
    assert_eq!(arena.node.times_said("open_files_before=256"), 1);
    // What the log says is what the system says.
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", arena.node.pid())).expect("the limits of a process");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("one of them");
    assert_eq!(files.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["2048", "2048"], "{files}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_runs_out_of_descriptors_keeps_its_deliveries_and_their_attempts() {
    let arena = Arena::start([]).await;
    let arrived = Arc::new(AtomicUsize::new(0));
    let port = slow_receiver(arrived.clone()).await;
    arena.attacker.endpoint(&format!("http://127.0.1.1:{port}/"), &["order.paid"], json!({})).await;
    // The publisher's connection is open, and the store has been used.
    let mut publisher = arena.attacker.connect();
    publisher.ask(Method::GET, "/v1/deliveries", None).await.expect("a page");
    if !limit_open_files(arena.node.pid(), 16) {
        skipped("prlimit is not installed: what a lack of descriptors does to deliveries was not tested");
        return;
    }
    let event = json!({"type": "order.paid", "data": 1});
    publisher.ask(Method::POST, "/v1/events", Some(&event)).await.expect("it is taken");
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let waiting = publisher.ask(Method::GET, "/v1/deliveries", None).await.expect("a page");
    let first = &waiting["data"][0];
    assert_eq!((first["status"].as_str(), first["attempt_count"].as_u64()), (Some("waiting"), Some(0)), "{first}");
    assert_eq!(arena.node.times_said("this machine has run out of a resource that deliveries need"), 1);
    assert!(limit_open_files(arena.node.pid(), 4_096));
    let deadline = Instant::now() + Duration::from_secs(5);
    while !is_nothing_open(&mut publisher).await && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ended = publisher.ask(Method::GET, "/v1/deliveries", None).await.expect("a page");
    let first = &ended["data"][0];
    assert_eq!((first["status"].as_str(), first["attempt_count"].as_u64()), (Some("delivered"), Some(1)), "{first}");
    assert_eq!(arrived.load(Ordering::Relaxed), 1);
}

/// Sets how many files a process that runs may have open. Says whether that could be done.
fn limit_open_files(pid: u32, files: u64) -> bool {
    let set = Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--nofile={files}:")]).status();
    set.is_ok_and(|status| status.success())
}

/// A receiver at every address of this machine that takes its time, so that many requests are under way at once.
async fn slow_receiver(arrived: Arc<AtomicUsize>) -> u16 {
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let app = Router::new().route("/", post(receive)).with_state(arrived);
    tokio::spawn(async move { axum::serve(listener, app).await });
    port
}

async fn receive(State(arrived): State<Arc<AtomicUsize>>) {
    tokio::time::sleep(Duration::from_millis(150)).await;
    arrived.fetch_add(1, Ordering::Relaxed);
}
