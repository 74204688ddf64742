//! Publishing over HTTP, alone and in batches, and reading it all back.

use everhook_core::{
    line::publish::{Publication, publish},
    model::{ContentType, EventType, Priority},
};
use http::{Method, Request};
use http_body_util::Full;
use serde_json::json;

use crate::api::client::Server;

#[tokio::test]
async fn an_event_makes_a_delivery_for_each_endpoint_that_wants_it() {
    let server = Server::start().await;
    server.endpoint(json!({ "event_types": ["order.*"] })).await;
    server.endpoint(json!({ "event_types": ["*"] })).await;
    server.endpoint(json!({ "event_types": ["*"], "enabled": false })).await;
    let paid = server.post("/v1/events", json!({ "type": "order.paid", "data": { "n": 1 } })).await.expect(202);
    assert_eq!((&paid["deliveries"], &paid["duplicate"]), (&json!(2), &json!(false)));
    let other = server.post("/v1/events", json!({ "event_type": "user.created", "data": null })).await.expect(202);
    assert_eq!(other["deliveries"], 1);
    assert!(other["sequence_number"].as_i64() > paid["sequence_number"].as_i64());
    let path = format!("/v1/events/{}/deliveries", paid["id"].as_str().unwrap());
    let deliveries = server.get(&path).await.expect(200);
    assert_eq!(deliveries["data"].as_array().unwrap().len(), 2);
    let delivery = server.get(&format!("/v1/deliveries/{}", deliveries["data"][0]["id"].as_str().unwrap())).await.expect(200);
    assert!(delivery["attempts"].is_array());
    server.stop().await;
}

#[tokio::test]
async fn data_comes_back_byte_for_byte() {
    let server = Server::start().await;
    for data in [
        r#"{"a":1,"a":2}"#,
        "1e999",
        "0.10",
        "123456789012345678901234567890",
        r#""\u0000\ud800""#,
        "null",
        "[ 1 ,\n2 ]",
        &format!("\"{}\"", "x".repeat(256 * 1024 - 2)),
    ] {
        let body = format!(r#"{{"type":"t","data":{data}}}"#);
        let id = server.call(Method::POST, "/v1/events", &server.admin, body).await.expect(202)["id"].as_str().unwrap().to_owned();
        let event = server.get(&format!("/v1/events/{id}")).await;
        let text = String::from_utf8(event.body.to_vec()).unwrap();
        assert!(text.contains(&format!("\"data\":{data},")), "{:.200}", text);
    }
    server.stop().await;
}

#[tokio::test]
async fn the_same_idempotency_key_gets_the_originals_answer() {
    let server = Server::start().await;
    server.endpoint(json!({})).await;
    let event = json!({ "type": "t", "data": 1, "idempotency_key": "order 42" });
    let first = server.post("/v1/events", event.clone()).await.expect(202);
    let again = server.post("/v1/events", event).await.expect(200);
    assert_eq!((&again["id"], &again["deliveries"], &again["duplicate"]), (&first["id"], &json!(1), &json!(true)));
    // The header says the same as the field, and the field wins.
    let with_header = |body: serde_json::Value| {
        let builder = Request::post("/v1/events").header("host", "test").header("content-type", "application/json");
        let builder = builder.header("authorization", format!("Bearer {}", server.admin)).header("idempotency-key", "order 42");
        builder.body(Full::new(body.to_string().into())).unwrap()
    };
    server.send(with_header(json!({ "type": "t", "data": 1 }))).await.expect(200);
    server.send(with_header(json!({ "type": "t", "data": 1, "idempotency_key": "order 43" }))).await.expect(202);
    server.stop().await;
}

#[tokio::test]
async fn the_same_idempotency_key_with_another_event_is_a_problem_of_its_own() {
    let server = Server::start().await;
    let event = json!({ "type": "t", "data": { "n": 1 }, "idempotency_key": "k" });
    let first = server.post("/v1/events", event.clone()).await.expect(202);
    for (field, other) in [("data", json!({ "n": 2 })), ("type", json!("u"))] {
        let mut event = event.clone();
        event[field] = other;
        let problem = server.post("/v1/events", event).await.problem(422);
        assert_eq!(problem["type"], "/docs/problems/idempotency-key-reused", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(first["id"].as_str().unwrap()), "{problem}");
    }
    // The very bytes count, as they are sent to endpoints.
    let spaced = r#"{"type":"t","data":{"n": 1},"idempotency_key":"k"}"#.to_owned();
    server.call(Method::POST, "/v1/events", &server.admin, spaced).await.problem(422);
    let batch = json!({ "events": [event, { "type": "t", "data": 2, "idempotency_key": "k" }] });
    let answer = server.post("/v1/events/batch", batch).await.expect(202);
    assert_eq!(answer["data"][0]["id"], first["id"]);
    assert_eq!(answer["data"][1]["error"]["type"], "/docs/problems/idempotency-key-reused");
    // An erased event keeps its key, and nothing that would tell what it was.
    server.delete(&format!("/v1/events/{}/data", first["id"].as_str().unwrap())).await.expect(204);
    let problem = server.post("/v1/events", event).await.problem(422);
    assert!(problem["detail"].as_str().unwrap().contains("erased"), "{problem}");
    server.stop().await;
}

#[tokio::test]
async fn nobody_publishes_to_the_operational_application() {
    let server = Server::start().await;
    let applications = server.get("/v1/applications").await.expect(200);
    let all = applications["data"].as_array().unwrap();
    let operational = all.iter().find(|application| application["kind"] == "operational").expect("it is there");
    let endpoint = server.endpoint(json!({ "application_id": operational["id"] })).await;
    let forged = json!({ "type": "endpoint.disabled", "data": {}, "application_id": operational["id"] });
    let problem = server.post("/v1/events", forged.clone()).await.problem(403);
    assert_eq!(problem["type"], "/docs/problems/operational-application", "{problem}");
    let batch = server.post("/v1/events/batch", json!({ "events": [forged, { "type": "t", "data": 1 }] })).await.expect(202);
    assert_eq!(batch["data"][0]["error"]["status"], 403);
    assert!(batch["data"][1]["id"].is_string());
    // A sample is ours, and says so by its type.
    server.post(&format!("/v1/endpoints/{}/test", endpoint["id"].as_str().unwrap()), json!({})).await.expect(202);
    let path = format!("/v1/events?application_id={}", operational["id"].as_str().unwrap());
    let listed = server.get(&path).await.expect(200);
    let types: Vec<_> = listed["data"].as_array().unwrap().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(types, ["endpoint.test"]);
    server.stop().await;
}

#[tokio::test]
async fn each_event_of_a_batch_stands_alone() {
    let server = Server::start().await;
    let too_large = "x".repeat(256 * 1024);
    let events = json!({ "events": [
        { "type": "a", "data": 1, "idempotency_key": "k" },
        { "type": "no spaces", "data": 1 },
        7,
        { "type": "a", "data": 1, "idempotency_key": "k" },
        { "type": "a", "data": too_large },
        { "type": "a", "data": 1, "application_id": "nobody" },
        { "type": "b", "data": 2 },
    ] });
    let answer = server.post("/v1/events/batch", events).await.expect(202);
    let data = answer["data"].as_array().unwrap();
    let statuses: Vec<_> = data.iter().map(|item| item["error"]["status"].as_u64()).collect();
    assert_eq!(statuses, [None, Some(422), Some(400), None, Some(413), Some(422), None]);
    assert_eq!((&data[0]["duplicate"], &data[3]["duplicate"]), (&json!(false), &json!(true)));
    assert_eq!(data[0]["id"], data[3]["id"]);
    assert!(data[6]["sequence_number"].as_i64() > data[0]["sequence_number"].as_i64());
    server.post("/v1/events/batch", json!({ "events": [] })).await.problem(422);
    let many: Vec<_> = (0..1_001).map(|_| json!({ "type": "a", "data": 1 })).collect();
    assert_eq!(server.post("/v1/events/batch", json!({ "events": many })).await.faults(422), ["events"]);
    server.stop().await;
}

#[tokio::test]
async fn an_event_goes_to_the_application_that_it_names() {
    let server = Server::start().await;
    let application = server.post("/v1/applications", json!({ "name": "shop", "uid": "shop" })).await.expect(201);
    server.endpoint(json!({ "application_id": "shop" })).await;
    for name in ["shop", application["id"].as_str().unwrap()] {
        let answer = server.post("/v1/events", json!({ "type": "t", "data": 1, "application_id": name })).await.expect(202);
        assert_eq!(answer["deliveries"], 1);
    }
    assert_eq!(server.post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202)["deliveries"], 0);
    let listed = server.get("/v1/events?application_id=shop").await.expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn a_list_is_read_page_by_page_in_both_directions() {
    let server = Server::start().await;
    for n in 0..5 {
        server.post("/v1/events", json!({ "type": "t", "data": n })).await.expect(202);
    }
    let first = server.get("/v1/events?limit=2").await.expect(200);
    let next = first["next_cursor"].as_str().unwrap();
    let second = server.get(&format!("/v1/events?limit=2&cursor={next}")).await.expect(200);
    let prev = second["prev_cursor"].as_str().unwrap();
    let back = server.get(&format!("/v1/events?limit=2&cursor={prev}")).await.expect(200);
    assert_eq!(back["data"], first["data"]);
    let numbers: Vec<_> =
        [&first, &second].iter().flat_map(|page| page["data"].as_array().unwrap()).map(|e| e["sequence_number"].clone()).collect();
    assert_eq!(numbers, [json!(5), json!(4), json!(3), json!(2)]);
    assert!(first["prev_cursor"].is_null());
    server.stop().await;
}

#[tokio::test]
async fn an_offset_skips_rows_and_the_cursors_go_on_from_there() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop" })).await;
    for n in 0..5 {
        server.post("/v1/events", json!({ "type": "t", "data": n })).await.expect(202);
    }
    let numbers = |page: &serde_json::Value| -> Vec<i64> {
        page["data"].as_array().unwrap().iter().map(|event| event["sequence_number"].as_i64().unwrap()).collect()
    };
    let middle = server.get("/v1/events?limit=2&offset=2").await.expect(200);
    assert_eq!(numbers(&middle), [3, 2]);
    for (cursor, expected) in [("next_cursor", vec![1]), ("prev_cursor", vec![5, 4])] {
        let page = server.get(&format!("/v1/events?limit=2&cursor={}", middle[cursor].as_str().unwrap())).await.expect(200);
        assert_eq!(numbers(&page), expected, "{cursor}");
    }
    assert_eq!(server.get("/v1/events?offset=5").await.expect(200), json!({ "data": [], "next_cursor": null, "prev_cursor": null }));
    assert_eq!(server.get("/v1/deliveries?offset=4").await.expect(200)["data"].as_array().unwrap().len(), 1);
    let cursor = middle["next_cursor"].as_str().unwrap();
    for list in ["events", "deliveries", "dlq", "endpoints", "endpoints/shop/deliveries", "applications", "api-keys", "organizations"] {
        server.get(&format!("/v1/{list}?offset=10000")).await.expect(200);
        for query in ["offset=10001".to_owned(), "offset=x".to_owned(), format!("offset=1&cursor={cursor}")] {
            assert_eq!(server.get(&format!("/v1/{list}?{query}")).await.faults(400), ["offset"], "{list} {query}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn data_that_is_not_json_is_shown_as_text_or_in_base64_with_its_content_type() {
    let server = Server::start().await;
    let known = server.post("/v1/events", json!({ "type": "order.paid", "data": 1 })).await.expect(202);
    let known = server.get(&format!("/v1/events/{}", known["id"].as_str().unwrap())).await.expect(200);
    let organization = server.get("/v1/organizations").await.expect(200)["data"][0]["id"].as_str().unwrap().parse().unwrap();
    let application = known["application_id"].as_str().unwrap().parse().unwrap();
    assert_eq!((&known["content_type"], &known["data"]), (&json!(null), &json!(1)));
    for (content_type, data, shown, base64) in [
        ("text/xml", &b"<a b=\"c\"/>"[..], json!("<a b=\"c\"/>"), json!(null)),
        ("image/png", &[0xff, 0xd8], json!(null), json!("/9g=")),
        ("application/vnd.shop+json", br#"{"a":1}"#, json!({ "a": 1 }), json!(null)),
    ] {
        let publication = Publication {
            organization,
            application,
            event_type: EventType::parse("order.paid").unwrap(),
            data: bytes::Bytes::copy_from_slice(data),
            content_type: ContentType::of_body(Some(content_type), data),
            idempotency_key: None,
            idempotency_window: None,
            source: None,
            priority: Priority::Normal,
            ordering_key: None,
            timestamp: None,
            traceparent: None,
            labels: Default::default(),
            headers: Vec::new(),
            only: None,
            received: None,
            sealed: true,
            parked: None,
        };
        let accepted = publish(server.line(), vec![publication]).await.remove(0).unwrap();
        let event = server.get(&format!("/v1/events/{}", accepted.event())).await.expect(200);
        assert_eq!((&event["content_type"], &event["data"], &event["data_base64"]), (&json!(content_type), &shown, &base64));
    }
    // What is sealed is found by its text all the same.
    let found = server.get("/v1/events?q=b%3D%22c").await.expect(200);
    assert_eq!(found["data"].as_array().unwrap().len(), 1, "{found}");
    server.stop().await;
}
