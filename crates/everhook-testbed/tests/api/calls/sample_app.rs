//! An app that draws winners. Dependencies: axum, tokio, serde_json, base64 and aws-lc-rs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac, rand};
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::get,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// What the way back may take: the answer is ready so long before the caller's time is over.
const MARGIN: Duration = Duration::from_millis(50);

struct App {
    key: hmac::Key,
    /// By request; a real app keeps them for a day.
    answered: Mutex<HashMap<String, Value>>,
    /// How long it takes to look up who has how many tickets: stands for a database.
    tickets_take: Duration,
}

type Answer = (StatusCode, Json<Value>);

async fn select(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Answer {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let signature = format!("sha256={}", hex(hmac::sign(&app.key, &body).as_ref()));
    let is_signed = ["x-platform-signature", "x-platform-signature-next"]
        .iter()
        .any(|name| verify_slices_are_equal(text(name).as_bytes(), signature.as_bytes()).is_ok());
    if !is_signed {
        return refusal(StatusCode::UNAUTHORIZED, "BAD_SIGNATURE", "not signed by the platform");
    }
    let request_id = text("x-request-id");
    if let Some(answer) = app.answered.lock().expect("nobody panics here").get(&request_id) {
        return (StatusCode::OK, Json(answer.clone()));
    }
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (Some(participants), Some(prizes)) = (asked["participants"].as_array(), asked["prizes"].as_array()) else {
        return refusal(StatusCode::BAD_REQUEST, "BAD_REQUEST", "`participants` and `prizes` are lists");
    };
    let left = Duration::from_millis(text("x-timeout-ms").parse().unwrap_or(5_000)).saturating_sub(MARGIN);
    let answer = draw(&app, participants, prizes.len(), left).await;
    app.answered.lock().expect("nobody panics here").insert(request_id, answer.clone());
    (StatusCode::OK, Json(answer))
}

/// By tickets if there is time to look them up, and else with one each: a simpler draw in time is better than none.
async fn draw(app: &App, participants: &[Value], count: usize, left: Duration) -> Value {
    let drawn = |mut tickets: Vec<Value>| {
        shuffle(&mut tickets);
        let mut winners: Vec<Value> = Vec::new();
        for one in tickets {
            if winners.len() < count && !winners.contains(&one) {
                winners.push(one);
            }
        }
        json!({ "winners": winners })
    };
    match tokio::time::timeout(left, tickets(app, participants)).await {
        Ok(tickets) => json!({ "success": true, "data": drawn(tickets) }),
        Err(_) => json!({ "success": true, "data": drawn(participants.to_vec()), "warning": "the tickets were not known in time" }),
    }
}

/// Everybody as often as they have tickets.
async fn tickets(app: &App, participants: &[Value]) -> Vec<Value> {
    tokio::time::sleep(app.tickets_take).await;
    participants.to_vec()
}

/// Fisher–Yates: every order is equally likely.
fn shuffle(list: &mut [Value]) {
    for last in (1..list.len()).rev() {
        list.swap(last, below(last + 1));
    }
}

/// A random number below this one. Numbers past the last multiple of it are drawn again: they would favor the small ones.
fn below(bound: usize) -> usize {
    let bound = bound as u64;
    loop {
        let mut bytes = [0; 8];
        rand::fill(&mut bytes).expect("the system has randomness");
        let number = u64::from_le_bytes(bytes);
        if number < u64::MAX - u64::MAX % bound {
            return (number % bound) as usize;
        }
    }
}

fn refusal(status: StatusCode, code: &str, message: &str) -> Answer {
    (status, Json(json!({ "success": false, "error": { "code": code, "message": message, "retryable": false } })))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn router(secret: &str, tickets_take: Duration) -> Router {
    let key = BASE64_STANDARD.decode(secret.trim_start_matches("whsec_")).expect("the secret is base64");
    let app = App { key: hmac::Key::new(hmac::HMAC_SHA256, &key), answered: Mutex::default(), tickets_take };
    Router::new().fallback(get(|| async { Json(json!({ "status": "ok" })) }).post(select)).with_state(Arc::new(app))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port: u16 = std::env::var("PORT").ok().and_then(|port| port.parse().ok()).expect("PORT is a number");
    let secret = std::env::var("APP_SECRET").expect("APP_SECRET is set");
    let tickets_take = std::env::var("TICKETS_TAKE_MS").ok().and_then(|millis| millis.parse().ok()).unwrap_or(0);
    let router = router(&secret, Duration::from_millis(tickets_take));
    axum::serve(tokio::net::TcpListener::bind(("127.0.0.1", port)).await?, router).await
}
