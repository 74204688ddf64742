//! Many publishers, few commits: what waits at one moment is recorded in one transaction, and answered after its commit.
//!
//! Two tasks take turns at gathering: while one waits for its commit, the other gathers the next group. A lone publisher never waits for company.

use std::{panic::AssertUnwindSafe, sync::Arc};

use everhook_core::ports::{NewEvent, Recorded, StoreError};
use futures_util::FutureExt as _;
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    task::JoinSet,
    time::{Duration, timeout},
};

use super::{
    collisions::insist,
    event_store::{Ready, Recording},
    fault::{Fault, Outcome},
};
use crate::commits;

/// How many groups are under way at once. A third would only wait for the same rows.
const GROUPS: usize = 2;
/// The most publishers that wait. More than that wait for a place instead.
const WAITING_MAX: usize = 2_048;
/// How long a publisher waits for a place before it is told that the store is overloaded.
const PLACE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where all publishing goes.
pub(super) struct Recorder {
    queue: mpsc::Sender<Waiting>,
    // Dropping it ends the tasks.
    _tasks: JoinSet<()>,
}

/// Events of one publisher, and where their answers go.
struct Waiting {
    events: Vec<Ready>,
    rows: usize,
    answer: oneshot::Sender<Outcome<Vec<Recorded>>>,
}

impl Waiting {
    /// A publisher that has gone away does not need the answer; what it asked for is done all the same.
    fn tell(self, answer: Outcome<Vec<Recorded>>) {
        let _ = self.answer.send(answer);
    }
}

impl Recorder {
    /// Starts the tasks.
    pub(super) fn start(recording: Arc<Recording>) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(Gathering { queue: waiting, left_over: None }));
        let mut tasks = JoinSet::new();
        for _ in 0..GROUPS {
            tasks.spawn(record_groups(recording.clone(), waiting.clone()));
        }
        Self { queue, _tasks: tasks }
    }

    /// Records events in one commit, together with what others record at the same moment. `rows` is about how many rows that writes.
    pub(super) async fn record(&self, events: Vec<NewEvent>, rows: usize) -> Result<Vec<Recorded>, StoreError> {
        let place = timeout(PLACE_TIMEOUT, self.queue.reserve()).await.map_err(|_| StoreError::unavailable("the store is overloaded"))?;
        let (answer, answered) = oneshot::channel();
        // Compressed here, on the publisher's task: the recorder's time is everybody's.
        let events = events.into_iter().map(Ready::new).collect();
        place.map_err(|_| closed())?.send(Waiting { events, rows, answer });
        answered.await.map_err(|_| closed())?.map_err(StoreError::from)
    }
}

fn closed() -> StoreError {
    StoreError::unavailable("the store was closed")
}

/// What waits, as the task sees it whose turn it is to gather.
struct Gathering {
    queue: mpsc::Receiver<Waiting>,
    /// What did not fit into the last group.
    left_over: Option<Waiting>,
}

impl Gathering {
    /// Takes what waits, up to the bounds of a commit. `None` once the store is closed.
    async fn next_group(&mut self) -> Option<Vec<Waiting>> {
        let first = match self.left_over.take() {
            Some(left_over) => left_over,
            None => self.queue.recv().await?,
        };
        let mut rows = first.rows;
        let mut group = vec![first];
        while let Ok(next) = self.queue.try_recv() {
            rows += next.rows;
            if rows > commits::ROWS_MAX {
                self.left_over = Some(next);
                break;
            }
            group.push(next);
        }
        Some(group)
    }
}

async fn record_groups(recording: Arc<Recording>, waiting: Arc<Mutex<Gathering>>) {
    loop {
        let group = waiting.lock().await.next_group().await;
        let Some(group) = group else { return };
        // Whoever waited for a group that panicked hears that it was not answered; the next group is another one.
        if AssertUnwindSafe(record_group(&recording, group)).catch_unwind().await.is_err() {
            tracing::error!("recording a group of events panicked");
        }
    }
}

/// Records a group in one transaction. If that fails, each publisher's events are redone in one of their own, so that only the culprit hears of it.
async fn record_group(recording: &Recording, mut group: Vec<Waiting>) {
    let all: Vec<&Ready> = group.iter().flat_map(|waiting| &waiting.events).collect();
    match (recording.record(&all).await, group.len()) {
        (Ok(answers), _) => {
            let mut answers = answers.into_iter();
            for waiting in group {
                let of_this = answers.by_ref().take(waiting.events.len()).collect();
                waiting.tell(Ok(of_this));
            }
        }
        (Err(fault), 1) if !fault.is_collision() => group.remove(0).tell(Err(fault)),
        // Nobody is the culprit if the server cannot be reached: trying one by one would only make all of them wait.
        (Err(fault), _) if fault.is_absence() => {
            for waiting in group {
                waiting.tell(Err(Fault::NoConnection(fault.describe())));
            }
        }
        (Err(_), _) => {
            for waiting in group {
                let answer = record_alone(recording, &waiting.events).await;
                waiting.tell(answer);
            }
        }
    }
}

async fn record_alone(recording: &Recording, events: &[Ready]) -> Outcome<Vec<Recorded>> {
    let events: Vec<&Ready> = events.iter().collect();
    insist(|| recording.record(&events)).await
}
