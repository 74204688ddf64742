//! What a node with a Redis shows of it.

use everhook::config::ServeArgs;
use everhook_testbed::database::{Database, SEAL_KEY};
use serde_json::json;

use crate::{
    api::{client::Server, metrics::scrape_until},
    redis_server,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_shows_whether_its_breakers_count_alone() {
    let Some(mut redis) = redis_server::Server::start() else { return };
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::with_schema().await);
    let args = ServeArgs {
        listen: Some("127.0.0.1:0".to_owned()),
        data: Some(folder.path().join("data").display().to_string()),
        allow_private_networks: Some("true".to_owned()),
        database: Some(database.url()),
        seal_key: Some(SEAL_KEY.to_owned()),
        redis: Some(redis.url()),
        ..ServeArgs::default()
    };
    let server = Server::start_with(&args).await;
    let endpoint = server.endpoint(json!({ "event_types": ["order.paid"] })).await;
    server.post("/v1/events", json!({ "type": "order.paid", "data": 1 })).await.expect(202);
    let id = endpoint["id"].as_str().unwrap();
    let shown = "webhook_circuit_breaker_redis_fallback_active";
    scrape_until(&server, |scraped| scraped.value(shown, &[id]) == Some(0.0)).await;
    redis.kill();
    scrape_until(&server, |scraped| scraped.value(shown, &[id]) == Some(1.0)).await;
    redis.resume();
    scrape_until(&server, |scraped| scraped.value(shown, &[id]) == Some(0.0)).await;
    server.stop().await;
}
