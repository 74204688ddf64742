//! Moves the log into the file beside the writer, on a thread and a connection of its own.
//!
//! The commit that finds the log full moves it before it is answered, and with a full log that takes as long as hundreds of other commits: whoever publishes
//! then waits. This thread has moved most of it by then, so that little is left for that commit. It never makes a commit wait: writers and it share no lock.
//!
//! The writer alone would do, and does where this thread cannot: nothing depends on it but time.

use std::{
    path::Path,
    sync::mpsc::{self, Receiver, SyncSender},
    thread::JoinHandle,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, ffi};
use tokio::sync::watch;

use super::{OpenError, connect};

/// From how many pages in the log on they are moved: three quarters of what the writer waits for.
const BEGIN_AT_PAGES: i64 = connect::CHECKPOINT_PAGES * 3 / 4;
/// How long it rests after each look. What the writer logs meanwhile is left to the writer's own checkpoint.
const REST_FOR: Duration = Duration::from_millis(20);

/// The thread, as the writer sees it. Dropping it joins the thread, which ends once nobody can commit any more.
pub(crate) struct Checkpointer {
    commits: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Says that something was committed.
#[derive(Clone)]
pub(crate) struct CommitSignal(SyncSender<()>);

impl CommitSignal {
    /// Costs next to nothing, and never waits.
    pub(super) fn send(&self) {
        // A signal that waits already says the same.
        let _ = self.0.try_send(());
    }
}

impl Checkpointer {
    /// Starts the thread. `broken` is set if the disk fails to keep what was moved.
    pub(super) fn start(database: &Path, broken: watch::Sender<bool>) -> Result<Self, OpenError> {
        let connection = connect::checkpointer(database)?;
        let (commits, signals) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("sqlite-checkpoint".to_owned())
            .spawn(move || run(&connection, &signals, &broken))
            .map_err(OpenError::Thread)?;
        Ok(Self { commits: Some(commits), thread: Some(thread) })
    }

    /// By which the writer tells of its commits.
    pub(super) fn signal(&self) -> Option<CommitSignal> {
        self.commits.clone().map(CommitSignal)
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        // Whoever sends signals was dropped before.
        self.commits = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                "the checkpoint thread of the store ended with a panic, found at shutdown; the write-ahead log was not shortened since, and no data is lost. This is a defect of Everhook: report it with the panic's message"
            );
        }
    }
}

/// Looks at the log after commits until nobody commits any more.
fn run(connection: &Connection, commits: &Receiver<()>, broken: &watch::Sender<bool>) {
    while commits.recv().is_ok() {
        match Log::look(connection, "NOOP") {
            Ok(log) if log.pages >= BEGIN_AT_PAGES && log.moved < log.pages => move_pages(connection, broken),
            _ => {}
        }
        std::thread::sleep(REST_FOR);
    }
}

fn move_pages(connection: &Connection, broken: &watch::Sender<bool>) {
    let Err(error) = Log::look(connection, "PASSIVE") else { return };
    if is_failed_flush(&error) {
        tracing::error!(error = &error as &dyn std::error::Error, "flushing to disk failed; the store stops. Check the disk, then restart");
        broken.send_replace(true);
    } else if error.sqlite_error_code() != Some(ErrorCode::DiskFull) {
        tracing::debug!(error = &error as &dyn std::error::Error, "cannot move the write-ahead log into the file; the writer will");
    }
}

/// Nobody knows what is on the disk after that.
fn is_failed_flush(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if failure.extended_code == ffi::SQLITE_IOERR_FSYNC)
}

/// How much is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Log {
    /// Its pages.
    pages: i64,
    /// How many of them are in the file as well.
    moved: i64,
}

impl Log {
    /// Runs a checkpoint of the mode given (`NOOP` moves nothing), and says how the log is then.
    fn look(connection: &Connection, mode: &str) -> rusqlite::Result<Self> {
        let mut log = Self { pages: 0, moved: 0 };
        connection.pragma(None, "wal_checkpoint", mode, |row| {
            log = Self { pages: row.get(1)?, moved: row.get(2)? };
            Ok(())
        })?;
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_moves_nothing_and_a_checkpoint_moves_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.db");
        let writer = Connection::open(&path).expect("a file");
        writer.pragma_update(None, "journal_mode", "WAL").expect("a log");
        writer.execute_batch("CREATE TABLE rows (text TEXT)").expect("a table");
        let beside = connect::checkpointer(&path).expect("a second connection");
        let before = Log::look(&beside, "NOOP").expect("a look");
        assert!(before.pages > 0 && before.moved == 0, "{before:?}");
        assert_eq!(Log::look(&beside, "NOOP").expect("a look"), before);
        let after = Log::look(&beside, "PASSIVE").expect("a checkpoint");
        assert_eq!((after.pages, after.moved), (before.pages, before.pages));
    }

    #[test]
    fn a_log_that_fills_is_moved_without_the_writer() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.db");
        let writer = Connection::open(&path).expect("a file");
        writer.pragma_update(None, "journal_mode", "WAL").expect("a log");
        writer.pragma_update(None, "wal_autocheckpoint", 0).expect("no checkpoint of its own");
        writer.execute_batch("CREATE TABLE rows (text TEXT)").expect("a table");
        let (breaks, broken) = watch::channel(false);
        let checkpointer = Checkpointer::start(&path, breaks).expect("a thread");
        let signal = checkpointer.signal().expect("a signal");
        writer.execute("INSERT INTO rows VALUES (zeroblob(?1))", [BEGIN_AT_PAGES * 5_000]).expect("many pages");
        signal.send();
        drop(signal);
        // Dropping waits for the look that the signal has asked for.
        drop(checkpointer);
        let log = Log::look(&writer, "NOOP").expect("a look");
        assert!(log.pages >= BEGIN_AT_PAGES && log.moved == log.pages, "{log:?}");
        assert!(!*broken.borrow());
    }
}
