//! A PostgreSQL database for one test, on the server that `EVERHOOK_TEST_POSTGRES` names. `scripts/services` starts one.
//!
//! The tests of the adapters, which must not depend on this crate, include the file as it is: it uses nothing else of the crate.

use std::{env, thread};

use tokio_postgres::NoTls;
use url::Url;
use uuid::Uuid;

/// The variable that names the server.
const SERVER: &str = "EVERHOOK_TEST_POSTGRES";
/// What the names of the databases begin with, so that one that a killed test left behind is known as such.
const PREFIX: &str = "everhook_test";

/// The key that every node of a test seals its secrets with: base64 of 32 bytes.
pub const SEAL_KEY: &str = "dGhlIHNlYWxpbmcga2V5IG9mIGEgdGVzdCBub2RlISE=";

/// An empty database. It goes when this is dropped.
pub struct Database {
    server: Url,
    name: String,
}

impl Database {
    /// Makes one.
    ///
    /// # Panics
    /// If no server is named, or it cannot be used: there is no good test without one.
    pub async fn create() -> Self {
        let (server, name) = (server(), format!("{PREFIX}_{}", Uuid::now_v7().simple()));
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        // For the clients of tests. Nodes look there by themselves.
        execute(&server, &format!("ALTER DATABASE {name} SET search_path = everhook, public")).await;
        Self { server, name }
    }

    /// Its address, as settings and flags take it.
    pub fn url(&self) -> String {
        self.address().into()
    }

    /// The same, to be changed.
    pub fn address(&self) -> Url {
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

/// The server.
///
/// # Panics
/// If none is named.
pub fn server() -> Url {
    let url = env::var(SERVER)
        .unwrap_or_else(|_| panic!("this test needs a PostgreSQL server: name it in {SERVER}, or run `scripts/services up` first"));
    url.parse().unwrap_or_else(|_| panic!("{SERVER} should be like postgres://user@127.0.0.1:5432/postgres"))
}

/// Does what is left to do on the server when a test ends, on a thread of its own: the test's runtime may be busy ending.
///
/// # Panics
/// If the server does not do it, unless the test fails already: then it should fail for its own reason.
pub fn execute_apart(server: Url, sql: String) {
    let words = sql.clone();
    let doing = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(execute(&server, &sql));
    });
    if doing.join().is_err() && !thread::panicking() {
        panic!("the server did not do this: {words}");
    }
}

/// Has the server do something in a database.
///
/// # Panics
/// If it does not.
pub async fn execute(database: &Url, sql: &str) {
    let (client, connection) = tokio_postgres::connect(database.as_str(), NoTls).await.expect("the server answers");
    let connection = tokio::spawn(connection);
    client.batch_execute(sql).await.expect("the server does it");
    drop(client);
    connection.await.expect("no panic").expect("a clean end");
}
