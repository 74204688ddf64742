//! The connections that read: a few threads, for which organizations take turns.
//!
//! A thread starts when a read finds all others busy, which keeps the start short and an idle server small. Connections are opened at the start all the
//! same: a process that has run out of file descriptors could open none, and reads what it must. A read
//! sees everything that was committed before it began. What may be slow has readers of its own, so that it never waits in front of a lane.

use std::{
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use everhook_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{connect, fault::Outcome, turn::Turn};
use crate::read_turns::{Overloaded, ReadLimits, ReadTurns};

/// How many reads of one pool run at once. Busy readers slow the writer down, so they are few.
const READERS: usize = 3;
/// The reads that deliveries and publishers wait for, which are quick: whatever organizations ask for, one reader is left for the lanes.
pub(super) const LINE: ReadLimits = ReadLimits { total: READERS, organization: 1, organizations: READERS - 1 };
/// The reads that may be slow: whatever one organization asks for, the next one finds a reader.
pub(super) const HISTORY: ReadLimits = ReadLimits { total: READERS, organization: READERS - 1, organizations: READERS };
/// How long a read may wait for its turn: whoever asked has lost patience by then.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a read may run. A longer one would keep the log from being moved into the file, and so make it grow.
const RUN_TIMEOUT: Duration = Duration::from_secs(5);

type Read = Box<dyn FnOnce(Result<&Connection, &rusqlite::Error>) + Send>;

/// The readers of one pool, as their callers see them. Dropping it joins their threads after what waits.
pub(super) struct Readers {
    name: &'static str,
    turns: ReadTurns,
    run_timeout: Duration,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    database: PathBuf,
    /// Open, and no thread's yet.
    spare: Mutex<Vec<Connection>>,
    queue: Mutex<Queue>,
    arrival: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Read>,
    /// How many threads wait for a read.
    idle: usize,
    is_closed: bool,
}

impl Readers {
    /// Readers of the file, their connections open and none of their threads started. `name` is what these are called.
    pub(super) fn new(name: &'static str, limits: ReadLimits, database: &Path) -> Self {
        // What cannot be opened now is opened by the first read that needs it, which says why if it fails again.
        let spare = Mutex::new((0..READERS).filter_map(|_| open(database).ok()).collect());
        let shared = Shared { database: database.to_owned(), spare, queue: Mutex::default(), arrival: Condvar::new() };
        Self { name, turns: ReadTurns::new(limits), run_timeout: RUN_TIMEOUT, shared: Arc::new(shared), threads: Mutex::default() }
    }

    /// Runs `work` on a reader and returns its answer, or gives up when it ran for [`RUN_TIMEOUT`]. A caller that goes away ends it too.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        // With it there is a reader for it, or soon: one that runs for somebody who has left is being stopped.
        let _turn = self.turns.take(WAIT_TIMEOUT).await.map_err(|Overloaded(why)| StoreError::unavailable(why))?;
        let (caller, answer) = oneshot::channel();
        let wanted = Wanted(Arc::default());
        self.enqueue(prepare(work, caller, Arc::clone(&wanted.0)))?;
        let answer = self.wait(&wanted.0, answer).await?;
        answer.unwrap_or_else(|_| Err(StoreError::unavailable("a panic stopped the read")))
    }

    /// Waits for an answer as long as its read has time. Time in the queue is not the read's own.
    async fn wait<T>(&self, turn: &Turn, mut answer: oneshot::Receiver<T>) -> Result<Result<T, oneshot::error::RecvError>, StoreError> {
        let asked_at = Instant::now();
        let mut look_at = asked_at + self.run_timeout;
        loop {
            if let Ok(answer) = tokio::time::timeout_at(look_at.into(), &mut answer).await {
                return Ok(answer);
            }
            let now = Instant::now();
            look_at = match turn.begun_at() {
                Some(begun_at) => begun_at + self.run_timeout,
                None if now >= asked_at + WAIT_TIMEOUT => {
                    return Err(StoreError::unavailable("the store is overloaded: reads wait too long"));
                }
                None => now + self.run_timeout,
            };
            if look_at <= now {
                return Err(StoreError::unavailable("the read took too long"));
            }
        }
    }

    fn enqueue(&self, read: Read) -> Result<(), StoreError> {
        let mut queue = self.shared.queue();
        queue.waiting.push_back(read);
        let is_short = queue.waiting.len() > queue.idle;
        drop(queue);
        self.shared.arrival.notify_one();
        if is_short { self.start_another() } else { Ok(()) }
    }

    /// Starts one more thread if there may be one. Fails only if there is none at all.
    fn start_another(&self) -> Result<(), StoreError> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() >= READERS {
            return Ok(());
        }
        match start_thread(format!("{}-{}", self.name, threads.len()), Arc::clone(&self.shared)) {
            Ok(thread) => threads.push(thread),
            Err(error) if threads.is_empty() => return Err(StoreError::unavailable(error)),
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "cannot start another reader thread of the store"),
        }
        Ok(())
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.queue().is_closed = true;
        self.shared.arrival.notify_all();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if thread.join().is_err() {
                tracing::error!(
                    "a reader thread of the store ended with a panic, found at shutdown; no data is lost. This is a defect of Everhook: report it with the panic's message"
                );
            }
        }
    }
}

/// A caller that waits. When it no longer does, its read ends.
struct Wanted(Arc<Turn>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl Shared {
    fn take_spare(&self) -> Option<Connection> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next read, once there is one; `None` when the queue is closed and empty.
    fn next(&self) -> Option<Read> {
        let mut queue = self.queue();
        loop {
            if let Some(read) = queue.waiting.pop_front() {
                return Some(read);
            }
            if queue.is_closed {
                return None;
            }
            queue.idle += 1;
            queue = self.arrival.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

fn prepare<T, F>(work: F, caller: oneshot::Sender<Result<T, StoreError>>, turn: Arc<Turn>) -> Read
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
{
    Box::new(move |connection| {
        let answer = match connection {
            Ok(connection) => {
                // A caller that gave up while its read waited needs no answer.
                let Some(running) = turn.begin(connection.get_interrupt_handle()) else { return };
                let outcome = work(connection);
                drop(running);
                outcome.map_err(|fault| fault.to_store_error())
            }
            Err(error) => Err(StoreError::unavailable(error.to_string())),
        };
        let _ = caller.send(answer);
    })
}

fn start_thread(name: String, shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let serve = move || {
        let mut connection = shared.take_spare();
        while let Some(read) = shared.next() {
            serve(read, &mut connection, &shared.database);
        }
    };
    std::thread::Builder::new().name(name).spawn(serve)
}

/// Opens a connection with all of its files: SQLite opens the log with the first read.
fn open(database: &Path) -> rusqlite::Result<Connection> {
    let connection = connect::reader(database)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

fn serve(read: Read, connection: &mut Option<Connection>, database: &Path) {
    let opened = match connection.take() {
        Some(open) => Ok(open),
        None => open(database),
    };
    // A read that panics answers by dropping its caller's channel; the reader continues on the same connection: reads leave nothing behind.
    if catch_unwind(AssertUnwindSafe(|| read(opened.as_ref()))).is_err() {
        tracing::error!(
            "panic while reading from the store: the request that asked fails, and the store continues. This is a defect of Everhook: report it with the panic's message"
        );
    }
    *connection = opened.ok();
}

#[cfg(test)]
mod tests;
