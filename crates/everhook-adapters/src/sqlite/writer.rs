//! The one writer: a thread of its own that drains everything waiting into one transaction, then answers all of it.
//!
//! While one commit is flushed, the next group gathers; a lone caller never waits for company, only a busy writer lingers a moment. In the simulation there is no thread either: each call is a
//! commit of its own on the caller's task, so that a seed gives the same run again.

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use everhook_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    OpenError, WriterMode,
    checkpointer::{Checkpointer, CommitSignal},
    fault::{Fault, Outcome},
    folder::Folder,
    group_commit::GroupCommit,
    job::{Call, Job},
    transaction::Tx,
};
use crate::commits;

/// The most jobs of one commit: enough that the flush no longer counts, few enough that nobody waits long for it.
const GROUP_JOBS_MAX: usize = 512;
/// A group of so many jobs means that callers are many: the next group may gather a little longer.
const BUSY_FROM_JOBS: usize = 4;
/// How long a busy writer lets a group gather. Each commit logs whole pages, so that twice the events in one cost little more than half as many.
const LINGER_FOR: Duration = Duration::from_micros(300);
/// The most jobs that wait. More publishers than that wait for a place instead.
const WAITING_JOBS_MAX: usize = 2_048;
/// How long a caller waits for a place before it is told that the store is overloaded.
const PLACE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the log may hold what was erased before it is emptied. A while, because an operation erases in many commits and emptying the log flushes twice.
const TRACES_FOR: Duration = Duration::from_secs(1);

/// Where all writes go. Holds the folder as long as anything can still be written.
pub(crate) struct Writer {
    // Dropped in this order: nobody commits any more, then nobody moves the log, then the folder is free.
    runs: Runs,
    _checkpointer: Option<Checkpointer>,
    _folder: Folder,
}

enum Runs {
    /// A thread takes the jobs.
    OnThread(WriterThread),
    /// The caller runs them.
    Inline(Box<Mutex<GroupCommit>>),
}

/// The writer's thread, as its callers see it. Dropping it finishes what waits and joins the thread.
pub(super) struct WriterThread {
    queue: Option<mpsc::Sender<Waiting>>,
    places: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

/// A job in the queue.
struct Waiting {
    job: Box<dyn Job>,
    rows: usize,
    place: OwnedSemaphorePermit,
}

impl Writer {
    /// Takes over the folder and its writing connection. A checkpointer is told of each commit.
    pub(crate) fn start(
        folder: Folder,
        commits: GroupCommit,
        mode: WriterMode,
        checkpointer: Option<Checkpointer>,
    ) -> Result<Self, OpenError> {
        let signal = checkpointer.as_ref().and_then(Checkpointer::signal);
        let runs = match mode {
            WriterMode::Inline => Runs::Inline(Box::new(Mutex::new(commits))),
            WriterMode::Thread => Runs::OnThread(WriterThread::start(commits, signal)?),
        };
        Ok(Self { runs, _checkpointer: checkpointer, _folder: folder })
    }

    /// Whether each call is run by its caller, at once.
    pub(super) fn is_inline(&self) -> bool {
        matches!(self.runs, Runs::Inline(_))
    }

    /// Runs `work` on the writing connection, which only an inline writer lends.
    pub(super) fn read_inline<T>(&self, work: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
        match &self.runs {
            Runs::Inline(commits) => work(commits.lock().unwrap_or_else(PoisonError::into_inner).connection()),
            Runs::OnThread(_) => Err(Fault::Impossible("a read was sent to the writer's thread".to_owned())),
        }
    }

    /// Runs `work` in a transaction and returns its answer once that is durable. `rows` is about how many rows it writes.
    ///
    /// A caller that stops waiting does not undo it.
    pub(crate) async fn write<T, F>(&self, rows: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Outcome<T> + Send + 'static,
    {
        let (call, answer) = Call::new(work);
        match &self.runs {
            Runs::OnThread(thread) => thread.enqueue(Box::new(call), rows).await?,
            Runs::Inline(commits) => {
                let mut commits = commits.lock().unwrap_or_else(PoisonError::into_inner);
                commits.commit(vec![Box::new(call)]);
                commits.wipe_log(Duration::ZERO);
            }
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::unavailable("the store was closed")))
    }
}

impl WriterThread {
    fn start(commits: GroupCommit, signal: Option<CommitSignal>) -> Result<Self, OpenError> {
        let (queue, waiting) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || drain(&waiting, commits, signal.as_ref()))
            .map_err(OpenError::Thread)?;
        Ok(Self { queue: Some(queue), places: Arc::new(Semaphore::new(WAITING_JOBS_MAX)), thread: Some(thread) })
    }

    async fn enqueue(&self, job: Box<dyn Job>, rows: usize) -> Result<(), StoreError> {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => tokio::time::timeout(PLACE_TIMEOUT, Arc::clone(&self.places).acquire_owned())
                .await
                .ok()
                .and_then(Result::ok)
                .ok_or_else(|| StoreError::unavailable("the store is overloaded"))?,
        };
        let sent = self.queue.as_ref().and_then(|queue| queue.send(Waiting { job, rows, place }).ok());
        sent.ok_or_else(|| StoreError::unavailable("the store was closed"))
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        // Without a sender the thread ends after the last job that waits.
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                "the writer thread of the store ended with a panic, found at shutdown; what it had not committed was not acknowledged. This is a defect of Everhook: report it with the panic's message"
            );
        }
    }
}

/// Commits group after group until the queue is closed and empty.
fn drain(queue: &mpsc::Receiver<Waiting>, mut commits: GroupCommit, signal: Option<&CommitSignal>) {
    let mut left_over = None;
    let mut is_busy = false;
    while let Some(first) = left_over.take().or_else(|| next(queue, &mut commits)) {
        if is_busy {
            std::thread::sleep(LINGER_FOR);
        }
        let (group, next) = gather(first, queue);
        is_busy = group.len() >= BUSY_FROM_JOBS;
        left_over = next;
        // The places are held until the answers are out: what is being written still counts as waiting.
        let (jobs, _places): (Vec<_>, Vec<_>) = group.into_iter().map(|waiting| (waiting.job, waiting.place)).unzip();
        commits.commit(jobs);
        if let Some(signal) = signal {
            signal.send();
        }
        commits.wipe_log(TRACES_FOR);
    }
    commits.close();
}

/// Waits for the next job, and does not let what was erased lie in the log meanwhile. `None` once the queue is closed and empty.
fn next(queue: &mpsc::Receiver<Waiting>, commits: &mut GroupCommit) -> Option<Waiting> {
    while commits.has_traces() {
        match queue.recv_timeout(TRACES_FOR) {
            Ok(waiting) => return Some(waiting),
            Err(mpsc::RecvTimeoutError::Timeout) => commits.wipe_log(TRACES_FOR),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
        }
    }
    queue.recv().ok()
}

/// Takes what waits behind `first`, up to the bounds of a commit. The job that would pass them begins the next group.
fn gather(first: Waiting, queue: &mpsc::Receiver<Waiting>) -> (Vec<Waiting>, Option<Waiting>) {
    let mut rows = first.rows;
    let mut group = vec![first];
    while group.len() < GROUP_JOBS_MAX && rows < commits::ROWS_MAX {
        let Ok(next) = queue.try_recv() else { break };
        rows = rows.saturating_add(next.rows);
        if rows > commits::ROWS_MAX {
            return (group, Some(next));
        }
        group.push(next);
    }
    (group, None)
}
