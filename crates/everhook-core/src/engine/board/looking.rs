//! What the board reads from the store: which backlogs, what a read brings, and what surveys and other nodes say is waiting there.

use std::{sync::Arc, time::Duration};

use super::{Board, HINT_DELAY_MAX, QueueKey, open};
use crate::{
    engine::lane::{Backlog, HINTS_GATHER, Lane},
    flow::claim::{Look, QueueLook},
    model::{LanePolicy, Priority},
    ports::{DueRead, LaneHead},
    time::Timestamp,
};

/// How long a delivery must have been due before it is suspected that nobody knows of it.
const SUSPECT_FROM: Duration = Duration::from_secs(1);

impl Board {
    /// The next read that should begin.
    pub(in crate::engine) fn next_look(&mut self, queues_max: usize) -> Option<Look> {
        let keys = self.looks.drain(..queues_max.min(self.looks.len()));
        let queue = |(endpoint, priority)| {
            let known = self.lanes.get(&endpoint).map(Lane::known).cloned().unwrap_or_default();
            QueueLook { endpoint, priority, known }
        };
        let queues: Vec<QueueLook> = keys.map(queue).collect();
        (!queues.is_empty()).then(|| Look { queues, event_bytes_max: self.shelf.room() })
    }

    /// A read ended. A failed one is tried again at `retry_at`. Says how many of what it found had been stranded.
    pub(in crate::engine) fn looked(&mut self, key: QueueKey, read: Result<DueRead, Timestamp>, now: Timestamp) -> usize {
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

    /// The store shows something waiting in this queue. If the lane has no reason to know of it, it looks. One that came due a
    /// moment ago is not suspected to have been stranded: its hint may be on its way.
    pub(in crate::engine) fn heed(&mut self, head: &LaneHead, policy: &Arc<LanePolicy>, now: Timestamp) {
        let lane = open(&mut self.lanes, &mut self.organizations, &mut self.breakers, policy, now);
        let knows = lane.knows(head.delivery);
        let queue = lane.queue(head.priority);
        let is_news = match queue.backlog {
            Backlog::Empty => !knows,
            Backlog::From(first) => !knows && head.next_due_at < first,
            Backlog::Reading { .. } => false,
        };
        if is_news {
            queue.backlog.extend(head.next_due_at);
            if now.since(head.next_due_at) >= SUSPECT_FROM {
                self.suspects.insert(head.delivery);
            }
        }
        self.review((head.endpoint, head.priority), now);
    }

    /// Another node made something durable in this queue: the lane looks, at once or in a moment.
    pub(in crate::engine) fn expect(&mut self, policy: &Arc<LanePolicy>, priority: Priority, now: Timestamp) {
        let lane = open(&mut self.lanes, &mut self.organizations, &mut self.breakers, policy, now);
        let look_at = if lane.in_flight == 0 { now } else { now + HINTS_GATHER };
        lane.queue(priority).backlog.extend(look_at);
        self.review((policy.endpoint, priority), now);
    }
}
