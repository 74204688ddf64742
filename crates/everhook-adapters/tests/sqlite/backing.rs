//! The embedded store as the conformance suite sees it: a folder of its own for each test.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, Weak},
};

use everhook_adapters::{
    sqlite::{SqliteSettings, SqliteStore, WriterMode},
    vault::AesVault,
};
use everhook_core::time::Timestamp;
use tempfile::TempDir;

use crate::sqlite::conformance::{given::Given, store};

/// A folder, and the store that is open on it.
pub struct Backing {
    pub folder: TempDir,
    open: Mutex<Weak<SqliteStore>>,
}

impl store::Backing for Backing {
    async fn create() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), open: Mutex::default() }
    }

    async fn open(&self) -> Arc<dyn store::Store> {
        let store = Arc::new(open(&self.folder));
        *self.open.lock().unwrap() = Arc::downgrade(&store);
        store
    }

    async fn open_sealed(&self, vault: Arc<AesVault>) -> Arc<dyn store::Store> {
        let store = SqliteStore::open(SqliteSettings { data: self.folder.path().to_owned(), mode: WriterMode::Thread }).unwrap();
        store.keep_seal_key_id(&vault.key_id().to_string()).await.unwrap();
        store.seal_with(vault);
        Arc::new(store)
    }

    async fn create_lane(&self, lane: &store::NewLane<'_>) {
        let connection = rusqlite::Connection::open(self.folder.path().join("everhook.db")).unwrap();
        let [id, organization, application] =
            [lane.id.as_uuid(), lane.organization.as_uuid(), lane.application.as_uuid()].map(|id| id.as_bytes());
        let insert = include_str!("../../src/sqlite/queries/insert_lane.sql");
        connection.execute(insert, rusqlite::params![id, lane.kind, organization, application]).unwrap();
    }

    async fn forget_keys(&self, before: Timestamp, limit: u32) -> u32 {
        let store = self.open.lock().unwrap().upgrade().expect("the store is open");
        store.forget_keys(before, limit).await.unwrap()
    }
}

/// Opens the store of a folder, with its writer on a thread.
pub fn open(folder: &TempDir) -> SqliteStore {
    let store = SqliteStore::open(SqliteSettings { data: folder.path().to_owned(), mode: WriterMode::Thread }).unwrap();
    store.seal_with(Arc::new(AesVault::from_key([7; 32])));
    store
}

impl Given {
    /// The file that everything is in.
    pub fn file(&self) -> PathBuf {
        self.backing.folder.path().join("everhook.db")
    }

    /// Does to the file what no store would do.
    pub fn tamper(&self, sql: &str) {
        rusqlite::Connection::open(self.file()).unwrap().execute_batch(sql).unwrap();
    }
}
