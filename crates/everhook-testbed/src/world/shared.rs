//! The shared store under a world: the same scenarios, with PostgreSQL behind the ports.

use std::{env, sync::Arc};

use everhook_adapters::postgres::{PostgresSettings, PostgresStore};
use everhook_core::{
    model::{PoolName, Shard},
    ports::{Held, LeaseRequest, Leases as _, Roles},
};

use crate::database::Database;

/// The variable that says which store scenarios run on.
const STORE: &str = "EVERHOOK_TEST_STORE";

/// A store on a database of its own.
pub(super) struct SharedStore {
    pub(super) store: Arc<PostgresStore>,
    // Dropped last: the database goes with it.
    database: Database,
}

impl SharedStore {
    /// One, if the environment asks for it.
    pub(super) async fn if_asked_for() -> Option<Self> {
        if env::var(STORE).is_ok_and(|store| store == "postgres") { Some(Self::create().await) } else { None }
    }

    /// Whether a text is anywhere in the rows of any table, as text or as bytes.
    pub(super) async fn holds(&self, text: &str) -> bool {
        let (client, connection) = tokio_postgres::connect(&self.database.url(), tokio_postgres::NoTls).await.expect("the server answers");
        tokio::spawn(connection);
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let tables = client.query("SELECT tablename::text FROM pg_tables WHERE schemaname = 'everhook'", &[]).await.expect("a list");
        for table in tables {
            let table: String = table.get(0);
            let sql = format!("SELECT EXISTS (SELECT 1 FROM everhook.{table} t WHERE strpos(t::text, $1) > 0 OR strpos(t::text, $2) > 0)");
            if client.query_one(&sql, &[&text, &hex]).await.expect("an answer").get(0) {
                return true;
            }
        }
        false
    }

    /// The store writes outcomes only for a boot that it knows. The world's time is not the server's, so that its lease is never renewed; but nobody
    /// is there who could take anything of it.
    async fn create() -> Self {
        let database = Database::with_schema().await;
        let store = PostgresStore::open(&PostgresSettings { url: database.url(), node: "world".to_owned(), pool: PoolName::default() })
            .await
            .expect("the store opens");
        store.seal_with(super::wiring::vault());
        store.begin(Roles::ALL).await.expect("a boot begins");
        let request = LeaseRequest { shards_max: Shard::COUNT, duties: Held::EVERYTHING.duties };
        assert_eq!(store.take(request, Vec::new()).await.expect("the server answers"), Held::EVERYTHING);
        Self { store: Arc::new(store), database }
    }
}
