//! The sample apps of docs/apps.md, run as they stand there and called through a real server.

use std::{
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::json;

use crate::api::client::Server;

#[allow(dead_code, reason = "its `main` is for whoever copies it; here its router is served")]
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
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new(interpreter);
    command.arg(flag).arg(sample(language)).env("APP_SECRET", secret).env("PORT", address.port().to_string());
    let _running = Running(command.stdout(Stdio::null()).spawn().unwrap());
    is_good(server, address).await;
}

/// Calls the app, has it checked, and then signs with another secret.
async fn is_good(server: Server, address: SocketAddr) {
    let manifest = json!({ "base_url": format!("http://{address}"), "capabilities": { "winnerSelection": { "path": "/", "circuit_breaker": { "enabled": false } } } });
    server.put("/v1/applications/default/manifest", manifest).await.expect(200);

    let payload = json!({ "payload": { "participants": ["ada", "bob", "eve"], "prizes": ["mug"] } });
    let begun = std::time::Instant::now();
    let answer = loop {
        let answer = server.post("/v1/applications/default/call/winnerSelection", payload.clone()).await;
        if answer.status == 200 || begun.elapsed() > STARTS_WITHIN {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let out = answer.expect(200);
    assert_eq!(out["data"]["winners"].as_array().unwrap().len(), 1, "{out}");

    let check = json!({ "capability": "winnerSelection", "payload": payload["payload"] });
    let report = server.post("/v1/applications/default/manifest/check", check).await.expect(200);
    assert_eq!(report["passed"], true, "{report}");

    // With another secret it refuses, and says so as the contract asks for.
    server.post("/v1/applications/default/secret/rotate", json!({ "grace_seconds": 0 })).await.expect(200);
    let problem = server.post("/v1/applications/default/call/winnerSelection", payload).await.problem(502);
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
    let router = sample_app::router(&secret(&server).await);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = tokio::spawn(async move { axum::serve(listener, router).await });
    is_good(server, address).await;
    app.abort();
}

#[tokio::test]
async fn the_sample_in_python_answers_and_refuses_what_is_not_signed() {
    runs("python3", "python", "-c").await;
}

#[tokio::test]
async fn the_sample_in_javascript_answers_and_refuses_what_is_not_signed() {
    runs("node", "javascript", "-e").await;
}
