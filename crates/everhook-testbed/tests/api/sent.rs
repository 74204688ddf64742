//! What history says was sent is what went over the wire: every byte, whatever became of the endpoint since.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::api::{client::Server, retries::wait_until};

/// A receiver that keeps the bytes of each request as they came, and answers 200 with 1,500 bytes.
struct Wire {
    port: u16,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Wire {
    async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, requests) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<Vec<u8>>>>::default());
        let kept = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, kept.clone()));
            }
        });
        Self { port, requests }
    }

    fn url(&self, rest: &str) -> String {
        format!("http://127.0.0.1:{}{rest}", self.port)
    }

    fn requests(&self) -> Vec<Vec<u8>> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, kept: Arc<Mutex<Vec<Vec<u8>>>>) {
    let mut read = Vec::new();
    loop {
        if let Some(length) = request_length(&read) {
            let rest = read.split_off(length);
            kept.lock().unwrap().push(std::mem::replace(&mut read, rest));
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1500\r\n\r\n{}", "z".repeat(1_500));
            stream.write_all(answer.as_bytes()).await.unwrap();
        } else if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// How long the first request is, once all of it has come.
fn request_length(read: &[u8]) -> Option<usize> {
    let head = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let length = head + header(read, "content-length").parse::<usize>().unwrap();
    (read.len() >= length).then_some(length)
}

fn header(request: &[u8], name: &str) -> String {
    let text = String::from_utf8_lossy(request);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_default().to_owned()
}

fn path_of(request: &[u8]) -> String {
    format!("/v1/deliveries/{}/attempts/{}", header(request, "x-webhook-delivery"), header(request, "x-webhook-attempt"))
}

/// A request as the API tells it, written as HTTP/1.1 is.
fn written(told: &Value) -> Vec<u8> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let url = text(&told["url"]);
    let path = url.match_indices('/').nth(2).unwrap().0;
    let mut out = format!("{} {} HTTP/1.1\r\n", text(&told["method"]), &url[path..]);
    for pair in told["headers"].as_array().unwrap() {
        out.push_str(&format!("{}: {}\r\n", text(&pair[0]), text(&pair[1])));
    }
    format!("{out}\r\n{}", text(&told["body"])).into_bytes()
}

/// Compares what the API says with what came, for every request so far.
async fn compare(server: &Server, wire: &Wire) {
    for request in wire.requests() {
        let told = server.get(&path_of(&request)).await.expect(200);
        let (told, came) = (written(&told["request"]), request);
        assert!(told == came, "told:\n{}\n\ncame:\n{}", String::from_utf8_lossy(&told), String::from_utf8_lossy(&came));
    }
}

/// Publishes to the endpoints that want this type, and waits until each attempt is written.
async fn publish(server: &Server, wire: &Wire, event: Value, arrivals: usize) {
    let expected = wire.requests().len() + arrivals;
    let request = Request::post("/v1/events")
        .header("host", "test")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {}", server.admin))
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .body(Full::new(Bytes::from(event.to_string())))
        .unwrap();
    server.send(request).await.expect(202);
    wait_for(server, wire, expected).await;
}

async fn wait_for(server: &Server, wire: &Wire, arrivals: usize) {
    wait_until(async || {
        let came = wire.requests();
        came.len() == arrivals && server.get(&path_of(came.last().unwrap())).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn every_attempt_is_told_byte_for_byte_as_it_went_over_the_wire() {
    let (server, wire) = (Server::start().await, Wire::listen().await);
    // Given an endpoint for each style of signature, key and body, with headers of its own.
    let kinds = [
        json!({ "signature_style": "timestamped", "payload_style": "envelope" }),
        json!({ "signature_style": "sha256", "payload_style": "raw" }),
        json!({ "signature_style": "hex", "payload_style": "envelope" }),
        json!({ "signature_style": "timestamped", "signature_key": "ed25519", "payload_style": "raw" }),
    ];
    let mut ids = Vec::new();
    for (n, mut fields) in kinds.into_iter().enumerate() {
        fields["url"] = json!(wire.url(&format!("/{n}?q=a%20b&ü=1#top")));
        fields["headers"] = json!({ "X-Tenant": "Grüße", "Authorization": "Bearer abc" });
        ids.push(server.endpoint(fields).await["id"].as_str().unwrap().to_owned());
    }
    let plain = json!({ "type": "order.paid", "data": { "n": 1.10, "text": "ü \"\\" }, "labels": { "a": "b" } });
    let rich = json!({ "type": "order.paid", "data": "x".repeat(200_000), "source": "shop", "timestamp": "2026-01-31T12:00:00.25Z",
        "headers": { "X-Tenant": "not this one", "X-Region": "eu west" } });
    // When events are sent as they were made, during a rotation, and to another URL with other headers.
    let mut keyed = plain.clone();
    keyed["idempotency_key"] = json!("key 17");
    publish(&server, &wire, keyed, 4).await;
    publish(&server, &wire, rich.clone(), 4).await;
    for id in &ids {
        server.post(&format!("/v1/endpoints/{id}/secret/rotate"), json!({ "grace_seconds": 3_600 })).await.expect(200);
    }
    publish(&server, &wire, plain, 4).await;
    for id in &ids {
        let change = json!({ "url": wire.url("/moved"), "headers": { "X-New": "1" }, "payload_style": "envelope" });
        server.put(&format!("/v1/endpoints/{id}"), change).await.expect(200);
    }
    publish(&server, &wire, rich, 4).await;
    // And a delivery is done again.
    let again = header(&wire.requests()[0], "x-webhook-delivery");
    server.post(&format!("/v1/deliveries/{again}/retry"), json!({})).await.expect(202);
    wait_for(&server, &wire, 17).await;
    let replay = wire.requests().pop().unwrap();
    assert_eq!(header(&replay, "x-webhook-replay"), again);
    let all = String::from_utf8(wire.requests().concat()).unwrap();
    for seen in ["x-webhook-signature-next: sha256=", ",v1a=", "v1a,", "x-region: eu west", "POST /0?q=a%20b&%C3%BC=1 ", "POST /moved "] {
        assert!(all.contains(seen), "nothing was sent with `{seen}`");
    }
    // Then each is told as it came, also after the endpoints are gone.
    wait_until(async || server.get("/v1/deliveries?status=pending").await.expect(200)["data"] == json!([])).await;
    compare(&server, &wire).await;
    for id in &ids {
        server.delete(&format!("/v1/endpoints/{id}")).await.expect(204);
    }
    compare(&server, &wire).await;
    server.stop().await;
}

#[tokio::test]
async fn an_attempt_in_full_says_what_came_back_and_what_was_cut() {
    let (server, wire) = (Server::start().await, Wire::listen().await);
    server.endpoint(json!({ "url": wire.url("/") })).await;
    publish(&server, &wire, json!({ "type": "t", "data": 1 }), 1).await;
    let path = path_of(&wire.requests()[0]);
    let told = server.get(&path).await.expect(200);
    let request = &told["request"];
    assert_eq!((&request["truncated"], &request["body_absent"], &told["request_absent"]), (&json!(false), &Value::Null, &Value::Null));
    assert_eq!(request["body_bytes"], request["body"].as_str().unwrap().len());
    let expected = json!({
        "status": 200, "headers": [["content-length", "1500"]], "headers_truncated": false, "body": "z".repeat(1_024), "truncated": true
    });
    assert_eq!(told["response"], expected);
    // Beside it stands what the delivery's own page says of the attempt.
    let delivery = server.get(path.split_once("/attempts").unwrap().0).await.expect(200);
    let listed = delivery["attempts"][0].as_object().unwrap();
    assert!(listed.iter().all(|(field, value)| told[field] == *value), "{listed:?}");
    assert_eq!(listed["response_truncated"], true);
    assert!(!listed.contains_key("request"), "the page of a delivery stays small");
    // No other number is one of its attempts.
    for number in ["0", "2", "-1", "x", "99999999999"] {
        server.get(&path.replace("/attempts/1", &format!("/attempts/{number}"))).await.problem(404);
    }
    server.get(&format!("{path}?full=1")).await.problem(400);
    server.stop().await;
}

#[tokio::test]
async fn values_that_may_be_credentials_are_shown_to_keys_that_may_manage() {
    let (server, wire) = (Server::start().await, Wire::listen().await);
    server.endpoint(json!({ "url": wire.url("/"), "headers": { "Authorization": "Bearer abc" } })).await;
    publish(&server, &wire, json!({ "type": "t", "data": 1, "headers": { "X-Token": "def" } }), 1).await;
    let came = wire.requests().pop().unwrap();
    for (scope, authorization, token) in [("read", "***", "***"), ("manage", "Bearer abc", "def")] {
        let key = server.key(&[scope]).await;
        let told = server.call(Method::GET, &path_of(&came), &key, "").await.expect(200);
        let headers = told["request"]["headers"].as_array().unwrap().clone();
        let value = |name: &str| headers.iter().find(|pair| pair[0] == name).unwrap()[1].as_str().unwrap().to_owned();
        assert_eq!((value("authorization"), value("x-token")), (authorization.to_owned(), token.to_owned()));
        assert_eq!(value("webhook-signature"), header(&came, "webhook-signature"));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_request_that_found_nobody_is_told_as_it_would_have_gone_out() {
    let server = Server::start().await;
    server.endpoint(json!({})).await;
    let event = server.post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202);
    let list = format!("/v1/events/{}/deliveries", event["id"].as_str().unwrap());
    wait_until(async || server.get(&list).await.expect(200)["data"][0]["attempt_count"] == 1).await;
    let delivery = server.get(&list).await.expect(200)["data"][0]["id"].as_str().unwrap().to_owned();
    let told = server.get(&format!("/v1/deliveries/{delivery}/attempts/1")).await.expect(200);
    assert_eq!((&told["response"], &told["failure_category"]), (&Value::Null, &json!("network")));
    assert_eq!(
        (&told["request"]["url"], &told["request"]["headers"][0]),
        (&json!("http://127.0.0.1:9/hook"), &json!(["host", "127.0.0.1:9"]))
    );
    server.stop().await;
}
