//! The contract test: green on a good app, and red with the reason on bad ones, over the API and from the command line.

use std::time::Duration;

use everhook::cli::client::{self, Connection};
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
    IsSlow,
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
            // In time, but with so little of it left that many callers would see the fallback.
            Flaw::IsSlow if seen.header("x-timeout-ms") != Some("200") => {
                Answer::After(Duration::from_millis(1_750), Box::new(Answer::data(&answered)))
            }
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
    assert_eq!(
        names,
        ["health", "answer", "forged signature", "missing signature", "garbage", "deadline of 200 ms", "repeated request", "answer times"]
    );
}

#[tokio::test]
async fn each_flaw_is_found_and_named() {
    #[rustfmt::skip]
    let table: [(Flaw, &[&str], &str); 7] = [
        (Flaw::TrustsAnybody, &["forged signature", "missing signature"], "verify the signature"),
        (Flaw::WrongShape, &["answer"], "the answer must be"),
        (Flaw::IgnoresDeadline, &["deadline of 200 ms"], "X-Timeout-Ms: 200"),
        (Flaw::ForgetsAnswers, &["repeated request"], "at `/winner`"),
        (Flaw::BreaksOnGarbage, &["garbage"], "answered 500"),
        (Flaw::HasNoHealthPage, &["health"], "answered 404"),
        (Flaw::IsSlow, &["answer times"], "more than 80 % of the timeout of 2000 ms"),
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
    let manifest = json!({ "base_url": "http://127.0.0.1:9", "capabilities": { "ask": { "path": "/", "async": true } } });
    server.put("/v1/applications/default/manifest", manifest).await.expect(200);
    assert_eq!(check(json!({ "capability": "ask", "payload": 1 })).await.faults(422), ["payload"]);
    server.stop().await;
}

/// What is wrong with an app that answers later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LateFlaw {
    None,
    ReportsProgressAndRepeatsItself,
    TrustsAnybody,
    NeverTakesOver,
    WorksBeforeItAnswers,
    NeverCallsBack,
    CallsBackWithGarbage,
    HasAnotherShape,
    Fails,
    ForgetsResults,
}

/// An app that takes jobs over and calls back, but for one flaw.
async fn late_app(secret: String, flaw: LateFlaw) -> App {
    App::start(move |number, seen| {
        if seen.head.starts_with("GET ") {
            return Answer::Body(200, r#"{"status":"ok"}"#.to_owned());
        }
        if flaw != LateFlaw::TrustsAnybody && !is_signed(&secret, seen) {
            return app_error(401, "BAD_SIGNATURE");
        }
        let Ok(asked) = serde_json::from_slice::<Value>(&seen.body) else { return app_error(400, "NOT_JSON") };
        if flaw == LateFlaw::NeverTakesOver {
            return Answer::Body(200, r#"{"success": false, "error": {"code": "NO", "message": "not now"}}"#.to_owned());
        }
        let url = asked["callbackUrl"].as_str().expect("it is asked to call back").to_owned();
        let done = |result: Value| json!({ "success": true, "result": result }).to_string();
        let said = match flaw {
            LateFlaw::NeverCallsBack => vec![],
            LateFlaw::CallsBackWithGarbage => vec!["done".to_owned()],
            LateFlaw::HasAnotherShape => vec![done(json!([1]))],
            LateFlaw::Fails => vec![json!({ "success": false, "error": { "code": "NO_ROWS" } }).to_string()],
            LateFlaw::ForgetsResults => vec![done(json!({ "winner": number }))],
            LateFlaw::ReportsProgressAndRepeatsItself => {
                let result = done(json!({ "winner": seen.header("x-request-id") }));
                vec![json!({ "progress": 50 }).to_string(), result.clone(), result]
            }
            _ => vec![done(json!({ "winner": seen.header("x-request-id") }))],
        };
        tokio::spawn(async move {
            for body in said {
                call_back(&url, body).await;
            }
        });
        let taken = Answer::Body(202, String::new());
        if flaw == LateFlaw::WorksBeforeItAnswers { Answer::After(Duration::from_millis(600), Box::new(taken)) } else { taken }
    })
    .await
}

async fn call_back(url: &str, body: String) {
    let url: url::Url = url.parse().expect("it is a URL");
    let server = client::Server::new(&url.join("/").unwrap(), None).unwrap();
    let path = &url[url::Position::BeforePath..];
    Connection::new(server).send(http::Method::POST, path, body).await.expect("callbacks are answered");
}

/// Starts a server and such an app, and tests it.
async fn tested_late(flaw: LateFlaw) -> Value {
    let server = Server::start().await;
    let secret = server.get("/v1/applications/default/secret").await.expect(200)["secret"].as_str().unwrap().to_owned();
    let app = late_app(secret, flaw).await;
    let schema = json!({ "type": "object", "required": ["winner"] });
    let manifest = json!({ "base_url": app.url(),
        "capabilities": { "ask": { "path": "/ask", "async": true, "timeout": 2_000, "response_schema": schema } } });
    server.put("/v1/applications/default/manifest", manifest).await.expect(200);
    let body = json!({ "capability": "ask", "payload": { "q": 1 } });
    let report = server.post("/v1/applications/default/manifest/check", body).await.expect(200);
    // Nothing of it is on the line, or among the jobs.
    assert_eq!(server.get("/v1/applications/default/jobs").await.expect(200)["data"], json!([]));
    assert_eq!(server.get("/v1/events").await.expect(200)["data"], json!([]));
    server.stop().await;
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_answers_later_passes_if_it_takes_over_and_calls_back_the_same() {
    for flaw in [LateFlaw::None, LateFlaw::ReportsProgressAndRepeatsItself] {
        let report = tested_late(flaw).await;
        assert_eq!((&report["passed"], failed(&report)), (&json!(true), Vec::new()), "{flaw:?}: {report}");
        let names: Vec<_> = report["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
        assert_eq!(names, everhook_core::calls::contract::CHECK_NAMES);
    }
}

/// Each flaw of such an app, the check that finds it, and what is said.
const LATE_FLAWS: [(LateFlaw, &[&str], &str); 8] = [
    (LateFlaw::TrustsAnybody, &["forged signature", "missing signature"], "it must be refused with a 4xx"),
    (LateFlaw::NeverTakesOver, &["answer"], "it was not taken over"),
    (LateFlaw::WorksBeforeItAnswers, &["deadline of 200 ms"], "there was no answer in time"),
    (LateFlaw::NeverCallsBack, &["callback"], "did not call back within 2000 ms"),
    (LateFlaw::CallsBackWithGarbage, &["callback", "repeated request"], "its callback was refused"),
    (LateFlaw::HasAnotherShape, &["callback", "repeated request"], "does not match"),
    (LateFlaw::Fails, &["callback"], "the app reported: NO_ROWS"),
    (LateFlaw::ForgetsResults, &["repeated request"], "reported another result, at `/winner`"),
];

fn assert_found(flaw: LateFlaw, names: &[&str], words: &str, report: &Value) {
    let failed = failed(report);
    assert_eq!(report["passed"], false, "{flaw:?}: {report}");
    assert_eq!(failed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names, "{flaw:?}: {report}");
    assert!(failed[0].1.contains(words), "{flaw:?}: {failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_flaw_of_an_app_that_answers_later_is_found_and_named() {
    for (flaw, names, words) in LATE_FLAWS {
        assert_found(flaw, names, words, &tested_late(flaw).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_listens_for_callbacks_and_finds_the_same_flaws() {
    let secret = SigningKey::hmac_from_random([7; 32]).text().expose().to_owned();
    let schema = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(schema.path(), r#"{"type": "object", "required": ["winner"]}"#).unwrap();
    let check = async |flaw| {
        let app = late_app(secret.clone(), flaw).await;
        let (url, schema) = (format!("{}/ask", app.url()), schema.path().to_str().unwrap());
        let asked = ["app", "check", &url, "--secret", &secret, "--schema", schema, "--async", "--callback-timeout-ms", "2000", "--json"];
        let shown = crate::commands::run(&asked).await;
        let printed = crate::commands::stdout(&shown);
        let report: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}{}", crate::commands::stderr(&shown)));
        (shown.status.code(), report)
    };
    for flaw in [LateFlaw::None, LateFlaw::ReportsProgressAndRepeatsItself] {
        let (code, report) = check(flaw).await;
        assert_eq!((code, &report["passed"]), (Some(0), &json!(true)), "{flaw:?}: {report}");
    }
    for (flaw, names, words) in LATE_FLAWS {
        let (code, report) = check(flaw).await;
        assert_found(flaw, names, words, &report);
        assert_eq!(code, Some(1), "{flaw:?}");
    }
    let refused = crate::commands::run(&["app", "check", "http://127.0.0.1:9/", "--secret", &secret, "--async", "--payload", "[1]"]).await;
    assert!(crate::commands::stderr(&refused).contains("callbackUrl"), "{}", crate::commands::stderr(&refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_says_the_same_with_its_exit_status() {
    let secret = SigningKey::hmac_from_random([7; 32]).text().expose().to_owned();
    let table = [
        (Flaw::None, 0, "the app conforms to the contract"),
        (Flaw::TrustsAnybody, 1, "FAILED   forged signature"),
        (Flaw::WrongShape, 1, "FAILED   answer"),
        (Flaw::IgnoresDeadline, 1, "FAILED   deadline of 200 ms"),
        (Flaw::ForgetsAnswers, 1, "FAILED   repeated request"),
        (Flaw::BreaksOnGarbage, 1, "FAILED   garbage"),
        (Flaw::HasNoHealthPage, 1, "FAILED   health"),
    ];
    for (flaw, code, words) in table {
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
