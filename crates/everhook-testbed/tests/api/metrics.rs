//! `GET /metrics`: what it shows, to whom, and that it stays bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use axum::{Router, routing::post};
use bytes::Bytes;
use everhook::config::ServeArgs;
use everhook_core::{
    ids::{LaneId, OrganizationId},
    metrics::{LABEL_SETS_MAX, LaneCounts},
    model::EventType,
};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::json;
use uuid::Uuid;

use crate::api::client::Server;

/// A delivery takes milliseconds, and the store is asked every five seconds; this machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// The names that are promised elsewhere, exactly as they are written there.
const PROMISED: [&str; 15] = [
    "webhook_deliveries_total",
    "webhook_delivery_duration_seconds",
    "webhook_retry_attempt_number",
    "webhook_queue_depth",
    "webhook_circuit_breaker_state",
    "webhook_circuit_breaker_transitions_total",
    "webhook_circuit_breaker_redis_fallback_active",
    "webhook_dlq_size",
    "webhook_rate_limit_hits_total",
    "webhook_worker_pool_utilization",
    "webhook_circuit_blocked_deliveries",
    "endpoint_failures_total",
    "endpoint_disabled_count",
    "retry_attempts_total",
    "notification_sent_count",
];

/// Every sample with its labels as they are written, and every metric with its type.
pub struct Scraped {
    samples: BTreeMap<String, f64>,
    types: BTreeMap<String, String>,
}

impl Scraped {
    /// The one sample whose text begins so and contains the rest.
    pub fn value(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let fits = |sample: &&String| sample.split('{').next() == Some(name) && labels.iter().all(|label| sample.contains(label));
        let found: Vec<&String> = self.samples.keys().filter(fits).collect();
        assert!(found.len() <= 1, "{name} {labels:?} is not one sample: {found:?}");
        found.first().map(|sample| self.samples[*sample])
    }
}

fn read(text: &str) -> Scraped {
    let mut scraped = Scraped { samples: BTreeMap::new(), types: BTreeMap::new() };
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(scraped.types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} is there twice");
        } else if !line.starts_with('#') {
            let (sample, value) = line.rsplit_once(' ').expect("a value");
            let value = value.replace("+Inf", "inf").parse().expect("a number");
            assert!(scraped.samples.insert(sample.to_owned(), value).is_none(), "{sample} is there twice");
        }
    }
    scraped
}

pub async fn scrape(server: &Server) -> Scraped {
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    read(std::str::from_utf8(&answer.body).expect("text"))
}

/// Scrapes until the metrics are as they should be.
pub async fn scrape_until(server: &Server, are_right: impl Fn(&Scraped) -> bool) -> Scraped {
    let began = Instant::now();
    loop {
        let scraped = scrape(server).await;
        if are_right(&scraped) {
            return scraped;
        }
        assert!(began.elapsed() < PATIENCE, "still not as it should be: {:#?}", scraped.samples);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn receiver() -> String {
    receiver_answering(StatusCode::NO_CONTENT).await
}

async fn receiver_answering(status: StatusCode) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(async move || status))).await });
    format!("http://{address}/")
}

#[tokio::test]
async fn metrics_are_for_admins_and_for_nobody_else() {
    let server = Server::start().await;
    let nobody = Request::get("/metrics").header("host", "test").body(Full::<Bytes>::default()).unwrap();
    server.send(nobody).await.problem(401);
    for scopes in [["publish"], ["read"], ["manage"]] {
        let key = server.key(&scopes).await;
        server.call(Method::GET, "/metrics", &key, "").await.problem(403);
        let key = server.stranger(&scopes).await;
        server.call(Method::GET, "/metrics", &key, "").await.problem(403);
    }
    server.post("/metrics", json!({})).await.problem(405);
    let scraped = scrape(&server).await;
    let missing: Vec<&str> = PROMISED.into_iter().filter(|name| !scraped.types.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?} are not exported");
    server.stop().await;
}

#[tokio::test]
async fn an_address_of_its_own_serves_metrics_to_everybody_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let args = ServeArgs {
        listen: Some("127.0.0.1:0".to_owned()),
        data: Some(folder.path().display().to_string()),
        metrics_listen: Some(address.clone()),
        ..ServeArgs::default()
    };
    let server = Server::start_with(&args).await;
    let ask = async |path: &str| raw(&address, path).await;
    assert!(ask("/metrics").await.contains("webhook_queue_depth"));
    for path in ["/", "/v1/events", "/healthz", "/docs"] {
        assert!(ask(path).await.starts_with("HTTP/1.1 404"), "{path}");
    }
    server.stop().await;
    assert!(tokio::net::TcpStream::connect(&address).await.is_err(), "it still listens");
}

/// The whole answer to a GET without a key.
async fn raw(address: &str, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn what_was_delivered_failed_and_died_is_counted() {
    let server = Server::start().await;
    let (good, schedule) = (receiver().await, json!({ "name": "once", "strategy": "custom", "intervals": [1], "max_attempts": 1 }));
    let schedule = server.post("/v1/retry-schedules", schedule).await.expect(201);
    server.endpoint(json!({ "url": good, "event_types": ["order.paid"] })).await;
    let dead = server.endpoint(json!({ "event_types": ["order.lost"], "retry_schedule_id": schedule["id"] })).await;
    for (event_type, key) in [("order.paid", "a"), ("order.paid", "b"), ("order.paid", "b"), ("order.lost", "c")] {
        let event = json!({ "type": event_type, "data": 1, "idempotency_key": key });
        assert!(server.post("/v1/events", event).await.status.is_success());
    }
    let scraped = scrape_until(&server, |scraped| {
        scraped.value("webhook_deliveries_total", &["order.paid", "success"]) == Some(2.0)
            && scraped.value("webhook_deliveries_total", &["order.lost", "exhausted", "network"]) == Some(1.0)
            && scraped.value("webhook_dlq_size", &[]) == Some(1.0)
    })
    .await;
    let id = dead["id"].as_str().unwrap();
    let expected = [
        ("webhook_delivery_duration_seconds_count", &["status=\"success\""][..], 2.0),
        ("webhook_retry_attempt_number_bucket", &["outcome=\"exhausted\"", "le=\"1\""], 1.0),
        ("webhook_queue_depth", &["normal"], 0.0),
        ("webhook_circuit_breaker_state", &[id, "closed"], 1.0),
        ("endpoint_failures_total", &[id], 1.0),
        ("retry_attempts_total", &["once", "exhausted", "attempt=\"1\""], 1.0),
        ("everhook_events_total", &["duplicate"], 1.0),
        ("everhook_circuit_breakers", &["closed"], 2.0),
        ("everhook_store_available", &[], 1.0),
        ("endpoint_disabled_count", &[], 0.0),
    ];
    for (name, labels, value) in expected {
        assert_eq!(scraped.value(name, labels), Some(value), "{name} {labels:?}");
    }
    // The death of a delivery is an event as well.
    assert!(scraped.value("everhook_events_total", &["recorded"]).is_some_and(|count| count >= 3.0));
    assert!(scraped.value("everhook_commit_seconds_count", &["publish"]).is_some_and(|count| count >= 3.0));
    assert!(scraped.value("everhook_commit_seconds_count", &["settle"]).is_some_and(|count| count >= 1.0));
    server.stop().await;
}

#[tokio::test]
async fn disabled_endpoints_and_open_breakers_are_shown() {
    let server = Server::start().await;
    let breaker = json!({ "rule": "consecutive", "failure_threshold": 1, "success_threshold": 1 });
    let failing = server.endpoint(json!({ "event_types": ["a"], "circuit_breaker": breaker })).await;
    let disabled = server.endpoint(json!({ "event_types": ["b"] })).await;
    server.patch(&format!("/v1/endpoints/{}", disabled["id"].as_str().unwrap()), json!({ "enabled": false })).await.expect(200);
    server.post("/v1/events", json!({ "type": "a", "data": 1 })).await.expect(202);
    let id = failing["id"].as_str().unwrap();
    let scraped = scrape_until(&server, |scraped| {
        scraped.value("webhook_circuit_breaker_state", &[id, "open"]) == Some(1.0)
            && scraped.value("endpoint_disabled_count", &[]) == Some(1.0)
            && scraped.value("webhook_queue_depth", &["normal"]) == Some(1.0)
    })
    .await;
    let opened = ["from_state=\"closed\"", "to_state=\"open\"", "too_many_failures"];
    assert_eq!(scraped.value("webhook_circuit_breaker_transitions_total", &opened), Some(1.0));
    assert_eq!(scraped.value("everhook_circuit_breakers", &["state=\"open\""]), Some(1.0));
    server.stop().await;
}

#[tokio::test]
async fn what_was_held_up_by_a_limit_or_a_breaker_is_counted_by_endpoint() {
    let server = Server::start().await;
    let once = json!({ "name": "once", "strategy": "custom", "intervals": [1], "max_attempts": 1 });
    let once = server.post("/v1/retry-schedules", once).await.expect(201)["id"].clone();
    let busy = receiver_answering(StatusCode::TOO_MANY_REQUESTS).await;
    let busy = server.endpoint(json!({ "url": busy, "event_types": ["to.busy"], "retry_schedule_id": once })).await;
    let shut = server.endpoint(json!({ "url": receiver().await, "event_types": ["to.shut"] })).await;
    let breaker = format!("/v1/endpoints/{}/circuit-breaker", shut["id"].as_str().unwrap());
    server.patch(&breaker, json!({ "action": "force_open" })).await.expect(200);
    for event_type in ["to.busy", "to.busy", "to.shut", "to.shut", "to.shut"] {
        server.post("/v1/events", json!({ "type": event_type, "data": 1 })).await.expect(202);
    }
    let [busy, shut] = [&busy, &shut].map(|endpoint| endpoint["id"].as_str().unwrap());
    let hits = |scraped: &Scraped| [busy, shut].map(|id| scraped.value("webhook_rate_limit_hits_total", &[id]));
    let blocked = |scraped: &Scraped| [busy, shut].map(|id| scraped.value("webhook_circuit_blocked_deliveries", &[id]));
    let scraped = scrape_until(&server, |scraped| hits(scraped)[0] == Some(2.0)).await;
    // What waits for the breaker counts when it is sent.
    assert_eq!((hits(&scraped), blocked(&scraped)), ([Some(2.0), None], [None, None]));
    server.patch(&breaker, json!({ "action": "reset" })).await.expect(200);
    let scraped = scrape_until(&server, |scraped| blocked(scraped)[1] == Some(3.0)).await;
    assert_eq!((hits(&scraped), blocked(&scraped)), ([Some(2.0), None], [None, Some(3.0)]));
    // Without a Redis, there is nothing that breakers could do without.
    assert_eq!(scraped.value("webhook_circuit_breaker_redis_fallback_active", &[]), None);
    server.stop().await;
}

#[tokio::test]
async fn an_answer_is_bounded_whatever_tenants_invent() {
    let server = Server::start().await;
    let metrics = server.line().metrics.clone();
    for n in 0..LABEL_SETS_MAX as u128 + 5_000 {
        metrics.lanes.get(&LaneId::from_uuid(Uuid::from_u128(n)), LaneCounts::default).failures.add(1);
        let event_type = EventType::parse(&format!("invented.{n}")).unwrap();
        let labels = metrics.labels(
            OrganizationId::from_uuid(Uuid::from_u128(n % 7)),
            Some(&event_type),
            everhook_core::ids::ScheduleVersion(1),
            "s",
        );
        labels.schedule.all().for_each(drop);
    }
    let began = Instant::now();
    let scraped = scrape(&server).await;
    eprintln!("a scrape with {LABEL_SETS_MAX} endpoints took {:?}", began.elapsed());
    let lanes = scraped.samples.keys().filter(|sample| sample.starts_with("endpoint_failures_total{")).count();
    assert_eq!(lanes, LABEL_SETS_MAX + 1);
    assert_eq!(scraped.value("endpoint_failures_total", &["\"other\""]), Some(5_000.0));
    assert_eq!(metrics.attempts.all().len(), LABEL_SETS_MAX);
    let states: BTreeSet<&str> = scraped.types.values().map(String::as_str).collect();
    assert_eq!(states, BTreeSet::from(["counter", "gauge", "histogram", "untyped"]));
    server.stop().await;
}

#[tokio::test]
async fn a_source_is_counted_by_its_kind_with_what_became_of_its_events() {
    let server = Server::start().await;
    let url = receiver().await;
    server.endpoint(json!({ "url": url })).await;
    server.post("/v1/sources", json!({ "name": "shop", "kind": "none" })).await.expect(201);
    for _ in 0..2 {
        let request = Request::post("/in/shop").header("host", "test").body(Full::new(Bytes::from_static(b"{}"))).unwrap();
        server.send(request).await.expect(200);
    }
    let of = |result: &'static str| ["kind=\"none\"", result];
    let is_right = |scraped: &Scraped| {
        let count = |result: &'static str| scraped.value("everhook_source_events_total", &of(result));
        count("result=\"received\"") == Some(2.0) && count("result=\"completed\"") == Some(2.0)
    };
    let scraped = scrape_until(&server, is_right).await;
    assert_eq!(scraped.value("everhook_source_latency_seconds_count", &["kind=\"none\""]), Some(2.0));
    assert_eq!(scraped.value("everhook_source_events_total", &of("result=\"failed\"")), None);
    server.stop().await;
}
