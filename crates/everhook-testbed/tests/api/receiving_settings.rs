//! What a source can be told, as providers and endpoints meet it: headers that go on, answers of its own, handshakes that bring or prove something, what is a
//! duplicate, and who may send through a proxy.

use std::sync::{Arc, Mutex};

use axum::{Router, extract::State, http::HeaderMap, routing::post};
use bytes::Bytes;
use everhook::config::ServeArgs;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{
    client::{Answer, Server},
    retries::wait_until,
};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn ask(server: &Server, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("host", "hooks.example.com");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await
}

async fn push(server: &Server, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    ask(server, Method::POST, path, &[headers, &[JSON]].concat(), body).await
}

async fn source(server: &Server, name: &str, fields: Value) -> Value {
    let mut body = json!({ "name": name, "kind": "none" });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    server.post("/v1/sources", body).await.expect(201)
}

async fn events(server: &Server, source: &str, query: &str) -> Vec<Value> {
    let page = server.get(&format!("/v1/sources/{source}/events{query}")).await.expect(200);
    page["data"].as_array().unwrap().clone()
}

type Requests = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A receiver of deliveries that keeps what came, and its URL.
async fn receiver() -> (String, Requests) {
    async fn keep(State(requests): State<Requests>, headers: HeaderMap, body: Bytes) {
        requests.lock().unwrap().push((headers, body));
    }
    let (listener, requests) = (tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(), Requests::default());
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let app = Router::new().route("/hook", post(keep)).with_state(requests.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, requests)
}

#[tokio::test]
async fn endpoints_get_the_headers_that_a_source_forwards_and_no_others() {
    let server = Server::start().await;
    let (url, requests) = receiver().await;
    server.endpoint(json!({ "url": url, "payload_style": "raw" })).await;
    source(&server, "shop", json!({ "forward_headers": ["X-Topic", "X-Absent"] })).await;
    push(&server, "/in/shop", &[("x-topic", "orders/create"), ("x-secret-of-the-shop", "s")], r#"{ "n": 1.0 }"#).await.expect(200);
    wait_until(async || !requests.lock().unwrap().is_empty()).await;
    let (headers, body) = requests.lock().unwrap()[0].clone();
    assert_eq!(
        (&headers["x-topic"], &headers["content-type"], &body[..]),
        (&"orders/create".parse().unwrap(), &"application/json".parse().unwrap(), &br#"{ "n": 1.0 }"#[..])
    );
    assert!(!headers.contains_key("x-secret-of-the-shop") && !headers.contains_key("x-absent"), "{headers:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_source_answers_what_it_was_told_to_and_handshakes_as_always() {
    let server = Server::start().await;
    let response = json!({ "status": 202, "content_type": "text/xml", "body": "<Response/>" });
    let recipe = json!({ "handshake": "get-echo-text challenge" });
    source(&server, "own", json!({ "kind": "custom", "recipe": recipe, "response": response })).await;
    let answer = push(&server, "/in/own", &[], "{}").await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["content-type"], &answer.body[..]),
        (202, &"text/xml".parse().unwrap(), &b"<Response/>"[..])
    );
    let echo = ask(&server, Method::GET, "/in/own?challenge=c-1", &[], "").await;
    assert_eq!((echo.status.as_u16(), &echo.body[..]), (200, &b"c-1"[..]));
    // Without one, the answer is what the provider expects.
    server.patch("/v1/sources/own", json!({ "response": null })).await.expect(200);
    let answer = push(&server, "/in/own", &[], "{}").await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
    // A response with no body has none.
    server.patch("/v1/sources/own", json!({ "response": { "status": 204, "body": "" } })).await.expect(200);
    assert_eq!(push(&server, "/in/own", &[], "{}").await.status.as_u16(), 204);
    server.stop().await;
}

fn hmac_hex(key: &str, body: &str) -> String {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key.as_bytes());
    aws_lc_rs::hmac::sign(&key, body.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_key_that_comes_in_a_handshake_is_taken_while_it_is_awaited_and_echoed_and_signs_from_then_on() {
    // Asana sends its key in a header and wants it back; Notion sends it in the body.
    const KEY: &str = "b537207f20cbfa02357cf448134da559";
    for (kind, body) in [("asana", "{}".to_owned()), ("notion", format!(r#"{{"verification_token":"{KEY}"}}"#))] {
        let server = Server::start().await;
        server.post("/v1/sources", json!({ "name": "tasks", "kind": kind })).await.expect(201);
        let headers: &[(&str, &str)] = if kind == "asana" { &[("x-hook-secret", KEY)] } else { &[] };
        // Nobody waits for a key: whoever sends one is a stranger.
        let uninvited = push(&server, "/in/tasks", headers, &body).await;
        assert_eq!(uninvited.status.as_u16(), 401, "{kind}");
        assert!(!uninvited.headers.contains_key("x-hook-secret"), "{kind}");
        let awaiting = server.post("/v1/sources/tasks/await-handshake", json!({})).await.expect(200);
        assert_eq!(awaiting["handshake"]["status"], "awaiting");
        let answer = push(&server, "/in/tasks", headers, &body).await;
        assert_eq!(answer.status.as_u16(), 200, "{kind}");
        let echoed = answer.headers.get("x-hook-secret").map(|value| value.to_str().unwrap());
        assert_eq!(echoed, (kind == "asana").then_some(KEY), "{kind}");
        assert_eq!(server.get("/v1/sources/tasks/secrets").await.expect(200)["secrets"], json!([KEY]));
        wait_until(async || server.get("/v1/sources/tasks").await.expect(200)["handshake"]["status"] == "answered").await;
        assert!(events(&server, "tasks", "").await.is_empty(), "{kind}: a handshake is no event");
        // What the key signs is an event now, and a second key is a stranger's.
        let event = r#"{"type":"page.created","events":[{"action":"added"}]}"#;
        let signed = |key: &str| match kind {
            "asana" => ("x-hook-signature", hmac_hex(key, event)),
            _ => ("x-notion-signature", format!("sha256={}", hmac_hex(key, event))),
        };
        let (name, signature) = signed(KEY);
        push(&server, "/in/tasks", &[(name, &signature)], event).await.expect(200);
        let (name, forged) = signed("another-key-of-nobody");
        push(&server, "/in/tasks", &[(name, &forged)], event).await.problem(401);
        let other = [("x-hook-secret", "c537207f20cbfa02357cf448134da559")];
        assert_eq!(
            push(&server, "/in/tasks", if kind == "asana" { &other } else { &[] }, &body.replace('b', "c")).await.status.as_u16(),
            401,
            "{kind}"
        );
        assert_eq!(events(&server, "tasks", "").await.len(), 1, "{kind}");
        server.stop().await;
    }
}

#[tokio::test]
async fn head_and_options_prove_a_url_where_the_kind_says_so_and_nowhere_else() {
    let server = Server::start().await;
    server.post("/v1/sources", json!({ "name": "board", "kind": "trello", "secrets": ["a-secret-of-trello"] })).await.expect(201);
    server.post("/v1/sources", json!({ "name": "cloud", "kind": "cloudevents", "secrets": ["a-token-of-ours"] })).await.expect(201);
    source(&server, "plain", json!({})).await;
    let head = ask(&server, Method::HEAD, "/in/board", &[], "").await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    let origin = [("webhook-request-origin", "eventemitter.example.com")];
    let options = ask(&server, Method::OPTIONS, "/in/cloud?access_token=a-token-of-ours", &origin, "").await;
    assert_eq!(options.status.as_u16(), 200);
    assert_eq!(
        (&options.headers["webhook-allowed-origin"], &options.headers["allow"]),
        (&"eventemitter.example.com".parse().unwrap(), &"POST".parse().unwrap())
    );
    for (method, path) in
        [(Method::HEAD, "/in/plain"), (Method::OPTIONS, "/in/board"), (Method::GET, "/in/plain"), (Method::DELETE, "/in/cloud")]
    {
        assert_eq!(ask(&server, method.clone(), path, &origin, "").await.status.as_u16(), 405, "{method} {path}");
    }
    for name in ["board", "cloud"] {
        assert!(events(&server, name, "").await.is_empty());
        wait_until(async || server.get(&format!("/v1/sources/{name}")).await.expect(200)["handshake"]["status"] == "answered").await;
    }
    server.stop().await;
}

/// Header and body of each push, and the number of the push that it repeats.
type Pushes = [(&'static str, &'static str, Option<usize>); 4];

#[tokio::test]
async fn a_duplicate_is_found_by_header_pointer_or_body_and_in_a_batch_by_each_item() {
    let server = Server::start().await;
    let of = |by: &str| {
        let mut dedupe = json!({ "by": by, "window": "1h" });
        match by {
            "header" => dedupe["header"] = json!("X-Delivery"),
            "pointer" => dedupe["pointer"] = json!("/order/id"),
            _ => {}
        }
        dedupe
    };
    let table: [(&str, Pushes); 3] = [
        ("header", [("d1", r#"{"a":1}"#, None), ("d1", r#"{"a":2}"#, Some(0)), ("d2", r#"{"a":1}"#, None), ("", r#"{"a":1}"#, None)]),
        (
            "pointer",
            [
                ("d1", r#"{"order":{"id":7}}"#, None),
                ("d2", r#"{"x":1,"order":{"id":7}}"#, Some(0)),
                ("d3", r#"{"order":{"id":8}}"#, None),
                ("d1", "{}", None),
            ],
        ),
        ("body", [("d1", r#"{"a":1}"#, None), ("d2", r#"{"a":1}"#, Some(0)), ("d3", r#"{"a": 1}"#, None), ("d4", r#"{"a":1}"#, Some(0))]),
    ];
    for (by, pushes) in table {
        source(&server, by, json!({ "dedupe": of(by) })).await;
        for (header, body, _) in &pushes {
            let headers: &[(&str, &str)] = if header.is_empty() { &[] } else { &[("x-delivery", header)] };
            push(&server, &format!("/in/{by}"), headers, body).await.expect(200);
        }
        let found: Vec<Value> = events(&server, by, "").await.into_iter().rev().collect();
        let repeats: Vec<Value> = found.iter().map(|event| event["duplicate_of"].clone()).collect();
        let expected: Vec<Value> = pushes.iter().map(|(.., of)| of.map_or(Value::Null, |of| found[of]["id"].clone())).collect();
        assert_eq!(repeats, expected, "{by}");
    }
    // In a batch, the items are compared and not the requests.
    let recipe = json!({ "each": "/*", "body": "json" });
    source(&server, "batch", json!({ "kind": "custom", "recipe": recipe, "dedupe": { "by": "body", "window": "1h" } })).await;
    push(&server, "/in/batch", &[], r#"[{"n":1},{"n":2}]"#).await.expect(200);
    push(&server, "/in/batch", &[], r#"[{"n":2},{"n":3}]"#).await.expect(200);
    let repeats: Vec<bool> = events(&server, "batch", "").await.iter().rev().map(|event| event["duplicate_of"].is_string()).collect();
    assert_eq!(repeats.iter().filter(|repeats| **repeats).count(), 1, "{repeats:?}");
    server.stop().await;
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_allowlist_and_the_rate_are_of_the_client_that_the_proxy_names() {
    let trusting = |args: ServeArgs| ServeArgs { trusted_proxies: Some("127.0.0.1/32, 10.0.0.0/8".to_owned()), ..args };
    let server = Server::start_set(trusting).await;
    let fields = json!({ "ip_allowlist": ["198.51.100.0/24"], "rate_limit": { "per_ip_per_minute": 2 } });
    source(&server, "far", fields).await;
    let from = async |forwarded: &str| push(&server, "/in/far", &[("x-forwarded-for", forwarded)], "{}").await;
    // The client is the rightmost address that is no proxy of ours: what stands before it is what the client itself says.
    from("203.0.113.9, 198.51.100.7").await.expect(200);
    from("198.51.100.7, 10.1.2.3").await.expect(200);
    from("198.51.100.7").await.problem(429);
    from("198.51.100.8").await.expect(200);
    for forged in ["198.51.100.7, 203.0.113.9", "203.0.113.9", "198.51.100.7, nonsense", "10.1.2.3"] {
        assert_eq!(from(forged).await.problem(403)["type"], "/docs/problems/address-not-allowed", "{forged}");
    }
    assert_eq!(events(&server, "far", "").await.len(), 3);
    // The source shows what was refused, and of whom only the network.
    let refusals = server.get("/v1/sources/far").await.expect(200)["recent_refusals"].clone();
    let shown: Vec<(&str, &str)> = refusals
        .as_array()
        .unwrap()
        .iter()
        .map(|refusal| (refusal["reason"].as_str().unwrap(), refusal["network"].as_str().unwrap()))
        .collect();
    let refused = |network| ("address_not_allowed", network);
    let expected = [
        refused("10.1.2.0/24"),
        refused("127.0.0.0/24"),
        refused("203.0.113.0/24"),
        refused("203.0.113.0/24"),
        ("too_many_from_address", "198.51.100.0/24"),
    ];
    assert_eq!(shown, expected);
    assert_eq!((&refusals[0]["body_bytes"], refusals[0]["header_bytes"].as_u64().is_some_and(|bytes| bytes > 20)), (&json!(2), true));
    server.stop().await;
    // Without a trusted proxy, the header is what anybody may write.
    let server = Server::start().await;
    source(&server, "far", json!({ "ip_allowlist": ["198.51.100.0/24"] })).await;
    push(&server, "/in/far", &[("x-forwarded-for", "198.51.100.7")], "{}").await.problem(403);
    server.stop().await;
}

#[tokio::test]
async fn the_events_of_a_source_say_whom_they_are_about_how_often_they_may_be_tried_and_what_was_sent() {
    let server = Server::start().await;
    server.post("/v1/sources", json!({ "name": "watch", "kind": "garmin", "processor": "health", "forward": false })).await.expect(201);
    let connection = json!({ "provider": "garmin", "external_user_id": "known", "profile_id": "profile 1" });
    server.post("/v1/health/connections", connection).await.expect(201);
    let body = r#"{"dailies":[{"userId":"known","summaryId":"s1","calendarDate":"2026-01-02","steps":1.0},{"userId":"new","summaryId":"s2","steps":2}]}"#;
    push(&server, "/in/watch", &[], body).await.expect(200);
    let bare = events(&server, "watch", "").await;
    let users: Vec<(&Value, &Value)> = bare.iter().map(|event| (&event["external_user_id"], &event["user_id"])).collect();
    assert_eq!(users, [(&json!("new"), &Value::Null), (&json!("known"), &json!("profile 1"))]);
    for event in &bare {
        // The schedule `ingest` tries five times.
        assert_eq!(event["max_attempts"], 5, "{event}");
        assert!(event["attempt_count"].is_u64() && event.as_object().unwrap().contains_key("next_retry_at"), "{event}");
        for absent in ["payload", "payload_base64", "attempts", "next_attempt_at"] {
            assert_eq!(event.get(absent), None, "{absent}");
        }
    }
    let known = server.get("/v1/sources/watch/events?payload=true&external_user_id=known").await;
    assert!(
        String::from_utf8_lossy(&known.body)
            .contains(r#""payload":{"userId":"known","summaryId":"s1","calendarDate":"2026-01-02","steps":1.0}"#),
        "{known:?}"
    );
    server.get("/v1/sources/watch/events?payload=yes").await.problem(400);
    // A body that is no JSON is a text, or base64; and a page ends when it has enough.
    source(&server, "any", json!({})).await;
    let text = [("content-type", "text/plain")];
    ask(&server, Method::POST, "/in/any", &text, "hello").await.expect(200);
    for _ in 0..4 {
        ask(&server, Method::POST, "/in/any", &text, &"x".repeat(900 << 10)).await.expect(200);
    }
    let page = server.get("/v1/sources/any/events?payload=true").await.expect(200);
    assert_eq!(page["data"].as_array().unwrap().len(), 3, "2 MiB are reached with the third");
    let rest =
        server.get(&format!("/v1/sources/any/events?payload=true&cursor={}", page["next_cursor"].as_str().unwrap())).await.expect(200);
    let rows = rest["data"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[1]["payload"], &rows[1]["max_attempts"]), (2, &json!("hello"), &json!(0)));
    server.stop().await;
}

#[tokio::test]
async fn a_user_of_a_provider_is_erased_without_a_connection() {
    let server = Server::start().await;
    server.post("/v1/sources", json!({ "name": "watch", "kind": "garmin", "processor": "health", "forward": false })).await.expect(201);
    for user in ["stranger", "other"] {
        let body = json!({ "dailies": [{ "userId": user, "summaryId": "s", "calendarDate": "2026-01-02", "steps": 1 }] }).to_string();
        push(&server, "/in/watch", &[], &body).await.expect(200);
    }
    wait_until(async || events(&server, "watch", "?status=failed").await.len() == 2).await;
    assert_eq!(server.delete("/v1/health/users/garmin/stranger").await.expect(200), json!({ "events": 1 }));
    assert_eq!(server.delete("/v1/health/users/garmin/stranger").await.expect(200), json!({ "events": 0 }));
    assert_eq!(server.delete("/v1/health/users/strava/other").await.expect(200), json!({ "events": 0 }));
    let left: Vec<Value> = events(&server, "watch", "?payload=true").await;
    let users: Vec<(&Value, bool)> = left.iter().map(|event| (&event["external_user_id"], event.get("payload").is_some())).collect();
    assert_eq!(users, [(&json!("other"), true), (&Value::Null, false)]);
    server.delete("/v1/health/users/fitbit/stranger").await.problem(404);
    server.stop().await;
}
