//! A tenant that makes, changes and deletes its configuration as fast as it can: what each change leaves behind must not fill memory or the disk, nor
//! take the neighbor's configuration out of memory.

use std::{
    sync::Arc,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use everhook::cli::client::Connection;
use http::Method;
use serde_json::{Value, json};

use super::arena::Arena;

const ATTACK: Duration = Duration::from_secs(4);
const CONNECTIONS: u32 = 4;
/// What an organization may change at once, and in a second; see `docs/operating.md`.
const CHANGES_AT_ONCE: u32 = 1_000;
const CHANGES_PER_SECOND: u32 = 50;

#[derive(Default)]
struct Changes {
    made: AtomicU32,
    refused: AtomicU32,
}

impl Changes {
    async fn ask(&self, connection: &mut Connection, method: Method, path: &str, body: Option<&Value>) -> Option<Value> {
        match connection.ask(method, path, body).await {
            Ok(answer) => {
                self.made.fetch_add(1, Ordering::Relaxed);
                Some(answer)
            }
            Err(error) => {
                let words = format!("{error:#}");
                assert!(words.contains("may change its configuration"), "{words}");
                self.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

/// Makes an endpoint with numbers of its own, changes it, makes a key, changes a schedule and an event type, and deletes what can be deleted.
async fn change_everything(connection: &mut Connection, changes: &Changes, unique: u32) {
    let schedule = |n: u32| json!({"max_attempts": 3, "base_delay_ms": 1_000 + n});
    let headers = json!({"x-filler": "x".repeat(4_000)});
    let endpoint = json!({"url": "http://127.0.0.1:9/", "event_types": ["*"], "headers": headers, "retry_config": schedule(unique * 2)});
    let made = changes.ask(connection, Method::POST, "/v1/endpoints", Some(&endpoint)).await;
    if let Some(id) = made.as_ref().and_then(|made| made["id"].as_str()) {
        let path = format!("/v1/endpoints/{id}");
        let change = json!({"retry_config": schedule(unique * 2 + 1), "headers": {"x-filler": unique.to_string()}});
        changes.ask(connection, Method::PUT, &path, Some(&change)).await;
        changes.ask(connection, Method::DELETE, &path, None).await;
    }
    let interval = json!({"intervals": [unique + 1]});
    changes.ask(connection, Method::PUT, "/v1/retry-schedules/mine", Some(&interval)).await;
    let described = json!({"description": unique.to_string()});
    changes.ask(connection, Method::PUT, "/v1/event-types/mine", Some(&described)).await;
    let key = json!({"name": "k", "scopes": ["publish"]});
    let made = changes.ask(connection, Method::POST, "/v1/api-keys", Some(&key)).await;
    if let Some(id) = made.as_ref().and_then(|made| made["id"].as_str()) {
        changes.ask(connection, Method::DELETE, &format!("/v1/api-keys/{id}"), None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_changes_its_configuration_without_end_is_held_to_a_rate() {
    let arena = Arena::start([]).await;
    let mut owner = arena.attacker.connect();
    let schedule = json!({"name": "mine", "intervals": [5]});
    owner.ask(Method::POST, "/v1/retry-schedules", Some(&schedule)).await.expect("a schedule");
    owner.ask(Method::POST, "/v1/event-types", Some(&json!({"name": "mine"}))).await.expect("an event type");
    let watch = arena.watch().await;
    let (changes, began) = (Arc::new(Changes::default()), Instant::now());
    let tasks = (0..CONNECTIONS).map(|task| {
        let (mut connection, changes) = (arena.attacker.connect(), changes.clone());
        tokio::spawn(async move {
            let mut unique = task;
            let is_refused = || changes.refused.load(Ordering::Relaxed) > 0;
            // A busy machine takes longer to make as many as may come at once.
            while began.elapsed() < ATTACK || !is_refused() && began.elapsed() < ATTACK * 5 {
                change_everything(&mut connection, &changes, unique).await;
                unique += CONNECTIONS;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("it was refused as it should be");
    }
    let took = u32::try_from(began.elapsed().as_secs()).expect("seconds") + 1;
    watch.end("changes without end").await;
    let (made, refused) = (changes.made.load(Ordering::Relaxed), changes.refused.load(Ordering::Relaxed));
    assert!(refused > 0, "{made} changes were made and none was refused");
    assert!(made <= CHANGES_AT_ONCE + CHANGES_PER_SECOND * took, "{made} changes were made in {took} s");
}
