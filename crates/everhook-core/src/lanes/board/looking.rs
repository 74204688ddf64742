//! What the board reads from the store: which backlogs, what a read brings, and what surveys and other nodes say is waiting there.

use std::{sync::Arc, time::Duration};

use crate::{
    lanes::{
        board::{Board, HINT_DELAY_MAX, QueueKey, open},
        lane::{Backlog, QueueReadRequest, UnreadRange},
    },
    line::claim::{CLAIM_BATCH, DueReads, QueueRead},
    model::LanePolicy,
    ports::{DueRead, LaneHead, WaitingQueue},
    time::Timestamp,
};

/// How long a delivery must have been due before it is suspected that nobody knows of it.
const SUSPECT_FROM: Duration = Duration::from_secs(1);

/// How many bytes of events one read brings: some ten milliseconds of it, for which a read of another organization may have to wait. Events beyond that are
/// read when they are sent.
const LOOK_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Board {
    /// The next read that should begin. Where it has room, queues come along that will want one soon.
    pub(in crate::lanes) fn next_look(&mut self, queues_max: usize, now: Timestamp) -> Option<DueReads> {
        if self.looks.len() > 0 {
            self.fill_up(queues_max, now);
        }
        let keys: Vec<QueueKey> = std::iter::from_fn(|| self.looks.pop()).take(queues_max).collect();
        let queue = |(lane_id, priority)| {
            let lane = self.lanes.get(&lane_id)?;
            let due_from = lane.queues[priority as usize].backlog.read_from()?;
            Some(QueueRead { lane_id, priority, due_from, known: lane.known().clone() })
        };
        let queues: Vec<QueueRead> = keys.into_iter().filter_map(queue).collect();
        (!queues.is_empty()).then(|| DueReads { queues, event_bytes_max: self.event_cache.room().min(LOOK_BYTES_MAX) })
    }

    fn fill_up(&mut self, queues_max: usize, now: Timestamp) {
        while self.looks.len() < queues_max
            && let Some((lane_id, priority)) = self.postponed.pop_front()
        {
            let Some(lane) = self.lanes.get_mut(&lane_id) else { continue };
            lane.queue(priority).postponed = false;
            if lane.look(priority, now) == QueueReadRequest::Soon {
                lane.begin_look(priority, now);
                self.looks.push(lane.policy.organization, (lane_id, priority));
            }
        }
    }

    /// A read ended. A failed one is tried again at `retry_at`. Says how many of what it found had been stranded.
    pub(in crate::lanes) fn looked(&mut self, key: QueueKey, read: Result<DueRead, Timestamp>, now: Timestamp) -> usize {
        let Some(lane) = self.lanes.get_mut(&key.0) else { return 0 };
        let (rows, mut rest) = match read {
            Ok(read) => (read.rows, read.next_due_at.map(UnreadRange::due)),
            Err(retry_at) => {
                (Vec::new(), lane.queue(key.1).backlog.read_from().map(|due_from| UnreadRange { due_from, look_at: retry_at }))
            }
        };
        let (mut stranded, mut brought) = (0, 0);
        for mut due in rows {
            if lane.knows(due.delivery) || self.withdrawn.contains(&due.delivery) {
                continue;
            }
            if brought == CLAIM_BATCH {
                rest = Some(UnreadRange::due(due.due_at));
                break;
            }
            brought += 1;
            stranded += usize::from(self.suspects.remove(&due.delivery));
            if due.attempts == 0 && now.since(due.due_at) < HINT_DELAY_MAX {
                self.unannounced.insert(due.delivery, due.due_at);
            }
            self.event_cache.put(lane.policy.organization, &mut due);
            self.waiting += 1;
            lane.push(key.1, due);
        }
        for due in lane.end_look(key.1, rest, now) {
            self.waiting -= 1;
            self.event_cache.take(&due);
        }
        if lane.closed {
            self.empty(key.0);
        }
        self.review(key, now);
        stranded
    }

    /// The store shows something waiting in this queue. If the lane has no reason to know of it, it looks. One that came due a
    /// moment ago is not suspected to have been stranded: its hint may be on its way.
    pub(in crate::lanes) fn note_head(&mut self, head: &LaneHead, policy: &Arc<LanePolicy>, now: Timestamp) {
        let lane = open(&mut self.lanes, &mut self.organizations, &mut self.breakers, &mut self.paces, &self.metrics, policy, now);
        let knows = lane.knows(head.delivery);
        let queue = lane.queue(head.priority);
        let is_news = match queue.backlog {
            Backlog::Empty => !knows,
            Backlog::Unread(rest) => !knows && head.next_due_at < rest.due_from,
            Backlog::Reading { due_from, missed } => {
                !knows && head.next_due_at < missed.map_or(due_from, |missed| missed.due_from.min(due_from))
            }
        };
        if is_news {
            queue.backlog.extend(head.next_due_at);
            // What a first survey finds waited before this process began, and no lane could know of it.
            if self.knows_what_waits && now.since(head.next_due_at) >= SUSPECT_FROM {
                self.suspects.insert(head.delivery);
            }
        }
        queue.backlog.begin_at(head.next_due_at, now);
        self.review((head.lane_id, head.priority), now);
    }

    /// Another node made something durable in this queue: the lane looks, at once or in a moment.
    pub(in crate::lanes) fn expect(&mut self, policy: &Arc<LanePolicy>, waiting: WaitingQueue, now: Timestamp) {
        let lane = open(&mut self.lanes, &mut self.organizations, &mut self.breakers, &mut self.paces, &self.metrics, policy, now);
        let queue = lane.queue(waiting.priority);
        let look_at = queue.look_at(now).max(waiting.due_from);
        queue.backlog.add(UnreadRange { due_from: waiting.due_from, look_at });
        self.review((policy.lane_id, waiting.priority), now);
    }
}
