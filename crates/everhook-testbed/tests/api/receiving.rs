//! The door for providers: what is verified is stored, what is not is refused, and nobody waits for what comes after.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::client::{Answer, Server};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

impl Server {
    /// Makes a source of kind `standard` with these fields beside.
    pub async fn source(&self, name: &str, fields: Value) -> Value {
        let mut body = json!({ "name": name, "kind": "standard", "secrets": [SECRET] });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.post("/v1/sources", body).await.expect(201)
    }

    /// What a provider posts, with these headers.
    pub async fn push_with(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::post(path)
            .header("host", "hooks.example.com")
            .header("content-type", "application/json")
            .header("user-agent", "Partner/1.0");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await
    }

    /// What a provider posts that signs as Standard Webhooks says.
    pub async fn push(&self, path: &str, id: &str, body: &str) -> Answer {
        self.push_signed_for(path, id, body, body).await
    }

    /// The same with a signature of another body.
    async fn push_signed_for(&self, path: &str, id: &str, signed: &str, body: &str) -> Answer {
        let headers = signed_headers(id, signed);
        self.push_with(path, &headers.each_ref().map(|(name, value)| (*name, value.as_str())), body).await
    }

    /// The events of a source, newest first.
    pub async fn received(&self, source: &str, query: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/sources/{source}/events{query}")).await.expect(200);
        page["data"].as_array().unwrap().clone()
    }
}

/// The headers of a provider that signs this body as Standard Webhooks says.
pub fn signed_headers(id: &str, body: &str) -> [(&'static str, String); 3] {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let signature = Webhook::new(SECRET).unwrap().sign(id, i64::try_from(now).unwrap(), body.as_bytes()).unwrap();
    [("webhook-id", id.to_owned()), ("webhook-timestamp", now.to_string()), ("webhook-signature", signature)]
}

fn field<'a>(rows: &'a [Value], name: &str) -> Vec<&'a str> {
    rows.iter().map(|row| row[name].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn what_a_provider_signed_is_stored_as_it_came() {
    let server = Server::start().await;
    let source = server.source("partner", json!({ "keep_headers": ["user-agent"] })).await;
    let body = r#"{ "type":"invoice.paid",  "data":{"n":1.10} }"#;
    server.push("/in/partner", "msg_1", body).await.expect(200);
    server.push(&format!("/in/{}", source["id"].as_str().unwrap()), "msg_2", body).await.expect(200);
    let events = server.received("partner", "").await;
    assert_eq!(field(&events, "event_type"), ["invoice.paid", "invoice.paid"]);
    assert_eq!(field(&events, "status"), ["completed", "completed"]);
    let event = server.get(&format!("/v1/events/{}", events[0]["id"].as_str().unwrap())).await;
    assert!(String::from_utf8_lossy(&event.body).contains(body), "the bytes are kept: {event:?}");
    assert_eq!(event.expect(200)["received_headers"], json!({ "user-agent": "Partner/1.0" }));
    let shown = server.get("/v1/sources/partner").await.expect(200);
    assert!(shown["last_accepted_at"].is_string(), "{shown}");
    server.stop().await;
}

#[tokio::test]
async fn what_the_provider_did_not_sign_is_refused_and_not_stored() {
    let server = Server::start().await;
    server.source("partner", json!({})).await;
    let (body, forged) = (r#"{"type":"invoice.paid"}"#, r#"{"type":"invoice.paiD"}"#);
    let problem = server.push_signed_for("/in/partner", "msg_1", body, forged).await.problem(401);
    assert_eq!(problem["type"], "/docs/problems/request-not-verified");
    server.push_with("/in/partner", &[], body).await.problem(401);
    let old = [
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ];
    let problem = server.push_with("/in/partner", &old, r#"{"test": 2432232314}"#).await.problem(401);
    assert!(problem["detail"].as_str().unwrap().contains("s old"), "{problem}");
    assert!(server.received("partner", "").await.is_empty());
    let shown = server.get("/v1/sources/partner").await.expect(200);
    assert!(shown["last_refused_at"].is_string() && shown["last_refusal"].is_string(), "{shown}");
    assert_eq!(server.push("/in/nobody", "msg_1", body).await.problem(404)["type"], "/docs/problems/not-found");
    server.stop().await;
}

#[tokio::test]
async fn with_dedupe_a_repetition_is_stored_and_marked_and_not_delivered_again() {
    let server = Server::start().await;
    server.endpoint(json!({})).await;
    server.source("twice", json!({})).await;
    server.source("once", json!({ "dedupe": { "by": "id", "window": "1h" } })).await;
    for (source, deliveries) in [("twice", [1, 1]), ("once", [0, 1])] {
        // A provider's id says that two are the same, also if something else has changed.
        for body in [r#"{"type":"a","n":1}"#, r#"{"type":"a","n":2}"#] {
            server.push(&format!("/in/{source}"), "msg_1", body).await.expect(200);
        }
        let events = server.received(source, "").await;
        let expected = if source == "once" { events[1]["id"].clone() } else { Value::Null };
        assert_eq!([&events[0]["duplicate_of"], &events[1]["duplicate_of"]], [&expected, &Value::Null]);
        for (event, deliveries) in events.iter().zip(deliveries) {
            let made = server.get(&format!("/v1/events/{}/deliveries", event["id"].as_str().unwrap())).await.expect(200);
            assert_eq!(made["data"].as_array().unwrap().len(), deliveries, "{source}: {event}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_batch_becomes_one_event_for_each_item() {
    let server = Server::start().await;
    server.post("/v1/sources", json!({ "name": "garmin", "kind": "garmin" })).await.expect(201);
    let body = json!({ "dailies": [
        { "userId": "u1", "summaryId": "s1", "steps": 1 },
        { "userId": "u2", "summaryId": "s2", "steps": 2 },
        { "userId": "u1", "summaryId": "s3", "steps": 3 },
    ] });
    server.push_with("/webhooks/garmin/dailies", &[], &body.to_string()).await.expect(200);
    let events = server.received("garmin", "").await;
    assert_eq!(field(&events, "event_type"), ["dailies"; 3]);
    let mine = server.received("garmin", "?external_user_id=u1").await;
    assert_eq!(field(&mine, "external_user_id"), ["u1"; 2]);
    server.stop().await;
}

#[tokio::test]
async fn a_handshake_is_answered_and_is_no_event() {
    let server = Server::start().await;
    server.post("/v1/sources", json!({ "name": "strava", "kind": "strava", "verify_token": "token-of-ours" })).await.expect(201);
    let ask = |token: &str| format!("/webhooks/strava?hub.mode=subscribe&hub.verify_token={token}&hub.challenge=15f7d1a91c1f40f8");
    assert_eq!(server.get(&ask("token-of-ours")).await.expect(200), json!({ "hub.challenge": "15f7d1a91c1f40f8" }));
    assert!(!server.get(&ask("token-of-others")).await.status.is_success());
    assert!(server.received("strava", "").await.is_empty());
    let shown = server.get("/v1/sources/strava").await.expect(200);
    assert!(shown["handshake"]["last_answered_at"].is_string(), "{shown}");
    server.stop().await;
}

#[tokio::test]
async fn a_form_is_kept_as_it_came_with_its_content_type() {
    let server = Server::start().await;
    let twilio = json!({ "name": "forms", "kind": "none" });
    server.post("/v1/sources", twilio).await.expect(201);
    let request = Request::post("/in/forms/sms").header("host", "h").header("content-type", "application/x-www-form-urlencoded");
    server.send(request.body(Full::new(Bytes::from_static(b"Body=hi&MessageSid=SM1"))).unwrap()).await.expect(200);
    let events = server.received("forms", "?event_type=sms").await;
    let event = server.get(&format!("/v1/events/{}", events[0]["id"].as_str().unwrap())).await.expect(200);
    assert_eq!((&event["content_type"], &event["data"]), (&json!("application/x-www-form-urlencoded"), &json!("Body=hi&MessageSid=SM1")));
    server.stop().await;
}

#[tokio::test]
async fn a_source_bounds_who_sends_and_how_much() {
    let server = Server::start().await;
    let body = r#"{"type":"a"}"#;
    server.source("far", json!({ "ip_allowlist": ["192.0.2.0/24"] })).await;
    assert_eq!(server.push("/in/far", "1", body).await.problem(403)["type"], "/docs/problems/address-not-allowed");
    server.source("few", json!({ "rate_limit": { "per_ip_per_minute": 1 } })).await;
    server.push("/in/few", "1", body).await.expect(200);
    let second = server.push("/in/few", "2", body).await;
    assert_eq!(second.problem(429)["type"], "/docs/problems/source-rate-limit");
    assert!(second.headers.contains_key("retry-after"));
    server.source("small", json!({})).await;
    let large = format!(r#"{{"type":"a","x":"{}"}}"#, "x".repeat(20 << 20));
    server.push("/in/small", "1", &large).await.problem(413);
    server.stop().await;
}

#[tokio::test]
async fn a_paused_source_holds_what_comes_or_asks_for_it_again() {
    let server = Server::start().await;
    server.endpoint(json!({})).await;
    server.source("partner", json!({})).await;
    server.post("/v1/sources/partner/pause", json!({})).await.expect(200);
    server.push("/in/partner", "1", r#"{"type":"a"}"#).await.expect(200);
    let events = server.received("partner", "").await;
    let delivery = || async {
        let page = server.get(&format!("/v1/events/{}/deliveries", events[0]["id"].as_str().unwrap())).await.expect(200);
        page["data"][0].clone()
    };
    let parked = delivery().await;
    assert_eq!(parked["status"], "parked");
    let retry = format!("/v1/deliveries/{}/retry", parked["id"].as_str().unwrap());
    assert_eq!(server.post(&retry, json!({})).await.problem(409)["type"], "/docs/problems/delivery-parked");
    server.post("/v1/sources/partner/resume", json!({})).await.expect(200);
    assert_ne!(delivery().await["status"], "parked");
    // What a pause held goes on also if it was turned into one that refuses.
    server.post("/v1/sources/partner/pause", json!({})).await.expect(200);
    server.push("/in/partner", "held", r#"{"type":"b"}"#).await.expect(200);
    server.post("/v1/sources/partner/pause", json!({ "mode": "refuse" })).await.expect(200);
    server.post("/v1/sources/partner/resume", json!({})).await.expect(200);
    let parked = server.get("/v1/deliveries?status=parked").await.expect(200);
    assert_eq!(parked["data"], json!([]), "nothing waits for a pause that is over");
    server.post("/v1/sources/partner/pause", json!({ "mode": "refuse" })).await.expect(200);
    let refused = server.push("/in/partner", "2", r#"{"type":"a"}"#).await;
    assert_eq!(refused.problem(503)["type"], "/docs/problems/source-paused");
    assert!(refused.headers.contains_key("retry-after"));
    server.stop().await;
}
