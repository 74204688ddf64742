//! Opening and closing the store.

use everhook_adapters::sqlite::{OpenError, SqliteSettings, SqliteStore, WriterMode};
use everhook_core::{
    model::ShardSet,
    ports::{DeliveryQueue, Directory, EventStore},
};

use crate::{
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
    std::fs::write(folder.path().join("everhook.db"), "not a database".repeat(100)).unwrap();
    assert!(matches!(refusal(&folder), OpenError::Database(_)));
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
