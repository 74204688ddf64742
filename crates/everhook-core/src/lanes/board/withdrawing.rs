//! What a person does to deliveries that wait: an attempt is brought forward, or the delivery is taken out of its lane because it is being cancelled.

use crate::{
    ids::LaneId,
    lanes::{
        board::{Board, open},
        lane::UnreadRange,
    },
    ports::{Forwarded, InLane, Withdrawal},
    time::Timestamp,
};

impl Board {
    /// A delivery is due earlier than it was. The store is read for it: only there is it known how many attempts it has had.
    pub(in crate::lanes) fn bring_forward(&mut self, forwarded: &Forwarded, now: Timestamp) {
        let policy = &forwarded.lane;
        let lane = open(&mut self.lanes, &mut self.organizations, &mut self.breakers, &mut self.paces, &self.metrics, policy, now);
        lane.bring_forward(forwarded.priority, forwarded.delivery, forwarded.due_at);
        self.review((policy.lane_id, forwarded.priority), now);
    }

    /// Something that waits was cancelled, nobody knows what: the lane reads again what it has in memory.
    pub(in crate::lanes) fn read_again(&mut self, lane_id: LaneId, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&lane_id) else { return };
        for due in lane.give_back() {
            self.waiting -= 1;
            self.event_cache.take(&due);
        }
        self.review_lane(lane_id, now);
    }

    /// Takes a delivery out of its lane, unless an attempt is under way. Until the withdrawal ends, nothing that is read or hinted brings it back.
    pub(in crate::lanes) fn withdraw(&mut self, InLane { lane_id, priority, delivery }: InLane) -> Withdrawal {
        if let Some(lane) = self.lanes.get_mut(&lane_id)
            && lane.knows(delivery)
        {
            let Some(due) = lane.withdraw(priority, delivery) else { return Withdrawal::UnderWay };
            self.waiting -= 1;
            self.event_cache.take(&due);
        }
        self.withdrawn.insert(delivery);
        Withdrawal::Withdrawn
    }

    /// The delivery has ended; or it is due at the instant. Says whether its lane is in memory.
    pub(in crate::lanes) fn end_withdrawal(&mut self, of: InLane, due_at: Option<Timestamp>, now: Timestamp) -> bool {
        if !self.withdrawn.remove(&of.delivery) {
            return true;
        }
        let Some(lane) = self.lanes.get_mut(&of.lane_id) else { return false };
        lane.end_withdrawal(of.priority, of.delivery, due_at.map(UnreadRange::due));
        self.review((of.lane_id, of.priority), now);
        true
    }
}
