//! The sample apps of docs/apps.md, run as they stand there and called through a real server.

use std::{
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::api::client::Server;

#[allow(
    dead_code,
    clippy::cast_possible_truncation,
    reason = "its `main` is for whoever copies it; here its router is served. The remainder of a number fits where that did"
)]
#[path = "sample_app.rs"]
mod sample_app;

/// How long an interpreter may take to start on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A sample that runs. It ends with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first block of this language in the page.
fn sample(language: &str) -> String {
    let page = include_str!("../../../../../docs/apps.md");
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap_or_else(|| panic!("the page has no sample in {language}"));
    rest.split_once("\n```").unwrap().0.to_owned()
}

async fn runs(interpreter: &str, language: &str, flag: &str) {
    if Command::new(interpreter).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no `{interpreter}` on this machine");
        return;
    }
    let server = Server::start().await;
    let secret = secret(&server).await;
    let start = |tickets_take_ms: u64| {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(interpreter);
        command.arg(flag).arg(sample(language)).env("APP_SECRET", &secret).env("PORT", address.port().to_string());
        command.env("TICKETS_TAKE_MS", tickets_take_ms.to_string());
        (Running(command.stdout(Stdio::null()).spawn().unwrap()), address)
    };
    let (_slow, slow) = start(SLOW.as_millis().try_into().unwrap());
    degrades(&server, slow).await;
    let (_running, address) = start(0);
    if language == "python" {
        calls_back(&server, address).await;
    }
    is_good(server, address).await;
}

/// How long an app takes that looks something up for too long.
const SLOW: Duration = Duration::from_secs(3);

/// Puts a manifest, and calls until the app is there.
async fn call_when_it_runs(server: &Server, address: SocketAddr, call: Value) -> Value {
    let manifest = json!({ "base_url": format!("http://{address}"), "capabilities": {
        "winnerSelection": { "path": "/", "circuit_breaker": { "enabled": false } },
        "analytics": { "path": "/analytics", "async": true, "timeout": "1m" },
    } });
    server.put("/v1/applications/default/manifest", manifest).await.expect(200);
    let begun = std::time::Instant::now();
    loop {
        let answer = server.post("/v1/applications/default/call/winnerSelection", call.clone()).await;
        if answer.status == 200 || begun.elapsed() > STARTS_WITHIN {
            return answer.expect(200);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn payload() -> Value {
    json!({ "participants": ["ada", "bob", "eve"], "prizes": ["mug", "cup"] })
}

/// Calls an app that is too slow for its better way: it answers in time by another one, and says so.
async fn degrades(server: &Server, address: SocketAddr) {
    let out = call_when_it_runs(server, address, json!({ "payload": payload(), "timeout_ms": 1_500 })).await;
    assert_eq!((&out["source"], &out["warning"]), (&json!("app"), &json!("the tickets were not known in time")), "{out}");
    assert_eq!(out["data"]["winners"].as_array().unwrap().len(), 2, "{out}");
}

/// Queues a job that the app takes over and calls back about, and has that checked.
async fn calls_back(server: &Server, address: SocketAddr) {
    call_when_it_runs(server, address, json!({ "payload": payload() })).await;
    let queued = server.post("/v1/applications/default/call/analytics", json!({ "payload": { "room": 1, "n": 2 } })).await.expect(202);
    let path = format!("/v1/jobs/{}", queued["job_id"].as_str().unwrap());
    let begun = std::time::Instant::now();
    let job = loop {
        let job = server.get(&path).await.expect(200);
        if job["status"] == "completed" || begun.elapsed() > STARTS_WITHIN {
            break job;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!((&job["status"], &job["result"]), (&json!("completed"), &json!({ "fields": 2 })), "{job}");
    let check = json!({ "capability": "analytics", "payload": { "room": 1 } });
    let report = server.post("/v1/applications/default/manifest/check", check).await.expect(200);
    assert_eq!(report["passed"], true, "{report}");
}

/// Calls the app, has it checked, and then signs with another secret.
async fn is_good(server: Server, address: SocketAddr) {
    let out = call_when_it_runs(&server, address, json!({ "payload": payload() })).await;
    let winners = out["data"]["winners"].as_array().unwrap();
    assert!(winners.len() == 2 && winners[0] != winners[1], "{out}");
    assert_eq!((&out["source"], &out["warning"]), (&json!("app"), &Value::Null), "{out}");

    let check = json!({ "capability": "winnerSelection", "payload": payload() });
    let report = server.post("/v1/applications/default/manifest/check", check).await.expect(200);
    assert_eq!(report["passed"], true, "{report}");

    // With another secret it refuses, and says so as the contract asks for.
    server.post("/v1/applications/default/secret/rotate", json!({ "grace_seconds": 0 })).await.expect(200);
    let call = json!({ "payload": payload() });
    let problem = server.post("/v1/applications/default/call/winnerSelection", call).await.problem(502);
    assert_eq!(problem["reason"], "app_error", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("BAD_SIGNATURE"), "{problem}");
    server.stop().await;
}

async fn secret(server: &Server) -> String {
    server.get("/v1/applications/default/secret").await.expect(200)["secret"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_sample_in_rust_answers_and_refuses_what_is_not_signed() {
    assert_eq!(sample("rust"), include_str!("sample_app.rs").trim_end(), "the page shows what runs here");
    let server = Server::start().await;
    let secret = secret(&server).await;
    let mut apps = Vec::new();
    for tickets_take in [SLOW, Duration::ZERO] {
        let router = sample_app::router(&secret, tickets_take);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        apps.push((address, tokio::spawn(async move { axum::serve(listener, router).await })));
    }
    degrades(&server, apps[0].0).await;
    is_good(server, apps[1].0).await;
    apps.into_iter().for_each(|(_, app)| app.abort());
}

#[tokio::test]
async fn the_sample_in_python_answers_and_refuses_what_is_not_signed() {
    runs("python3", "python", "-c").await;
}

#[tokio::test]
async fn the_sample_in_javascript_answers_and_refuses_what_is_not_signed() {
    runs("node", "javascript", "-e").await;
}
