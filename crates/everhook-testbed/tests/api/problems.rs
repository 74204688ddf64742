//! Hostile and mistaken requests: each gets a clear 4xx, never a 5xx.

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request};
use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use serde_json::json;

use crate::api::client::Server;

const DATA_MAX: usize = 256 * 1024;

#[tokio::test]
async fn what_is_not_acceptable_is_named() {
    let server = Server::start().await;
    let deep = format!(r#"{{"type":"t","data":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let nul = "{\"type\":\"t\",\"data\":1,\"source\":\"a\\u0000b\"}";
    #[rustfmt::skip]
    let table: Vec<(&str, &str, u16, &str)> = vec![
        ("/v1/events", "", 400, "not JSON"),
        ("/v1/events", "{", 400, "not JSON"),
        ("/v1/events", "{}x", 400, "not JSON"),
        ("/v1/events", "nonsense", 400, "not JSON"),
        ("/v1/events", "[]", 400, "must be a JSON object"),
        ("/v1/events", "null", 400, "must be a JSON object"),
        ("/v1/events", r#"["t",1]"#, 400, "must be a JSON object"),
        ("/v1/events", "{\"type\":\"t\",\"data\":\"a\nb\"}", 400, "not JSON"),
        ("/v1/events", r#"{"type":"t","data":1,"tags":{}}"#, 400, "unknown field `tags`"),
        ("/v1/events", r#"{"type":"t","type":"u","data":1}"#, 400, "`type` is given more than once"),
        ("/v1/events", r#"{"type":"t","event_type":"u","data":1}"#, 400, "`event_type` is another name of `type`"),
        ("/v1/events", r#"{"type":7,"data":1}"#, 400, "`type` must be a string"),
        ("/v1/events", &deep, 400, "nests deeper"),
        ("/v1/events", "{}", 422, "some fields are invalid"),
        ("/v1/events", r#"{"type":"a b","data":1}"#, 422, "some fields are invalid"),
        ("/v1/events", nul, 422, "some fields are invalid"),
        ("/v1/events", r#"{"type":"t","data":1,"idempotency_key":""}"#, 422, "some fields are invalid"),
        ("/v1/events", r#"{"type":"t","data":1,"priority":"urgent"}"#, 422, "some fields are invalid"),
        ("/v1/events", r#"{"type":"t","data":1,"timestamp":"yesterday"}"#, 422, "some fields are invalid"),
        ("/v1/events?dry=1", r#"{"type":"t","data":1}"#, 400, "no query"),
        ("/v1/endpoints", r#"{"url":"https://example.com","event_types":"*"}"#, 400, "`event_types` must be a list"),
        ("/v1/endpoints", r#"{"url":"https://example.com","event_types":["*"],"max_concurrency":1e99}"#, 400, "`max_concurrency` must be a whole number"),
        ("/v1/endpoints", r#"{"url":"https://example.com","event_types":["*"],"name":"a\u0000b"}"#, 422, "some fields are invalid"),
        ("/v1/endpoints", r#"{"url":"https://example.com","event_types":["*"],"color":"red"}"#, 400, "unknown field `color`"),
        ("/v1/endpoints", r#"{"url":"https://example.com","event_types":["*"],"rate_limit":{}}"#, 422, "some fields are invalid"),
        ("/v1/endpoints", r#"{"url":"https://example.com","event_types":["*"],"circuit_breaker":[true]}"#, 400, "`circuit_breaker` must be an object"),
        ("/v1/endpoints/any/pause", r#"{"for":1}"#, 400, "unknown field `for`"),
        ("/v1/endpoints/any/test", r#"{"kind":"t"}"#, 400, "unknown field `kind`"),
        ("/v1/dlq/01920000-0000-7000-8000-000000000000/retry", r#"{"priority":"high"}"#, 400, "unknown field `priority`"),
        ("/v1/api-keys", r#"{"name":"k","scopes":["root"],"expires_at":null}"#, 422, "some fields are invalid"),
        ("/v1/organizations", r#"{"name":""}"#, 422, "some fields are invalid"),
    ];
    for (path, body, status, words) in table {
        let problem = server.call(Method::POST, path, &server.admin, body.to_owned()).await.problem(status);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{path} {body:.80}: {detail}");
    }
    server.stop().await;
}

#[tokio::test]
async fn invalid_utf_8_is_not_json() {
    let server = Server::start().await;
    let body = Bytes::from_static(b"{\"type\":\"t\",\"data\":\"\xff\"}");
    server.call(Method::POST, "/v1/events", &server.admin, body).await.problem(400);
    server.stop().await;
}

#[tokio::test]
async fn data_has_a_limit_that_is_named() {
    let server = Server::start().await;
    let event = |bytes: usize| format!(r#"{{"type":"t","data":"{}"}}"#, "x".repeat(bytes - 2));
    server.call(Method::POST, "/v1/events", &server.admin, event(DATA_MAX)).await.expect(202);
    let problem = server.call(Method::POST, "/v1/events", &server.admin, event(DATA_MAX + 1)).await.problem(413);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("262144") && detail.contains("262145"), "{detail}");
    server.call(Method::POST, "/v1/events", &server.admin, event(4 * DATA_MAX)).await.problem(413);
    server.stop().await;
}

#[tokio::test]
async fn a_chunked_body_is_counted_while_it_arrives() {
    let server = Server::start().await;
    // One that would never end, if it were read to its end.
    let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![b' '; 16 * 1024]))));
    let request = Request::post("/v1/events")
        .header("host", "test")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {}", server.admin))
        .body(StreamBody::new(endless))
        .unwrap();
    server.send(request).await.problem(413);
    let chunks = [r#"{"type":"t","#, r#""data":"#, "[1,2]}"].map(|chunk| Ok::<_, std::io::Error>(Frame::data(Bytes::from(chunk))));
    let request = Request::post("/v1/events")
        .header("host", "test")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {}", server.admin))
        .body(StreamBody::new(stream::iter(chunks)))
        .unwrap();
    server.send(request).await.expect(202);
    server.stop().await;
}

#[tokio::test]
async fn a_wrong_content_type_is_415() {
    let server = Server::start().await;
    for content_type in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
        let mut request = Request::post("/v1/events").header("host", "test").header("authorization", format!("Bearer {}", server.admin));
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        server.send(request.body(Full::new(Bytes::from(r#"{"type":"t","data":1}"#))).unwrap()).await.problem(415);
    }
    server.stop().await;
}

#[tokio::test]
async fn unknown_paths_methods_ids_and_queries_are_problems_too() {
    let server = Server::start().await;
    let nobody = "01920000-0000-7000-8000-000000000000";
    server.get("/v1/nothing").await.problem(404);
    server.get("/v1").await.problem(404);
    let answer = server.call(Method::PATCH, "/v1/events", &server.admin, "").await;
    answer.problem(405);
    assert!(answer.headers["allow"].to_str().unwrap().contains("POST"));
    for path in [
        "/v1/endpoints/%ff".to_owned(),
        "/v1/endpoints/a%20b".to_owned(),
        "/v1/endpoints/%00".to_owned(),
        format!("/v1/endpoints/{}", "x".repeat(5_000)),
        format!("/v1/events/{nobody}"),
        "/v1/events/shop".to_owned(),
        format!("/v1/deliveries/{nobody}"),
        format!("/v1/dlq/{nobody}"),
        "/v1/retry-schedules/never".to_owned(),
        "/v1/retry-schedules/%ff".to_owned(),
    ] {
        server.get(&path).await.problem(404);
    }
    for query in [
        "limit=0",
        "limit=251",
        "limit=x",
        "cursor=x",
        "from=yesterday",
        "status=odd",
        "category=odd",
        "event_type=a%20b",
        "page=2",
        "limit=1&limit=2",
    ] {
        server.get(&format!("/v1/deliveries?{query}")).await.problem(400);
    }
    assert_eq!(server.get("/v1/deliveries?limit=0&status=odd&from=x").await.faults(400), ["limit", "status", "from"]);
    server.stop().await;
}

#[tokio::test]
async fn a_dead_letter_that_does_not_exist_cannot_be_retried_or_discarded() {
    let server = Server::start().await;
    let nobody = "01920000-0000-7000-8000-000000000000";
    server.post(&format!("/v1/dlq/{nobody}/retry"), json!({})).await.problem(404);
    server.post(&format!("/api/v1/admin/dlq/{nobody}/retry"), json!({})).await.problem(404);
    server.delete(&format!("/v1/dlq/{nobody}")).await.problem(404);
    server.stop().await;
}
