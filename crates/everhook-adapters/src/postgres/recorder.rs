//! Many publishers, few commits: what waits at one moment is recorded in one transaction, and answered after its commit.
//!
//! While one group waits for its commit, the next one gathers. A lone publisher never waits for company. A group that meets a row which somebody else keeps
//! is set `aside`, where each application waits by itself. One whose connection has fallen silent is left to wait for it, and the next one takes another.

use std::{panic::AssertUnwindSafe, sync::Arc};

use everhook_core::{
    ids::ApplicationId,
    ports::{NewEvent, Recorded, StoreError},
};
use futures_util::FutureExt as _;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Duration, Instant, sleep_until, timeout},
};

use super::{
    aside::LockedRowQueues,
    collisions::retry_on_conflict,
    event_columns::Ready,
    event_store::{Recording, Waits},
    fault::{Fault, Outcome},
};
use crate::{commits, encoding::payload::Seals};

/// A group of so many publishers means that they are many: the next one may gather a little longer, because those who were just answered are about to
/// publish again, and a transaction for twice as many costs little more.
const BUSY_FROM: usize = 4;
/// How much longer: this part of the time that the group before it took, counted from its end, and no longer than the most.
const LINGER_PART: u32 = 10;
const LINGER_MAX: Duration = Duration::from_millis(5);
/// Timers are no finer than this.
const LINGER_MIN: Duration = Duration::from_millis(1);
/// The most publishers that wait. More than that wait for a place instead.
const WAITING_MAX: usize = 2_048;
/// How long a publisher waits for a place before it is told that the store is overloaded.
const PLACE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a publisher waits for its answer: for a group before its own that hears nothing from the server, and for its own. Past it nobody knows
/// what became of its events, and it should ask again with the same idempotency key.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);

/// How long a group has the others wait behind it: many times what a commit takes. Past it, its connection may have fallen silent, which is known for
/// certain only when no answer has come within seconds.
const OVERTAKEN_AFTER: Duration = Duration::from_millis(500);
/// How many groups may be overtaken at once: each keeps a connection. Where more are silent, so is the server.
const OVERTAKEN_MAX: usize = 2;

/// Where all publishing goes.
pub(super) struct Recorder {
    queue: mpsc::Sender<Waiting>,
    seals: Seals,
    // Dropping it ends the task.
    _task: JoinSet<()>,
}

/// Events of one publisher, and where their answers go.
pub(super) struct Waiting {
    events: Vec<Ready>,
    pub(super) rows: usize,
    answer: oneshot::Sender<Outcome<Vec<Recorded>>>,
}

impl Waiting {
    /// A publisher that has gone away does not need the answer; what it asked for is done all the same.
    fn tell(self, answer: Outcome<Vec<Recorded>>) {
        let _ = self.answer.send(answer);
    }

    /// Refuses it: others wait already for more than can be kept.
    pub(super) fn refuse(self) {
        self.tell(Err(Fault::NoConnection("the store is overloaded".to_owned())));
    }

    /// The application whose row it needs; the first, where it publishes to several.
    pub(super) fn application(&self) -> Option<ApplicationId> {
        self.events.first().map(|ready| ready.new.event.application)
    }
}

impl Recorder {
    /// Starts the task.
    pub(super) fn start(recording: Arc<Recording>, seals: Seals) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let mut task = JoinSet::new();
        task.spawn(record_groups(recording, Gathering { queue: waiting, left_over: None }));
        Self { queue, seals, _task: task }
    }

    /// Records events in one commit, together with what others record at the same moment. `rows` is about how many rows that writes.
    pub(super) async fn record(&self, events: Vec<NewEvent>, rows: usize) -> Result<Vec<Recorded>, StoreError> {
        let place = timeout(PLACE_TIMEOUT, self.queue.reserve()).await.map_err(|_| StoreError::unavailable("the store is overloaded"))?;
        let (answer, answered) = oneshot::channel();
        // Compressed here, on the publisher's task: the recorder's time is everybody's.
        let events = events.into_iter().map(|new| Ready::new(new, &self.seals)).collect::<Result<_, _>>()?;
        place.map_err(|_| closed())?.send(Waiting { events, rows, answer });
        let answer = timeout(ANSWER_TIMEOUT, answered).await.map_err(|_| StoreError::unavailable("the store did not answer in time"))?;
        answer.map_err(|_| closed())?.map_err(StoreError::from)
    }
}

fn closed() -> StoreError {
    StoreError::unavailable("the store was closed")
}

/// Publishers whose events are not written yet.
struct Gathering {
    queue: mpsc::Receiver<Waiting>,
    /// What did not fit into the last group.
    left_over: Option<Waiting>,
}

impl Gathering {
    /// Takes what waits, up to the bounds of a commit. `None` once the store is closed.
    async fn next_group(&mut self, linger_until: Instant) -> Option<Vec<Waiting>> {
        let first = match self.left_over.take() {
            Some(left_over) => left_over,
            None => {
                let first = self.queue.recv().await?;
                sleep_until(linger_until).await;
                first
            }
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

async fn record_groups(recording: Arc<Recording>, mut waiting: Gathering) {
    let aside = LockedRowQueues::new(recording.clone());
    let mut overtaken = JoinSet::new();
    let mut linger_until = Instant::now();
    while let Some(group) = waiting.next_group(linger_until).await {
        let (began_at, is_busy) = (Instant::now(), group.len() >= BUSY_FROM);
        let group = aside.without_those_who_wait(group);
        if !group.is_empty() {
            let (recording, aside) = (recording.clone(), aside.clone());
            let mut recorded = Box::pin(async move { aside.take_in(record_safely(&recording, group, Waits::Shortly).await) });
            if timeout(OVERTAKEN_AFTER, &mut recorded).await.is_err() {
                overtaken.spawn(recorded);
            }
        }
        while overtaken.try_join_next().is_some() {}
        while overtaken.len() >= OVERTAKEN_MAX && overtaken.join_next().await.is_some() {}
        let linger_for = (began_at.elapsed() / LINGER_PART).min(LINGER_MAX);
        let is_worth_it = is_busy && linger_for >= LINGER_MIN;
        linger_until = Instant::now() + if is_worth_it { linger_for } else { Duration::ZERO };
    }
}

/// Records a group. If it panics, those who wait for it get an error; later groups are not affected.
pub(super) async fn record_safely(recording: &Recording, group: Vec<Waiting>, waits: Waits) -> Vec<Waiting> {
    AssertUnwindSafe(record_group(recording, group, waits)).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("panic while recording a group of events: their publishers get an error, and later groups are recorded. This is a defect of Everhook: report it with the panic's message");
        Vec::new()
    })
}

/// Records a group in one transaction. One that others wait behind (`Waits::Shortly`) is given back if it met a row that somebody keeps, or is of many and
/// failed because of one of them. Where nobody waits behind it, each publisher's events are redone in a transaction of their own, so that only the culprit
/// hears of it.
async fn record_group(recording: &Recording, mut group: Vec<Waiting>, waits: Waits) -> Vec<Waiting> {
    let all: Vec<&Ready> = group.iter().flat_map(|waiting| &waiting.events).collect();
    match (recording.record(&all, waits).await, group.len()) {
        (Ok(answers), _) => {
            let mut answers = answers.into_iter();
            for waiting in group {
                let of_this = answers.by_ref().take(waiting.events.len()).collect();
                waiting.tell(Ok(of_this));
            }
        }
        (Err(fault), _) if waits == Waits::Shortly && (fault.is_impatience() || fault.is_collision()) => return group,
        (Err(fault), 1) if !fault.is_collision() => group.remove(0).tell(Err(fault)),
        // Nobody is the culprit if the server cannot be reached, or somebody else keeps a row: trying one by one would only make all of them wait.
        (Err(fault), _) if fault.is_absence() || fault.is_impatience() => {
            for waiting in group {
                waiting.tell(Err(Fault::NoConnection(fault.describe())));
            }
        }
        (Err(_), _) if waits == Waits::Shortly => return group,
        (Err(_), _) => {
            for waiting in group {
                let answer = record_alone(recording, &waiting.events).await;
                waiting.tell(answer);
            }
        }
    }
    Vec::new()
}

async fn record_alone(recording: &Recording, events: &[Ready]) -> Outcome<Vec<Recorded>> {
    let events: Vec<&Ready> = events.iter().collect();
    retry_on_conflict(|| recording.record(&events, Waits::Long)).await
}
