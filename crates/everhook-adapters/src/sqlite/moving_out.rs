//! A data folder at rest: held so that no server runs on it, and read without a change to any of its files. Opened by `moving`, for as long as a
//! move takes.
//!
//! Even a reader of SQLite makes files beside a database that has a log, and the last one to close may move the log into the file. Neither happens here.
//! Without a log the file is opened as one that cannot change. With one, the index of the log is kept in memory, which SQLite does for a connection
//! that locks everybody else out.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use aws_lc_rs::digest::{Context, SHA256};
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use url::Url;
use uuid::Uuid;

use super::{OpenError, connect::BUSY_FOR, folder::Folder, migrate};

const NEWEST_BEFORE: &str = include_str!("queries/newest_before.sql");
const IS_HALF_DONE: &str = include_str!("queries/is_half_done.sql");

/// What SQLite adds to the name of a database for its log.
const LOG_SUFFIX: &str = "-wal";
/// How much of a file is part of its fingerprint: the headers of a database and of a log are in it.
const HEAD_BYTES: u64 = 4 * 1024;
/// The page cache, in KiB (negative, as SQLite counts them): tables are read once, from one end to the other.
const CACHE: i64 = -16 * 1024;

/// A folder that is held and read, and stays as it is.
pub(crate) struct MovingOut {
    // Closed before the folder is given free.
    connection: Connection,
    fingerprint: Vec<u8>,
    folder: Folder,
}

impl MovingOut {
    /// Takes the folder.
    ///
    /// # Errors
    /// [`OpenError`] says what to do; nothing was changed.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let folder = Folder::take_as_it_is(path, super::DATABASE_FILE)?;
        let database = folder.database();
        let log = log_of(database);
        let has_log = log.metadata().is_ok_and(|log| log.len() > 0);
        let connection = if has_log { open_with_log(database)? } else { open_without_log(database)? };
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", CACHE)?;
        migrate::check(&connection)?;
        if connection.query_row(IS_HALF_DONE, [], |row| row.get(0))? {
            return Err(OpenError::HalfDone);
        }
        let unusable = |source| OpenError::Folder { path: path.to_owned(), source };
        let fingerprint = fingerprint(database, has_log.then_some(&*log)).map_err(unusable)?;
        Ok(Self { connection, fingerprint, folder })
    }

    /// The store's file, to read from.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The newest event or delivery before an id.
    pub(crate) fn newest_before(&self, id: Uuid) -> rusqlite::Result<Option<Uuid>> {
        self.connection.query_row(NEWEST_BEFORE, [id.as_bytes()], |row| Ok(row.get::<_, Option<[u8; 16]>>(0)?.map(Uuid::from_bytes)))
    }

    /// What the files look like: another value after anything was written.
    pub(crate) fn fingerprint(&self) -> &[u8] {
        &self.fingerprint
    }

    /// Where the folder is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

pub(super) fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(LOG_SUFFIX);
    name.into()
}

/// The folder is ours, so that the file cannot change: SQLite needs neither locks nor files of its own then.
fn open_without_log(database: &Path) -> Result<Connection, OpenError> {
    let mut url = Url::from_file_path(database).expect("the folder's path is absolute");
    url.set_query(Some("immutable=1"));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(url.as_str(), flags)?)
}

/// Alone with the file, and without moving the log when it is closed. The lock is one for writing, which is why the file is opened for that.
fn open_with_log(database: &Path) -> Result<Connection, OpenError> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_FOR)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    Ok(connection)
}

/// A write in between changes the length of a file, its head, or at least when it was written.
fn fingerprint(database: &Path, log: Option<&Path>) -> io::Result<Vec<u8>> {
    let mut hash = Context::new(&SHA256);
    for file in [Some(database), log].into_iter().flatten() {
        let facts = fs::metadata(file)?;
        let written = facts.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        hash.update(&facts.len().to_le_bytes());
        hash.update(&written.as_nanos().to_le_bytes());
        let mut head = Vec::new();
        File::open(file)?.take(HEAD_BYTES).read_to_end(&mut head)?;
        hash.update(&head);
    }
    Ok(hash.finish().as_ref().to_vec())
}
