//! Which lanes are the owner's, where nodes share a store: how it gains some, leaves some, and tells others of theirs.
//!
//! A lane that is gained is not sent for before its breaker is known, and one that is left not given away before its last outcome is written. Of a
//! store that has one owner every lane is its, and nothing here ever changes.

use std::{collections::BTreeMap, time::Duration};

use tokio::sync::watch;

use crate::{
    ids::LaneId,
    lanes::{
        background_task::{BackgroundTask, BreakersLoaded},
        owner::Owner,
    },
    model::{LanePolicy, PoolName, Priority, ShardSet},
    nodes::held_lease::{HeldLease, HeldState},
    ports::{Committed, Forwarded, WaitingQueue},
    time::Timestamp,
};

/// How often the store is looked at for deliveries whose hint was lost.
const SURVEY_INTERVAL: Duration = Duration::from_secs(5);

/// The same where nodes share a store, whose hints have a longer way.
const SURVEY_INTERVAL_SHARED: Duration = Duration::from_secs(1);

/// Which lanes are this owner's.
pub(super) struct OwnedShards {
    /// Whether there are others to share with: listening to what never comes would cost each round a little.
    pub(super) may_change: bool,
    /// What the held lease says, and whether it says something new.
    pub(super) changes: watch::Receiver<HeldState>,
    epoch: u64,
    /// The shards that are sent for.
    pub(super) active: ShardSet,
    /// Those whose breakers are being read.
    loading: ShardSet,
    /// Those that are being left.
    leaving: ShardSet,
    /// The lanes of those that may not be clear yet.
    lanes_left: Vec<LaneId>,
}

impl OwnedShards {
    /// Everything that is held now: all breakers are read before an owner sends anything.
    pub(super) fn new(held_lease: &HeldLease) -> Self {
        let mut changes = held_lease.changes();
        let state = *changes.borrow_and_update();
        // It may have been lost already.
        changes.mark_changed();
        Self {
            may_change: held_lease.is_shared(),
            changes,
            epoch: state.epoch,
            active: state.staying(),
            loading: ShardSet::NONE,
            leaving: state.leaving,
            lanes_left: Vec::new(),
        }
    }

    /// Returns once the lease under which this owner began is gone.
    pub(super) async fn lost(&mut self) {
        let epoch = self.epoch;
        // `Line` owns the sender, so the channel cannot close here.
        let _ = self.changes.wait_for(|state| state.epoch != epoch || !state.has_lease).await;
    }
}

impl Owner<'_> {
    /// Whether this endpoint's lane is sent for.
    pub(super) fn is_ours(&self, lane_id: LaneId) -> bool {
        self.shards.active.has_lane(lane_id)
    }

    /// How long after a survey the next one follows.
    pub(super) fn survey_interval(&self) -> Duration {
        if self.line.held_lease.is_shared() { SURVEY_INTERVAL_SHARED } else { SURVEY_INTERVAL }
    }

    /// What other nodes recorded is looked for; what this one did is known as soon as it is written.
    pub(super) fn look_for_alerts(&mut self, now: Timestamp) {
        if self.line.held_lease.is_shared() {
            self.alerts_at.get_or_insert(now);
        }
    }

    /// Applies what is held and was not, and the other way round, if that has changed. Says whether the lease under which this owner began is there.
    pub(super) fn apply_lease_changes(&mut self) -> bool {
        if !self.shards.changes.has_changed().unwrap_or(false) {
            return true;
        }
        let state = *self.shards.changes.borrow_and_update();
        if state.epoch != self.shards.epoch || !state.has_lease {
            return false;
        }
        let leaves = state.leaving.without(self.shards.leaving);
        self.shards.leaving = state.leaving;
        self.shards.active = self.shards.active.without(leaves);
        self.shards.loading = self.shards.loading.without(leaves);
        self.shards.lanes_left.extend(self.board.leave(leaves));
        let gained = state.staying().without(self.shards.active).without(self.shards.loading);
        if !gained.is_empty() {
            self.shards.loading = self.shards.loading.with(gained);
            self.send(BackgroundTask::LoadBreakers(gained));
        }
        true
    }

    /// The state of breakers was loaded, of lanes that were gained or that another node may have changed: now everything that waits for them is
    /// looked for.
    pub(super) fn breakers_loaded(&mut self, shards: ShardSet, loaded: Option<BreakersLoaded>, now: Timestamp) {
        let gained = shards.and(self.shards.loading);
        let ours = gained.with(shards.and(self.shards.active));
        let Some(BreakersLoaded { rows, windows }) = loaded else {
            self.send(BackgroundTask::LoadBreakers(ours));
            return;
        };
        for row in rows.into_iter().filter(|row| ours.has_lane(row.lane_id)) {
            if self.board.breakers.learn(row)
                && let Some(lane) = self.board.lane(row.lane_id)
            {
                let application = lane.policy.application;
                self.send(BackgroundTask::Inspect(application, row.lane_id));
            }
        }
        if !gained.is_empty() {
            self.board.breakers.learn_windows(windows, now);
            self.shards.loading = self.shards.loading.without(gained);
            self.shards.active = self.shards.active.with(gained);
            self.board.gain();
        }
        self.survey_soon(now);
    }

    /// Looks for everything that waits, at once. A survey that is under way may have read what was before, and is followed by another.
    pub(super) fn survey_soon(&mut self, now: Timestamp) {
        if self.survey_at == Timestamp::FAR_FUTURE {
            self.survey_again = true;
        } else {
            self.survey_at = now;
        }
    }

    /// Gives back the shards that were left, once nothing of them is in flight, unwritten or being cancelled.
    pub(super) fn leave_what_is_clear(&mut self, now: Timestamp) {
        let leaving = self.shards.leaving;
        // What is swept need not have a lane.
        if leaving.is_empty() || self.sweeping.keys().any(|lane_id| leaving.has_lane(*lane_id)) {
            return;
        }
        while let Some(lane_id) = self.shards.lanes_left.last() {
            if !self.board.drop_clear(*lane_id, now) {
                return;
            }
            self.shards.lanes_left.pop();
        }
        if self.line.held_lease.state().left == leaving {
            return;
        }
        if !self.keeping_breakers && !self.board.breakers.has_unwritten_of(leaving) {
            self.board.breakers.forget(leaving);
            self.hand_windows_over(now);
            self.line.held_lease.left(leaving);
        }
    }

    /// Those of the deliveries whose lanes are this owner's. The owners of the others are notified.
    pub(super) fn keep_ours(&mut self, mut deliveries: Vec<Committed>) -> Vec<Committed> {
        if self.line.held_lease.is_shared() {
            self.hint_others(deliveries.iter().map(|committed| (&*committed.lane, committed.priority, committed.due.due_at)));
            // What is held and not yet sent for is found by the survey that follows.
            deliveries.retain(|committed| self.is_sent_here(&committed.lane));
        }
        deliveries
    }

    /// The same for deliveries that were brought forward.
    pub(super) fn keep_our_forwarded(&mut self, mut deliveries: Vec<Forwarded>) -> Vec<Forwarded> {
        if self.line.held_lease.is_shared() {
            self.hint_others(deliveries.iter().map(|forwarded| (&*forwarded.lane, forwarded.priority, forwarded.due_at)));
            deliveries.retain(|forwarded| self.is_sent_here(&forwarded.lane));
        }
        deliveries
    }

    /// Tells the owners of lanes that are not this node's what waits there.
    fn hint_others<'l>(&self, waiting: impl Iterator<Item = (&'l LanePolicy, Priority, Timestamp)>) {
        let held = self.shards.changes.borrow().held.shards;
        let mut others = BTreeMap::<&PoolName, Vec<WaitingQueue>>::new();
        for (lane, priority, due_from) in waiting.filter(|(lane, ..)| !lane.pool.is_here || !held.has_lane(lane.lane_id)) {
            let queue = WaitingQueue { application: lane.application, lane_id: lane.lane_id, priority, due_from };
            others.entry(&lane.pool.pool).or_default().push(queue);
        }
        for (pool, mut queues) in others {
            WaitingQueue::merge(&mut queues);
            self.line.ports.remote_hints.waiting(pool, queues);
        }
    }

    fn is_sent_here(&mut self, lane: &LanePolicy) -> bool {
        lane.pool.is_here && self.is_ours(lane.lane_id) && self.has_moved_breakers(lane)
    }
}
