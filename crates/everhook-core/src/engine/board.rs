//! All lanes: what waits in memory, whose turn it is, and what must be read from the store. Pure: it is handed the time and does nothing itself.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    lane::{Backlog, Lane, Pace, WINDOW_MAX, WINDOW_MAX_WHEN_CROWDED},
    shelf::Shelf,
    turns::Turns,
};
use crate::{
    flow::claim::Look,
    ids::{ApplicationId, DeliveryId, EndpointId, OrganizationId},
    model::{InFlight, Priority},
    ports::{Committed, DueRead, LaneHead},
    time::Timestamp,
};

/// How many deliveries the windows of all lanes may keep before each may keep only few. A delivery takes about a hundred bytes.
const WAITING_CROWD: usize = 200_000;

/// How many queues that were passed over get another chance when a slot is free. More would be looked at in vain.
const RELIST_MAX: usize = 16;

/// How late a hint may come after its delivery is in the store. A publisher sends it as soon as it hears of the commit.
const HINT_DELAY_MAX: Duration = Duration::from_secs(10);

/// What the board must know of an endpoint to run its lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneFacts {
    pub(super) organization: OrganizationId,
    pub(super) application: ApplicationId,
    pub(super) max_concurrency: u32,
}

/// Names one queue of one lane.
pub(super) type QueueKey = (EndpointId, Priority);

/// The lanes of this owner.
pub(super) struct Board {
    lanes: FxHashMap<EndpointId, Lane>,
    turns: Turns,
    /// When a backlog's first delivery comes due. Entries may be stale: the lane is asked again when one rings.
    alarms: BTreeSet<(Timestamp, EndpointId, Priority)>,
    /// Queues whose backlog should be read, in the order in which they asked.
    looks: VecDeque<QueueKey>,
    /// New deliveries that a read found before their hint came, with the instant of their making. The hint is then no news, even if the
    /// delivery has come and gone meanwhile.
    unannounced: FxHashMap<DeliveryId, Timestamp>,
    /// Deliveries that a survey found and no lane knew of. Those that a read then finds too were stranded; the others had just been settled.
    suspects: FxHashSet<DeliveryId>,
    /// The events that come with what waits in the windows.
    shelf: Shelf,
    /// How many deliveries wait in the windows.
    waiting: usize,
    slots: usize,
    in_flight: usize,
    /// How many of those are in lanes that are not known to be quick.
    not_quick: usize,
    /// Queues that could have started if they were quick, in the order in which they were passed over.
    passed_over: VecDeque<QueueKey>,
}

impl Board {
    /// An empty board that lets `slots` requests be under way at once.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            lanes: FxHashMap::default(),
            turns: Turns::default(),
            alarms: BTreeSet::new(),
            looks: VecDeque::new(),
            unannounced: FxHashMap::default(),
            suspects: FxHashSet::default(),
            shelf: Shelf::default(),
            waiting: 0,
            slots,
            in_flight: 0,
            not_quick: 0,
            passed_over: VecDeque::new(),
        }
    }

    /// How many requests are under way.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// When something in the store comes due next.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        self.alarms.first().map(|(at, ..)| *at)
    }

    /// The next read that should begin.
    pub(super) fn next_look(&mut self) -> Option<Look> {
        let (endpoint, priority) = self.looks.pop_front()?;
        let known = self.lanes.get(&endpoint).map_or(0, Lane::known);
        Some(Look { endpoint, priority, known, event_bytes_max: self.shelf.room() })
    }

    /// A delivery was made durable: it takes its place in its lane.
    pub(super) fn offer(&mut self, committed: Committed, now: Timestamp) {
        let Committed { organization, application, endpoint, priority, max_concurrency, mut due } = committed;
        if self.unannounced.remove(&due.delivery).is_some() {
            return;
        }
        let is_late = now.since(due.due_at) >= HINT_DELAY_MAX;
        let window_max = if self.waiting < WAITING_CROWD { WINDOW_MAX } else { WINDOW_MAX_WHEN_CROWDED };
        let lane = self.lanes.entry(endpoint).or_insert_with(|| Lane::new(organization, application, max_concurrency));
        if is_late {
            // It may have been found, sent and forgotten by now: only the store knows.
            lane.queue(priority).backlog.extend(due.due_at);
        } else if lane.accepts(priority, &due, window_max, now) {
            self.shelf.put(&mut due);
            self.waiting += 1;
            lane.push(priority, due);
        }
        self.review((endpoint, priority), now);
    }

    /// Takes the next delivery whose turn it is, if a slot is free.
    ///
    /// Once half of the slots are taken, a lane that is not known to be quick holds one at most, and all such lanes together half: however many
    /// endpoints hang, those that answer have the other half.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<InFlight> {
        if self.in_flight >= self.slots {
            return None;
        }
        let half = self.slots.div_ceil(2);
        let (is_crowded, not_quick) = (self.in_flight >= half, self.not_quick);
        let (lanes, passed_over) = (&mut self.lanes, &mut self.passed_over);
        let (endpoint, priority) = self.turns.next(|endpoint, priority| {
            let Some(lane) = lanes.get_mut(&endpoint) else { return false };
            let has_slot = lane.pace == Pace::Quick || !is_crowded || (lane.in_flight == 0 && not_quick < half);
            let may_start = lane.may_start(priority, now);
            if may_start && !has_slot {
                passed_over.push_back((endpoint, priority));
            }
            // One that was passed over counts as listed: it comes back by itself.
            lane.queue(priority).listed = may_start;
            may_start && has_slot
        })?;
        let lane = self.lanes.get_mut(&endpoint)?;
        lane.queue(priority).listed = false;
        let due = lane.take(priority)?;
        let application = lane.application;
        self.in_flight += 1;
        self.not_quick += usize::from(lane.pace != Pace::Quick);
        self.waiting -= 1;
        self.shelf.take(&due);
        self.review((endpoint, priority), now);
        Some(InFlight { due, endpoint, priority, application, picked_at: now })
    }

    /// A request ended: its slot is free. Its delivery stays known until [`Board::release`].
    pub(super) fn landed(&mut self, endpoint: EndpointId, took: Duration, now: Timestamp) {
        self.in_flight -= 1;
        if let Some(lane) = self.lanes.get_mut(&endpoint) {
            let was_quick = lane.pace == Pace::Quick;
            self.not_quick -= if was_quick { 0 } else { lane.in_flight as usize };
            lane.land(took);
            self.not_quick += if lane.pace == Pace::Quick { 0 } else { lane.in_flight as usize };
        }
        for priority in Priority::ALL {
            self.review((endpoint, priority), now);
        }
        self.relist(now);
    }

    /// The endpoint asked for a pause until the instant given, or answered well, which ends one.
    pub(super) fn hold(&mut self, endpoint: EndpointId, until: Option<Timestamp>, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return };
        if lane.held_until == until {
            return;
        }
        lane.held_until = until;
        for priority in Priority::ALL {
            if let Some(until) = until {
                self.alarms.insert((until, endpoint, priority));
            }
            self.review((endpoint, priority), now);
        }
    }

    /// A delivery's outcome is written, or it was handed back without one. `next_due_at` says when it is due again, if it is.
    pub(super) fn release(&mut self, key: QueueKey, delivery: DeliveryId, next_due_at: Option<Timestamp>, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&key.0) {
            lane.release(key.1, delivery, next_due_at);
        }
        self.review(key, now);
    }

    /// A read ended. A failed one is tried again at `retry_at`. Says how many of what it found had been stranded.
    pub(super) fn looked(&mut self, key: QueueKey, read: Result<DueRead, Timestamp>, now: Timestamp) -> usize {
        let (rows, next_due_at) = match read {
            Ok(read) => (read.rows, read.next_due_at),
            Err(retry_at) => (Vec::new(), Some(retry_at)),
        };
        let Some(lane) = self.lanes.get_mut(&key.0) else { return 0 };
        let mut stranded = 0;
        for mut due in rows {
            if lane.knows(due.delivery) {
                continue;
            }
            stranded += usize::from(self.suspects.remove(&due.delivery));
            if due.attempts == 0 && now.since(due.due_at) < HINT_DELAY_MAX {
                self.unannounced.insert(due.delivery, due.due_at);
            }
            self.shelf.put(&mut due);
            self.waiting += 1;
            lane.push(key.1, due);
        }
        lane.end_look(key.1, next_due_at);
        if lane.closed {
            self.empty(key.0);
        }
        self.review(key, now);
        stranded
    }

    /// The store shows something waiting in this queue. If the lane has no reason to know of it, it looks.
    pub(super) fn heed(&mut self, head: &LaneHead, facts: LaneFacts, now: Timestamp) {
        let lane =
            self.lanes.entry(head.endpoint).or_insert_with(|| Lane::new(facts.organization, facts.application, facts.max_concurrency));
        let knows = lane.knows(head.delivery);
        let queue = lane.queue(head.priority);
        let is_news = match queue.backlog {
            Backlog::Empty => !knows,
            Backlog::From(first) => !knows && head.next_due_at < first,
            Backlog::Reading { .. } => false,
        };
        if is_news {
            queue.backlog.extend(head.next_due_at);
            self.suspects.insert(head.delivery);
        }
        self.review((head.endpoint, head.priority), now);
    }

    /// The endpoint's limits changed, or it gets events again.
    pub(super) fn adjust(&mut self, endpoint: EndpointId, facts: LaneFacts, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&endpoint) {
            lane.max_concurrency = facts.max_concurrency;
            if lane.closed {
                lane.reopen(now);
            }
        }
        for priority in Priority::ALL {
            self.review((endpoint, priority), now);
        }
    }

    /// The endpoint was disabled or deleted: nothing starts for it any more. Says whether nothing of it is in flight or unwritten either, so
    /// that everything that still waits in the store can be cancelled.
    pub(super) fn close(&mut self, endpoint: EndpointId) -> bool {
        self.empty(endpoint);
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return true };
        let is_clear = lane.is_clear();
        if lane.is_idle() {
            self.lanes.remove(&endpoint);
        }
        is_clear
    }

    /// Whether the lane is closed and what was in flight when it was closed has ended.
    pub(super) fn is_closed_and_clear(&self, endpoint: EndpointId) -> bool {
        self.lanes.get(&endpoint).is_some_and(|lane| lane.closed && lane.is_clear())
    }

    /// Forgets which deliveries were found before their hint came, once none can come any more, and who was suspected. Called before a survey.
    pub(super) fn prune(&mut self, now: Timestamp) {
        self.suspects.clear();
        self.unannounced.retain(|_, made_at| now.since(*made_at) < HINT_DELAY_MAX);
    }

    /// Rings the alarms that are due.
    pub(super) fn ring(&mut self, now: Timestamp) {
        while let Some(&(at, endpoint, priority)) = self.alarms.first() {
            if at > now {
                break;
            }
            self.alarms.pop_first();
            self.review((endpoint, priority), now);
        }
    }

    /// After anything happened to a queue: lists it if it may start, asks for a read if it needs one, or sets an alarm for when it will.
    fn review(&mut self, (endpoint, priority): QueueKey, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return };
        if lane.may_start(priority, now) && !lane.queue(priority).listed {
            lane.queue(priority).listed = true;
            self.turns.list(lane.organization, endpoint, priority);
        }
        if lane.wants_look(priority, now) {
            lane.begin_look(priority);
            self.looks.push_back((endpoint, priority));
        } else if let Backlog::From(first) = lane.queue(priority).backlog
            && first > now
        {
            self.alarms.insert((first, endpoint, priority));
        }
        if lane.is_idle() && !lane.closed {
            self.lanes.remove(&endpoint);
        }
    }

    /// Lists some of those again that were passed over because too many slots were taken, if one may start now.
    fn relist(&mut self, now: Timestamp) {
        let half = self.slots.div_ceil(2);
        for _ in 0..RELIST_MAX {
            if self.in_flight >= half && self.not_quick >= half {
                return;
            }
            let Some((endpoint, priority)) = self.passed_over.pop_front() else { return };
            if let Some(lane) = self.lanes.get_mut(&endpoint) {
                lane.queue(priority).listed = false;
            }
            self.review((endpoint, priority), now);
        }
    }

    /// Closes a lane's windows.
    fn empty(&mut self, endpoint: EndpointId) {
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return };
        for due in lane.close() {
            self.waiting -= 1;
            self.shelf.take(&due);
        }
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
