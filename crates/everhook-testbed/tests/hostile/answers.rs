//! Receivers that answer for others, and organizations that send more verifications and test events than they may.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Json, Router, extract::State, routing::post};
use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::arena::{Arena, LeftToEnd, Tenant, exchange, keep_sending};

const FORGED: &[u8] = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
/// Announces as many bytes as the forged answer has.
const NO_CONTENT_WITH_A_BODY: &[u8] = b"HTTP/1.1 204 No Content\r\nContent-Length: 40\r\n\r\n";

/// How many requests of each path a shared origin got, and how many of the neighbor's were answered with a forgery.
#[derive(Default)]
struct Counts {
    attacker: AtomicUsize,
    neighbor: AtomicUsize,
    forged: AtomicUsize,
}

/// An origin behind which two tenants have a path each. The body that the attacker's 204 announces comes when the next request does: whoever
/// reads on this connection takes it for the answer to that one.
async fn shared_origin(counts: Arc<Counts>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, counts.clone()));
        }
    });
    address
}

async fn serve(mut stream: TcpStream, counts: Arc<Counts>) {
    let mut owes_body = false;
    while let Some(request) = read_request(&mut stream).await {
        let is_attackers = request.starts_with("POST /attacker");
        let counted = if is_attackers { &counts.attacker } else { &counts.neighbor };
        counted.fetch_add(1, Ordering::SeqCst);
        if std::mem::take(&mut owes_body) {
            counts.forged.fetch_add(usize::from(!is_attackers), Ordering::SeqCst);
            stream.write_all(FORGED).await.ok();
        }
        owes_body = is_attackers;
        stream.write_all(if is_attackers { NO_CONTENT_WITH_A_BODY } else { OK }).await.ok();
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4_096]);
    loop {
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if body.len() >= length.unwrap_or_default() {
            return Some(text);
        }
    }
}

async fn wait_for(counter: &AtomicUsize, count: usize) {
    for _ in 0..1_000 {
        if counter.load(Ordering::SeqCst) >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{} of {count} came", counter.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_left_on_a_connection_never_answers_another_tenants_request() {
    const ROUNDS: usize = 20;
    let arena = Arena::start([]).await;
    let counts = Arc::new(Counts::default());
    let address = shared_origin(counts.clone()).await;
    arena.attacker.endpoint(&format!("http://{address}/attacker"), &["shared.event"], json!({})).await;
    let victim = arena.neighbor.endpoint(&format!("http://{address}/neighbor"), &["shared.event"], json!({})).await;
    let watch = arena.watch().await;
    let (mut attacker, mut neighbor) = (arena.attacker.connect(), arena.neighbor.connect());
    let event = json!({"type": "shared.event", "data": {}});
    for round in 1..=ROUNDS {
        attacker.ask(Method::POST, "/v1/events", Some(&event)).await.expect("it is accepted");
        wait_for(&counts.attacker, round).await;
        neighbor.ask(Method::POST, "/v1/events", Some(&event)).await.expect("it is accepted");
        wait_for(&counts.neighbor, round).await;
    }
    watch.end("answers left on shared connections").await;
    let victim = neighbor.ask(Method::GET, &format!("/v1/endpoints/{victim}"), None).await.expect("it is there");
    assert_eq!(victim["enabled"], json!(true), "{victim}");
    assert_eq!(counts.forged.load(Ordering::SeqCst), 0, "a request of the neighbor went over the attacker's connection");
    assert_eq!(counts.neighbor.load(Ordering::SeqCst), ROUNDS, "each was delivered at the first attempt");
}

/// A receiver that takes its time, returns challenges, and counts how many requests it has at once.
#[derive(Default)]
struct Slow {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

async fn slow_receiver(slow: Arc<Slow>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let app = Router::new().route("/", post(answer_slowly)).with_state(slow);
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

async fn answer_slowly(State(slow): State<Arc<Slow>>, Json(body): Json<Value>) -> Json<Value> {
    slow.all.fetch_add(1, Ordering::SeqCst);
    let now = slow.now.fetch_add(1, Ordering::SeqCst) + 1;
    slow.most.fetch_max(now, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(300)).await;
    slow.now.fetch_sub(1, Ordering::SeqCst);
    Json(json!({"challenge": body["challenge"]}))
}

/// A request of a tenant's, over a connection of its own.
fn post_request(tenant: &Tenant, path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: everhook\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        tenant.key,
        body.len()
    )
}

/// Sends as many requests at once, and says each answer's status and whether it says when to try again.
async fn at_once(tenant: &Tenant, url: &str, path: &str, body: &Value, count: usize) -> Vec<(u16, bool)> {
    let request = post_request(tenant, path, &body.to_string());
    let answers = join_all((0..count).map(|_| exchange(url, &request))).await;
    let status = |answer: &String| answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    answers.iter().map(|answer| (status(answer), answer.to_ascii_lowercase().contains("\r\nretry-after: "))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verifications_and_test_events_are_bounded_at_once_and_in_a_minute() {
    const REQUESTS: usize = 300;
    let mut arena = Arena::start([]).await;
    let url = arena.node.url();
    let verified = Arc::new(Slow::default());
    let address = slow_receiver(verified.clone()).await;
    let watch = arena.watch().await;

    let endpoint = json!({"url": format!("http://{address}/"), "event_types": ["some.event"], "verify_url": true});
    let answers = at_once(&arena.attacker, &url, "/v1/endpoints", &endpoint, REQUESTS).await;
    let most = verified.most.load(Ordering::SeqCst);
    assert!((1..=2).contains(&most), "{most} verifications were under way at once");
    let refused = answers.iter().filter(|answer| **answer == (429, true)).count();
    let created = answers.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(created + refused, REQUESTS, "{answers:?}");
    assert_eq!(created, verified.all.load(Ordering::SeqCst));

    let tested = Arc::new(Slow::default());
    let address = slow_receiver(tested.clone()).await;
    let endpoint = arena.attacker.endpoint(&format!("http://{address}/"), &["some.event"], json!({})).await;
    let answers = at_once(&arena.attacker, &url, &format!("/v1/endpoints/{endpoint}/test"), &json!({}), REQUESTS).await;
    let published = answers.iter().filter(|(status, _)| *status == 202).count();
    let refused = answers.iter().filter(|answer| **answer == (429, true)).count();
    assert_eq!(published + refused, REQUESTS, "{answers:?}");
    assert!((1..=60).contains(&published), "{published} test events were published");
    watch.end("300 verifications and 300 test events at once").await;
    let most = tested.most.load(Ordering::SeqCst);
    assert!(most <= 5, "{most} test events were under way at once");
    let request = post_request(&arena.attacker, &format!("/v1/endpoints/{endpoint}/test"), "{}");
    let attack = keep_sending(&url, &request, 50);
    tokio::time::sleep(Duration::from_millis(500)).await;
    arena.stop("test events without end", LeftToEnd::Nothing).await;
    drop(attack);
}
