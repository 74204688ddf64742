//! Health checks over HTTP, of apps on real sockets: whatever a health page does, it costs only itself, and the API shows it.

use std::time::{Duration, Instant};

use everhook::config::ServeArgs;
use serde_json::{Value, json};

use super::app::{Answer, App};
use crate::api::client::Server;

/// A server that checks every second and waits for 300 ms.
async fn server(folder: &std::path::Path) -> Server {
    let args = ServeArgs {
        listen: Some("127.0.0.1:0".to_owned()),
        data: Some(folder.join("data").display().to_string()),
        allow_private_networks: Some("true".to_owned()),
        app_health_check_interval: Some("1s".to_owned()),
        app_health_check_timeout: Some("300ms".to_owned()),
        ..ServeArgs::default()
    };
    Server::start_with(&args).await
}

/// Waits until the health of the application is as told.
async fn health_when(server: &Server, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let health = server.get("/v1/applications/default/health").await.expect(200);
        if is_so(&health) {
            return health;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{health}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn whatever_a_health_page_does_the_api_shows_it_and_its_recovery() {
    let folder = tempfile::tempdir().unwrap();
    let (server, app) = (server(folder.path()).await, App::answering(Answer::Body(204, String::new())).await);
    let unknown = server.get("/v1/applications/default/health").await.expect(200);
    assert_eq!((&unknown["status"], &unknown["url"], &unknown["checked_at"]), (&json!("unknown"), &Value::Null, &Value::Null));
    let manifest = json!({ "base_url": app.url(), "health_path": "/health?deep=1", "capabilities": {} });
    server.put("/v1/applications/default/manifest", manifest).await.expect(200);
    let healthy = health_when(&server, |health| health["status"] == "healthy").await;
    assert_eq!((&healthy["consecutive_failures"], &healthy["reasons"]), (&json!(0), &json!([])), "{healthy}");
    assert!(healthy["url"].as_str().unwrap().ends_with("/health?deep=1") && healthy["next_check_at"].is_string(), "{healthy}");
    assert!(app.seen()[0].head.starts_with("GET /health?deep=1 HTTP/1.1"), "{}", app.seen()[0].head);
    app.answer(Answer::Body(200, r#"{"checks":{"db":{"status":"down"}}}"#.to_owned()));
    let degraded = health_when(&server, |health| health["status"] == "degraded").await;
    assert_eq!((&degraded["checks"], &degraded["reasons"]), (&json!({"db": {"status": "down"}}), &json!(["health check: not ok: db"])));
    for does in [Answer::Hangs, Answer::Drips, Answer::Resets, Answer::Body(302, String::new())] {
        app.answer(does.clone());
        let failing = health_when(&server, |health| health["status"] == "unhealthy").await;
        assert!(failing["consecutive_failures"].as_u64() >= Some(1) && failing["failing_since"].is_string(), "{does:?}: {failing}");
        assert!(failing["response_time_ms"].as_f64().unwrap() < 2_000.0, "{does:?}: {failing}");
        // More than anybody wants to read, behind a good status: no more of it is read than the bound.
        app.answer(Answer::Floods);
        health_when(&server, |health| health["status"] == "healthy").await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_health_path_is_checked_like_every_url() {
    let server = Server::start().await;
    let put = async |manifest: Value| server.put("/v1/applications/default/manifest", manifest).await;
    for (base_url, path) in
        [("https://app.example", json!("health")), ("https://app.example", json!("/a b")), ("https://app.example", json!(1))]
    {
        let answer = put(json!({ "base_url": base_url, "health_path": path, "capabilities": {} })).await;
        assert_eq!(answer.faults(422), ["health_path"], "{path}");
    }
    put(json!({ "health_path": "/health", "capabilities": {} })).await.expect(200);
    let health = server.get("/v1/applications/default/health").await.expect(200);
    assert_eq!(health["url"], Value::Null, "there is no base URL yet");
    server.put("/v1/applications/default", json!({ "base_url": "https://app.example" })).await.expect(200);
    let health = server.get("/v1/applications/default/health").await.expect(200);
    assert_eq!(health["url"], "https://app.example/health");
    let stranger = server.stranger(&["read"]).await;
    let id = server.get("/v1/applications/default").await.expect(200)["id"].as_str().unwrap().to_owned();
    server.call(http::Method::GET, &format!("/v1/applications/{id}/health"), &stranger, "").await.problem(404);
    server.stop().await;
}
