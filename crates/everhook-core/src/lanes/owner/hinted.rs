//! Lanes that other nodes hint at and of which nothing is in memory: most are idle, some do not exist.
//!
//! A hint can be forged by whoever can reach the channel that carries it. What one costs is bounded: an endpoint that the catalog knows costs no read
//! of the store; the others wait in a short queue, a few reads are under way at once, and hints that named no lane are counted. Whatever is dropped here, the
//! next survey finds in the store.

use std::{collections::VecDeque, time::Duration};

use rustc_hash::FxHashSet;

use crate::{
    ids::ApplicationId,
    lanes::{
        background_task::{BackgroundTask, LaneState},
        owner::Owner,
    },
    ports::WaitingQueue,
    time::Timestamp,
};

/// How many hints of unknown lanes wait to be looked up. More are dropped.
const UNKNOWN_MAX: usize = 1_024;
/// How many of them one background task looks up.
const LOOKUP_BATCH: usize = 32;
/// How many such tasks are under way: each holds one connection of those that publishing needs, too.
const LOOKUPS_MAX: usize = 2;
/// How many hints may lead to no open endpoint in one [`INTERVAL`]. Past it, unknown lanes wait for the next survey.
const MISSES_MAX: usize = 50;
/// How long misses count: as long as a survey is away, where nodes share a store.
const INTERVAL: Duration = Duration::from_secs(1);
/// How far ahead of this node's clock a hint may say that something is due. A later time would leave the lane in memory until then.
const AHEAD_MAX: Duration = Duration::from_secs(10);

/// Hints of lanes that are not in memory.
#[derive(Default)]
pub(super) struct Hinted {
    unknown: VecDeque<WaitingQueue>,
    lookups_under_way: usize,
    misses: Misses,
}

/// Recent hints that named no lane.
#[derive(Default)]
struct Misses {
    /// When counting began.
    since: Option<Timestamp>,
    count: usize,
    /// Whose endpoints were named and not found: they are not read again for another hint.
    applications: FxHashSet<ApplicationId>,
}

impl Misses {
    fn begin(&mut self, now: Timestamp) {
        if self.since.is_none_or(|since| now.since(since) >= INTERVAL || since > now) {
            *self = Self { since: Some(now), ..Self::default() };
        }
    }

    fn add(&mut self, application: ApplicationId, now: Timestamp) {
        self.begin(now);
        self.count += 1;
        self.applications.insert(application);
        if self.count == MISSES_MAX {
            tracing::warn!(misses = self.count, "hints from other nodes name unknown endpoints; further ones are ignored for a second");
        }
    }

    fn allow(&mut self, application: ApplicationId, now: Timestamp) -> bool {
        self.begin(now);
        self.count < MISSES_MAX && !self.applications.contains(&application)
    }
}

impl Hinted {
    /// Adds a hint, unless there are too many or it is known to lead nowhere.
    fn push(&mut self, queue: WaitingQueue, now: Timestamp) {
        if self.unknown.len() < UNKNOWN_MAX && self.misses.allow(queue.application, now) {
            self.unknown.push_back(queue);
        }
    }

    /// The next hints to be looked up, if another background task may begin.
    fn next_lookup(&mut self, now: Timestamp) -> Option<Vec<WaitingQueue>> {
        while self.lookups_under_way < LOOKUPS_MAX && !self.unknown.is_empty() {
            let mut batch: Vec<_> = self.unknown.drain(..LOOKUP_BATCH.min(self.unknown.len())).collect();
            // What was found out since they were queued.
            batch.retain(|queue| self.misses.allow(queue.application, now));
            if !batch.is_empty() {
                self.lookups_under_way += 1;
                return Some(batch);
            }
        }
        None
    }
}

impl Owner<'_> {
    /// Another node made something durable in these queues.
    pub(super) fn expect(&mut self, queues: Vec<WaitingQueue>, now: Timestamp) {
        let active = self.shards.active;
        for mut queue in queues.into_iter().filter(|queue| active.has_lane(queue.lane_id)) {
            queue.due_from = queue.due_from.min(now + AHEAD_MAX);
            match self.board.lane(queue.lane_id).map(|lane| lane.policy.clone()) {
                Some(policy) => self.board.expect(&policy, queue, now),
                None => self.expect_in_unknown_lane(queue, now),
            }
        }
        self.look_up_hinted(now);
    }

    fn expect_in_unknown_lane(&mut self, queue: WaitingQueue, now: Timestamp) {
        let known = self.line.catalog.known(queue.application).filter(|view| view.pool.is_here);
        match known.and_then(|view| view.enabled(queue.lane_id)) {
            Some(destination) => self.expect_where_open(queue, LaneState::Open(destination.lane().clone()), now),
            None => self.hinted.push(queue, now),
        }
    }

    fn look_up_hinted(&mut self, now: Timestamp) {
        while let Some(queues) = self.hinted.next_lookup(now) {
            self.send(BackgroundTask::LookUpHinted(queues));
        }
    }

    /// It is known where hints lead. What could not be looked up, the next survey finds.
    pub(super) fn hinted_looked_up(&mut self, found: Vec<(WaitingQueue, Option<LaneState>)>, now: Timestamp) {
        self.hinted.lookups_under_way -= 1;
        for (queue, state) in found {
            match state {
                Some(LaneState::Closed(..)) => self.hinted.misses.add(queue.application, now),
                Some(state) => self.expect_where_open(queue, state, now),
                None => {}
            }
        }
        self.look_up_hinted(now);
    }

    /// Nothing is cancelled because of a hint: if something waits for a closed endpoint, the survey sees it.
    fn expect_where_open(&mut self, queue: WaitingQueue, state: LaneState, now: Timestamp) {
        if let Some(policy) = self.apply_lane_state(queue.application, queue.lane_id, state, now) {
            self.board.expect(&policy, queue, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{ids::LaneId, model::Priority};

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn hint(application: u128, lane_id: u128) -> WaitingQueue {
        WaitingQueue {
            application: ApplicationId::from_uuid(Uuid::from_u128(application)),
            lane_id: LaneId::from_uuid(Uuid::from_u128(lane_id)),
            priority: Priority::Normal,
            due_from: NOW,
        }
    }

    #[test]
    fn a_flood_of_hints_is_dropped_beyond_the_queue_and_few_lookups_run_at_once() {
        let mut hinted = Hinted::default();
        (0..100_000).for_each(|number| hinted.push(hint(number, number), NOW));
        assert_eq!(hinted.unknown.len(), UNKNOWN_MAX);
        let lookups: Vec<usize> = std::iter::from_fn(|| hinted.next_lookup(NOW)).map(|batch| batch.len()).collect();
        assert_eq!(lookups, [LOOKUP_BATCH; LOOKUPS_MAX]);
    }

    #[test]
    fn hints_that_lead_nowhere_use_up_what_may_be_looked_up_until_the_next_interval() {
        let mut hinted = Hinted::default();
        (0..MISSES_MAX as u128).for_each(|number| hinted.misses.add(hint(number, 0).application, NOW));
        hinted.push(hint(1_000, 0), NOW);
        assert!(hinted.unknown.is_empty());
        hinted.push(hint(1_000, 0), NOW + INTERVAL);
        assert_eq!(hinted.unknown.len(), 1);
    }

    #[test]
    fn an_application_that_was_read_in_vain_is_not_read_again_for_its_next_hint_and_others_are() {
        let mut hinted = Hinted::default();
        [hint(1, 1), hint(1, 2), hint(2, 3)].into_iter().for_each(|queue| hinted.push(queue, NOW));
        hinted.misses.add(hint(1, 0).application, NOW);
        assert_eq!(hinted.next_lookup(NOW), Some(vec![hint(2, 3)]));
        hinted.push(hint(1, 4), NOW);
        assert!(hinted.unknown.is_empty());
    }
}
