//! Channels over HTTP: made, shown, changed, tried out, deleted; what services really get; and that nothing shows their secrets.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Uri},
    routing::post,
};
use everhook::config::ServeArgs;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::{client::Server, metrics::scrape};

const KEY: &str = "R0123456789abcdefghijklmnopqrstu";

/// A notification takes milliseconds; this machine may be busy.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// A service that takes everything, and remembers it. At `/gone` there is an endpoint that wants nothing more.
#[derive(Clone, Default)]
struct Sink {
    got: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
    answer: Arc<Mutex<Option<(u16, &'static str)>>>,
}

impl Sink {
    async fn start(self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().route("/{*path}", post(take)).with_state(self);
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    fn got(&self) -> Vec<(HeaderMap, Value)> {
        self.got.lock().unwrap().clone()
    }

    async fn wait_for(&self, count: usize) -> Vec<(HeaderMap, Value)> {
        let begun_at = Instant::now();
        while self.got().len() < count {
            assert!(begun_at.elapsed() < TOLD_WITHIN, "{} came", self.got().len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.got()
    }
}

async fn take(State(sink): State<Sink>, uri: Uri, headers: HeaderMap, body: Bytes) -> (StatusCode, &'static str) {
    if uri.path() == "/gone" {
        return (StatusCode::GONE, "gone");
    }
    let body = serde_json::from_slice(&body).expect("services get JSON");
    sink.got.lock().unwrap().push((headers, body));
    let (status, text) = sink.answer.lock().unwrap().unwrap_or((202, "ok"));
    (StatusCode::from_u16(status).unwrap(), text)
}

async fn with_sink() -> (Server, Sink, SocketAddr) {
    let sink = Sink::default();
    let address = sink.clone().start().await;
    let pagerduty_url = Some(format!("http://{address}/v2/enqueue"));
    (Server::start_set(|args| ServeArgs { pagerduty_url, ..args }).await, sink, address)
}

fn of_kind(kind: &str, address: SocketAddr) -> Value {
    match kind {
        "pagerduty" => json!({ "name": kind, "kind": kind, "routing_key": KEY }),
        _ => json!({ "name": kind, "kind": kind, "url": format!("http://{address}/{kind}/token-that-nobody-may-see") }),
    }
}

/// The text without what changes from run to run: ids, instants, the sink's address.
fn without_names(text: &str, address: SocketAddr) -> String {
    let (text, mut shown) = (text.replace(&address.to_string(), "<address>"), String::new());
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let fits = |length: usize, is: fn(usize, char) -> bool| {
            rest.is_char_boundary(length.min(rest.len()))
                && rest.len() >= length
                && rest[..length].chars().enumerate().all(|(at, char)| is(at, char))
        };
        if fits(36, |at, char| if [8, 13, 18, 23].contains(&at) { char == '-' } else { char.is_ascii_hexdigit() }) {
            shown.push_str("<id>");
            rest = &rest[36..];
        } else if fits(11, |at, char| matches!((at, char), (4 | 7, '-') | (10, 'T' | ' ') | (_, '0'..='9'))) {
            // As programs read an instant, and as people do.
            let end = if rest[10..].starts_with('T') { "Z" } else { "UTC" };
            shown.push_str("<time>");
            rest = &rest[rest.find(end).map_or(rest.len(), |at| at + end.len())..];
        } else {
            shown.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    shown
}

#[tokio::test]
async fn each_kind_of_service_gets_exactly_this() {
    let (server, sink, address) = with_sink().await;
    let mut bodies = String::new();
    for kind in ["slack", "pagerduty", "teams", "webhook"] {
        let made = server.post("/v1/channels", of_kind(kind, address)).await.expect(201);
        let before = sink.got().len();
        server.put(&format!("/v1/channels/{kind}"), json!({ "event_types": ["endpoint.disabled"] })).await.expect(200);
        let url = format!("http://{address}/gone");
        server.post("/v1/endpoints", json!({ "name": "Orders <!channel>", "url": url, "event_types": ["order.paid"] })).await.expect(201);
        server.post("/v1/events", json!({ "type": "order.paid", "data": {} })).await.expect(202);
        let got = sink.wait_for(before + 1).await;
        let (headers, body) = &got[before];
        bodies.push_str(&format!("{kind}\n{}\n\n", serde_json::to_string_pretty(body).unwrap()));
        assert_eq!(headers.contains_key("webhook-signature"), kind == "webhook");
        if kind == "webhook" {
            verify(made["secret"].as_str().unwrap(), headers, body);
        }
        server.delete(&format!("/v1/channels/{kind}")).await.expect(204);
    }
    insta::assert_snapshot!(without_names(&bodies, address));
    server.stop().await;
}

fn verify(secret: &str, headers: &HeaderMap, body: &Value) {
    let text = |name: &str| headers[name].to_str().unwrap();
    assert!(secret.starts_with("whsec_") && text("webhook-signature").starts_with("v1,"));
    assert_eq!(text("webhook-id"), body["id"]);
}

#[tokio::test]
async fn a_channel_is_made_found_changed_and_deleted_and_its_url_is_shown_to_nobody() {
    let server = Server::start().await;
    let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let made = server.post("/v1/channels", of_kind("webhook", address)).await.expect(201);
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert_eq!((&made["target"], &made["enabled"]), (&json!("http://127.0.0.1:9/***"), &json!(true)));
    assert!(made["event_types"].as_array().unwrap().contains(&json!("alert.*")));
    let found = server.get("/v1/channels/webhook").await.expect(200);
    assert_eq!(found.get("secret"), None, "it is shown once");
    assert_eq!(server.get(&format!("/v1/channels/{}", made["id"].as_str().unwrap())).await.expect(200), found);
    assert_eq!(server.get("/v1/channels").await.expect(200)["data"], json!([found]));
    assert_eq!(server.post("/v1/channels", of_kind("webhook", address)).await.problem(409)["type"], "/docs/problems/name-taken");
    let pagerduty = server.post("/v1/channels", of_kind("pagerduty", address)).await.expect(201);
    assert_eq!((&pagerduty["target"], &pagerduty["secret"]), (&json!("***"), &Value::Null));
    let changes = json!({ "name": "hook", "event_types": ["*"], "min_severity": "critical", "enabled": false, "url": "http://127.0.0.1:9/other-token" });
    let changed = server.put("/v1/channels/webhook", changes).await.expect(200);
    for (field, value) in
        [("name", json!("hook")), ("event_types", json!(["*"])), ("min_severity", json!("critical")), ("enabled", json!(false))]
    {
        assert_eq!(changed[field], value, "{field}");
    }
    let reset = server.put("/v1/channels/hook", json!({ "event_types": null, "min_severity": null, "enabled": null })).await.expect(200);
    assert_eq!((&reset["event_types"], &reset["min_severity"], &reset["enabled"]), (&found["event_types"], &Value::Null, &json!(true)));
    // Neither answers nor the audit log have the URL, the key or the secret.
    for path in ["/v1/channels", "/v1/audit-log"] {
        let shown = String::from_utf8_lossy(&server.get(path).await.body).into_owned();
        for hidden in ["nobody-may-see", "other-token", KEY, &secret] {
            assert!(!shown.contains(hidden), "{path} shows {hidden}");
        }
    }
    let log = server.get("/v1/audit-log?limit=250").await.expect(200);
    let actions: Vec<_> = log["data"].as_array().unwrap().iter().filter_map(|row| row["action"].as_str()).collect();
    assert!(actions.contains(&"channel.create") && actions.contains(&"channel.update"), "{actions:?}");
    server.delete("/v1/channels/hook").await.expect(204);
    server.delete("/v1/channels/hook").await.problem(404);
    server.get("/v1/channels/hook").await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_channel_is_said_by_field() {
    let server = Server::start_set(|args| ServeArgs { allow_private_networks: Some("false".to_owned()), ..args }).await;
    for (bad, fields) in [
        (json!({}), vec!["kind", "name"]),
        (json!({ "name": "a", "kind": "email" }), vec!["kind"]),
        (json!({ "name": "a", "kind": "telegram", "url": "https://example.com" }), vec!["kind"]),
        (json!({ "name": "a b", "kind": "slack" }), vec!["name", "url"]),
        (json!({ "name": "a", "kind": "slack", "url": "https://127.0.0.1/x" }), vec!["url"]),
        (json!({ "name": "a", "kind": "slack", "url": "http://example.com/x" }), vec!["url"]),
        (json!({ "name": "a", "kind": "slack", "url": "https://example.com/x", "routing_key": KEY }), vec!["routing_key"]),
        (json!({ "name": "a", "kind": "pagerduty" }), vec!["routing_key"]),
        (json!({ "name": "a", "kind": "pagerduty", "routing_key": "short" }), vec!["routing_key"]),
        (json!({ "name": "a", "kind": "pagerduty", "routing_key": KEY, "url": "https://example.com" }), vec!["url"]),
        (json!({ "name": "a", "kind": "teams", "url": "https://example.com", "secret": "0123456789abcdef" }), vec!["secret"]),
        (json!({ "name": "a", "kind": "webhook", "url": "https://example.com", "secret": "short" }), vec!["secret"]),
        (json!({ "name": "a", "kind": "webhook", "url": "https://example.com", "event_types": [] }), vec!["event_types"]),
        (json!({ "name": "a", "kind": "webhook", "url": "https://example.com", "event_types": ["a b"] }), vec!["event_types"]),
        (json!({ "name": "a", "kind": "webhook", "url": "https://example.com", "min_severity": "high" }), vec!["min_severity"]),
    ] {
        let mut found = server.post("/v1/channels", bad.clone()).await.faults(422);
        found.sort();
        assert_eq!(found, fields, "{bad}");
    }
    server.post("/v1/channels", json!({ "name": "a", "kind": "slack", "color": "red" })).await.problem(400);
    server.post("/v1/channels", json!({ "name": "a", "kind": "slack", "url": "https://example.com/x" })).await.expect(201);
    assert_eq!(server.put("/v1/channels/a", json!({ "kind": "teams" })).await.faults(422), ["kind"]);
    for number in 1..20 {
        let one = json!({ "name": format!("c{number}"), "kind": "slack", "url": "https://example.com/x" });
        server.post("/v1/channels", one).await.expect(201);
    }
    let more = json!({ "name": "more", "kind": "slack", "url": "https://example.com/x" });
    assert_eq!(server.post("/v1/channels", more).await.problem(409)["type"], "/docs/problems/limit-reached");
    server.stop().await;
}

#[tokio::test]
async fn those_of_administrators_are_listed_and_follow_their_addresses() {
    let server = Server::start().await;
    server.put("/v1/organizations/default", json!({ "admin_emails": ["ops@example.com"] })).await.expect(200);
    let listed = server.get("/v1/channels").await.expect(200)["data"].clone();
    assert_eq!((&listed[0]["name"], &listed[0]["kind"]), (&json!("ops@example.com"), &json!("email")));
    assert_eq!(server.get("/v1/channels/ops@example.com").await.expect(200), listed[0]);
    assert_eq!(
        server.put("/v1/channels/ops@example.com", json!({ "enabled": false })).await.problem(409)["type"],
        "/docs/problems/built-in"
    );
    assert_eq!(server.delete("/v1/channels/ops@example.com").await.problem(409)["type"], "/docs/problems/built-in");
    // Without a mail server, a test says so.
    let tried = server.post("/v1/channels/ops@example.com/test", json!({})).await.expect(200);
    assert_eq!(tried["delivered"], false);
    assert!(tried["error"].as_str().unwrap().contains("set `smtp`"), "{tried}");
    server.stop().await;
}

#[tokio::test]
async fn a_test_says_what_the_other_side_answered_and_is_limited() {
    let (server, sink, address) = with_sink().await;
    for kind in ["slack", "pagerduty", "teams", "webhook"] {
        server.post("/v1/channels", of_kind(kind, address)).await.expect(201);
        let tried = server.post(&format!("/v1/channels/{kind}/test"), json!({})).await.expect(200);
        assert_eq!((&tried["delivered"], &tried["status"], &tried["error"]), (&json!(true), &json!(202), &Value::Null), "{kind}: {tried}");
        assert_eq!(tried["response"], "ok");
    }
    let got = sink.got();
    assert_eq!(got.len(), 5, "PagerDuty's incident is resolved at once");
    let actions: Vec<_> = got[1..3].iter().map(|(_, body)| (&body["event_action"], &body["dedup_key"])).collect();
    assert_eq!((actions[0].0, actions[1].0), (&json!("trigger"), &json!("resolve")));
    assert_eq!(actions[0].1, actions[1].1);
    assert!(got[4].1["summary"].as_str().unwrap().contains("Nothing has happened"));
    *sink.answer.lock().unwrap() = Some((404, "no_service"));
    let tried = server.post("/v1/channels/slack/test", json!({})).await.expect(200);
    assert_eq!((&tried["delivered"], &tried["status"]), (&json!(false), &json!(404)));
    assert_eq!(tried["error"], "Slack answered 404: no_service");
    server.post("/v1/channels/nobody/test", json!({})).await.problem(404);
    let mut status = 200;
    for _ in 0..70 {
        status = server.post("/v1/channels/slack/test", json!({})).await.status.as_u16();
        if status != 200 {
            break;
        }
    }
    assert_eq!(status, 429);
    // Nothing of it is a delivery.
    assert_eq!(server.get("/v1/notifications").await.expect(200)["data"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn who_was_told_what_is_listed_by_channel_and_status_page_by_page() {
    let (server, sink, address) = with_sink().await;
    for kind in ["slack", "webhook"] {
        server.post("/v1/channels", of_kind(kind, address)).await.expect(201);
        server.put(&format!("/v1/channels/{kind}"), json!({ "event_types": ["circuit.*"] })).await.expect(200);
    }
    let endpoint = server.endpoint(json!({ "event_types": ["order.paid"] })).await;
    let breaker = format!("/v1/endpoints/{}/circuit-breaker", endpoint["id"].as_str().unwrap());
    for action in ["force_open", "reset"] {
        server.patch(&breaker, json!({ "action": action })).await.expect(200);
    }
    sink.wait_for(4).await;
    let begun_at = Instant::now();
    let all = loop {
        let list = server.get("/v1/notifications?status=delivered").await.expect(200)["data"].as_array().unwrap().clone();
        if list.len() == 4 {
            break list;
        }
        assert!(begun_at.elapsed() < TOLD_WITHIN, "{list:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((&all[0]["event_type"], &all[0]["status"]), (&json!("circuit.closed"), &json!("delivered")));
    let scraped = scrape(&server).await;
    let sent = ["circuit.opened", "circuit.closed"].map(|event_type| scraped.value("notification_sent_count", &[event_type]));
    assert_eq!(sent, [Some(2.0), Some(2.0)], "one to each of two channels");
    let (mut paged, mut path) = (Vec::new(), "/v1/notifications?limit=3".to_owned());
    for _ in 0..2 {
        let page = server.get(&path).await.expect(200);
        paged.extend(page["data"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/notifications?limit=3&cursor={cursor}"),
            None => assert!(page["prev_cursor"].is_string()),
        }
    }
    assert_eq!(paged, all);
    let of_slack = server.get("/v1/notifications?channel=slack").await.expect(200)["data"].clone();
    assert_eq!(of_slack.as_array().unwrap().iter().map(|row| &row["event_type"]).collect::<Vec<_>>(), ["circuit.closed", "circuit.opened"]);
    let delivery = of_slack[0]["delivery_id"].as_str().unwrap();
    let attempt = server.get(&format!("/v1/deliveries/{delivery}/attempts/1")).await.expect(200);
    assert!(attempt["notification"]["subject"].as_str().unwrap().contains("Circuit Breaker Closed"), "{attempt}");
    assert!(attempt["request"].is_null() && !attempt.to_string().contains("nobody-may-see"), "{attempt}");
    assert_eq!(server.get("/v1/notifications?status=dead").await.expect(200)["data"], json!([]));
    server.get("/v1/notifications?channel=nobody").await.problem(404);
    server.get("/v1/notifications?status=odd").await.problem(400);
    let stranger = server.stranger(&["manage"]).await;
    assert_eq!(server.call(Method::GET, "/v1/notifications", &stranger, "").await.expect(200)["data"], json!([]));
    server.stop().await;
}
