//! A database that a data folder is moved into: who may do that, and how far it is. Used by `moving`.
//!
//! Has a connection of its own, without the bounds and plans that are right for the line. How far the move of a table is, is written in the
//! transaction of its rows, so that a move that ends anywhere goes on from there.

use tokio_postgres::{Client, Transaction, types::Type};

use super::{
    OpenError,
    connect::Pools,
    fault::{Fault, Outcome},
    migrate, partitions,
};
use crate::system::system_time;

const SCHEMA_IS_THERE: &str = include_str!("queries/schema_is_there.sql");
const TAKE: &str = include_str!("queries/take_move.sql");
const FOREIGN_TABLE: &str = include_str!("queries/foreign_table.sql");
const LOCK_BOOTS: &str = include_str!("queries/lock_boots.sql");
const LIVE_BOOTS: &str = include_str!("queries/live_boots.sql");
const FOUND: &str = include_str!("queries/found_move.sql");
const BEGIN: &str = include_str!("queries/begin_move.sql");
const FINISH: &str = include_str!("queries/finish_move.sql");
const MOVED_TABLES: &str = include_str!("queries/moved_tables.sql");
const KEEP: &str = include_str!("queries/keep_moved_table.sql");
const KEEP_SEAL_KEY_ID: &str = include_str!("queries/keep_seal_key_id.sql");

/// A move reads and writes whole tables: nothing of it has a time limit.
const NO_BOUNDS: &str = "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";

/// A database that is moved into.
pub(crate) struct MovingIn {
    client: Client,
    /// Keeps others from moving something in: its transaction holds a lock for as long as it is open. Nodes do not run meanwhile, so that nobody minds an
    /// old transaction.
    guard: Option<Client>,
    pools: Pools,
}

/// A move that was begun before.
pub(crate) struct Found {
    /// Which folder, for people.
    pub(crate) source: String,
    /// What the folder's files looked like.
    pub(crate) fingerprint: Vec<u8>,
    /// Whether it is all here.
    pub(crate) is_finished: bool,
}

/// How far the move of a table is.
pub(crate) struct Part {
    /// The table.
    pub(crate) name: String,
    /// How many rows are here.
    pub(crate) rows: i64,
    /// The sum of their hashes.
    pub(crate) sum: Vec<u8>,
    /// The key of the last one.
    pub(crate) last_key: Vec<u8>,
}

impl MovingIn {
    /// Connects. Changes nothing.
    ///
    /// # Errors
    /// [`OpenError`] says what to do.
    pub(crate) async fn connect(url: &str) -> Result<Self, OpenError> {
        let pools = Pools::new(url)?;
        let client = connect(&pools).await?;
        Ok(Self { client, guard: None, pools })
    }

    /// The connection.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Whether nobody else is moving something in here, until this is dropped. In a database without tables there is nothing to take yet: asked again
    /// after they were [made](Self::prepare), it says which of several that made them goes on.
    pub(crate) async fn take(&mut self) -> Outcome<bool> {
        if self.guard.is_some() || !self.client.query_one(SCHEMA_IS_THERE, &[]).await?.try_get("is_there")? {
            return Ok(true);
        }
        let guard = connect(&self.pools).await?;
        guard.batch_execute("BEGIN").await?;
        let is_taken = guard.query_opt(TAKE, &[]).await?.is_some();
        self.guard = is_taken.then_some(guard);
        Ok(is_taken)
    }

    /// Which table is here that is not Everhook's, if Everhook's are not made yet.
    pub(crate) async fn foreign_table(&self) -> Outcome<Option<String>> {
        Ok(self.client.query_opt(FOREIGN_TABLE, &[]).await?.map(|row| row.try_get("name")).transpose()?)
    }

    /// The same as [`Self::lock`], with the schema up to date. What this transaction writes is there as soon as the schema is: a node waits for its
    /// end before it looks for either, and if it ends early there is neither.
    ///
    /// # Errors
    /// [`OpenError`] says what to do.
    pub(crate) async fn prepare(&mut self) -> Result<Transaction<'_>, OpenError> {
        let tx = self.client.transaction().await?;
        migrate::migrate_within(&tx, system_time()).await?;
        tx.query_one(LOCK_BOOTS, &[]).await?;
        Ok(tx)
    }

    /// Begins a transaction in which no node can begin its life.
    pub(crate) async fn lock(&mut self) -> Outcome<Transaction<'_>> {
        let tx = self.client.transaction().await?;
        tx.query_one(LOCK_BOOTS, &[]).await?;
        Ok(tx)
    }

    /// How far each table is.
    pub(crate) async fn parts(&self) -> Outcome<Vec<Part>> {
        let rows = self.client.query(MOVED_TABLES, &[]).await?;
        let part = |row: &tokio_postgres::Row| {
            Ok(Part {
                name: row.try_get("name")?,
                rows: row.try_get("rows")?,
                sum: row.try_get("sum")?,
                last_key: row.try_get("last_key")?,
            })
        };
        rows.iter().map(part).collect::<Result<_, tokio_postgres::Error>>().map_err(Fault::from)
    }

    /// The types of a statement's columns.
    pub(crate) async fn types(&self, sql: &str) -> Outcome<Vec<Type>> {
        Ok(self.client.prepare(sql).await?.columns().iter().map(|column| column.type_().clone()).collect())
    }

    /// Makes the partitions of some days.
    pub(crate) async fn make_days(&self, days: impl IntoIterator<Item = i64>) -> Outcome<()> {
        let mut connection = self.pools.history().await?;
        for day in days {
            partitions::make_day(&mut connection, day).await?;
        }
        Ok(())
    }
}

/// A connection without bounds.
async fn connect(pools: &Pools) -> Result<Client, tokio_postgres::Error> {
    let (client, arriving) = pools.connect_alone().await?;
    // Ends with the client; whatever it meets, the client's next statement meets too.
    tokio::spawn(arriving);
    client.batch_execute(NO_BOUNDS).await?;
    Ok(client)
}

/// The nodes that are alive.
pub(crate) async fn live_nodes(tx: &Transaction<'_>) -> Outcome<Vec<String>> {
    let rows = tx.query(LIVE_BOOTS, &[]).await?;
    rows.iter().map(|row| Ok(row.try_get("node")?)).collect()
}

/// The move that was begun before, if any.
pub(crate) async fn found(tx: &Transaction<'_>) -> Outcome<Option<Found>> {
    let Some(row) = tx.query_opt(FOUND, &[]).await? else { return Ok(None) };
    let is_finished = row.try_get::<_, Option<i64>>("finished_at")?.is_some();
    Ok(Some(Found { source: row.try_get("source")?, fingerprint: row.try_get("fingerprint")?, is_finished }))
}

/// Begins a move.
pub(crate) async fn begin(tx: &Transaction<'_>, source: &str, fingerprint: &[u8]) -> Outcome<()> {
    tx.execute(BEGIN, &[&source, &fingerprint, &system_time().as_micros()]).await?;
    Ok(())
}

/// Keeps the id of the key that secrets are sealed with, if none is kept yet, and says which is.
pub(crate) async fn keep_seal_key_id(tx: &Transaction<'_>, id: &str) -> Outcome<String> {
    Ok(tx.query_one(KEEP_SEAL_KEY_ID, &[&id]).await?.try_get("key_id")?)
}

/// Notes how far a table is, with the rows of this transaction.
pub(crate) async fn keep_part(tx: &Transaction<'_>, part: &Part) -> Outcome<()> {
    tx.execute(KEEP, &[&part.name, &part.rows, &part.sum, &part.last_key]).await?;
    Ok(())
}

/// Says that everything is here.
pub(crate) async fn finish(tx: &Transaction<'_>) -> Outcome<()> {
    tx.execute(FINISH, &[&system_time().as_micros()]).await?;
    Ok(())
}
