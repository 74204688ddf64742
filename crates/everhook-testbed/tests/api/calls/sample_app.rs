//! An app that draws winners. Dependencies: axum, tokio, serde_json, base64 and aws-lc-rs.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex},
};

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::get,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

struct App {
    key: hmac::Key,
    /// By request; a real app keeps them for a day.
    answered: Mutex<HashMap<String, Value>>,
}

type Answer = (StatusCode, Json<Value>);

async fn select(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Answer {
    let signature = format!("sha256={}", hex(hmac::sign(&app.key, &body).as_ref()));
    let is_signed = ["x-platform-signature", "x-platform-signature-next"]
        .iter()
        .any(|name| headers.get(*name).is_some_and(|given| verify_slices_are_equal(given.as_bytes(), signature.as_bytes()).is_ok()));
    if !is_signed {
        return refusal(StatusCode::UNAUTHORIZED, "BAD_SIGNATURE", "not signed by the platform");
    }
    let request_id = headers.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    if let Some(answer) = app.answered.lock().expect("nobody panics here").get(&request_id) {
        return (StatusCode::OK, Json(answer.clone()));
    }
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (Some(participants), Some(prizes)) = (asked["participants"].as_array(), asked["prizes"].as_array()) else {
        return refusal(StatusCode::BAD_REQUEST, "BAD_REQUEST", "`participants` and `prizes` are lists");
    };
    let (mut participants, dice) = (participants.clone(), RandomState::new());
    participants.sort_by_key(|one| dice.hash_one(one.to_string()));
    participants.truncate(prizes.len());
    let answer = json!({ "success": true, "data": { "winners": participants } });
    app.answered.lock().expect("nobody panics here").insert(request_id, answer.clone());
    (StatusCode::OK, Json(answer))
}

fn refusal(status: StatusCode, code: &str, message: &str) -> Answer {
    (status, Json(json!({ "success": false, "error": { "code": code, "message": message, "retryable": false } })))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn router(secret: &str) -> Router {
    let key = BASE64_STANDARD.decode(secret.trim_start_matches("whsec_")).expect("the secret is base64");
    let app = App { key: hmac::Key::new(hmac::HMAC_SHA256, &key), answered: Mutex::default() };
    Router::new().fallback(get(|| async { Json(json!({ "status": "ok" })) }).post(select)).with_state(Arc::new(app))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port: u16 = std::env::var("PORT").ok().and_then(|port| port.parse().ok()).expect("PORT is a number");
    let secret = std::env::var("APP_SECRET").expect("APP_SECRET is set");
    axum::serve(tokio::net::TcpListener::bind(("127.0.0.1", port)).await?, router(&secret)).await
}
