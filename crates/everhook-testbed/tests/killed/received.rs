//! A provider that sends until it is answered, and a server that is killed again and again: what was answered is delivered, and each push is one event.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use everhook::cli::client::{Connection, Server};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use standardwebhooks::Webhook;
use tokio::task::JoinHandle;

use super::{Trial, kills, sink::Behavior};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PROVIDERS: usize = 4;
/// The pause between two pushes, and before one that was not answered is sent again.
const PAUSE: Duration = Duration::from_millis(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_push_that_was_answered_is_delivered_as_one_event_however_often_the_server_is_killed() {
    // Given an endpoint, and a source that recognizes what comes again.
    let mut trial = Trial::start_without_publishers(Behavior::Steady, 1, json!({})).await;
    let mut connection = Connection::new(trial.node.server());
    let source = json!({
        "name": "partner", "kind": "standard", "secrets": [SECRET],
        "dedupe": { "by": "id", "window": "1h" }, "rate_limit": { "per_ip_per_minute": 1_000_000 },
    });
    connection.ask(Method::POST, "/v1/sources", Some(&source)).await.expect("the source is made");
    // When a provider pushes, each push until it is answered, and the server is killed at random moments.
    let (must_stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let provide = |_| tokio::spawn(push_all(trial.node.server(), next.clone(), must_stop.clone()));
    let providers: Vec<JoinHandle<Vec<u64>>> = (0..PROVIDERS).map(provide).collect();
    trial.kill_again_and_again(kills()).await;
    must_stop.store(true, Ordering::Relaxed);
    let mut accepted = Vec::new();
    for provider in providers {
        accepted.extend(provider.await.expect("a provider does not panic"));
    }
    trial.wait_until_quiet(accepted.len(), 0).await;
    // Then each arrived, under one id, and again only if its answer was on the way when the server died.
    let arrivals = trial.sink.arrivals();
    for number in &accepted {
        let of_push = arrivals.get(&(0, *number)).unwrap_or_else(|| panic!("push {number} is lost"));
        assert!(of_push.iter().all(|arrival| arrival.webhook_id == of_push[0].webhook_id), "push {number} became two events: {of_push:?}");
    }
    let repeated = trial.assert_repeats_were_under_way(&arrivals);
    trial.tell("received", accepted.len(), arrivals.len(), 0, repeated, Duration::ZERO);
}

async fn push_all(server: Arc<Server>, next: Arc<AtomicU64>, must_stop: Arc<AtomicBool>) -> Vec<u64> {
    let (mut connection, mut accepted) = (Connection::new(server), Vec::new());
    while !must_stop.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        while !push(&mut connection, number).await {
            tokio::time::sleep(PAUSE).await;
        }
        accepted.push(number);
        tokio::time::sleep(PAUSE).await;
    }
    accepted
}

/// Sends one push. Whether it was answered with a success.
async fn push(connection: &mut Connection, number: u64) -> bool {
    let Ok(sender) = connection.open().await else { return false };
    let Ok(answer) = sender.send_request(signed(number)).await else { return false };
    let status = answer.status().as_u16();
    assert!(matches!(status, 200..300 | 503), "push {number} was answered {status}");
    answer.into_body().collect().await.is_ok() && status < 300
}

fn signed(number: u64) -> Request<Full<Bytes>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set").as_secs();
    let (id, body) = (format!("push-{number}"), json!({ "type": "kill.test", "number": number }).to_string());
    let webhook = Webhook::new(SECRET).expect("a secret");
    let signature = webhook.sign(&id, i64::try_from(now).expect("a time of today"), body.as_bytes()).expect("a signature");
    let request = Request::post("/in/partner").header("host", "hooks.example.com").header("content-type", "application/json");
    let request = request.header("webhook-id", id).header("webhook-timestamp", now).header("webhook-signature", signature);
    request.body(Full::new(Bytes::from(body))).expect("a request")
}
