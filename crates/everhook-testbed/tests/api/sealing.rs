//! The sealing key over HTTP, where nothing is to be rotated. What a rotation does is in `killed::resealing`.

use serde_json::{Value, json};

use super::client::Server;

#[tokio::test]
async fn the_key_in_use_is_shown_and_there_is_nothing_to_stop() {
    let server = Server::start().await;
    let sealing = server.get("/v1/sealing").await.expect(200);
    assert_eq!(sealing["key_id"], sealing["configured_key_id"]);
    assert_eq!((&sealing["rotation"], &sealing["finished_at"], &sealing["awaited_nodes"]), (&Value::Null, &Value::Null, &json!([])));
    for path in ["/v1/sealing/cancel", "/v1/sealing/resume"] {
        assert_eq!(server.post(path, json!({})).await.expect(200), sealing, "{path}");
    }
    server.stop().await;
}
