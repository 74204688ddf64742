//! The contract test: green on a good app, and red with the reason on bad ones, over the API and from the command line.

use std::time::Duration;

use everhook_core::{
    ids::EventId,
    model::{SignatureStyle, SigningKey},
    signing::{Keys, Signable, sign},
    time::Timestamp,
};
use serde_json::{Value, json};

use super::app::{Answer, App, Seen};
use crate::api::client::Server;

/// What is wrong with an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    TrustsAnybody,
    WrongShape,
    IgnoresDeadline,
    ForgetsAnswers,
    BreaksOnGarbage,
    HasNoHealthPage,
}

fn app_error(status: u16, code: &str) -> Answer {
    Answer::Body(status, json!({ "success": false, "error": { "code": code, "message": "no", "retryable": false } }).to_string())
}

fn is_signed(secret: &str, seen: &Seen) -> bool {
    let current = SigningKey::parse(secret).unwrap();
    let (event, style) = (EventId::from_uuid(uuid::Uuid::nil()), SignatureStyle::Sha256);
    let signed = sign(&Keys { current, previous: None }, &Signable { event, at: Timestamp::EPOCH, body: &seen.body, style });
    seen.header("x-platform-signature") == Some(&*signed.x_webhook_signature)
}

/// An app that keeps the contract but for one flaw.
async fn app(secret: String, flaw: Flaw) -> App {
    App::start(move |number, seen| {
        if seen.head.starts_with("GET ") {
            return Answer::Body(if flaw == Flaw::HasNoHealthPage { 404 } else { 200 }, r#"{"status":"ok"}"#.to_owned());
        }
        if flaw != Flaw::TrustsAnybody && !is_signed(&secret, seen) {
            return app_error(401, "BAD_SIGNATURE");
        }
        if serde_json::from_slice::<Value>(&seen.body).is_err() {
            return if flaw == Flaw::BreaksOnGarbage { Answer::Body(500, "panic".to_owned()) } else { app_error(400, "NOT_JSON") };
        }
        let answered = match flaw {
            Flaw::ForgetsAnswers => json!({ "winner": number }),
            _ => json!({ "winner": seen.header("x-request-id") }),
        };
        match flaw {
            Flaw::WrongShape => Answer::Body(200, answered.to_string()),
            Flaw::IgnoresDeadline => Answer::After(Duration::from_millis(800), Box::new(Answer::data(&answered))),
            _ => Answer::data(&answered),
        }
    })
    .await
}

/// The names of the checks that an app did not pass, with what was said.
fn failed(report: &Value) -> Vec<(String, String)> {
    let checks = report["checks"].as_array().unwrap();
    let failed = checks.iter().filter(|check| check["passed"] == json!(false));
    failed.map(|check| (check["name"].as_str().unwrap().to_owned(), check["detail"].as_str().unwrap().to_owned())).collect()
}

/// Starts a server and an app with a flaw, and tests the app.
async fn tested(flaw: Flaw) -> Value {
    let server = Server::start().await;
    let secret = server.get("/v1/applications/default/secret").await.expect(200)["secret"].as_str().unwrap().to_owned();
    let app = app(secret, flaw).await;
    let schema = json!({ "type": "object", "required": ["winner"] });
    let manifest =
        json!({ "base_url": app.url(), "capabilities": { "ask": { "path": "/ask", "timeout": 2_000, "response_schema": schema } } });
    server.put("/v1/applications/default/manifest", manifest).await.expect(200);
    let body = json!({ "capability": "ask", "payload": { "q": 1 } });
    let report = server.post("/v1/applications/default/manifest/check", body).await.expect(200);
    server.stop().await;
    report
}

#[tokio::test]
async fn a_good_app_passes_every_check() {
    let report = tested(Flaw::None).await;
    assert_eq!((&report["passed"], failed(&report)), (&json!(true), Vec::new()), "{report}");
    let names: Vec<_> = report["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["health", "answer", "forged signature", "missing signature", "garbage", "deadline of 200 ms", "repeated request"]);
}

#[tokio::test]
async fn each_flaw_is_found_and_named() {
    #[rustfmt::skip]
    let table: [(Flaw, &[&str], &str); 6] = [
        (Flaw::TrustsAnybody, &["forged signature", "missing signature"], "verify the signature"),
        (Flaw::WrongShape, &["answer"], "the answer must be"),
        (Flaw::IgnoresDeadline, &["deadline of 200 ms"], "X-Timeout-Ms: 200"),
        (Flaw::ForgetsAnswers, &["repeated request"], "at `/winner`"),
        (Flaw::BreaksOnGarbage, &["garbage"], "answered 500"),
        (Flaw::HasNoHealthPage, &["health"], "answered 404"),
    ];
    for (flaw, names, reason) in table {
        let report = tested(flaw).await;
        let failed = failed(&report);
        assert_eq!(report["passed"], false);
        assert_eq!(failed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names, "{flaw:?}: {report}");
        assert!(failed[0].1.contains(reason), "{flaw:?}: {failed:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_tested_is_refused() {
    let server = Server::start().await;
    let check = |body: Value| server.post("/v1/applications/default/manifest/check", body);
    check(json!({ "capability": "ask", "payload": 1 })).await.problem(404);
    server.put("/v1/applications/default/manifest", json!({ "capabilities": { "ask": { "path": "/" } } })).await.expect(200);
    check(json!({ "capability": "ask", "payload": 1 })).await.problem(409);
    assert_eq!(check(json!({ "capability": "ask", "payload": 1, "health_path": "health" })).await.faults(422), ["health_path"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_says_the_same_with_its_exit_status() {
    let secret = SigningKey::hmac_from_random([7; 32]).text().expose().to_owned();
    for (flaw, code, words) in [(Flaw::None, 0, "the app conforms to the contract"), (Flaw::TrustsAnybody, 1, "FAILED   forged signature")]
    {
        let app = app(secret.clone(), flaw).await;
        let url = format!("{}/ask", app.url());
        let shown = crate::commands::run(&["app", "check", &url, "--secret", &secret]).await;
        assert_eq!(shown.status.code(), Some(code), "{}", crate::commands::stderr(&shown));
        assert!(crate::commands::stdout(&shown).contains(words), "{}", crate::commands::stdout(&shown));
        let shown = crate::commands::run(&["app", "check", &url, "--secret", &secret, "--json"]).await;
        let report: Value = serde_json::from_str(&crate::commands::stdout(&shown)).unwrap();
        assert_eq!(report["passed"], json!(code == 0));
    }
    let refused = crate::commands::run(&["app", "check", "http://127.0.0.1:9/", "--secret", "nonsense"]).await;
    assert_eq!(refused.status.code(), Some(1));
}
