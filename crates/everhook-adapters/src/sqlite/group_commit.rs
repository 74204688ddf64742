//! Many jobs, one commit: the flush to disk is what costs, so everything that waits shares one.
//!
//! Called by the writer alone. Nobody is answered before the commit is durable, and a job that fails never takes another down with it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::watch;

use super::{
    connect::BUSY_FOR,
    fault::{Fault, Outcome},
    job::Job,
    transaction::Tx,
};

/// The writing connection, and whether it can still be trusted.
pub(crate) struct GroupCommit {
    connection: Connection,
    broken: watch::Sender<bool>,
    /// Since when the log holds something that was erased.
    traces_since: Option<Instant>,
}

impl GroupCommit {
    pub(crate) fn new(connection: Connection, broken: watch::Sender<bool>) -> Self {
        Self { connection, broken, traces_since: None }
    }

    /// The connection, for reads where there are no readers of their own.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs all jobs in one transaction and answers them. If that fails, each is redone in a transaction of its own, so that only the culprit
    /// hears of it.
    pub(super) fn commit(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        match self.run_together(&mut jobs) {
            Ok(()) => jobs.into_iter().for_each(|job| job.answer()),
            Err(fault) if jobs.len() == 1 || *self.broken.borrow() => jobs.into_iter().for_each(|job| job.refuse(&fault)),
            Err(_) => jobs.into_iter().for_each(|job| self.commit(vec![job])),
        }
    }

    /// Whether the log holds something that was erased.
    pub(super) fn has_traces(&self) -> bool {
        self.traces_since.is_some()
    }

    /// Moves the log into the file and cuts it to nothing, if it has held something that was erased for so long. A reader that is still looking at an older
    /// state keeps it from that: then it is tried again after as long.
    pub(super) fn wipe_log(&mut self, held_for: Duration) {
        if self.traces_since.is_none_or(|since| since.elapsed() < held_for) {
            return;
        }
        let wiped = wipe(&self.connection);
        if let Err(error) = &wiped {
            tracing::debug!(error = %error, "cannot truncate the write-ahead log after an erasure: {error}");
        }
        self.traces_since = (!wiped.unwrap_or(false)).then(Instant::now);
    }

    /// Moves the log into the file, so that the next start finds nothing to recover. Failing only makes that start slower.
    pub(super) fn close(self) {
        let emptied = self.connection.pragma(None, "wal_checkpoint", "TRUNCATE", |_| Ok(()));
        if let Err(error) = emptied {
            tracing::debug!(error = %error, "cannot truncate the write-ahead log at shutdown: {error}");
        }
    }

    fn run_together(&mut self, jobs: &mut [Box<dyn Job>]) -> Outcome<()> {
        if *self.broken.borrow() {
            return Err(disk_failed());
        }
        match run_in_transaction(&self.connection, jobs) {
            Ok(leaves_traces) => {
                if leaves_traces {
                    self.traces_since.get_or_insert_with(Instant::now);
                }
                Ok(())
            }
            Err(fault) => {
                if fault.is_fatal() {
                    tracing::error!(error = ?fault, "flushing to disk failed; the store stops. Check the disk, then restart");
                    self.broken.send_replace(true);
                }
                Err(fault)
            }
        }
    }
}

/// Says whether the log is empty now. It does not wait for readers: everybody who writes would wait with it.
fn wipe(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let mut is_empty = false;
    let outcome = connection.pragma(None, "wal_checkpoint", "TRUNCATE", |row| {
        is_empty = row.get::<_, i64>(0)? == 0;
        Ok(())
    });
    connection.busy_timeout(BUSY_FOR)?;
    outcome.map(|()| is_empty)
}

/// Says whether the log holds something that was erased.
fn run_in_transaction(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> Outcome<bool> {
    // Dropped on any way out but the last line, which rolls back.
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let mut tx = Tx::new(connection);
    for job in jobs {
        // Nothing that a panic leaves half done survives: the transaction is rolled back and the job's memory is not used again.
        catch_unwind(AssertUnwindSafe(|| job.run(&mut tx))).unwrap_or(Err(Fault::Panicked))?;
    }
    let leaves_traces = tx.finish()?;
    transaction.commit()?;
    Ok(leaves_traces)
}

/// Returns once the disk has failed to keep what was written, and never otherwise.
pub(crate) async fn broken(mut broken: watch::Receiver<bool>) {
    // An error means that the writer is gone, which happens only when its store is dropped: nothing is broken then.
    if broken.wait_for(|broken| *broken).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What everybody hears once the disk has failed.
fn disk_failed() -> Fault {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR);
    Fault::Sqlite(rusqlite::Error::SqliteFailure(code, Some("flushing to disk failed earlier; check the disk, then restart".to_owned())))
}

#[cfg(test)]
mod tests {
    use everhook_core::ports::StoreError;
    use rusqlite::ffi;
    use tokio::sync::oneshot::Receiver;

    use super::{super::job::Call, *};

    /// What a job of these tests does after it has written a row.
    #[derive(Clone, Copy)]
    enum Then {
        Succeeds,
        Fails(i32),
        Panics,
    }

    struct Commits {
        commits: GroupCommit,
        broken: watch::Receiver<bool>,
    }

    impl Commits {
        fn new() -> Self {
            let connection = Connection::open_in_memory().expect("memory");
            connection.execute_batch("CREATE TABLE rows (number INTEGER)").expect("a table");
            let (breaks, broken) = watch::channel(false);
            Self { commits: GroupCommit::new(connection, breaks), broken }
        }

        /// Commits the jobs together; says which of them were answered well.
        fn commit(&mut self, jobs: &[Then]) -> Vec<bool> {
            let (jobs, answers): (Vec<_>, Vec<_>) = (0..).zip(jobs).map(|(number, then)| job(number, *then)).unzip();
            self.commits.commit(jobs);
            answers.into_iter().map(|mut answer| answer.try_recv().expect("every job is answered").is_ok()).collect()
        }

        fn rows(&self) -> Vec<i64> {
            let mut statement = self.commits.connection.prepare("SELECT number FROM rows ORDER BY number").expect("a statement");
            let rows = statement.query_map([], |row| row.get(0)).expect("rows");
            rows.collect::<Result<_, _>>().expect("numbers")
        }
    }

    fn job(number: i64, then: Then) -> (Box<dyn Job>, Receiver<Result<(), StoreError>>) {
        let (call, answer) = Call::new(move |tx: &mut Tx<'_>| {
            tx.prepare("INSERT INTO rows VALUES (?1)")?.execute([number])?;
            match then {
                Then::Succeeds => Ok(()),
                Then::Fails(code) => Err(Fault::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))),
                Then::Panics => panic!("a defect"),
            }
        });
        (Box::new(call), answer)
    }

    #[test]
    fn a_job_that_fails_or_panics_alone_hears_of_it() {
        for culprit in [Then::Fails(ffi::SQLITE_FULL), Then::Panics] {
            let mut commits = Commits::new();
            assert_eq!(commits.commit(&[Then::Succeeds, culprit, Then::Succeeds]), [true, false, true]);
            assert_eq!(commits.rows(), [0, 2]);
            assert_eq!(commits.commit(&[Then::Succeeds]), [true], "the writer goes on");
        }
    }

    #[test]
    fn a_flush_that_fails_breaks_the_store_for_good() {
        let mut commits = Commits::new();
        assert_eq!(commits.commit(&[Then::Succeeds, Then::Fails(ffi::SQLITE_IOERR_FSYNC)]), [false, false]);
        assert!(*commits.broken.borrow());
        assert_eq!(commits.commit(&[Then::Succeeds]), [false]);
        assert_eq!(commits.rows(), [0_i64; 0]);
    }
}
