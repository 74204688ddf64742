//! How connections are set up. Every setting here was measured or is a promise; see the comment of each.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use super::OpenError;

const IS_EMPTY: &str = include_str!("queries/file_is_empty.sql");

/// 4 KiB pages. Each commit logs whole pages, and most of them for a few rows: in a sketch of the tables, 8 KiB
/// logged two fifths more with ten endpoints. Payloads, which are too large for small pages, are in a table with a rowid, whose leaves they fill.
const PAGE_BYTES: i64 = 4 * 1024;
/// Pages in the log before a commit moves into the file what `checkpointer` has left of them: 32 MiB. A larger log makes readers slower and a restart longer, a smaller one
/// moves the same pages again and again.
pub(super) const CHECKPOINT_PAGES: i64 = 8_000;
/// The log is cut back to this size after a burst.
const LOG_BYTES_MAX: i64 = 64 * 1024 * 1024;
/// The page caches, in KiB (negative, as SQLite counts them). They grow with use: an idle server has almost none. The writer works at the ends of
/// its trees: with four times as much it took about 5 % more processor time, even for a thousand endpoints.
const WRITER_CACHE: i64 = -8 * 1024;
const READER_CACHE: i64 = -4 * 1024;
/// Every statement of the store stays prepared.
const STATEMENTS_MAX: usize = 128;
/// How long a connection waits for a lock. Only opening and closing ever contend for one.
pub(super) const BUSY_FOR: Duration = Duration::from_secs(5);

/// Opens the connection that writes. Makes the file if need be, and marks it; one with another mark is not touched.
pub(crate) fn writer(database: &Path, application_id: i32) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    let is_new = is_new(&connection, application_id).map_err(|error| of_foreign(error, database))?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    // Before anything is in the file, or it means nothing: pages that hold nothing can be given back to the file system, a few at a time, when retention says
    // so. It costs a page of pointers for each thousand pages.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // An accepted event is on disk: FULL flushes the log at every commit, NORMAL would only flush it at checkpoints.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_MAX)?;
    connection.pragma_update(None, "cache_size", WRITER_CACHE)?;
    // What is moved within the file leaves no copy that an erasure would miss. FAST clears what is being written in any case, so that it costs a few
    // nanoseconds a row and no page; erasing itself asks for more.
    connection.pragma_update(None, "secure_delete", "FAST")?;
    common(&connection)?;
    secure(&connection)?;
    if is_new {
        connection.pragma_update(None, "application_id", application_id)?;
    }
    Ok(connection)
}

/// Whether nothing is in the file yet. A first start that was killed may have left it marked and empty, or neither.
///
/// # Errors
/// [`ForeignFile`] if somebody else made it, or it cannot be read.
fn is_new(connection: &Connection, application_id: i32) -> Result<bool, ForeignFile> {
    let found: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if found == application_id {
        return Ok(false);
    }
    let is_empty: bool = connection.query_row(IS_EMPTY, [], |row| row.get(0))?;
    if found == 0 && is_empty { Ok(true) } else { Err(ForeignFile::OtherApplication) }
}

/// Why a file is not ours.
enum ForeignFile {
    OtherApplication,
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for ForeignFile {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn of_foreign(foreignness: ForeignFile, database: &Path) -> OpenError {
    let foreign = |what| OpenError::Foreign { path: database.to_owned(), what };
    match foreignness {
        ForeignFile::OtherApplication => foreign("is a SQLite database of another application"),
        ForeignFile::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => foreign("is not a SQLite database"),
        ForeignFile::Sqlite(error) => error.into(),
    }
}

/// Flushes what the log holds before anybody builds on it. A process that was killed between writing a commit and flushing it leaves one that the next
/// process reads as if it were safe, and that a power cut would still take back. Moving the log into the file flushes it first, so that a disk
/// that is too full for the move does no harm.
fn secure(connection: &Connection) -> rusqlite::Result<()> {
    match connection.pragma(None, "wal_checkpoint", "PASSIVE", |_| Ok(())) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => Ok(()),
        other => other,
    }
}

/// Opens a connection that only reads.
pub(super) fn reader(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.pragma_update(None, "cache_size", READER_CACHE)?;
    common(&connection)?;
    Ok(connection)
}

/// Opens the connection that moves the log into the file.
pub(super) fn checkpointer(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    // What is moved is flushed before the log is written from its beginning again.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Whoever moves the log already does what is wanted.
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}

fn common(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "foreign_keys", "OFF")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Otherwise a statement is compiled again whenever the number bound to its LIMIT changes.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.busy_timeout(BUSY_FOR)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(())
}
