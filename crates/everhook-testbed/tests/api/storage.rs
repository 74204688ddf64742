//! How much is stored, over HTTP. That only admins may ask is in `matrix`.

use serde_json::{Value, json};

use super::client::Server;

#[tokio::test]
async fn an_admin_sees_how_much_is_stored_and_for_how_long() {
    let server = Server::start().await;
    let before = server.get("/v1/storage").await.expect(200);
    assert_eq!((&before["oldest_event_at"], &before["archive"]), (&Value::Null, &Value::Null));
    server.post("/v1/events", json!({ "type": "order.paid", "data": {} })).await.expect(202);
    let storage = server.get("/v1/storage").await.expect(200);
    assert!(storage["oldest_event_at"].is_string() && storage["now"].is_string(), "{storage}");
    assert!(storage["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{storage}");
    assert!(storage["retention"]["events_seconds"].is_u64() || storage["retention"]["events_seconds"].is_null(), "{storage}");
    let tables = storage["tables"].as_array().expect("tables");
    let events = tables.iter().find(|table| table["name"] == "events").expect("events are counted");
    assert!(["exact", "about"].contains(&events["rows_are"].as_str().expect("a word")), "{events}");
    server.stop().await;
}
