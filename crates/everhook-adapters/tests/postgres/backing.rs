//! The shared store as the conformance suite sees it: a database of its own for each test, on the server that `EVERHOOK_TEST_POSTGRES` names.

use std::{
    env,
    sync::{Arc, Mutex, Weak},
    thread,
};

use everhook_adapters::postgres::{PostgresSettings, PostgresStore};
use everhook_core::{model::PoolName, time::Timestamp};
use tokio_postgres::NoTls;
use url::Url;
use uuid::Uuid;

use crate::conformance::{given::Given, store};

/// What the names of the databases begin with, so that one that a killed test left behind is known as such.
const PREFIX: &str = "everhook_test";

/// A database, and the store that is open on it.
pub struct Backing {
    server: Url,
    name: String,
    open: Mutex<Weak<PostgresStore>>,
}

impl store::Backing for Backing {
    async fn create() -> Self {
        let (server, name) = (server(), format!("{PREFIX}_{}", Uuid::now_v7().simple()));
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        Self { server, name, open: Mutex::default() }
    }

    async fn open(&self) -> Arc<dyn store::Store> {
        let store = Arc::new(self.node().await);
        *self.open.lock().unwrap() = Arc::downgrade(&store);
        store
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
        PostgresStore::open(&PostgresSettings { url: self.url(), node: "node".to_owned(), pool }).await.unwrap()
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.database().into()
    }

    /// The same, to be changed.
    pub fn database(&self) -> Url {
        let mut database = self.server.clone();
        database.set_path(&self.name);
        database
    }
}

impl Drop for Backing {
    /// Connections that are still open are cut.
    fn drop(&mut self) {
        execute_apart(self.server.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// Does to the server what is left to do when a test ends. On a thread of its own, because the test's own runtime is busy ending.
pub fn execute_apart(server: Url, sql: String) {
    let doing = thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(execute(&server, &sql));
    });
    // A test that fails already should fail for its own reason.
    if doing.join().is_err() && !thread::panicking() {
        panic!("what a test made could not be dropped");
    }
}

impl Given {
    /// Does to the database what no store would do.
    pub async fn tamper(&self, sql: &str) {
        execute(&self.backing.database(), sql).await;
    }
}

/// The server. There is no good test without one, so that its absence is a failure.
pub fn server() -> Url {
    let url = env::var("EVERHOOK_TEST_POSTGRES")
        .expect("these tests need a PostgreSQL server: name it in EVERHOOK_TEST_POSTGRES, like postgres://user@127.0.0.1:5432/postgres");
    url.parse().expect("EVERHOOK_TEST_POSTGRES holds an address")
}

pub async fn execute(database: &Url, sql: &str) {
    let (client, connection) = tokio_postgres::connect(database.as_str(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}
