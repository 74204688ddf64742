//! What leaves the board before its turn: the lanes of endpoints that were closed, those of shards that are left, and the data of erased events.

use rustc_hash::FxHashSet;

use crate::{
    ids::{EventId, LaneId, OrganizationId},
    lanes::{board::Board, lane::Lane},
    model::ShardSet,
    time::Timestamp,
};

impl Board {
    /// The endpoint was disabled or deleted: nothing starts for it any more. Says whether nothing of it is in flight or unwritten either, so
    /// that everything that still waits in the store can be cancelled.
    pub(in crate::lanes) fn close(&mut self, lane_id: LaneId) -> bool {
        self.empty(lane_id);
        let Some(lane) = self.lanes.get_mut(&lane_id) else { return true };
        lane.is_clear()
    }

    /// What waited for a closed endpoint is cancelled: nothing is left to remember of its lane.
    pub(in crate::lanes) fn forget_closed(&mut self, lane_id: LaneId) {
        if self.lanes.get(&lane_id).is_some_and(|lane| lane.closed && lane.is_idle()) {
            self.lanes.remove(&lane_id);
            self.metrics.lanes.forget(&lane_id);
        }
    }

    /// Whether the lane is closed and what was in flight when it was closed has ended.
    pub(in crate::lanes) fn is_closed_and_clear(&self, lane_id: LaneId) -> bool {
        self.lanes.get(&lane_id).is_some_and(|lane| lane.closed && lane.is_clear())
    }

    /// The lanes of these shards are left: nothing starts in them any more. Says which they are.
    pub(in crate::lanes) fn leave(&mut self, shards: ShardSet) -> Vec<LaneId> {
        let left: Vec<LaneId> = self.lanes.keys().copied().filter(|lane_id| shards.has_lane(*lane_id)).collect();
        left.iter().for_each(|lane_id| self.empty(*lane_id));
        left
    }

    /// The lanes of an organization are left to another worker pool: nothing starts in them any more. Says which they are.
    pub(in crate::lanes) fn leave_organization(&mut self, organization: OrganizationId) -> Vec<LaneId> {
        let left = self.lanes.iter().filter(|(_, lane)| lane.policy.organization == organization);
        let left: Vec<LaneId> = left.map(|(lane_id, _)| *lane_id).collect();
        left.iter().for_each(|lane_id| self.empty(*lane_id));
        left
    }

    /// Drops a lane that was left, if nothing of it is in flight or unwritten. Says whether it is gone.
    pub(in crate::lanes) fn drop_clear(&mut self, lane_id: LaneId, now: Timestamp) -> bool {
        let is_clear = self.lanes.get(&lane_id).is_none_or(Lane::is_clear);
        if is_clear && let Some(lane) = self.lanes.remove(&lane_id) {
            self.breakers.leave(lane_id, lane.gate.breaker().window(now));
            self.metrics.lanes.forget(&lane_id);
        }
        is_clear
    }

    /// Whether one of these endpoints may be the organization's. Of one whose lane is gone nobody knows.
    pub(in crate::lanes) fn may_be_of(&self, organization: OrganizationId, mut endpoints: impl Iterator<Item = LaneId>) -> bool {
        endpoints.any(|lane_id| self.lanes.get(&lane_id).is_none_or(|lane| lane.policy.organization == organization))
    }

    /// The data of these events was erased: it leaves memory. Their deliveries are cancelled in the store, and learn of that at their turn. Windows are
    /// walked only if one of the events is in memory.
    pub(in crate::lanes) fn erased(&mut self, events: Vec<EventId>) {
        let mut is_kept = false;
        events.iter().for_each(|event| is_kept |= self.event_cache.drop_event(*event));
        if is_kept {
            let events: FxHashSet<EventId> = events.into_iter().collect();
            self.lanes.values_mut().for_each(|lane| lane.unload(&events));
        }
    }

    /// Closes a lane's windows.
    pub(super) fn empty(&mut self, lane_id: LaneId) {
        let Some(lane) = self.lanes.get_mut(&lane_id) else { return };
        for due in lane.close() {
            self.waiting -= 1;
            self.event_cache.take(&due);
        }
    }
}
