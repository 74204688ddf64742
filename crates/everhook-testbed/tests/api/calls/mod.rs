//! Calls over HTTP, to apps on real sockets: answers in time whatever the app does, from the right step.

pub mod app;
mod approvals;
mod canary;
mod contract;
mod fallback;
mod health;
mod jobs;
mod manifests;
mod resilience;
mod samples;
mod shadow;
mod stats;

use std::time::{Duration, Instant};

use everhook_core::{
    ids::EventId,
    model::{SignatureStyle, SigningKey},
    signing::{Keys, Signable, sign},
    time::Timestamp,
};
use serde_json::{Value, json};

use self::app::{Answer, App};
use crate::api::client::{self, Server};

/// What a call may take beyond its timeout in tests that share a busy machine: what is told apart is an answer in time and none at all.
const BUSY_SLACK: Duration = Duration::from_millis(900);

/// A server and an app whose manifest has one capability, `ask`, with these fields beside its path.
struct Given {
    server: Server,
    app: App,
}

impl Given {
    async fn new(app: App, fields: Value) -> Self {
        let given = Self { server: Server::start().await, app };
        given.put(fields).await;
        given
    }

    async fn put(&self, fields: Value) -> Value {
        let mut capability = json!({ "path": "/ask", "timeout": 1_000 });
        capability.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let manifest = json!({ "base_url": self.app.url(), "capabilities": { "ask": capability } });
        self.server.put(&self.path("manifest"), manifest).await.expect(200)
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/applications/default/{rest}")
    }

    async fn call(&self, body: Value) -> client::Answer {
        self.server.post(&self.path("call/ask?explain"), body).await
    }

    /// Calls, and says how long that took.
    async fn timed(&self, body: Value) -> (client::Answer, Duration) {
        let begun = Instant::now();
        let answer = self.call(body).await;
        (answer, begun.elapsed())
    }
}

fn steps(answer: &Value) -> Vec<String> {
    let step = |step: &Value| format!("{} {}", step["step"].as_str().unwrap(), step["outcome"].as_str().unwrap());
    answer["steps"].as_array().unwrap().iter().map(step).collect()
}

fn ok() -> Answer {
    Answer::data(&json!({ "winners": ["a"] }))
}

#[tokio::test]
async fn the_answer_of_an_app_comes_back_byte_for_byte_and_the_app_sees_who_asks_and_how_long_it_has() {
    let body = r#"{"success":true,"data":{"n": 1.0e2, "b":[ ]},"warning":"slow today"}"#;
    let given = Given::new(App::answering(Answer::Body(200, body.to_owned())).await, json!({})).await;
    let answer = given.call(json!({ "payload": { "roomId": "r1" } })).await;
    let out = answer.expect(200);
    assert!(String::from_utf8_lossy(&answer.body).contains(r#""data":{"n": 1.0e2, "b":[ ]}"#), "{out}");
    assert_eq!((&out["source"], &out["circuit"], &out["warning"]), (&json!("app"), &json!("closed"), &json!("slow today")));
    assert_eq!(steps(&out), ["app answered"]);
    let timing = answer.headers["server-timing"].to_str().unwrap();
    assert!(timing.starts_with("app;desc=\"answered\";dur=") && timing.contains("total;dur="), "{timing}");

    let seen = given.app.seen().pop().unwrap();
    assert!(seen.head.starts_with("POST /ask HTTP/1.1\r\n"), "{}", seen.head);
    assert_eq!(seen.body, br#"{"roomId":"r1"}"#);
    assert_eq!(seen.header("x-request-id"), out["request_id"].as_str());
    assert_eq!(
        (seen.header("x-retry-attempt"), seen.header("x-max-attempts"), seen.header("x-capability")),
        (Some("1"), Some("1"), Some("ask"))
    );
    let left: u64 = seen.header("x-timeout-ms").unwrap().parse().unwrap();
    assert!((500..=980).contains(&left), "{left} ms are left: the timeout, less what the fallback needs");
    assert!(seen.header("traceparent").unwrap().starts_with("00-"));
    let secret = given.server.get(&given.path("secret")).await.expect(200);
    let current = SigningKey::parse(secret["secret"].as_str().unwrap()).unwrap();
    let (event, style) = (EventId::from_uuid(uuid::Uuid::nil()), SignatureStyle::Sha256);
    let signed = sign(&Keys { current, previous: None }, &Signable { event, at: Timestamp::EPOCH, body: &seen.body, style });
    assert_eq!(seen.header("x-platform-signature"), Some(&*signed.x_webhook_signature), "an HMAC over the body alone");
    given.server.stop().await;
}

#[tokio::test]
async fn whatever_an_app_does_the_caller_has_an_answer_in_time_and_is_told_why() {
    let given = Given::new(App::answering(ok()).await, json!({ "timeout": 300, "circuit_breaker": { "enabled": false } })).await;
    let html = || Answer::Body(200, "<html>".to_owned());
    let cases = [
        (Answer::Hangs, 504, "timeout"),
        (Answer::Drips, 504, "timeout"),
        (Answer::After(Duration::from_millis(900), Box::new(ok())), 504, "timeout"),
        (Answer::Resets, 502, "network"),
        (Answer::Floods, 502, "bad_answer"),
        (html(), 502, "bad_answer"),
        (Answer::Body(500, "oops".to_owned()), 502, "status"),
        (Answer::Body(301, String::new()), 502, "status"),
        (Answer::Body(429, String::new()), 502, "rate_limit"),
        (Answer::Body(200, r#"{"success":false,"error":{"code":"NO","message":"not today"}}"#.to_owned()), 502, "app_error"),
    ];
    for (does, status, reason) in cases {
        given.app.answer(does.clone());
        let (answer, took) = given.timed(json!({ "payload": null })).await;
        let problem = answer.problem(status);
        assert_eq!((&problem["reason"], &problem["source"]), (&json!(reason), &json!("error")), "{does:?}: {problem}");
        assert!(took < Duration::from_millis(300) + BUSY_SLACK, "{does:?} took {took:?}");
        assert!(problem["duration_ms"].as_f64().unwrap() < 300.0 + BUSY_SLACK.as_millis() as f64, "{problem}");
    }
    given.app.answer(ok());
    assert_eq!(given.call(json!({ "payload": null })).await.expect(200)["source"], "app", "its recovery is noticed");
    given.server.stop().await;
}

#[tokio::test]
async fn an_app_that_is_not_there_fails_at_once() {
    let given = Given::new(App::answering(ok()).await, json!({})).await;
    let manifest = json!({ "base_url": "http://127.0.0.1:9", "capabilities": { "ask": { "path": "/", "timeout": 5_000 } } });
    given.server.put(&given.path("manifest"), manifest).await.expect(200);
    let (answer, took) = given.timed(json!({ "payload": 1 })).await;
    assert_eq!(answer.problem(502)["reason"], "network");
    assert!(took < Duration::from_secs(2), "{took:?}");
    given.server.stop().await;
}

#[tokio::test]
async fn the_caller_may_wait_for_less_by_a_field_or_a_header_and_never_for_more() {
    let given = Given::new(App::answering(Answer::Hangs).await, json!({ "timeout": 600 })).await;
    for (body, expected) in [(json!({ "payload": 1, "timeout_ms": 150 }), 150), (json!({ "payload": 1, "timeout_ms": 60_000 }), 600)] {
        let took = given.call(body).await.problem(504)["duration_ms"].as_f64().unwrap();
        let expected = f64::from(expected);
        assert!((expected - 40.0..expected + BUSY_SLACK.as_millis() as f64).contains(&took), "{took} ms of {expected}");
    }
    assert_eq!(given.call(json!({ "payload": 1, "timeout_ms": 0 })).await.faults(422), ["timeout_ms"]);
    assert_eq!(given.call(json!({ "cache_key": "" })).await.faults(422), ["payload", "cache_key"]);
    // It is answered at once, or not at all.
    assert_eq!(given.call(json!({ "payload": 1, "callback_url": "https://platform.example/done" })).await.faults(422), ["callback_url"]);
    given.server.stop().await;
}

#[tokio::test]
async fn the_time_that_a_caller_has_left_also_comes_as_a_header_of_a_call_and_of_a_batch() {
    let given = Given::new(App::answering(Answer::Hangs).await, json!({ "timeout": 5_000 })).await;
    let send = async |path: &str, left: &str, body: Value| {
        let request = http::Request::post(given.path(path))
            .header("authorization", format!("Bearer {}", given.server.admin))
            .header("content-type", "application/json")
            .header("x-timeout-ms", left)
            .body(http_body_util::Full::new(bytes::Bytes::from(body.to_string())));
        given.server.send(request.unwrap()).await
    };
    let in_time = |took: &Value| (160.0..200.0 + BUSY_SLACK.as_millis() as f64).contains(&took.as_f64().unwrap());
    let problem = send("call/ask", "200", json!({ "payload": 1 })).await.problem(504);
    assert!(in_time(&problem["duration_ms"]), "{problem}");
    let left: u64 = given.app.seen()[0].header("x-timeout-ms").unwrap().parse().unwrap();
    assert!((50..=180).contains(&left), "the app is told what is left of it: {left} ms");
    // The shorter of both holds.
    let problem = send("call/ask", "4000", json!({ "payload": 1, "timeout_ms": 200 })).await.problem(504);
    assert!(in_time(&problem["duration_ms"]), "{problem}");
    let calls = json!({ "calls": [{ "capability": "ask", "payload": 1 }, { "capability": "ask", "payload": 2 }] });
    let begun = Instant::now();
    let out = send("call-batch", "200", calls.clone()).await.expect(200);
    assert!(begun.elapsed() < Duration::from_millis(200) + BUSY_SLACK, "{out}");
    assert!(out["data"].as_array().unwrap().iter().all(|one| one["error"]["status"] == 504), "{out}");
    for unfit in ["0", "-1", "soon", "99999999999"] {
        send("call/ask", unfit, json!({ "payload": 1 })).await.problem(400);
        send("call-batch", unfit, calls.clone()).await.problem(400);
    }
    given.server.stop().await;
}

#[tokio::test]
async fn an_answer_that_does_not_match_the_schema_is_no_answer() {
    let schema = json!({ "type": "object", "required": ["winners"], "properties": { "winners": { "type": "array" } } });
    let given = Given::new(App::answering(ok()).await, json!({ "response_schema": schema })).await;
    assert_eq!(given.call(json!({ "payload": 1 })).await.expect(200)["data"], json!({ "winners": ["a"] }));
    given.app.answer(Answer::data(&json!({ "winners": 1 })));
    let problem = given.call(json!({ "payload": 1 })).await.problem(502);
    assert_eq!(problem["reason"], "bad_answer");
    assert!(problem["detail"].as_str().unwrap().contains("/winners"), "{problem}");
    given.server.stop().await;
}

#[tokio::test]
async fn several_calls_share_one_deadline_and_each_has_its_own_end() {
    let given = Given::new(
        App::start(|_, seen| if seen.body == b"1" { ok() } else { Answer::Hangs }).await,
        json!({ "timeout": 5_000, "fallback": [{ "type": "default", "static": "instead" }] }),
    )
    .await;
    let calls = json!([
        { "capability": "ask", "payload": 1 }, { "capability": "ask", "payload": 2 }, { "capability": "none", "payload": 1 }, { "capability": "ask" }
    ]);
    let begun = Instant::now();
    let out = given.server.post(&given.path("call-batch"), json!({ "calls": calls, "timeout_ms": 300 })).await.expect(200);
    assert!(begun.elapsed() < Duration::from_millis(300) + BUSY_SLACK);
    let data = out["data"].as_array().unwrap();
    assert_eq!((&data[0]["source"], &data[1]["source"], &data[1]["data"]), (&json!("app"), &json!("default"), &json!("instead")));
    assert_eq!((&data[2]["error"]["status"], &data[3]["error"]["status"]), (&json!(404), &json!(422)));
    let many: Vec<_> = (0..21).map(|_| json!({ "capability": "ask", "payload": 1 })).collect();
    assert_eq!(given.server.post(&given.path("call-batch"), json!({ "calls": many })).await.faults(422), ["calls"]);
    given.server.stop().await;
}

#[tokio::test]
async fn only_the_owner_calls_and_only_with_the_scope() {
    let given = Given::new(App::answering(ok()).await, json!({})).await;
    let stranger = given.server.stranger(&["manage"]).await;
    let id = given.server.get("/v1/applications/default").await.expect(200)["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/applications/{id}/call/ask");
    given.server.call(http::Method::POST, &path, &stranger, r#"{"payload":1}"#).await.problem(404);
    let reader = given.server.key(&["read"]).await;
    given.server.call(http::Method::POST, &path, &reader, r#"{"payload":1}"#).await.problem(403);
    let publisher = given.server.key(&["publish"]).await;
    given.server.call(http::Method::POST, &path, &publisher, r#"{"payload":1}"#).await.expect(200);
    given.server.post(&given.path("call/other"), json!({ "payload": 1 })).await.problem(404);
    given.server.stop().await;
}
