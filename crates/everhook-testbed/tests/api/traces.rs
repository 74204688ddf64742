//! Spans, as a collector gets them: which follows from which, from the publisher's span to the request that an endpoint gets.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, http::HeaderMap, routing::post};
use everhook::config::ServeArgs;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::api::{client::Server, receiving::signed_headers};

/// Spans gather for a second; this machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// A span, as far as the tests look at it. Ids are hexadecimal digits.
#[derive(Clone, Debug)]
pub struct Span {
    /// Whose it is.
    pub node: String,
    pub name: String,
    pub trace: String,
    pub id: String,
    pub parent: String,
    is_error: bool,
    attributes: BTreeMap<String, String>,
}

/// The fields of a protobuf message: numbers as eight bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().expect("the number ends");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = match tag & 7 {
            0 => {
                found.push((tag >> 3, varint(&mut bytes).to_be_bytes().to_vec()));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            other => panic!("wire type {other}"),
        };
        let (value, rest) = bytes.split_at(length);
        bytes = rest;
        found.push((tag >> 3, value.to_vec()));
    }
    found
}

fn all(message: &[u8], field: u64) -> Vec<Vec<u8>> {
    fields(message).into_iter().filter(|(number, _)| *number == field).map(|(_, value)| value).collect()
}

fn first(message: &[u8], field: u64) -> Vec<u8> {
    all(message, field).into_iter().next().unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An attribute's name and value, as texts.
fn attribute(bytes: &[u8]) -> (String, String) {
    let value = fields(&first(bytes, 2)).into_iter().next().expect("a value");
    let text = match value {
        (1, text) => String::from_utf8(text).unwrap(),
        (_, number) => u64::from_be_bytes(number.try_into().unwrap()).to_string(),
    };
    (String::from_utf8(first(bytes, 1)).unwrap(), text)
}

fn spans(body: &[u8]) -> Vec<Span> {
    all(body, 1).iter().flat_map(|resource| spans_of(resource)).collect()
}

fn spans_of(resource: &[u8]) -> Vec<Span> {
    let known: BTreeMap<String, String> = all(&first(resource, 1), 1).iter().map(|bytes| attribute(bytes)).collect();
    assert_eq!(known["service.name"], "everhook");
    let read = |span: Vec<u8>| Span {
        node: known["service.instance.id"].clone(),
        name: String::from_utf8(first(&span, 5)).unwrap(),
        trace: hex(&first(&span, 1)),
        id: hex(&first(&span, 2)),
        parent: hex(&first(&span, 4)),
        is_error: !first(&span, 15).is_empty(),
        attributes: all(&span, 9).iter().map(|bytes| attribute(bytes)).collect(),
    };
    all(resource, 2).into_iter().flat_map(|scope| all(&scope, 2)).map(read).collect()
}

/// A collector, and what it got.
#[derive(Clone, Default)]
pub struct Collector(Arc<Mutex<Vec<Span>>>);

impl Collector {
    /// Starts one.
    pub async fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, collector) = (listener.local_addr().unwrap(), Self::default());
        let keeping = collector.clone();
        let take = async move |body: Bytes| keeping.0.lock().unwrap().extend(spans(&body));
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/v1/traces", post(take))).await });
        (collector, address)
    }

    /// Every span of a trace, once there are so many.
    pub async fn wait_for(&self, trace: &str, count: usize) -> Vec<Span> {
        let began = Instant::now();
        loop {
            let found: Vec<Span> = self.0.lock().unwrap().iter().filter(|span| span.trace == trace).cloned().collect();
            if found.len() >= count {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "only {found:?} of {:?}", self.0.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// An endpoint's server, and the `traceparent` of each request.
async fn receiver(status: StatusCode) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, got) = (format!("http://{}/", listener.local_addr().unwrap()), Arc::new(Mutex::new(Vec::new())));
    let keeping = got.clone();
    let take = async move |headers: HeaderMap| {
        keeping.lock().unwrap().push(headers["traceparent"].to_str().unwrap().to_owned());
        status
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(take))).await });
    (url, got)
}

async fn traced_server(collector: &str, sampler: &str) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let args = ServeArgs {
        listen: Some("127.0.0.1:0".to_owned()),
        data: Some(folder.path().join("data").display().to_string()),
        allow_private_networks: Some("true".to_owned()),
        otlp_endpoint: Some(collector.to_owned()),
        traces_sampler: Some(sampler.to_owned()),
        ..ServeArgs::default()
    };
    (Server::start_with(&args).await, folder)
}

async fn publish(server: &Server, traceparent: Option<&str>, event_type: &str) -> Value {
    let mut request = Request::post("/v1/events").header("host", "test").header("authorization", format!("Bearer {}", server.admin));
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent);
    }
    let body = Full::new(Bytes::from(json!({ "type": event_type, "data": 1 }).to_string()));
    server.send(request.header("content-type", "application/json").body(body).unwrap()).await.expect(202)
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_follow_from_the_publish_and_that_from_the_publishers_span() {
    let (collector, address) = Collector::start().await;
    let (server, _folder) = traced_server(&format!("http://{address}"), "parentbased_always_on").await;
    let (good, seen) = receiver(StatusCode::OK).await;
    server.endpoint(json!({ "url": good, "event_types": ["a"] })).await;
    server.endpoint(json!({ "event_types": ["a"] })).await;
    let event = publish(&server, Some(&format!("00-{TRACE}-{CALLER}-01")), "a").await;
    let found = collector.wait_for(TRACE, 3).await;
    let published: Vec<&Span> = found.iter().filter(|span| span.name == "publish").collect();
    let attempts: Vec<&Span> = found.iter().filter(|span| span.name == "attempt").collect();
    assert_eq!((published.len(), attempts.len()), (1, 2), "{found:?}");
    assert_eq!((published[0].parent.as_str(), &published[0].attributes["everhook.deliveries"]), (CALLER, &"2".to_owned()));
    assert_eq!(published[0].attributes["everhook.event.id"], event["id"].as_str().unwrap());
    assert!(attempts.iter().all(|attempt| attempt.parent == published[0].id), "{found:?}");
    let (failed, succeeded): (Vec<&Span>, Vec<&Span>) = attempts.iter().partition(|attempt| attempt.is_error);
    assert_eq!(failed[0].attributes["error.type"], "network");
    assert_eq!(succeeded[0].attributes["http.response.status_code"], "200");
    // The endpoint continues the trace from the very span that the attempt has.
    assert_eq!(*seen.lock().unwrap(), [format!("00-{TRACE}-{}-01", succeeded[0].id)]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_a_trace_begins_one_and_retries_belong_to_it() {
    let (collector, address) = Collector::start().await;
    let (server, _folder) = traced_server(&format!("http://{address}/"), "always_on").await;
    let (bad, _) = receiver(StatusCode::SERVICE_UNAVAILABLE).await;
    let schedule = json!({ "name": "quick", "strategy": "custom", "intervals": [1], "max_attempts": 2 });
    let schedule = server.post("/v1/retry-schedules", schedule).await.expect(201);
    server.endpoint(json!({ "url": bad, "event_types": ["a"], "retry_schedule_id": schedule["id"] })).await;
    let event = publish(&server, None, "a").await;
    let trace = event["id"].as_str().unwrap().replace('-', "");
    let found = collector.wait_for(&trace, 3).await;
    let numbers: Vec<&str> = found.iter().filter_map(|span| span.attributes.get("everhook.attempt.number")).map(String::as_str).collect();
    assert_eq!(numbers, ["1", "2"]);
    let publish = found.iter().find(|span| span.name == "publish").unwrap();
    assert!(publish.parent.is_empty() && found.iter().filter(|span| span.name == "attempt").all(|span| span.parent == publish.id));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_its_publisher_does_not_record_has_no_spans() {
    let (collector, address) = Collector::start().await;
    let (server, _folder) = traced_server(&format!("http://{address}"), "parentbased_always_on").await;
    let (good, seen) = receiver(StatusCode::OK).await;
    server.endpoint(json!({ "url": good, "event_types": ["a"] })).await;
    publish(&server, Some(&format!("00-{TRACE}-{CALLER}-00")), "a").await;
    let event = publish(&server, None, "a").await;
    collector.wait_for(&event["id"].as_str().unwrap().replace('-', ""), 2).await;
    assert!(collector.0.lock().unwrap().iter().all(|span| span.trace != TRACE));
    assert!(seen.lock().unwrap().iter().any(|header| header.starts_with(&format!("00-{TRACE}-")) && header.ends_with("-00")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_at_what_was_received_follow_from_the_receipt_and_that_from_the_providers_span() {
    let (collector, address) = Collector::start().await;
    let (server, _folder) = traced_server(&format!("http://{address}"), "parentbased_always_on").await;
    let (good, seen) = receiver(StatusCode::OK).await;
    server.source("partner", json!({})).await;
    server.endpoint(json!({ "url": good })).await;
    let (body, traceparent) = (r#"{"type":"user.created","data":{}}"#, format!("00-{TRACE}-{CALLER}-01"));
    let signed = signed_headers("msg-1", body);
    let mut headers = Vec::from(signed.each_ref().map(|(name, value)| (*name, value.as_str())));
    headers.push(("traceparent", &traceparent));
    server.push_with("/in/partner", &headers, body).await.expect(200);
    let found = collector.wait_for(TRACE, 2).await;
    let [receive, attempt] = ["receive", "attempt"].map(|name| found.iter().find(|span| span.name == name).expect(name));
    assert_eq!((receive.parent.as_str(), &attempt.parent, receive.is_error), (CALLER, &receive.id, false));
    assert_eq!(receive.attributes["everhook.deliveries"], "1");
    assert_eq!(*seen.lock().unwrap(), [format!("00-{TRACE}-{}-01", attempt.id)]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_delays_and_loses_no_delivery() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _hanging = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok(connection) = listener.accept().await {
            held.push(connection);
        }
    });
    let (server, _folder) = traced_server(&format!("http://{address}"), "always_on").await;
    let (good, seen) = receiver(StatusCode::OK).await;
    server.endpoint(json!({ "url": good, "event_types": ["a"] })).await;
    let events: Vec<Value> = (0..500).map(|n| json!({ "type": "a", "data": n })).collect();
    for _ in 0..10 {
        let answer = server.post("/v1/events/batch", json!({ "events": events })).await;
        assert!(answer.status.is_success(), "{answer:?}");
    }
    let began = Instant::now();
    while seen.lock().unwrap().len() < 5_000 {
        assert!(began.elapsed() < PATIENCE * 2, "{} of 5000 were delivered", seen.lock().unwrap().len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let metrics = String::from_utf8(server.get("/metrics").await.body.to_vec()).unwrap();
    let sample = |result: &str| {
        let name = format!("everhook_trace_spans_total{{result=\"{result}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(sample("exported"), 0);
    assert!(sample("dropped") > 0, "ten thousand spans do not fit into the queue");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_and_its_request_continue_the_trace_of_the_caller() {
    let (collector, address) = Collector::start().await;
    let (server, _folder) = traced_server(&format!("http://{address}"), "parentbased_always_on").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let app = format!("http://{}", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let keeping = seen.clone();
    let answer = async move |headers: HeaderMap| {
        keeping.lock().unwrap().push(headers["traceparent"].to_str().unwrap().to_owned());
        axum::Json(json!({ "success": true, "data": {}, "processingTime": 1 }))
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/quiz", post(answer))).await });
    let manifest = json!({ "base_url": app, "capabilities": { "quiz": { "path": "/quiz" } } });
    server.put("/v1/applications/default/manifest", manifest).await.expect(200);
    let request = Request::builder().method(Method::POST).uri("/v1/applications/default/call/quiz").header("host", "test");
    let request = request.header("authorization", format!("Bearer {}", server.admin)).header("content-type", "application/json");
    let request =
        request.header("traceparent", format!("00-{TRACE}-{CALLER}-01")).body(Full::new(Bytes::from(json!({ "payload": {} }).to_string())));
    let answered = server.send(request.unwrap()).await.expect(200);
    assert_eq!(answered["source"], "app");
    let found = collector.wait_for(TRACE, 2).await;
    let [call, request] = ["call", "request"].map(|name| found.iter().find(|span| span.name == name).unwrap());
    assert_eq!((call.parent.as_str(), &request.parent, call.attributes["everhook.call.source"].as_str()), (CALLER, &call.id, "app"));
    assert_eq!(*seen.lock().unwrap(), [format!("00-{TRACE}-{}-01", request.id)]);
    server.stop().await;
}
