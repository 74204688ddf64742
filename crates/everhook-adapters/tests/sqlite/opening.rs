//! Opening and closing the store.

use everhook_adapters::sqlite::{OpenError, SqliteSettings, SqliteStore, WriterMode, sealing_at_rest};
use everhook_core::{
    model::ShardSet,
    ports::{DeliveryQueue, EventStore, OrganizationStore, SealingStore},
};

use crate::sqlite::{
    backing::open,
    given::{Given, entry, organization},
};

fn settings(folder: &tempfile::TempDir) -> SqliteSettings {
    SqliteSettings { data: folder.path().to_owned(), mode: WriterMode::Thread }
}

fn refusal(folder: &tempfile::TempDir) -> OpenError {
    SqliteStore::open(settings(folder)).err().expect("the store must refuse to open")
}

fn tamper(folder: &tempfile::TempDir, sql: &str) {
    let connection = rusqlite::Connection::open(folder.path().join("everhook.db")).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[test]
fn a_folder_belongs_to_one_store_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(&folder);
    let refusal = refusal(&folder);
    assert!(matches!(refusal, OpenError::InUse { .. }));
    assert!(refusal.to_string().ends_with("is in use by another everhook process"));
    drop(first);
    open(&folder);
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_made_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("deep/data");
    let _store = SqliteStore::open(SqliteSettings { data: data.clone(), mode: WriterMode::Thread }).unwrap();
    assert_eq!(data.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_file_of_a_newer_everhook_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder));
    tamper(&folder, "INSERT INTO schema_migrations VALUES (9999, x'00', 0)");
    let words = refusal(&folder).to_string();
    assert!(words.starts_with("this file was written by a newer Everhook (schema 9999, this binary knows "), "{words}");
}

#[test]
fn a_file_whose_schema_was_made_by_other_statements_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder));
    tamper(&folder, "UPDATE schema_migrations SET hash = x'00'");
    assert!(matches!(refusal(&folder), OpenError::ChangedMigration { version: 1 }));
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("everhook.db");
    std::fs::write(&file, "not a database".repeat(100)).unwrap();
    let words = refusal(&folder).to_string();
    assert!(words.starts_with(&format!("{} is not a SQLite database: name another folder", file.display())), "{words}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "not a database".repeat(100));
}

#[test]
fn a_database_of_another_application_is_refused_and_not_touched() {
    for foreign in
        ["CREATE TABLE contacts (name TEXT)", "PRAGMA application_id = 1196444487", "CREATE TABLE schema_migrations (version TEXT)"]
    {
        let folder = tempfile::tempdir().unwrap();
        tamper(&folder, foreign);
        let file = folder.path().join("everhook.db");
        let before = std::fs::read(&file).unwrap();
        let words = refusal(&folder).to_string();
        assert!(words.contains("is a SQLite database of another application"), "{foreign}: {words}");
        assert_eq!(std::fs::read(&file).unwrap(), before, "{foreign}");
    }
}

#[test]
fn a_database_that_is_empty_or_missing_beside_what_belongs_to_it_is_refused() {
    // An empty file alone is what a first start leaves that was killed at once.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("everhook.db"), "").unwrap();
    drop(open(&folder));
    for (how, beside) in [("empty", "seal.key"), ("empty", "everhook.db-wal"), ("missing", "everhook.db-wal")] {
        let folder = tempfile::tempdir().unwrap();
        if how == "empty" {
            std::fs::write(folder.path().join("everhook.db"), "").unwrap();
        }
        std::fs::write(folder.path().join(beside), "something").unwrap();
        let words = refusal(&folder).to_string();
        assert!(words.contains(&format!("everhook.db is {how}, but ")) && words.contains(beside) && words.contains("restore"), "{words}");
        assert_eq!(folder.path().join("everhook.db").exists(), how == "empty", "none is made in its place");
    }
    // A key that was brought before the first start is no such thing.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("seal.key"), "a key").unwrap();
    open(&folder);
}

#[cfg(unix)]
#[test]
fn every_file_of_the_store_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    // Also in a folder that others may read.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let _store = open(&folder);
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", file.path().display());
    }
}

#[tokio::test]
async fn the_first_key_that_is_named_is_the_one_that_secrets_are_sealed_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    assert_eq!(store.sealing().await.unwrap(), None);
    assert_eq!(store.keep_seal_key_id("0a0b0c0d").await.unwrap(), "0a0b0c0d");
    assert_eq!(store.keep_seal_key_id("ffffffff").await.unwrap(), "0a0b0c0d");
    drop(store);
    let sealing = open(&folder).sealing().await.unwrap().unwrap();
    assert_eq!((sealing.key.to_string().as_str(), sealing.rotation), ("0a0b0c0d", None));
    assert_eq!(sealing_at_rest(folder.path()).unwrap().map(|sealing| sealing.key.to_string()).as_deref(), Some("0a0b0c0d"));
}

#[tokio::test]
async fn closing_leaves_one_file_with_everything_in_it() {
    let given = Given::new().await;
    let (event, _) = given.published().await;
    let Given { store, backing, .. } = given;
    drop(store);
    let folder = backing.folder;
    assert!(!folder.path().join("everhook.db-wal").exists(), "the log is moved into the file");
    let store = open(&folder);
    assert!(EventStore::event(&store, event).await.unwrap().is_some());
}

#[test]
fn an_inline_store_runs_without_threads_or_timers() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteSettings { data: folder.path().to_owned(), mode: WriterMode::Inline }).unwrap();
    // A runtime that can do nothing but poll.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        store.create_organization(organization(), entry()).await.unwrap();
        assert!(store.lanes(ShardSet::ALL).await.unwrap().is_empty());
    });
}
