//! A database of its own for each test, on the server that `EVERHOOK_TEST_POSTGRES` names. Shared with the tests of `moving`.

use std::{env, thread};

use tokio_postgres::NoTls;
use url::Url;
use uuid::Uuid;

/// What the names of the databases begin with, so that one that a killed test left behind is known as such.
const PREFIX: &str = "everhook_test";

/// An empty database. It goes when this is dropped.
pub struct Database {
    server: Url,
    name: String,
}

impl Database {
    pub async fn create() -> Self {
        let (server, name) = (server(), format!("{PREFIX}_{}", Uuid::now_v7().simple()));
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        Self { server, name }
    }

    /// Its address.
    pub fn url(&self) -> Url {
        let mut database = self.server.clone();
        database.set_path(&self.name);
        database
    }
}

impl Drop for Database {
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
