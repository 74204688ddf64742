//! Key servers that hang: requests that only a key could prove are answered 503 at once or soon, and the server asks one at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures_util::future::join_all;
use serde_json::json;
use tokio::net::TcpListener;

use super::{arena::Arena, sources::post};

/// How long strangers go on: longer than one fetch may take and the pause after it.
const ATTACK_FOR: Duration = Duration::from_secs(10);
const CLIENTS: usize = 30;

/// A server that takes connections and never says anything. Counts them.
async fn silent_server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (port, taken) = (listener.local_addr().expect("its address").port(), Arc::new(AtomicUsize::new(0)));
    let counter = taken.clone();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            held.push(stream);
        }
    });
    (port, taken)
}

/// A token that is well-formed and that nobody signed.
fn token() -> String {
    let part = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.AAAA", part(json!({"alg": "RS256", "kid": "1"})), part(json!({"iss": "a", "exp": 4_000_000_000_u64})))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_server_that_hangs_is_asked_once_at_a_time_and_nobody_is_called_a_forger() {
    let arena = Arena::start([]).await;
    let (port, asked) = silent_server().await;
    let recipe = json!({
        "jwt": "RS256 iss=a exp", "key_from": format!("jwks https://127.0.0.1:{port}/keys"), "sig": "Authorization prefix='Bearer '",
    });
    let source = json!({"name": "tokens", "kind": "custom", "recipe": recipe, "rate_limit": {"per_ip_per_minute": 1_000_000}});
    let path = arena.attacker.source(source).await;
    let headers = format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", token());
    let watch = arena.watch().await;
    let until = tokio::time::Instant::now() + ATTACK_FOR;
    let one = async |number: usize| {
        let (mut statuses, from) = (Vec::new(), ["127.0.0.2", "127.0.0.3", "127.0.0.4"][number % 3]);
        while tokio::time::Instant::now() < until {
            statuses.push(post(&arena, from, &path, &headers, b"{}").await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        statuses
    };
    let statuses: Vec<Option<u16>> = join_all((0..CLIENTS).map(one)).await.into_iter().flatten().collect();
    watch.end("30 clients with tokens whose key server hangs").await;
    assert!(statuses.len() >= CLIENTS && statuses.iter().all(|status| *status == Some(503)), "{statuses:?}");
    // A fetch ends after four seconds, and the next one begins five seconds after its beginning at the earliest.
    let asked = asked.load(Ordering::Relaxed);
    assert!((1..=4).contains(&asked), "the key server was asked {asked} times");
}
