//! URLs that must prove that they expect requests.

use std::net::SocketAddr;

use everhook::config::ServeArgs;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
};

use crate::api::client::Server;

/// What a receiver answers to a challenge.
#[derive(Clone, Copy)]
enum Manner {
    Text,
    Field,
    Wrong,
    Refuses,
}

/// A receiver that proves itself.
pub async fn willing_receiver() -> SocketAddr {
    receiver(Manner::Text).await.0
}

/// A receiver that answers every request in its manner, and tells what it got.
async fn receiver(manner: Manner) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let (got, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.ends_with(b"}") {
                match stream.read(&mut buffer).await {
                    Ok(count) if count > 0 => request.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let request = String::from_utf8_lossy(&request).into_owned();
            let answer = answer(manner, &request);
            let _ = got.send(request);
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, requests)
}

fn answer(manner: Manner, request: &str) -> String {
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let challenge = serde_json::from_str::<Value>(body).map_or(String::new(), |body| body["challenge"].as_str().unwrap_or("").to_owned());
    let (status, body) = match manner {
        Manner::Text => ("200 OK", challenge),
        Manner::Field => ("201 Created", json!({ "challenge": challenge }).to_string()),
        Manner::Wrong => ("200 OK", "ok".to_owned()),
        Manner::Refuses => ("404 Not Found", challenge),
    };
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn asking(address: SocketAddr) -> Value {
    json!({ "url": format!("http://{address}/hook"), "event_types": ["*"], "uid": "shop", "secret": "a-secret-of-my-own", "verify_url": true })
}

#[tokio::test]
async fn a_url_that_returns_the_signed_challenge_is_taken() {
    for manner in [Manner::Text, Manner::Field] {
        let server = Server::start().await;
        let (address, mut requests) = receiver(manner).await;
        let made = server.post("/v1/endpoints", asking(address)).await.expect(201);
        assert_eq!(made["verify_url"], true);
        let request = requests.recv().await.unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(body.contains(r#""type":"endpoint.verification""#), "{body}");
        let header = |name: &str| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: "))).unwrap();
            line.split_once(": ").unwrap().1.to_owned()
        };
        assert_eq!(header("x-webhook-event"), "endpoint.verification");
        let mac = header("x-webhook-signature");
        assert!(mac.starts_with("t=") && mac.contains(",v1="), "{mac}");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_url_that_does_not_return_it_is_refused_and_nothing_is_stored() {
    let server = Server::start().await;
    for manner in [Manner::Wrong, Manner::Refuses] {
        let (address, _requests) = receiver(manner).await;
        assert_eq!(server.post("/v1/endpoints", asking(address)).await.faults(422), ["url"]);
    }
    let nobody: SocketAddr = "127.0.0.1:9".parse().unwrap();
    assert_eq!(server.post("/v1/endpoints", asking(nobody)).await.faults(422), ["url"]);
    assert_eq!(server.get("/v1/endpoints").await.expect(200)["data"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn a_broker_is_not_asked_to_prove_anything() {
    let folder = tempfile::tempdir().unwrap();
    let text = |text: &str| Some(text.to_owned());
    let server = Server::start_with(&ServeArgs {
        listen: text("127.0.0.1:0"),
        data: Some(folder.path().display().to_string()),
        allow_private_networks: text("true"),
        amqp_destinations: text("true"),
        ..ServeArgs::default()
    })
    .await;
    // Nobody listens there: a challenge would fail by the URL.
    let endpoint = |verify_url: bool| json!({ "url": "amqp://127.0.0.1:9/?exchange=x", "event_types": ["*"], "uid": "shop", "verify_url": verify_url });
    assert_eq!(server.post("/v1/endpoints", endpoint(true)).await.faults(422), ["verify_url"]);
    server.post("/v1/endpoints", endpoint(false)).await.expect(201);
    assert_eq!(server.put("/v1/endpoints/shop", json!({ "verify_url": true })).await.faults(422), ["verify_url"]);
    server.stop().await;
}

#[tokio::test]
async fn a_new_url_is_asked_again_and_the_old_one_is_not() {
    let server = Server::start().await;
    let (good, mut requests) = receiver(Manner::Text).await;
    let (bad, _other) = receiver(Manner::Wrong).await;
    server.post("/v1/endpoints", asking(good)).await.expect(201);
    requests.recv().await.unwrap();
    server.put("/v1/endpoints/shop", json!({ "name": "Shop", "verify_url": true })).await.expect(200);
    assert!(requests.try_recv().is_err(), "nothing new was to be proved");
    assert_eq!(server.put("/v1/endpoints/shop", json!({ "url": format!("http://{bad}/hook") })).await.faults(422), ["url"]);
    // Without the setting, any URL is taken; with it again, the URL that is there must prove itself.
    server.put("/v1/endpoints/shop", json!({ "url": format!("http://{bad}/hook"), "verify_url": false })).await.expect(200);
    assert_eq!(server.put("/v1/endpoints/shop", json!({ "verify_url": true })).await.faults(422), ["url"]);
    server.put("/v1/endpoints/shop", json!({ "url": format!("http://{good}/hook"), "verify_url": true })).await.expect(200);
    server.stop().await;
}
