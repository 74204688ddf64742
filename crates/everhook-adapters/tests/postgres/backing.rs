//! The shared store as the conformance suite sees it: a database of its own for each test, on the server that `EVERHOOK_TEST_POSTGRES` names.

use std::sync::{Arc, Mutex, Weak};

use everhook_adapters::{
    postgres::{PostgresSettings, PostgresStore},
    vault::AesVault,
};
use everhook_core::{model::PoolName, time::Timestamp};
use url::Url;

use crate::{
    database::{Database, execute},
    postgres::conformance::{given::Given, store},
};

/// A database, and the store that is open on it.
pub struct Backing {
    database: Database,
    open: Mutex<Weak<PostgresStore>>,
}

impl store::Backing for Backing {
    async fn create() -> Self {
        Self { database: Database::with_schema().await, open: Mutex::default() }
    }

    async fn open(&self) -> Arc<dyn store::Store> {
        let store = Arc::new(self.node().await);
        *self.open.lock().unwrap() = Arc::downgrade(&store);
        store
    }

    async fn open_sealed(&self, vault: Arc<AesVault>) -> Arc<dyn store::Store> {
        let settings = PostgresSettings { url: self.url(), node: "node".to_owned(), pool: PoolName::default() };
        let store = PostgresStore::open(&settings).await.unwrap();
        store.keep_seal_key_id(&vault.key_id().to_string()).await.unwrap();
        store.seal_with(vault);
        Arc::new(store)
    }

    async fn create_lane(&self, lane: &store::NewLane<'_>) {
        let (client, connection) = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let insert = "INSERT INTO everhook.lanes (id, kind, organization_id, application_id) VALUES ($1, $2, $3, $4)";
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [lane.id.as_uuid(), &lane.kind, lane.organization.as_uuid(), lane.application.as_uuid()];
        client.execute(insert, &values).await.unwrap();
    }

    async fn forget_keys(&self, before: Timestamp, limit: u32) -> u32 {
        let store = self.open.lock().unwrap().upgrade().expect("the store is open");
        store.forget_keys(before, limit).await.unwrap()
    }
}

impl Backing {
    /// The store as one more node sees it.
    pub async fn node(&self) -> PostgresStore {
        self.node_of(PoolName::default().as_str()).await
    }

    /// The store as one more node of a worker pool sees it.
    pub async fn node_of(&self, pool: &str) -> PostgresStore {
        let pool = PoolName::parse(pool).unwrap();
        let store = PostgresStore::open(&PostgresSettings { url: self.url(), node: "node".to_owned(), pool }).await.unwrap();
        store.seal_with(Arc::new(AesVault::from_key([7; 32])));
        store
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.database.url()
    }

    /// The same, to be changed.
    pub fn database(&self) -> Url {
        self.database.address()
    }
}

impl Given {
    /// Does to the database what no store would do.
    pub async fn tamper(&self, sql: &str) {
        execute(&self.backing.database(), sql).await;
    }
}
