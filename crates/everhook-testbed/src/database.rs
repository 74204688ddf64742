//! A PostgreSQL database for one test, on the server that `EVERHOOK_TEST_POSTGRES` names. `scripts/services` starts one.
//!
//! The tests of the adapters, which must not depend on this crate, include the file as it is: it uses nothing else of the crate.

use std::{
    env,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    thread,
};

use everhook_adapters::postgres::{PostgresSettings, PostgresStore};
use everhook_core::model::PoolName;
use tokio_postgres::{Client, NoTls};
use url::Url;
use uuid::Uuid;

/// The variable that names the server.
const SERVER: &str = "EVERHOOK_TEST_POSTGRES";
/// What the names of the databases begin with, so that one that a killed test left behind is known as such.
const PREFIX: &str = "everhook_test";
/// What the template's name begins with. The rest says of which schema it is.
const TEMPLATE_PREFIX: &str = "everhook_template";
/// The schema of the template. What later migrations add is added when a store is opened on a copy.
const FIRST_MIGRATION: &str = include_str!("../../everhook-adapters/src/postgres/migrations/0001_create_tables.sql");
/// The advisory lock of whoever makes the template: tests that run at the same time wait for one of them.
const TEMPLATE_LOCK: i64 = 0x6576_6572_686f_6f6b;
/// An installation of its own for each copy: servers that tests share, like Redis, know them by it.
const NEW_INSTALLATION: &str = "UPDATE everhook.installation SET id = gen_random_uuid(), \
     hint_channel = 'everhook_' || replace(gen_random_uuid()::text, '-', '')";

/// The key that every node of a test seals its secrets with: base64 of 32 bytes.
pub const SEAL_KEY: &str = "dGhlIHNlYWxpbmcga2V5IG9mIGEgdGVzdCBub2RlISE=";

/// A database. It goes when this is dropped.
pub struct Database {
    server: Url,
    name: String,
}

impl Database {
    /// Makes an empty one, as an operator would for a first start.
    ///
    /// # Panics
    /// If no server is named, or it cannot be used: there is no good test without one.
    pub async fn create() -> Self {
        Self::create_from("template1").await
    }

    /// Makes one that a first start has been made on: a copy of one that is kept for this, because a copy takes a third of the time that making the
    /// tables takes.
    ///
    /// # Panics
    /// If no server is named, or it cannot be used.
    pub async fn with_schema() -> Self {
        let database = Self::create_from(&template().await).await;
        execute(&database.address(), NEW_INSTALLATION).await;
        database
    }

    async fn create_from(template: &str) -> Self {
        let (server, name) = (server(), format!("{PREFIX}_{}", Uuid::now_v7().simple()));
        let client = connect(&server).await;
        client.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {template}")).await.expect("the server makes a database");
        // For the clients of tests. Nodes look there by themselves.
        let path = format!("ALTER DATABASE {name} SET search_path = everhook, public");
        client.batch_execute(&path).await.expect("the server remembers it");
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

/// The name of the template on the server. The first test that asks for it makes it, under another name until it is complete.
async fn template() -> String {
    let mut hasher = DefaultHasher::new();
    FIRST_MIGRATION.hash(&mut hasher);
    let name = format!("{TEMPLATE_PREFIX}_{:016x}", hasher.finish());
    let server = server();
    let client = connect(&server).await;
    let is_there = "SELECT 1 FROM pg_database WHERE datname = $1";
    if client.query_opt(is_there, &[&name]).await.expect("the server answers").is_some() {
        return name;
    }
    client.query("SELECT pg_advisory_lock($1)", &[&TEMPLATE_LOCK]).await.expect("the server lets us have the turn");
    if client.query_opt(is_there, &[&name]).await.expect("the server answers").is_none() {
        make_template(&client, &server, &name).await;
    }
    // The turn ends with the connection.
    name
}

async fn make_template(client: &Client, server: &Url, name: &str) {
    let unfinished = format!("{name}_unfinished");
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {unfinished} WITH (FORCE)")).await.expect("no half template is left");
    client.batch_execute(&format!("CREATE DATABASE {unfinished}")).await.expect("the server makes a database");
    let mut address = server.clone();
    address.set_path(&unfinished);
    let settings = PostgresSettings { url: address.into(), node: "template".to_owned(), pool: PoolName::default() };
    drop(PostgresStore::open(&settings).await.expect("the schema is made"));
    // Whoever still has a connection to it would keep it from being renamed and copied.
    let end_connections = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1";
    client.query(end_connections, &[&unfinished]).await.expect("connections are ended");
    client.batch_execute(&format!("ALTER DATABASE {unfinished} RENAME TO {name}")).await.expect("the template has its name");
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

/// A connection that lasts as long as its client.
async fn connect(database: &Url) -> Client {
    let (client, connection) = tokio_postgres::connect(database.as_str(), NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client
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
