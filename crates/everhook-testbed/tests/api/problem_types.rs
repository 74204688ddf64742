//! What a program tells refusals apart by: the `type` of each problem, which is the path of a page of the server.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::api::client::{Answer, Server};

/// The last part of a problem's type.
fn code(problem: &Value) -> &str {
    problem["type"].as_str().unwrap().trim_start_matches("/docs/problems/")
}

#[tokio::test]
async fn no_key_a_wrong_one_and_an_expired_one_are_told_apart() {
    let server = Server::start().await;
    let ask = async |authorization: Option<&str>| -> Answer {
        let mut request = Request::get("/v1/events").header("host", "test");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        server.send(request.body(Full::<Bytes>::default()).unwrap()).await
    };
    let table = [
        (None, "api-key-missing"),
        (Some("Basic eDp5"), "api-key-invalid"),
        (Some("Bearer secret"), "api-key-invalid"),
        (Some("Bearer eh_00000000000000000000000000000000"), "api-key-invalid"),
    ];
    for (authorization, expected) in table {
        let answer = ask(authorization).await;
        assert_eq!(code(&answer.problem(401)), expected, "{authorization:?}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
    server.stop().await;
}

#[tokio::test]
async fn refusals_of_one_status_are_told_apart_by_their_type() {
    let server = Server::start().await;
    let schedule = json!({ "name": "slow", "intervals": [5] });
    server.post("/v1/retry-schedules", schedule.clone()).await.expect(201);
    server.endpoint(json!({ "uid": "shop", "retry_schedule": "slow" })).await;
    server.endpoint(json!({ "uid": "off", "enabled": false })).await;
    server.post("/v1/endpoints/shop/secret/rotate", json!({})).await.expect(200);
    server.post("/v1/applications", json!({ "name": "Strict", "uid": "strict", "strict_event_types": true })).await.expect(201);
    let shape = json!({ "name": "typed", "schema": { "type": "object" } });
    server.post("/v1/event-types", shape.clone()).await.expect(201);
    server.post("/v1/event-types", json!({ "name": "old", "archived": true })).await.expect(201);
    let first = json!({ "type": "t", "data": 1, "idempotency_key": "k", "application_id": "strict" });
    server.post("/v1/event-types", json!({ "name": "t" })).await.expect(201);
    server.post("/v1/events", first).await.expect(202);
    let quiet = server.post("/v1/events", json!({ "type": "t", "data": 1, "application_id": "strict" })).await.expect(202);
    let hook = |uid: &str| json!({ "url": "http://127.0.0.1:9/hook", "event_types": ["*"], "uid": uid });
    #[rustfmt::skip]
    let table = [
        ("POST", "/v1/endpoints", hook("shop"), 409, "uid-taken"),
        ("POST", "/v1/retry-schedules", schedule, 409, "name-taken"),
        ("POST", "/v1/event-types", shape, 409, "name-taken"),
        ("DELETE", "/v1/retry-schedules/slow", json!({}), 409, "retry-schedule-in-use"),
        ("PUT", "/v1/retry-schedules/standard", json!({ "max_attempts": 3 }), 409, "built-in"),
        ("POST", "/v1/endpoints/shop/secret/rotate", json!({}), 409, "secret-rotation-in-progress"),
        ("POST", "/v1/endpoints/off/test", json!({}), 409, "endpoint-disabled"),
        ("POST", &format!("/v1/events/{}/retry", quiet["id"].as_str().unwrap()), json!({}), 409, "no-failed-deliveries"),
        ("POST", "/v1/events", json!({ "data": 1 }), 422, "invalid-fields"),
        ("POST", "/v1/events", json!({ "type": "t", "data": 1, "application_id": "nobody" }), 422, "unknown-application"),
        ("POST", "/v1/events", json!({ "type": "t", "data": 1, "application_id": "01920000-0000-7000-8000-000000000000" }), 422, "unknown-application"),
        ("POST", "/v1/events", json!({ "type": "a b", "data": 1, "application_id": "nobody" }), 422, "invalid-fields"),
        ("POST", "/v1/events", json!({ "type": "undefined", "data": 1, "application_id": "strict" }), 422, "unknown-event-type"),
        ("POST", "/v1/events", json!({ "type": "old", "data": 1 }), 422, "archived-event-type"),
        ("POST", "/v1/events", json!({ "type": "typed", "data": 1 }), 422, "schema-mismatch"),
        ("POST", "/v1/events", json!({ "type": "t", "data": 2, "idempotency_key": "k", "application_id": "strict" }), 422, "idempotency-key-reused"),
        ("PUT", "/v1/endpoints/shop", json!({ "verify_url": true }), 422, "url-verification-failed"),
        ("GET", "/v1/endpoints/nobody", json!(null), 404, "not-found"),
        ("GET", "/v1/nothing", json!(null), 404, "route-not-found"),
        ("GET", "/v1/events?color=red", json!(null), 400, "invalid-query"),
        ("POST", "/v1/events", json!([]), 400, "bad-request"),
    ];
    for (method, path, body, status, expected) in table {
        let answer = server.call(method.parse().unwrap(), path, &server.admin, body.to_string()).await;
        let problem = answer.problem(status);
        assert_eq!(code(&problem), expected, "{method} {path}: {problem}");
        // The type is the path of a page, which anybody may read.
        let page =
            server.send(Request::get(problem["type"].as_str().unwrap()).header("host", "test").body(Full::<Bytes>::default()).unwrap());
        let page = page.await;
        assert_eq!(page.status, 200, "{expected}");
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert!(String::from_utf8_lossy(&page.body).contains(problem["title"].as_str().unwrap()), "{expected}");
    }
    server.call(Method::GET, "/docs/problems/nonsense", &server.admin, "").await.problem(404);
    assert_eq!(server.get("/docs/problems").await.status, 200);
    assert!(server.get("/docs/").await.status.is_success(), "the page of the OpenAPI document is still there");
    server.stop().await;
}

#[tokio::test]
async fn a_wrong_query_is_explained_in_words_about_the_request() {
    let server = Server::start().await;
    #[rustfmt::skip]
    let table = [
        ("/v1/deliveries?status=bogus", "status", "held"),
        ("/v1/deliveries?limit=0", "limit", "1 to 250"),
        ("/v1/events?color=red&size=2", "color", "which takes application_id, event_type"),
        ("/v1/events?color=red", "color", "label.<name>"),
        ("/v1/events?label.a=1&l%61bel.a=2", "label.a", "is given more than once"),
        ("/v1/events?limit=1&limit=2", "limit", "is given more than once"),
        ("/v1/endpoints?active=true&enabled=true", "enabled", "is given more than once"),
    ];
    for (path, field, reason) in table {
        let problem = server.get(path).await.problem(400);
        assert_eq!(code(&problem), "invalid-query");
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
        assert!(problem["errors"][0]["reason"].as_str().unwrap().contains(reason), "{problem}");
        assert!(!problem.to_string().contains("deserialize"), "{problem}");
    }
    server.stop().await;
}

#[tokio::test]
async fn every_wrong_header_is_named() {
    let server = Server::start().await;
    let headers = json!({ "Host": "a", "X-Good": "b", "TE": "c", "X Bad": "d" });
    let hook = json!({ "url": "http://127.0.0.1:9/hook", "event_types": ["*"], "headers": headers });
    for (path, body) in [("/v1/endpoints", hook), ("/v1/events", json!({ "type": "t", "data": 1, "headers": headers }))] {
        let problem = server.post(path, body).await.problem(422);
        let reason = problem["errors"][0]["reason"].as_str().unwrap();
        assert!(["`Host`", "`TE`", "`X Bad`"].iter().all(|name| reason.contains(name)) && !reason.contains("X-Good"), "{reason}");
    }
    server.stop().await;
}
