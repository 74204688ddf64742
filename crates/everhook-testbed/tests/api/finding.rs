//! Finding events and deliveries, through HTTP: by key, label, family of types, text, endpoint and status, and how many there are.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::api::{client::Server, retries::wait_until};

/// A receiver that answers every request with this status, and its URL.
async fn answering(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut read = [0; 16 * 1024];
            // The requests of this test come in one piece.
            let _ = stream.read(&mut read).await;
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    url
}

async fn publish(server: &Server, event: Value) -> String {
    server.post("/v1/events", event).await.expect(202)["id"].as_str().unwrap().to_owned()
}

async fn ids(server: &Server, path: &str) -> Vec<String> {
    let found = server.get(path).await.expect(200);
    found["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn events_are_found_by_key_label_family_and_text() {
    let server = Server::start().await;
    let application = server.post("/v1/applications", json!({ "name": "Shop", "uid": "shop" })).await.expect(201);
    let paid = json!({ "type": "order.paid", "data": { "note": "größe XL" }, "idempotency_key": "order-1", "labels": { "region": "eu", "tier": "gold" } });
    let paid = publish(&server, paid).await;
    let shipped = publish(&server, json!({ "type": "order.shipped", "data": { "note": "none" }, "labels": { "region": "eu" } })).await;
    let elsewhere =
        publish(&server, json!({ "type": "user.created", "data": "XL", "application_id": "shop", "idempotency_key": "order-1" })).await;
    #[rustfmt::skip]
    let table = [
        ("idempotency_key=order-1&application_id=default", vec![&paid]),
        ("idempotency_key=order-1&application_id=shop", vec![&elsewhere]),
        ("idempotency_key=order-2", vec![]),
        ("label.region=eu", vec![&shipped, &paid]),
        ("label.region=eu&label.tier=gold", vec![&paid]),
        ("label.region=us", vec![]),
        ("event_type=order.*", vec![&shipped, &paid]),
        ("event_type=order.*&label.tier=gold", vec![&paid]),
        ("event_type=order.paid", vec![&paid]),
        ("q=XL", vec![&elsewhere, &paid]),
        ("q=gr%C3%B6%C3%9Fe", vec![&paid]),
        ("q=XL&application_id=shop", vec![&elsewhere]),
        ("q=nowhere", vec![]),
    ];
    for (query, expected) in table {
        assert_eq!(ids(&server, &format!("/v1/events?{query}")).await, expected.into_iter().cloned().collect::<Vec<_>>(), "{query}");
    }
    // A key that was made from the event's id, and one that is known by its id.
    assert_eq!(ids(&server, &format!("/v1/events?idempotency_key={shipped}")).await, std::slice::from_ref(&shipped));
    // A search says how far it looked, and continues.
    let first = server.get("/v1/events?q=XL&limit=1").await.expect(200);
    assert_eq!((&first["data"][0]["id"], &first["search_complete"]), (&json!(elsewhere), &json!(false)));
    assert_eq!((&first["data"][0]["application_uid"], first["searched_until"].is_string()), (&application["uid"], true));
    let next = server.get(&format!("/v1/events?q=XL&limit=1&cursor={}", first["next_cursor"].as_str().unwrap())).await.expect(200);
    assert_eq!((&next["data"][0]["id"], &next["search_complete"], &next["next_cursor"]), (&json!(paid), &json!(true), &Value::Null));
    for (query, field) in
        [("q=", "q"), ("event_type=a b", "event_type"), ("count=maybe", "count"), ("q=a&count=true", "count"), ("q=a&offset=1", "offset")]
    {
        assert_eq!(server.get(&format!("/v1/events?{}", query.replace(' ', "%20"))).await.faults(400), [field], "{query}");
    }
    server.get("/v1/events?label.a=1&label.a=2").await.problem(400);
    let counted = server.get("/v1/events?limit=1&count=true").await.expect(200);
    assert_eq!((&counted["count"], &counted["count_is_capped"]), (&json!(3), &json!(false)));
    server.stop().await;
}

#[tokio::test]
async fn deliveries_are_found_by_endpoint_and_status_and_a_backlog_is_counted() {
    let server = Server::start().await;
    let unavailable = answering("503 Service Unavailable").await;
    let gone = answering("404 Not Found").await;
    server.endpoint(json!({ "uid": "down", "url": unavailable })).await;
    server.endpoint(json!({ "uid": "lost", "url": gone, "retry_schedule": "patient" })).await;
    publish(&server, json!({ "type": "order.paid", "data": 1 })).await;
    wait_until(async || {
        let found = server.get("/v1/deliveries?status=failed").await.expect(200);
        found["data"].as_array().unwrap().len() == 2
    })
    .await;
    for (query, expected) in [("endpoint_id=down", vec!["down"]), ("application_id=default&endpoint_id=lost", vec!["lost"])] {
        let found = server.get(&format!("/v1/deliveries?{query}&count=true")).await.expect(200);
        let uids: Vec<_> = found["data"].as_array().unwrap().iter().map(|row| row["endpoint_uid"].as_str().unwrap()).collect();
        assert_eq!((&uids, &found["count"]), (&expected, &json!(expected.len())), "{query}");
    }
    for (query, expected) in [
        ("http_status=503", vec!["down"]),
        ("http_status=5xx", vec!["down"]),
        ("http_status=4xx", vec!["lost"]),
        ("http_status=404&endpoint_id=down", vec![]),
        ("http_status=2xx", vec![]),
    ] {
        let found = server.get(&format!("/v1/deliveries?{query}")).await.expect(200);
        let uids: Vec<_> = found["data"].as_array().unwrap().iter().map(|row| row["endpoint_uid"].as_str().unwrap()).collect();
        assert_eq!((&uids, &found["search_complete"]), (&expected, &json!(true)), "{query}");
    }
    for query in
        ["http_status=abc", "http_status=9xx", "http_status=99", "count=1", "http_status=5xx&count=true", "http_status=5xx&offset=1"]
    {
        server.get(&format!("/v1/deliveries?{query}")).await.problem(400);
    }
    assert_eq!(server.get("/v1/endpoints/down/deliveries?endpoint_id=lost").await.faults(400), ["endpoint_id"]);
    server.get("/v1/deliveries?endpoint_id=nobody").await.problem(404);
    let health = server.get("/v1/endpoints/down/health").await.expect(200);
    assert_eq!((&health["backlog"]["count"], &health["backlog"]["count_is_capped"]), (&json!(1), &json!(false)));
    assert!(health["backlog"]["oldest_created_at"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn counts_end_at_a_thousand_and_a_search_for_text_after_two_thousand_events() {
    let server = Server::start().await;
    server.endpoint(json!({ "uid": "shop", "enabled": true })).await;
    server.post("/v1/endpoints/shop/pause", json!({})).await.expect(200);
    publish(&server, json!({ "type": "t", "data": "needle" })).await;
    for size in [999, 1_000, 100] {
        let events: Vec<Value> = (0..size).map(|n| json!({ "type": "t", "data": n })).collect();
        server.post("/v1/events/batch", json!({ "events": events })).await.expect(202);
        for path in ["/v1/events?count=true", "/v1/deliveries?count=true"] {
            let counted = server.get(path).await.expect(200);
            assert_eq!((&counted["count"], &counted["count_is_capped"]), (&json!(1_000), &json!(size != 999)), "{path}");
        }
    }
    // The oldest of 2,100 events: the first request reads 2,000 of them and says that there is more to read.
    let first = server.get("/v1/events?q=needle").await.expect(200);
    assert_eq!((&first["data"], &first["search_complete"]), (&json!([]), &json!(false)));
    assert!(first["searched_until"].is_string(), "{first}");
    let mut page = first;
    for _ in 0..20 {
        let cursor = page["next_cursor"].as_str().expect("it has not looked at everything");
        page = server.get(&format!("/v1/events?q=needle&cursor={cursor}")).await.expect(200);
        if page["search_complete"] == true {
            break;
        }
    }
    assert_eq!((page["data"].as_array().unwrap().len(), &page["search_complete"]), (1, &json!(true)));
    server.stop().await;
}
