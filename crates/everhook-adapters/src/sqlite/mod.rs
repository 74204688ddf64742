//! The embedded store: one SQLite file behind all ports of a store (`StorePorts` lists them).
//!
//! Read it in this order:
//! * `writer`, `group_commit`, `job`, `transaction`: everything that waits is written in one transaction and answered after its commit.
//! * `checkpointer`: moves the log into the file, beside the writer.
//! * `readers`, `turn`: reads have connections of their own, and those of `history` have others than those that deliveries wait for.
//! * `event_store`, `fan_out`, `erasing`, `delivery_queue`, `delivery_control`, `settling`, `parking`, `replaying`, `ordering`, `breakers`, `directory`, `audit_log`, `history`, `statistics`,
//!   `operations`, `retention`: the ports. One port call is one transaction, but for what `finishing` completes in several.
//! * `moving_out`: a data folder at rest, to be read by whoever moves it; see `moving` beside this folder.
//! * `rows`, `page`, and `encoding` beside this folder: how values are written and read back.
//! * `queries`, `migrations`: all SQL, one statement a file.
//!
//! The writer, the folder and what they are made of also carry the `spool`, which has a file of its own.
//!
//! Nothing here decides what happens to a delivery; stages come in as values.

mod alert_signals;
mod alerts;
mod app_health;
mod audit_log;
mod breakers;
mod call_records;
pub(crate) mod checkpointer;
pub(crate) mod connect;
mod delivery_control;
mod delivery_queue;
mod directory;
mod endpoint_health;
mod erasing;
mod event_store;
mod fan_out;
pub(crate) mod fault;
mod finishing;
pub(crate) mod folder;
pub(crate) mod group_commit;
mod health;
mod history;
mod job;
mod jobs;
pub(crate) mod migrate;
mod moving_out;
mod operations;
mod ordering;
mod outbox;
mod page;
mod parking;
mod readers;
mod replaying;
mod resealing;
mod retention;
mod rollups;
pub(crate) mod rows;
mod sealing;
mod settling;
mod source_rollups;
mod statistics;
mod store_measurements;
pub(crate) mod transaction;
mod turn;
pub(crate) mod writer;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use everhook_core::{
    model::Sealing,
    ports::{StoreError, Stored, Vault},
    time::Timestamp,
};
use rusqlite::{Connection, params};
use tokio::sync::watch;

use crate::{
    encoding::{
        breaker_json, limits_json,
        payload::{self, Seals},
        response_headers, schedule_json, selection_json, spelling,
    },
    system::system_time,
};

pub(crate) use self::moving_out::MovingOut;
use self::{
    checkpointer::Checkpointer, fault::Outcome, folder::Folder, group_commit::GroupCommit, readers::Readers, transaction::Tx,
    writer::Writer,
};

const KEEP_SEAL_KEY_ID: &str = include_str!("queries/keep_seal_key_id.sql");
const FORGET_KEYS: &str = include_str!("queries/forget_idempotency_keys.sql");

/// The name of the database's file in the data folder.
pub const DATABASE_FILE: &str = "everhook.db";

/// What the header of the file says about who made it (`PRAGMA application_id`): the letters "EvHk".
const APPLICATION_ID: i32 = 0x4576_486B;

/// Where the store is, and how it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteSettings {
    /// The data folder. Made if it is not there; held by one process at a time.
    pub data: PathBuf,
    /// Who writes.
    pub mode: WriterMode,
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterMode {
    /// A thread that gathers the writes of all tasks into one commit. Reads have threads too.
    Thread,
    /// The calling task, at once, reads included: for a simulation in one thread, where the same seed must give the same run.
    Inline,
}

/// Why the store could not be opened, in words for the one who starts the server.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be made or written to.
    #[error("cannot use the data folder {}", path.display())]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it.
    #[error("the data folder {} is in use by another everhook process", path.display())]
    InUse {
        /// Which folder.
        path: PathBuf,
    },
    /// The file was lost or emptied, and what lies beside it says that there was a store.
    #[error(
        "{} is {how}, but {beside} beside it belongs to an existing store: restore the file from a backup, together with the files beside it. To start with an empty store instead, move both away",
        path.display()
    )]
    Lost {
        /// Which file.
        path: PathBuf,
        /// Whether it is missing or empty.
        how: &'static str,
        /// The file that gives it away.
        beside: String,
    },
    /// The file is somebody else's.
    #[error("{} {what}: name another folder, or move the file away; it was not changed", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// The file is from the future.
    #[error("this file was written by a newer Everhook (schema {found}, this binary knows {known}): use that version or newer")]
    TooNew {
        /// The file's version.
        found: i64,
        /// The newest version that this binary knows.
        known: i64,
    },
    /// The file's schema was made by other statements than those that this binary knows under the same number.
    #[error(
        "the file's schema {version} is not the one that this binary knows by that number: it was made by a build that was never released"
    )]
    ChangedMigration {
        /// Which migration differs.
        version: i64,
    },
    /// There is nothing to move.
    #[error("{} does not contain an Everhook store: name the folder that was passed to `everhook serve --data`", path.display())]
    NoStore {
        /// Which folder.
        path: PathBuf,
    },
    /// The file is from the past, and is only to be read.
    #[error(
        "this file was written by an older Everhook (schema {found}, this binary knows {known}): start `everhook serve` of this version on the folder once, which migrates it, and stop it"
    )]
    TooOld {
        /// The file's version.
        found: i64,
        /// The version that this binary knows.
        known: i64,
    },
    /// The file holds work that only a start of the server completes.
    #[error(
        "the server was killed while it made the deliveries of a large event, or erased one: start `everhook serve` on the folder once, which \
         completes that, and stop it"
    )]
    HalfDone,
    /// The file is damaged.
    #[error(
        "the database file {} is damaged: restore a backup. Move the folder away, put the copy of the file into an empty folder as `{}` with the key beside \
         it as `seal.key`, and start with `--data` on that folder (docs/operating.md, Backup and restore)",
        path.display(),
        path.file_name().unwrap_or_default().display()
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file cannot be read or brought up to date.
    #[error("cannot open the database file")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system gives no more threads.
    #[error("cannot start a thread of the store")]
    Thread(#[source] io::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

impl OpenError {
    /// The same with the file's name, if it is damaged.
    pub(crate) fn of_file(self, path: &Path) -> Self {
        match self {
            Self::Database(source) if source.downcast_ref::<rusqlite::Error>().is_some_and(is_damage) => {
                Self::Damaged { path: path.to_owned(), source }
            }
            other => other,
        }
    }
}

/// Whether the library found what it cannot have written.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase))
}

/// The embedded store. Dropping it finishes what waits and gives the folder free.
pub struct SqliteStore {
    // Dropped in this order: readers end, then the writer empties its queue and the log.
    readers: Option<ReaderPools>,
    writer: Arc<Writer>,
    broken: watch::Receiver<bool>,
    /// Where the next look for deliveries that are held behind nothing goes on.
    look_from: Mutex<Option<ordering::OrderKey>>,
    /// What opens events' data that is sealed.
    seals: Seals,
}

impl SqliteStore {
    /// Takes the folder, brings the file up to date and completes what a crash left half made. Blocks for a few milliseconds.
    ///
    /// # Errors
    /// [`OpenError`] says what to do.
    pub fn open(settings: SqliteSettings) -> Result<Self, OpenError> {
        let folder = Folder::take(&settings.data, DATABASE_FILE)?;
        let connection = Self::open_file(folder.database()).map_err(|error| error.of_file(folder.database()))?;
        let (breaks, broken) = watch::channel(false);
        let readers = match settings.mode {
            WriterMode::Thread => Some(ReaderPools::new(folder.database())),
            WriterMode::Inline => None,
        };
        let checkpointer = match settings.mode {
            WriterMode::Thread => Some(Checkpointer::start(folder.database(), breaks.clone())?),
            WriterMode::Inline => None,
        };
        let writer = Arc::new(Writer::start(folder, GroupCommit::new(connection, breaks), settings.mode, checkpointer)?);
        Ok(Self { readers, writer, broken, look_from: Mutex::default(), seals: Seals::default() })
    }

    /// Opens the file, brings it up to date, and completes what a crash left half made.
    fn open_file(database: &Path) -> Result<rusqlite::Connection, OpenError> {
        let connection = connect::writer(database, APPLICATION_ID)?;
        migrate::migrate(&connection, system_time())?;
        let resumed = fan_out::resume_all(&connection).and_then(|()| erasing::resume_all(&connection));
        match resumed {
            Ok(()) => Ok(connection),
            Err(fault::Fault::Sqlite(error)) => Err(error.into()),
            Err(fault) => Err(OpenError::Database(fault.to_store_error().into())),
        }
    }

    /// Seals and opens events' data with this vault from now on; without one, what is to be sealed is not recorded. The first one stays.
    pub fn seal_with(&self, vault: Arc<dyn Vault>) {
        self.seals.set(vault);
    }

    /// Returns once the disk has failed to keep what was written. From then on every write is refused: end the process, a restart recovers.
    pub async fn broken(&self) {
        group_commit::broken(self.broken.clone()).await;
    }

    /// Keeps the id of the key that secrets are sealed with, if none is kept yet, and says which is.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the file cannot be written.
    pub async fn keep_seal_key_id(&self, id: &str) -> Result<String, StoreError> {
        let id = id.to_owned();
        self.write(1, move |tx| Ok(tx.prepare(KEEP_SEAL_KEY_ID)?.query_row([&id], |row| row.get(0))?)).await
    }

    /// Forgets at most `limit` idempotency keys that were given before the instant, oldest first, and says how many. Fewer than the limit
    /// means that none are left.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was forgotten, as far as is known.
    pub async fn forget_keys(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let forget = move |tx: &mut Tx<'_>| {
            let forgotten = tx.prepare(FORGET_KEYS)?.execute(params![before.as_micros(), limit])?;
            Ok(u32::try_from(forgotten).unwrap_or(u32::MAX))
        };
        self.write(limit as usize, forget).await
    }

    /// Runs `work` in a transaction; see [`Writer::write`].
    async fn write<T, F>(&self, rows: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Outcome<T> + Send + 'static,
    {
        self.writer.write(rows, work).await
    }

    /// Runs `work` on a connection that sees everything committed so far. For the quick reads that deliveries wait for.
    async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.line.read(work).await,
            None => self.writer.read_inline(work).map_err(|fault| fault.to_store_error()),
        }
    }

    /// The same for a look at what happened, which may scan many rows: no delivery waits behind it.
    async fn read_history<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.history.read(work).await,
            None => self.writer.read_inline(work).map_err(|fault| fault.to_store_error()),
        }
    }
}

/// How sealing stands in a folder, while no server runs on it; `None` if it does not say.
///
/// # Errors
/// [`OpenError`] says why the folder cannot be read.
pub fn sealing_at_rest(folder: &Path) -> Result<Option<Sealing>, OpenError> {
    Ok(sealing::read_sealing(MovingOut::open(folder)?.connection())?)
}

/// What a folder keeps, while no server runs on it.
///
/// # Errors
/// [`OpenError`] says why the folder cannot be read.
pub fn stored_at_rest(folder: &Path) -> Result<Stored, OpenError> {
    match retention::stored::read_stored(MovingOut::open(folder)?.connection()) {
        Ok(stored) => Ok(stored),
        Err(fault::Fault::Sqlite(error)) => Err(error.into()),
        Err(fault) => Err(OpenError::Database(fault.to_store_error().into())),
    }
}

/// Who reads, where reads have threads.
struct ReaderPools {
    line: Readers,
    history: Readers,
}

impl ReaderPools {
    fn new(database: &Path) -> Self {
        Self {
            line: Readers::new("sqlite-line", readers::LINE, database),
            history: Readers::new("sqlite-history", readers::HISTORY, database),
        }
    }
}
