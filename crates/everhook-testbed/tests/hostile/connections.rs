//! Clients that take connections and give nothing back: they do not read, do not ask, or ask a byte at a time.

use std::{net::SocketAddr, time::Duration};

use everhook_testbed::node::ResourceLimits;
use http::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use super::arena::{Arena, Tenant};

/// How long anything may take that should take no time at all.
const SOON: Duration = Duration::from_secs(5);

/// Connects from an address of this machine's own, so that the server sees another peer.
pub async fn connect_from(source: &str, arena: &Arena) -> Option<TcpStream> {
    let server: SocketAddr = arena.node.url().strip_prefix("http://").expect("an http URL").parse().expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(format!("{source}:0").parse().expect("an address")).expect("an address of this machine");
    timeout(SOON, socket.connect(server)).await.ok()?.ok()
}

/// Opens so many connections and says this on each.
async fn hold(arena: &Arena, source: &str, count: usize, said: &str) -> Vec<TcpStream> {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        let Some(mut stream) = connect_from(source, arena).await else { continue };
        if stream.write_all(said.as_bytes()).await.is_ok() {
            held.push(stream);
        }
    }
    held
}

/// Asks for a path over a connection of its own, and says what came, all of it.
async fn ask_from(arena: &Arena, source: &str, path: &str, key: &str) -> String {
    let Some(mut stream) = connect_from(source, arena).await else { return "no connection".to_owned() };
    let request = format!("GET {path} HTTP/1.1\r\nHost: everhook\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let exchange = async {
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_end(&mut answer).await
    };
    match timeout(SOON, exchange).await {
        Ok(Ok(_)) => String::from_utf8_lossy(&answer).to_lowercase(),
        Ok(Err(error)) => format!("{error} after {}", String::from_utf8_lossy(&answer)),
        Err(_) => "no answer".to_owned(),
    }
}

/// Gives a tenant event types whose list is some megabytes.
async fn fill_a_page(tenant: &Tenant) {
    let mut connection = tenant.connect();
    for number in 0..100 {
        let body = json!({"name": format!("large.{number}"), "example": "x".repeat(60_000)});
        connection.ask(Method::POST, "/v1/event-types", Some(&body)).await.expect("an event type");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_that_never_read_large_answers_take_neither_memory_nor_connections() {
    let arena = Arena::start([]).await;
    fill_a_page(&arena.attacker).await;
    let page = ask_from(&arena, "127.0.0.1", "/v1/event-types?limit=250", &arena.attacker.key).await;
    assert!(page.starts_with("http/1.1 200") && page.len() > 2_000_000, "{} bytes", page.len());
    let watch = arena.watch().await;
    let key = &arena.attacker.key;
    let input = format!("GET /v1/event-types?limit=250 HTTP/1.1\r\nHost: everhook\r\nAuthorization: Bearer {key}\r\n\r\n");
    let mut held = Vec::new();
    for source in ["127.0.0.2", "127.0.0.3", "127.0.0.4"] {
        held.extend(hold(&arena, source, 340, &input).await);
    }
    assert!(held.len() >= 1_000, "{}", held.len());
    tokio::time::sleep(Duration::from_secs(1)).await;
    watch.end("1,000 clients that do not read 2 MB each").await;
    // The organization that does not read is told so, and others read what they like.
    let refused = ask_from(&arena, "127.0.0.5", "/v1/event-types?limit=250", key).await;
    assert!(refused.starts_with("http/1.1 503") && refused.contains("retry-after: 1"), "{refused:.300}");
    assert!(ask_from(&arena, "127.0.0.5", "/v1/event-types", &arena.neighbor.key).await.starts_with("http/1.1 200"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_has_its_share_of_connections_and_beyond_it_only_health_checks() {
    let mut arena = Arena::start([]).await;
    let watch = arena.watch().await;
    // More than a quarter of what 4,096 descriptors leave for clients.
    let held = hold(&arena, "127.0.0.2", 600, "GET / HTTP/1.1\r\nX-Slow: ").await;
    for path in ["/healthz", "/readyz"] {
        let health = ask_from(&arena, "127.0.0.2", path, "").await;
        assert!(health.starts_with("http/1.1 200") && health.contains("connection: close"), "{path}: {health}");
    }
    let key = arena.neighbor.key.clone();
    let refused = ask_from(&arena, "127.0.0.2", "/v1/events", &key).await;
    assert!(
        refused.starts_with("http/1.1 503") && refused.contains("retry-after: 1") && refused.contains("connection: close"),
        "{refused}"
    );
    assert!(refused.contains("too many connections"), "{refused}");
    assert!(ask_from(&arena, "127.0.0.3", "/v1/events", &key).await.starts_with("http/1.1 200"));
    watch.end("600 slow heads of one peer").await;
    // A server that is told to stop does not wait for them.
    let began = std::time::Instant::now();
    arena.node.ask_to_stop();
    let (status, log) = arena.node.wait_until_ended().await;
    assert!(status.success() && began.elapsed() < Duration::from_secs(15), "{status} after {:?}: {log}", began.elapsed());
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_connections_are_all_taken_answers_health_checks_and_those_who_are_there() {
    // Few descriptors, so that few connections are all.
    let arena = Arena::start_limited(ResourceLimits { address_space_bytes: 6 << 30, open_files: 512, open_files_soft: None }, []).await;
    let watch = arena.watch().await;
    // The neighbor's own connections are open by then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut held = Vec::new();
    for source in ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"] {
        held.extend(hold(&arena, source, 120, "GET / HTTP/1.1\r\nX-Slow: ").await);
    }
    for _ in 0..10 {
        let health = ask_from(&arena, "127.0.0.9", "/healthz", "").await;
        assert!(health.starts_with("http/1.1 200"), "{health}");
    }
    watch.end("600 slow heads of five peers, with 512 descriptors").await;
    drop(held);
}
