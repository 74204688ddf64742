//! Starting, stopping, and starting again.

use std::path::Path;

use everhook::{config::ServeArgs, wiring};
use everhook_adapters::sqlite::sealing_at_rest;
use everhook_core::manage::api_keys;
use serde_json::json;

use crate::api::client::Server;

fn args(data: &Path) -> ServeArgs {
    ServeArgs { listen: Some("127.0.0.1:0".to_owned()), data: Some(data.display().to_string()), ..ServeArgs::default() }
}

async fn start(args: &ServeArgs) -> anyhow::Result<wiring::Running> {
    wiring::start(&args.load_from([])?.config).await
}

#[tokio::test]
async fn the_admin_key_is_made_at_the_first_start_only() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(&args(folder.path())).await.unwrap();
    assert!(first.admin_key.is_some());
    first.stop().await;
    let second = start(&args(folder.path())).await.unwrap();
    assert!(second.admin_key.is_none());
    second.stop().await;
}

#[tokio::test]
async fn a_key_that_the_operator_set_is_ensured_at_each_start() {
    let folder = tempfile::tempdir().unwrap();
    for key in ["a", "a", "b"] {
        let text = format!("eh_{}", key.repeat(32));
        let running = start(&ServeArgs { admin_key: Some(text.clone()), ..args(folder.path()) }).await.unwrap();
        assert!(running.admin_key.is_none());
        let found = running.line.ports.api_keys.api_key(&api_keys::hash(&text)).await.unwrap();
        assert!(found.is_some());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_taken_port_or_folder_is_named() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    let taken = ServeArgs { listen: Some(server.address().to_string()), ..args(folder.path()) };
    let error = format!("{:#}", start(&taken).await.err().unwrap());
    assert!(error.contains(&format!("cannot listen on {}", server.address())), "{error}");
    let running = start(&args(folder.path())).await.unwrap();
    let error = format!("{:#}", start(&args(folder.path())).await.err().unwrap());
    assert!(error.contains("in use by another"), "{error}");
    running.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn what_was_accepted_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("eh_{}", "k".repeat(32));
    let args = ServeArgs { admin_key: Some(key), ..args(folder.path()) };
    let server = Server::start_with(&args).await;
    let published = server.post("/v1/events", json!({ "type": "t", "data": { "n": 1.0 } })).await.expect(202);
    server.stop().await;
    let server = Server::start_with(&args).await;
    let event = server.get(&format!("/v1/events/{}", published["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(event["data"], json!({ "n": 1.0 }));
    server.stop().await;
}

#[tokio::test]
async fn a_start_without_the_key_that_secrets_are_sealed_with_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    start(&args(folder.path())).await.unwrap().stop().await;
    let (key, kept) = (folder.path().join("seal.key"), folder.path().join("kept"));
    // Another key is named by its id; a missing one by its file, and none is made in its place.
    let other = ServeArgs { seal_key: Some("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned()), ..args(folder.path()) };
    let error = format!("{:#}", start(&other).await.err().unwrap());
    assert!(error.contains("EVERHOOK_SEAL_KEY is the key ") && error.contains("supply the key that belongs to this store"), "{error}");
    std::fs::rename(&key, &kept).unwrap();
    let error = format!("{:#}", start(&args(folder.path())).await.err().unwrap());
    assert!(error.contains("seal.key does not exist: supply the key"), "{error}");
    assert!(!key.exists());
    // With the old key back, it starts.
    std::fs::rename(&kept, &key).unwrap();
    start(&args(folder.path())).await.unwrap().stop().await;
}

#[tokio::test]
async fn a_first_start_that_was_killed_between_its_files_is_completed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    start(&args(folder.path())).await.unwrap().stop().await;
    // The key was made and its id was not kept.
    let kept = || sealing_at_rest(folder.path()).unwrap();
    let id = kept().expect("the id of its key");
    rusqlite::Connection::open(folder.path().join("everhook.db")).unwrap().execute("DELETE FROM sealing", []).unwrap();
    start(&args(folder.path())).await.unwrap().stop().await;
    assert_eq!(kept(), Some(id));
}
