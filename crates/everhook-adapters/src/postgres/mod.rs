//! The shared store: PostgreSQL behind the same ports as the embedded store, for several nodes at once.
//!
//! Read it in this order:
//! * `connect`, `tls`, `migrate`, `reader`, `transaction`, `pipeline`, `collisions`, `fault`: connections of four pools, single
//!   reads, transactions and their locks.
//! * `recorder`, `aside`, `event_store`, `keys`, `sequences`, `making`: what is published at one moment becomes one transaction of a few statements over arrays.
//! * `delivery_queue`, `delivery_control`, `lanes`, `settling`, `settlement_columns`, `ordering`, `replaying`: where deliveries wait, and how they end. One port
//!   call is one transaction.
//! * `erasing`, `retention`: how the data of events ends, and everything else that is old.
//! * `leases`, `changes`, `hints`, `budgets`, `partitions`: what nodes owe each other, and the tables of each day.
//! * `moving_in`: a data folder that comes in here; see `moving` beside this folder.
//! * `breakers`, `outbox`, `directory`, `audit_log`, `history`, `statistics`, `operations`: the other ports.
//! * `rows`, `page`, and `encoding` beside this folder: how values are written and read back.
//! * `queries`, `migrations`: all SQL, one statement a file, under the names that the embedded store has for them.
//!
//! Nothing here decides what happens to a delivery; stages come in as values. Time is a parameter.

mod alert_signals;
mod alerts;
mod app_health;
mod aside;
mod audit_log;
mod breaker_votes;
mod breakers;
mod budgets;
mod call_records;
mod changes;
mod collisions;
mod connect;
mod delivery_control;
mod delivery_queue;
mod directory;
mod endpoint_health;
mod erasing;
mod event_columns;
mod event_store;
mod fault;
mod health;
mod hints;
mod history;
mod jobs;
mod keys;
mod lanes;
mod leases;
mod making;
mod migrate;
pub(crate) mod moving_in;
mod operations;
mod ordering;
mod outbox;
mod page;
mod parking;
mod partitions;
mod pipeline;
mod reader;
mod recorder;
mod replaying;
mod resealing;
mod retention;
mod rollups;
mod rows;
mod sealing;
mod sequences;
mod settlement_columns;
mod settling;
mod source_rollups;
mod statistics;
mod store_measurements;
mod tls;
mod transaction;

use std::sync::{Arc, Mutex};

use everhook_core::{
    model::PoolName,
    ports::{Leases as _, Roles, StoreError, Vault},
    time::Timestamp,
};
use uuid::Uuid;

pub use self::hints::PostgresHints;
use self::{
    connect::{Connection, Pools},
    event_store::Recording,
    fault::Outcome,
    lanes::LaneNumbers,
    leases::Boot,
    reader::Reader,
    recorder::Recorder,
    rows::Columns as _,
    settling::NodeNumbers,
    tls::Address,
};
pub(crate) use self::{
    fault::Fault,
    partitions::{day_of_id, first_id},
};

use crate::{encoding::payload::Seals, system::system_time};

const KEEP_SEAL_KEY_ID: &str = include_str!("queries/keep_seal_key_id.sql");
const INSTALLATION: &str = include_str!("queries/installation.sql");
const FINISHED_MOVE: &str = include_str!("queries/finished_move.sql");
const UNFINISHED_MOVE: &str = include_str!("queries/unfinished_move.sql");
const FORGET_KEYS: &str = include_str!("queries/forget_idempotency_keys.sql");

/// Where the store is.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// The address: `postgres://user:password@host:port/database`. It may hold a password, and is never shown.
    pub url: String,
    /// How this node calls itself.
    pub node: String,
    /// The worker pool that it belongs to.
    pub pool: PoolName,
}

/// Why the store could not be opened, in words for the one who starts the server.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be read.
    #[error(
        "invalid database address: expected postgres://user:password@host:5432/database, with `@`, `/`, `?`, `#` and `%` in the password percent-encoded (`@` as %40)"
    )]
    Url(#[source] tokio_postgres::Error),
    /// It can be read, and cannot be meant.
    #[error("the database address {0}")]
    Address(&'static str),
    /// A file that it names cannot be used.
    #[error("cannot use the file {path} of `sslrootcert`: {why}")]
    RootCertificates {
        /// Which file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// Texts of events would not fit into it.
    #[error("its encoding is {found}, but must be UTF8: create another database with `ENCODING 'UTF8' TEMPLATE template0`")]
    Encoding {
        /// The encoding that it has.
        found: String,
    },
    /// The database is from the future.
    #[error("this database was written by a newer Everhook (schema {found}, this binary knows {known}): use that version or newer")]
    TooNew {
        /// The database's version.
        found: i64,
        /// The newest version that this binary knows.
        known: i64,
    },
    /// The schema was made by other statements than those that this binary knows under the same number.
    #[error(
        "the database's schema {version} is not the one that this binary knows by that number: it was made by a build that was never released"
    )]
    ChangedMigration {
        /// Which migration differs.
        version: i64,
    },
    /// A data folder is only half in it.
    #[error(
        "{folder} is not completely copied into this database: if the migration is running, wait until it has ended; otherwise run `everhook migrate` with the same folder and database again to continue, or create a new database"
    )]
    UnfinishedMove {
        /// Which folder.
        folder: String,
    },
    /// The server cannot be reached, or is not ready: waiting may help.
    #[error("cannot reach PostgreSQL: {0}")]
    Away(String),
    /// The server is there and turns this node away: a person must act.
    #[error("PostgreSQL refuses: {0}")]
    Refused(String),
}

impl From<tokio_postgres::Error> for OpenError {
    fn from(error: tokio_postgres::Error) -> Self {
        Fault::from(error).into()
    }
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        match &fault {
            Fault::Postgres(error) if fault::is_refusal(error) => Self::Refused(fault.describe()),
            Fault::Impossible(_) => Self::Refused(fault.describe()),
            _ => Self::Away(fault.describe()),
        }
    }
}

/// Reads an address without connecting, and says where it leads, for people: `host:port/database`. Never who connects, nor by which password.
///
/// # Errors
/// [`OpenError`] says what is wrong with it.
pub fn place(url: &str) -> Result<String, OpenError> {
    Ok(Address::parse(url)?.place())
}

/// The shared store. Cheap to open several times: nodes know nothing of each other but what is in it.
pub struct PostgresStore {
    pools: Pools,
    lanes: Arc<LaneNumbers>,
    recorder: Recorder,
    /// What opens events' data that is sealed.
    seals: Seals,
    nodes: NodeNumbers,
    /// The node's name, for people who look into the table of boots.
    node: String,
    /// The worker pool that the node belongs to: it sees the lanes of this one.
    pool: String,
    boot: Boot,
    /// By what this process holds slots.
    holder: Uuid,
    /// Where the next look for deliveries that are held behind nothing goes on.
    look_from: Mutex<Option<ordering::OrderKey>>,
}

impl PostgresStore {
    /// Connects, and brings the schema up to date.
    ///
    /// # Errors
    /// [`OpenError`] says what to do.
    pub async fn open(settings: &PostgresSettings) -> Result<Self, OpenError> {
        let store = Self::unopened(settings)?;
        let mut connection = store.pools.line().await?;
        migrate::migrate(&mut connection, system_time()).await?;
        drop(connection);
        store.refuse_half_moved().await?;
        Ok(store)
    }

    /// Connects to look at what is there. Nothing is brought up to date, and nothing should be written through it.
    ///
    /// # Errors
    /// [`OpenError`] says what to do.
    pub async fn look(settings: &PostgresSettings) -> Result<Self, OpenError> {
        let store = Self::unopened(settings)?;
        drop(store.pools.line().await?);
        Ok(store)
    }

    /// Fails if a data folder is only half in the database.
    ///
    /// # Errors
    /// [`OpenError::UnfinishedMove`] then; or the server cannot be asked.
    pub async fn refuse_half_moved(&self) -> Result<(), OpenError> {
        match self.line_reader().await?.query_opt(UNFINISHED_MOVE, &[]).await? {
            Some(row) => Err(OpenError::UnfinishedMove { folder: row.value("source")? }),
            None => Ok(()),
        }
    }

    /// Says that a node is about to start here, before it writes anything: whoever wants to move a data folder in sees it from now on, for as long as
    /// a lease is good, and one that was quicker is seen by the node. The lease that the node lives by begins later, and ends this one.
    ///
    /// # Errors
    /// [`OpenError::UnfinishedMove`] if a move was quicker; or the server cannot be asked.
    pub async fn announce(&self) -> Result<(), OpenError> {
        match self.begin(Roles { worker: false, scheduler: false }).await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.refuse_half_moved().await?;
                Err(OpenError::Away(error.to_string()))
            }
        }
    }

    /// The store of a server that is away: whatever is asked of it fails, also when the server is back, because nobody has looked then whether this node
    /// may use it.
    ///
    /// # Errors
    /// [`OpenError::Url`] if the address cannot be read.
    pub fn absent(settings: &PostgresSettings) -> Result<Self, OpenError> {
        let store = Self::unopened(settings)?;
        store.pools.close();
        Ok(store)
    }

    fn unopened(settings: &PostgresSettings) -> Result<Self, OpenError> {
        let pools = Pools::new(&settings.url)?;
        let lanes = Arc::new(LaneNumbers::default());
        let seals = Seals::default();
        let recorder = Recorder::start(Arc::new(Recording::new(pools.clone(), lanes.clone(), seals.clone())), seals.clone());
        Ok(Self {
            pools,
            lanes,
            recorder,
            seals,
            nodes: NodeNumbers::default(),
            node: settings.node.clone(),
            pool: settings.pool.to_string(),
            boot: Boot::default(),
            holder: Uuid::now_v7(),
            look_from: Mutex::default(),
        })
    }

    /// Seals and opens events' data with this vault from now on; without one, what is to be sealed is not recorded. The first one stays.
    pub fn seal_with(&self, vault: Arc<dyn Vault>) {
        self.seals.set(vault);
    }

    /// Hints to and from the other nodes that use this database.
    pub fn hints(&self) -> PostgresHints {
        PostgresHints::start(self.pools.clone())
    }

    /// Which installation this is: the same for all nodes that use this database, and for no others.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server cannot be asked.
    pub async fn installation(&self) -> Result<Uuid, StoreError> {
        Ok(self.reader().await?.query_one(INSTALLATION, &[]).await?.value("id")?)
    }

    /// Whether a data folder was moved in here.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server cannot be asked.
    pub async fn was_moved_in(&self) -> Result<bool, StoreError> {
        Ok(self.reader().await?.query_one(FINISHED_MOVE, &[]).await?.value("is_there")?)
    }

    /// Keeps the id of the key that secrets are sealed with, if none is kept yet, and says which is.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server cannot be asked.
    pub async fn keep_seal_key_id(&self, id: &str) -> Result<String, StoreError> {
        Ok(self.reader().await?.query_one(KEEP_SEAL_KEY_ID, &[&id]).await?.value("key_id")?)
    }

    /// Forgets at most `limit` idempotency keys that were given before the instant, oldest first, and says how many. Fewer than the limit
    /// means that none are left.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was forgotten, as far as is known.
    pub async fn forget_keys(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let forgotten = self.line_reader().await?.execute(FORGET_KEYS, &[&before.as_micros(), &i64::from(limit)]).await?;
        Ok(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }

    /// Waits for one of the server's answers, if anything is being asked of it at this moment, and says whether anything is. For tests that must know when
    /// nothing is under way any more: it may return before the answer.
    pub async fn wait_while_busy(&self) -> bool {
        self.pools.wait_while_busy().await
    }

    /// A connection for a quick read that deliveries wait for.
    async fn line_reader(&self) -> Outcome<Reader> {
        Ok(Reader::new(self.pools.line().await?))
    }

    /// A connection for a statement of the lease.
    async fn lease_reader(&self) -> Outcome<Reader> {
        Ok(Reader::new(self.pools.lease().await?))
    }

    /// A connection for a read that people asked for: no delivery waits behind it.
    async fn reader(&self) -> Outcome<Reader> {
        Ok(Reader::new(self.pools.history().await?))
    }

    /// A connection for a change or a snapshot that people asked for.
    async fn connection(&self) -> Outcome<Connection> {
        self.pools.history().await
    }
}
