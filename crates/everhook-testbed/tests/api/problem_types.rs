//! What a program tells refusals apart by: the `type` of each problem, which is the path of a page of the server.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::api::{
    client::{Answer, Server},
    retries::wait_until,
};

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
    for list in ["/docs/problems", "/docs/problems/"] {
        assert_eq!(server.get(list).await.status, 200);
    }
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
        ("/v1/deliveries?status=processing", "status", "`waiting`"),
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

#[tokio::test]
async fn every_wrong_item_of_a_list_is_named() {
    let server = Server::start().await;
    let source = |fields: Value| {
        let mut source = json!({ "name": "s", "kind": "none" });
        source.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        ("/v1/sources", source)
    };
    let hook = |fields: Value| {
        let mut hook = json!({ "url": "http://127.0.0.1:9/hook", "event_types": ["*"] });
        hook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        ("/v1/endpoints", hook)
    };
    let labels = json!({ "a b": "1", "good": "1", "c d": "2", "bell": "\u{7}" });
    #[rustfmt::skip]
    let table = [
        (source(json!({ "forward_headers": ["Host", "X-Good", "TE"] })), "forward_headers", vec!["`Host`", "`TE`"]),
        (source(json!({ "forward_headers": ["Host", "X Bad"] })), "forward_headers", vec!["`Host`", "`X Bad`"]),
        (source(json!({ "keep_headers": ["X Bad", "X-Good", "Also Bad"] })), "keep_headers", vec!["`X Bad`", "`Also Bad`"]),
        (source(json!({ "ip_allowlist": ["here", "192.0.2.1", "there"] })), "ip_allowlist", vec!["`here`", "`there`"]),
        (hook(json!({ "event_types": ["a b", "good", "c d"] })), "event_types", vec!["`a b`", "`c d`"]),
        (hook(json!({ "labels": labels })), "labels", vec!["`a b`", "`c d`", "`bell`"]),
        (("/v1/events", json!({ "type": "t", "data": 1, "labels": labels })), "labels", vec!["`a b`", "`c d`", "`bell`"]),
    ];
    for ((path, body), field, named) in table {
        let problem = server.post(path, body).await.problem(422);
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
        let reason = problem["errors"][0]["reason"].as_str().unwrap();
        assert!(named.iter().all(|name| reason.contains(name)) && !reason.to_lowercase().contains("good"), "{reason}");
    }
    let emails = json!({ "name": "o", "admin_emails": ["x", "ops@example.com", "y", "ops@example.com"] });
    let faults = server.post("/v1/organizations", emails).await.faults(422);
    assert_eq!(faults, ["admin_emails[0]", "admin_emails[2]", "admin_emails[3]"]);
    server.stop().await;
}

#[tokio::test]
async fn a_header_that_says_who_asks_comes_once() {
    let server = Server::start().await;
    let key = format!("Bearer {}", server.admin);
    for repeated in ["authorization", "x-organization"] {
        let mut request =
            Request::get("/v1/events").header("host", "test").header("authorization", &key).header("x-organization", "default");
        request = request.header(repeated, if repeated == "authorization" { &*key } else { "other" });
        let problem = server.send(request.body(Full::<Bytes>::default()).unwrap()).await.problem(400);
        assert!(problem["detail"].as_str().unwrap().contains(repeated), "{problem}");
    }
    server.stop().await;
}

/// The id of the only delivery of an event.
async fn delivery_of(server: &Server, event: &Value) -> String {
    let page = server.get(&format!("/v1/events/{}/deliveries", event["id"].as_str().unwrap())).await.expect(200);
    page["data"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_a_delivery_cannot_do_now_is_told_by_type() {
    let server = Server::start().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    server.post("/v1/retry-schedules", json!({ "name": "slow", "intervals": [86_400], "max_attempts": 5 })).await.expect(201);
    let hook = |uid: &str, fields: Value| {
        let mut hook = json!({ "uid": uid, "event_types": [uid], "retry_schedule": "slow" });
        hook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        hook
    };
    server.endpoint(hook("plain", json!({}))).await;
    server.endpoint(hook("strict", json!({ "ordering": "strict" }))).await;
    server.endpoint(hook("silent", json!({ "url": format!("http://{}/", silent.local_addr().unwrap()) }))).await;
    server.endpoint(hook("dead", json!({ "retry_schedule": null, "retry_config": { "max_attempts": 1 } }))).await;
    let publish = async |event_type: &str| server.post("/v1/events", json!({ "type": event_type, "data": 1 })).await.expect(202);
    let refused = async |path: String| code(&server.post(&path, json!({})).await.problem(409)).to_owned();
    let delivery = async |path: &str| server.get(path).await.expect(200);

    let hanging = delivery_of(&server, &publish("silent").await).await;
    let (hung, _) = silent.accept().await.unwrap();
    assert_eq!(refused(format!("/v1/deliveries/{hanging}/cancel")).await, "attempt-under-way");
    drop(hung);

    let event = publish("plain").await;
    let plain = delivery_of(&server, &event).await;
    wait_until(async || delivery(&format!("/v1/deliveries/{plain}")).await["attempt_count"] == 1).await;
    server.post(&format!("/v1/deliveries/{plain}/cancel"), json!({})).await.expect(200);
    assert_eq!(refused(format!("/v1/deliveries/{plain}/cancel")).await, "delivery-ended");
    server.post(&format!("/v1/deliveries/{plain}/retry"), json!({})).await.expect(202);
    assert_eq!(refused(format!("/v1/deliveries/{plain}/retry")).await, "delivery-open");
    server.delete(&format!("/v1/events/{}/data", event["id"].as_str().unwrap())).await.expect(204);
    assert_eq!(refused(format!("/v1/deliveries/{plain}/retry")).await, "event-erased");

    publish("strict").await;
    let second = delivery_of(&server, &publish("strict").await).await;
    assert_eq!(refused(format!("/v1/deliveries/{second}/retry")).await, "delivery-held");
    // What waits keeps the order that it was accepted in, until all of it has ended.
    server.put("/v1/endpoints/strict", json!({ "ordering": "none" })).await.expect(200);
    let again = server.put("/v1/endpoints/strict", json!({ "ordering": "strict" })).await.problem(409);
    assert_eq!(code(&again), "ordering-change-in-progress");

    let letters = async || server.get("/v1/dlq").await.expect(200)["data"].as_array().unwrap().clone();
    publish("dead").await;
    wait_until(async || !letters().await.is_empty()).await;
    let letter = format!("/v1/dlq/{}", letters().await[0]["id"].as_str().unwrap());
    server.delete(&letter).await.expect(204);
    assert_eq!(code(&server.delete(&letter).await.problem(409)), "dead-letter-not-dead");
    server.stop().await;
}

#[tokio::test]
async fn what_limits_refuse_is_told_by_type() {
    let server = Server::start().await;
    server.put("/v1/organizations/default", json!({ "limits": { "applications": 0, "endpoints": 1 } })).await.expect(200);
    let problem = server.post("/v1/applications", json!({ "name": "one too many" })).await.problem(409);
    assert_eq!(code(&problem), "limit-reached");
    server.endpoint(json!({ "uid": "shop" })).await;
    let hook = json!({ "url": "http://127.0.0.1:9/hook", "event_types": ["*"] });
    assert_eq!(code(&server.post("/v1/endpoints", hook).await.problem(409)), "limit-reached");
    let begun = server.post("/v1/endpoints/shop/attempt-now", json!({})).await.expect(202);
    let operation = format!("/v1/operations/{}", begun["operation_id"].as_str().unwrap());
    wait_until(async || server.get(&operation).await.expect(200)["status"] == "finished").await;
    let shown = server.get(&operation).await.expect(200);
    assert_eq!((&shown["endpoint_uid"], &shown["priority"]), (&json!("shop"), &Value::Null));
    assert_eq!(code(&server.delete(&operation).await.problem(409)), "operation-ended");
    server.stop().await;
}
