//! The shared store under a world: the same scenarios, with PostgreSQL behind the ports.

use std::{env, sync::Arc, thread};

use everhook_adapters::postgres::{PostgresSettings, PostgresStore};
use everhook_core::{
    model::{PoolName, Shard},
    ports::{Held, LeaseRequest, Leases as _, Roles},
    time::Timestamp,
};
use tokio_postgres::NoTls;

use crate::database::Database;

/// The variable that says which store scenarios run on.
const STORE: &str = "EVERHOOK_TEST_STORE";

/// What is overdue in the store, a sentence each, and what is held by nobody. `$1` is the present, and what was due before `$2` is overdue.
const OVERDUE: &str = "
    SELECT 'delivery ' || d.id || ' has waited in a lane that flows since ' || d.due_at || ', now is ' || $1::bigint
    FROM everhook.open_deliveries d
    JOIN everhook.lanes l USING (lane)
    LEFT JOIN everhook.endpoints e ON e.id = l.id
    LEFT JOIN everhook.circuit_breakers b ON b.endpoint_id = l.id
    WHERE d.stage = 0 AND d.due_at < $2::bigint AND e.paused_at IS NULL AND (b.stage IS NULL OR b.stage IN ('closed', 'forced_closed'))
    UNION ALL
    SELECT 'delivery ' || held.id || ' is held behind nothing'
    FROM everhook.open_deliveries held
    WHERE held.stage = 4 AND NOT EXISTS (
        SELECT 1 FROM everhook.open_deliveries before
        WHERE before.lane = held.lane AND before.order_key = held.order_key
          AND before.order_position < held.order_position AND before.stage IN (0, 5))
    UNION ALL
    SELECT 'delivery ' || id || ' is parked past its time' FROM everhook.open_deliveries WHERE stage = 5 AND expires_at < $2
    UNION ALL
    SELECT 'released deliveries that wait for ' || waits_for || ' were not looked at again' FROM everhook.releases WHERE look_at < $2
    UNION ALL
    SELECT 'alert ' || event_type || ' is still in the outbox' FROM everhook.pending_alerts
    UNION ALL
    SELECT 'approval ' || id || ' is decided, and what follows from it is not published' FROM everhook.approvals WHERE unpublished IS NOT NULL
    UNION ALL
    SELECT 'approval ' || id || ' waits although its time is over' FROM everhook.approvals WHERE status = 'pending' AND expires_at < $2
    UNION ALL
    SELECT kind || ' ' || id || ' is deleted, and its endpoints are not' FROM everhook.deletions
    UNION ALL
    SELECT 'operation ' || id || ' (' || kind || ') is ' || status || ' and ' || phase
    FROM everhook.operations
    WHERE phase <> 'over' AND coalesce(start_at, created_at) < $2
    UNION ALL
    SELECT 'shard ' || number || ' of the pool ' || pool || ' is held by a boot that is gone'
    FROM everhook.shards WHERE boot IS NOT NULL AND boot NOT IN (SELECT id FROM everhook.boots)
    UNION ALL
    SELECT 'the duty ' || name || ' is held by a boot that is gone'
    FROM everhook.duties WHERE boot IS NOT NULL AND boot NOT IN (SELECT id FROM everhook.boots)";

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
        let (client, connection) = tokio_postgres::connect(&self.database.url(), NoTls).await.expect("the server answers");
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

    /// What should have been done by now and was not, a sentence each. Asked while a world is dropped, on whatever runtime that is: a thread of its own waits.
    pub(super) fn leftovers(&self, now: Timestamp, overdue: Timestamp) -> Vec<String> {
        let url = self.database.url();
        let look = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("the server answers");
                tokio::spawn(connection);
                let rows = client.query(OVERDUE, &[&now.as_micros(), &overdue.as_micros()]).await.expect("the statement fits the tables");
                rows.iter().map(|row| row.get(0)).collect()
            })
        };
        thread::spawn(look).join().expect("the store can be read")
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
