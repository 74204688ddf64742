//! One Everhook behind another: what the first delivers, the second receives as from any provider. Each event has one effect, whichever of the two dies.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use bytes::Bytes as HttpBytes;
use everhook::cli::client::Connection;
use everhook_testbed::node::{ADMIN_KEY, Node, is_nothing_open};
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
/// Each round publishes, and has one of the two killed.
const ROUNDS: u64 = 6;
const EVENTS_A_ROUND: u64 = 20;
const ARRIVED_WITHIN: Duration = Duration::from_secs(60);

/// What arrived behind the second one: by the number of the event, the ids under which it came, and its traces.
type Arrivals = Arc<Mutex<BTreeMap<u64, Vec<(String, String)>>>>;

async fn sink() -> (SocketAddr, Arrivals) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (address, arrivals) = (listener.local_addr().expect("its address"), Arrivals::default());
    let app = Router::new().route("/", post(arrive)).with_state(arrivals.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, arrivals)
}

async fn arrive(State(arrivals): State<Arrivals>, headers: HeaderMap, body: Bytes) {
    let body: Value = serde_json::from_slice(&body).expect("deliveries are JSON");
    let number = body["data"]["number"].as_u64().expect("the data as it was published");
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    arrivals.lock().expect("no panic while it was held").entry(number).or_default().push((text("webhook-id"), text("traceparent")));
}

async fn started() -> Node {
    let mut node = Node::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
    node.start();
    node.wait_until_ready().await;
    node
}

async fn ask(node: &Node, method: Method, path: &str, body: Value) -> Value {
    Connection::new(node.server()).ask(method, path, Some(&body)).await.expect("an answer")
}

/// The trace of an event, by its number.
fn trace(number: u64) -> String {
    format!("{:032x}", 0x0af7_6519_16cd_43dd_0000_0000_0000_0000_u128 + u128::from(number) + 1)
}

async fn publish(node: &Node, number: u64) {
    let event = json!({ "type": "kill.test", "data": { "number": number }, "idempotency_key": format!("event-{number}") });
    let request = Request::post("/v1/events")
        .header("host", "everhook")
        .header("authorization", format!("Bearer {ADMIN_KEY}"))
        .header("content-type", "application/json")
        .header("traceparent", format!("00-{}-b7ad6b7169203331-01", trace(number)));
    let mut connection = Connection::new(node.server());
    let sender = connection.open().await.expect("a connection");
    let request = request.body(Full::new(HttpBytes::from(event.to_string()))).expect("a request");
    let answer = sender.send_request(request).await.expect("an answer");
    assert!(answer.status().is_success(), "{}", answer.status());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_has_one_effect_behind_another_server_whichever_of_the_two_dies() {
    // Given a server that receives what another one delivers.
    let (address, arrivals) = sink().await;
    let (mut sender, mut receiver) = (started().await, started().await);
    let source = json!({ "name": "partner", "kind": "standard", "secrets": [OLD], "dedupe": { "by": "id", "window": "1h" } });
    ask(&receiver, Method::POST, "/v1/sources", source).await;
    let retries = json!({ "max_attempts": 30, "base_delay_ms": 1000, "max_delay_ms": 1000 });
    let behind = json!({
        "url": format!("http://{address}/"), "event_types": ["kill.test"], "payload_style": "raw", "retry_config": retries,
        "circuit_breaker": { "enabled": false },
    });
    ask(&receiver, Method::POST, "/v1/endpoints", behind).await;
    let between = json!({
        "url": format!("{}/in/partner", receiver.url()), "event_types": ["kill.test"], "secret": OLD, "retry_config": retries,
        "circuit_breaker": { "enabled": false },
    });
    let between = ask(&sender, Method::POST, "/v1/endpoints", between).await;
    let endpoint = format!("/v1/endpoints/{}", between["id"].as_str().expect("an id"));
    // When it is published without end, one of the two is killed in each round, and the secret is rotated at the sender first.
    for round in 0..ROUNDS {
        for number in round * EVENTS_A_ROUND..(round + 1) * EVENTS_A_ROUND {
            publish(&sender, number).await;
        }
        if round == 1 {
            ask(&sender, Method::POST, &format!("{endpoint}/secret/rotate"), json!({ "secret": NEW })).await;
        }
        if round == 3 {
            ask(&receiver, Method::PUT, "/v1/sources/partner", json!({ "secrets": [NEW] })).await;
        }
        let killed = if round % 2 == 0 { &mut receiver } else { &mut sender };
        killed.kill();
        killed.start();
        killed.wait_until_ready().await;
    }
    // Then every event arrives behind the second one, as one event there, in its own trace.
    let (all, deadline) = (ROUNDS * EVENTS_A_ROUND, Instant::now() + ARRIVED_WITHIN);
    loop {
        let arrived = arrivals.lock().expect("no panic while it was held").len() as u64;
        let is_quiet = arrived == all
            && is_nothing_open(&mut Connection::new(sender.server())).await
            && is_nothing_open(&mut Connection::new(receiver.server())).await;
        if is_quiet {
            break;
        }
        assert!(Instant::now() < deadline, "{arrived} of {all} arrived");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for (number, of_event) in &*arrivals.lock().expect("no panic while it was held") {
        assert!(of_event.iter().all(|(id, _)| *id == of_event[0].0), "event {number} became two: {of_event:?}");
        assert!(of_event.iter().all(|(_, traceparent)| traceparent.contains(&trace(*number))), "event {number}: {of_event:?}");
    }
}
