//! A database of its own for each test, on the server that `EVERHOOK_TEST_POSTGRES` names.

use std::{env, ops::ControlFlow, path::Path, thread};

use everhook_adapters::{
    moving::{self, MoveError, MoveSettings, Moved, Progress},
    postgres::{OpenError, PostgresSettings, PostgresStore},
};
use tokio_postgres::{Client, NoTls};
use url::Url;
use uuid::Uuid;

/// What the names of the databases begin with, so that one that a killed test left behind is known as such.
const PREFIX: &str = "everhook_test";

/// The key that the folders' secrets are sealed with.
pub const SEAL_KEY_ID: &str = "1a2b3c4d";

/// An empty database. It goes when this is dropped.
pub struct Database {
    server: Url,
    name: String,
}

impl Database {
    pub async fn create() -> Self {
        let url = env::var("EVERHOOK_TEST_POSTGRES").expect(
            "these tests need a PostgreSQL server: name it in EVERHOOK_TEST_POSTGRES, like postgres://user@127.0.0.1:5432/postgres",
        );
        let server: Url = url.parse().expect("EVERHOOK_TEST_POSTGRES holds an address");
        let name = format!("{PREFIX}_{}", Uuid::now_v7().simple());
        connect(&server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        Self { server, name }
    }

    pub fn url(&self) -> String {
        let mut database = self.server.clone();
        database.set_path(&self.name);
        database.into()
    }

    /// A connection that belongs to nobody.
    pub async fn client(&self) -> Client {
        connect(&self.url().parse().unwrap()).await
    }

    /// Opens it as a node would.
    pub async fn open(&self) -> Result<PostgresStore, OpenError> {
        PostgresStore::open(&PostgresSettings { url: self.url(), node: "node".to_owned(), pool: Default::default() }).await
    }

    pub fn settings(&self, folder: &Path) -> MoveSettings {
        MoveSettings { from: folder.to_owned(), to: self.url(), seal_key_id: Some(SEAL_KEY_ID.to_owned()), batch_rows: moving::BATCH_ROWS }
    }

    /// Moves a folder into it.
    pub async fn take_in(&self, folder: &Path) -> Result<Moved, MoveError> {
        moving::move_up(&self.settings(folder), &mut |_: Progress| ControlFlow::Continue(())).await
    }
}

impl Drop for Database {
    /// On a thread of its own, because a test's own runtime is busy dropping this. Connections that are still open are cut.
    fn drop(&mut self) {
        let (server, drop) = (self.server.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name));
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { connect(&server).await.batch_execute(&drop).await.unwrap() });
        });
        // A test that fails already should fail for its own reason.
        if dropping.join().is_err() && !thread::panicking() {
            panic!("the database {} could not be dropped", self.name);
        }
    }
}

async fn connect(database: &Url) -> Client {
    let (client, connection) = tokio_postgres::connect(database.as_str(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
