//! What leaves the board before its turn: the lanes of endpoints that were closed, those of shards that are left, and the data of erased events.

use rustc_hash::FxHashSet;

use super::Board;
use crate::{
    engine::lane::Lane,
    ids::{EndpointId, EventId, OrganizationId},
    model::ShardSet,
    time::Timestamp,
};

impl Board {
    /// The endpoint was disabled or deleted: nothing starts for it any more. Says whether nothing of it is in flight or unwritten either, so
    /// that everything that still waits in the store can be cancelled.
    pub(in crate::engine) fn close(&mut self, endpoint: EndpointId) -> bool {
        self.empty(endpoint);
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return true };
        lane.is_clear()
    }

    /// What waited for a closed endpoint is cancelled: nothing is left to remember of its lane.
    pub(in crate::engine) fn forget_closed(&mut self, endpoint: EndpointId) {
        if self.lanes.get(&endpoint).is_some_and(|lane| lane.closed && lane.is_idle()) {
            self.lanes.remove(&endpoint);
        }
    }

    /// Whether the lane is closed and what was in flight when it was closed has ended.
    pub(in crate::engine) fn is_closed_and_clear(&self, endpoint: EndpointId) -> bool {
        self.lanes.get(&endpoint).is_some_and(|lane| lane.closed && lane.is_clear())
    }

    /// The lanes of these shards are left: nothing starts in them any more. Says which they are.
    pub(in crate::engine) fn leave(&mut self, shards: ShardSet) -> Vec<EndpointId> {
        let left: Vec<EndpointId> = self.lanes.keys().copied().filter(|endpoint| shards.has_lane(*endpoint)).collect();
        left.iter().for_each(|endpoint| self.empty(*endpoint));
        left
    }

    /// The lanes of an organization are left to another worker pool: nothing starts in them any more. Says which they are.
    pub(in crate::engine) fn leave_organization(&mut self, organization: OrganizationId) -> Vec<EndpointId> {
        let left = self.lanes.iter().filter(|(_, lane)| lane.policy.organization == organization);
        let left: Vec<EndpointId> = left.map(|(endpoint, _)| *endpoint).collect();
        left.iter().for_each(|endpoint| self.empty(*endpoint));
        left
    }

    /// Drops a lane that was left, if nothing of it is in flight or unwritten. Says whether it is gone.
    pub(in crate::engine) fn drop_clear(&mut self, endpoint: EndpointId, now: Timestamp) -> bool {
        let is_clear = self.lanes.get(&endpoint).is_none_or(Lane::is_clear);
        if is_clear && let Some(lane) = self.lanes.remove(&endpoint) {
            self.breakers.leave(endpoint, lane.gate.breaker().window(now));
        }
        is_clear
    }

    /// Whether one of these endpoints may be the organization's. Of one whose lane is gone nobody knows.
    pub(in crate::engine) fn may_be_of(&self, organization: OrganizationId, mut endpoints: impl Iterator<Item = EndpointId>) -> bool {
        endpoints.any(|endpoint| self.lanes.get(&endpoint).is_none_or(|lane| lane.policy.organization == organization))
    }

    /// The data of these events was erased: it leaves memory. Their deliveries are cancelled in the store, and learn of that at their turn. Windows are
    /// walked only if one of the events is in memory.
    pub(in crate::engine) fn erased(&mut self, events: Vec<EventId>) {
        let mut is_kept = false;
        events.iter().for_each(|event| is_kept |= self.shelf.drop_event(*event));
        if is_kept {
            let events: FxHashSet<EventId> = events.into_iter().collect();
            self.lanes.values_mut().for_each(|lane| lane.unload(&events));
        }
    }

    /// Closes a lane's windows.
    pub(super) fn empty(&mut self, endpoint: EndpointId) {
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return };
        for due in lane.close() {
            self.waiting -= 1;
            self.shelf.take(&due);
        }
    }
}
