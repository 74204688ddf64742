//! A rotation of the sealing key, in a server that is killed in the middle of it: it goes on, and at its end nothing is left that the old key opens.

use std::{fs, path::Path, time::Duration};

use everhook::cli::client::Connection;
use everhook_adapters::vault::{AesVault, read_key};
use everhook_testbed::node::Node;
use http::Method;
use serde_json::{Value, json};

/// Enough that a pass takes several steps.
const EVENTS: usize = 1_000;
/// How often the server is killed while a pass is under way.
const KILLS: usize = 3;
/// Two passes, each ten seconds after what came before, on a machine that is busy.
const ROTATED_WITHIN: Duration = Duration::from_secs(120);

/// Whether a file of the folder has a value that says that this key sealed it.
fn is_sealed_with(folder: &Path, key: &[u8; 4]) -> bool {
    let begins = [&[1][..], key].concat();
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()).filter(|path| path.is_file());
    files.map(|path| fs::read(path).expect("a file that can be read")).any(|bytes| bytes.windows(5).any(|window| window == begins))
}

async fn sealing(node: &Node) -> Value {
    Connection::new(node.server()).ask(Method::GET, "/v1/sealing", None).await.expect("how sealing stands")
}

async fn restart(node: &mut Node) {
    node.ask_to_stop();
    node.wait_until_ended().await;
    node.start();
    node.wait_until_ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_that_is_killed_again_and_again_ends_with_nothing_sealed_by_the_old_key() {
    // Given a server with a secret, a header and sealed events.
    let mut node = Node::new(Path::new(env!("CARGO_TARGET_TMPDIR"))).with_flags(["--seal-payloads"]);
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    let endpoint = json!({ "url": "http://127.0.0.1:9/", "headers": { "Authorization": "Bearer token" }, "event_types": ["never.sent"] });
    let endpoint = connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("an endpoint");
    let (path, secret) = (format!("/v1/endpoints/{}/secret", endpoint["id"].as_str().expect("an id")), endpoint["secret"].clone());
    let mut events = Vec::new();
    for _ in 0..EVENTS / 500 {
        let batch: Vec<Value> =
            (0..500).map(|number| json!({ "type": "order.paid", "data": { "n": number, "text": "x".repeat(1_500) } })).collect();
        let answer = connection.ask(Method::POST, "/v1/events/batch", Some(&json!({ "events": batch }))).await.expect("a batch");
        events.extend(answer["data"].as_array().expect("results").iter().map(|one| one["id"].clone()));
    }
    let (key, old) = (node.data().join("seal.key"), node.data().join("seal.key.old"));
    let old_id = AesVault::from_key(read_key(&key).expect("its key")).key_id();
    node.ask_to_stop();
    node.wait_until_ended().await;
    assert!(is_sealed_with(&node.data(), &old_id.0), "the test can see what it looks for");
    // When the old key is put aside, a new one is made and everything is sealed with it, however often the server dies meanwhile.
    fs::rename(&key, &old).expect("the key is put aside");
    node.start();
    node.wait_until_ready().await;
    let (mut kills, deadline) = (0, tokio::time::Instant::now() + ROTATED_WITHIN);
    loop {
        let now = sealing(&node).await;
        if now["rotation"].is_null() && !now["finished_at"].is_null() {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{now}");
        let is_under_way = now["rotation"]["looked_at"].as_u64().is_some_and(|rows| rows > 0);
        if is_under_way && kills < KILLS {
            kills += 1;
            node.kill();
            node.start();
            node.wait_until_ready().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(kills, KILLS);
    // Then the old key opens nothing that is left, and the server does not need it.
    node.ask_to_stop();
    node.wait_until_ended().await;
    assert!(!is_sealed_with(&node.data(), &old_id.0), "something is still sealed with the old key");
    let aside = node.data().join("old");
    fs::rename(&old, &aside).expect("the old key is taken away");
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    assert_eq!(connection.ask(Method::GET, &path, None).await.expect("its secret")["secret"], secret);
    for event in [&events[0], &events[EVENTS - 1]] {
        let event = connection.ask(Method::GET, &format!("/v1/events/{}", event.as_str().expect("an id")), None).await.expect("an event");
        assert_eq!(event["data"]["text"], json!("x".repeat(1_500)));
    }
    restart(&mut node).await;
    // With the old key alone it does not start.
    node.ask_to_stop();
    node.wait_until_ended().await;
    let new = node.data().join("new");
    fs::rename(&key, &new).and_then(|()| fs::rename(&aside, &key)).expect("the keys are exchanged");
    node.start();
    let (status, said) = node.wait_until_ended().await;
    assert!(!status.success() && said.contains("supply the key that belongs to this store"), "{said}");
}
