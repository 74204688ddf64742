//! One endpoint's lane: what of its waiting deliveries is in memory, and what is still in the store. Pure.

use std::{collections::VecDeque, time::Duration};

use rustc_hash::FxHashSet;

use crate::{
    ids::{ApplicationId, DeliveryId, OrganizationId},
    model::{Due, Priority},
    time::Timestamp,
};

/// How many deliveries of one queue are kept in memory. The rest of a backlog stays in the store.
pub(super) const WINDOW_MAX: usize = 50_000;

/// The same while the lanes together keep many.
pub(super) const WINDOW_MAX_WHEN_CROWDED: usize = 500;

/// A window this short is filled again from the store.
pub(super) const WINDOW_LOW: usize = 200;

/// A request that takes longer than this is slow.
const SLOW_FROM: Duration = Duration::from_secs(1);

/// How quickly an endpoint answers, by its last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Nothing was answered since the lane was made.
    Unknown,
    /// In a second or less.
    Quick,
    /// In more, or not at all.
    Slow,
}

/// The deliveries of one endpoint.
pub(super) struct Lane {
    pub(super) organization: OrganizationId,
    pub(super) application: ApplicationId,
    /// How many requests the endpoint takes at once.
    pub(super) max_concurrency: u32,
    /// How many are under way.
    pub(super) in_flight: u32,
    /// How quickly it answers.
    pub(super) pace: Pace,
    /// The endpoint asked to be left alone until then.
    pub(super) held_until: Option<Timestamp>,
    /// The endpoint is disabled or deleted: nothing starts, and what waits is being cancelled.
    pub(super) closed: bool,
    pub(super) queues: [Queue; 3],
    /// Every delivery that is in memory: in a window, in flight, or landed and not yet written. The store shows all of them as waiting.
    known: FxHashSet<DeliveryId>,
}

/// The deliveries of one endpoint and one priority.
#[derive(Default)]
pub(super) struct Queue {
    /// Due, oldest first.
    pub(super) window: VecDeque<Due>,
    /// What the store holds beside those that are known.
    pub(super) backlog: Backlog,
    /// Those that left memory while the backlog was being read: what is read may still show them as they were.
    departed: Vec<DeliveryId>,
    /// Whether the turns list this queue.
    pub(super) listed: bool,
}

/// What the store holds of a queue beside what is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Backlog {
    /// Nothing.
    #[default]
    Empty,
    /// Something, the first of it due at this instant.
    From(Timestamp),
    /// It is being read. What came to be meanwhile, and may be missing from what is read, is due from `missed` on.
    Reading { missed: Option<Timestamp> },
}

impl Lane {
    pub(super) fn new(organization: OrganizationId, application: ApplicationId, max_concurrency: u32) -> Self {
        Self {
            organization,
            application,
            max_concurrency,
            in_flight: 0,
            pace: Pace::Unknown,
            held_until: None,
            closed: false,
            queues: Default::default(),
            known: FxHashSet::default(),
        }
    }

    pub(super) fn queue(&mut self, priority: Priority) -> &mut Queue {
        &mut self.queues[priority as usize]
    }

    /// Whether a delivery that was just made durable goes into the window. It does unless it is known, something older must go first, or
    /// there is no room; then it is found when the backlog is read.
    pub(super) fn accepts(&mut self, priority: Priority, due: &Due, window_max: usize, now: Timestamp) -> bool {
        if self.known.contains(&due.delivery) {
            return false;
        }
        let queue = &mut self.queues[priority as usize];
        let older_in_store = match queue.backlog {
            Backlog::Empty => false,
            Backlog::From(first) => first <= now,
            Backlog::Reading { .. } => true,
        };
        let accepts = !self.closed && !older_in_store && queue.window.len() < window_max;
        if !accepts {
            queue.backlog.extend(due.due_at);
        }
        accepts
    }

    /// Puts a delivery into the window.
    pub(super) fn push(&mut self, priority: Priority, due: Due) {
        self.known.insert(due.delivery);
        self.queue(priority).window.push_back(due);
    }

    /// A queue may start a flight if it has something, a slot is free, and the endpoint gets events and did not ask to wait.
    pub(super) fn may_start(&self, priority: Priority, now: Timestamp) -> bool {
        let flows = !self.closed && self.held_until.is_none_or(|until| until <= now);
        flows && self.in_flight < self.max_concurrency && !self.queues[priority as usize].window.is_empty()
    }

    /// Takes the next delivery. It stays known until its outcome is written.
    pub(super) fn take(&mut self, priority: Priority) -> Option<Due> {
        let due = self.queues[priority as usize].window.pop_front()?;
        self.in_flight += 1;
        Some(due)
    }

    /// A request ended after so long.
    pub(super) fn land(&mut self, took: Duration) {
        self.in_flight -= 1;
        self.pace = if took > SLOW_FROM { Pace::Slow } else { Pace::Quick };
    }

    /// A delivery left memory: its outcome is written, or it was handed back. `next_due_at` says when it is due again, if it is.
    pub(super) fn release(&mut self, priority: Priority, delivery: DeliveryId, next_due_at: Option<Timestamp>) {
        let queue = &mut self.queues[priority as usize];
        if queue.is_read() {
            queue.departed.push(delivery);
        } else {
            self.known.remove(&delivery);
        }
        if let Some(due_at) = next_due_at {
            queue.backlog.extend(due_at);
        }
    }

    /// Whether the backlog should be read now.
    pub(super) fn wants_look(&self, priority: Priority, now: Timestamp) -> bool {
        let queue = &self.queues[priority as usize];
        let is_due = matches!(queue.backlog, Backlog::From(first) if first <= now);
        is_due && !self.closed && queue.window.len() <= WINDOW_LOW
    }

    /// A read is asked for.
    pub(super) fn begin_look(&mut self, priority: Priority) {
        self.queue(priority).backlog = Backlog::Reading { missed: None };
    }

    /// How many deliveries are in memory. A read will find them too.
    pub(super) fn known(&self) -> usize {
        self.known.len()
    }

    /// A read ended, and what was new of it went into the window. `next_due_at` is when the first row past it is due.
    pub(super) fn end_look(&mut self, priority: Priority, next_due_at: Option<Timestamp>) {
        let queue = &mut self.queues[priority as usize];
        let missed = match queue.backlog {
            Backlog::Reading { missed } => missed,
            Backlog::Empty | Backlog::From(_) => None,
        };
        queue.backlog = Backlog::Empty;
        for due_at in [next_due_at, missed].into_iter().flatten() {
            queue.backlog.extend(due_at);
        }
        for delivery in queue.departed.drain(..) {
            self.known.remove(&delivery);
        }
    }

    /// The endpoint was disabled or deleted: what waits in memory is given back, to be cancelled in the store.
    pub(super) fn close(&mut self) -> Vec<Due> {
        self.closed = true;
        let mut given_back = Vec::new();
        for queue in &mut self.queues {
            given_back.extend(queue.window.drain(..));
            if !queue.is_read() {
                queue.backlog = Backlog::Empty;
            }
        }
        for due in &given_back {
            self.known.remove(&due.delivery);
        }
        given_back
    }

    /// The endpoint gets events again: what was given back and not cancelled is read anew.
    pub(super) fn reopen(&mut self, now: Timestamp) {
        self.closed = false;
        self.queues.iter_mut().for_each(|queue| queue.backlog.extend(now));
    }

    /// Whether this delivery is in memory.
    pub(super) fn knows(&self, delivery: DeliveryId) -> bool {
        self.known.contains(&delivery)
    }

    /// Whether nothing of this lane is in memory and nothing of it is known to be in the store.
    pub(super) fn is_idle(&self) -> bool {
        self.known.is_empty() && self.queues.iter().all(|queue| queue.backlog == Backlog::Empty)
    }

    /// Whether nothing of this lane is in memory, nor on its way there.
    pub(super) fn is_clear(&self) -> bool {
        self.known.is_empty() && !self.queues.iter().any(Queue::is_read)
    }
}

impl Queue {
    fn is_read(&self) -> bool {
        matches!(self.backlog, Backlog::Reading { .. })
    }
}

impl Backlog {
    /// The store holds one more, due at this instant.
    pub(super) fn extend(&mut self, due_at: Timestamp) {
        *self = match *self {
            Self::Empty => Self::From(due_at),
            Self::From(first) => Self::From(first.min(due_at)),
            Self::Reading { missed } => Self::Reading { missed: Some(missed.map_or(due_at, |first| first.min(due_at))) },
        };
    }
}
