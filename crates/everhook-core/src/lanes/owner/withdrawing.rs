//! Deliveries that a person cancels: none is attempted while that is being written.

use crate::{
    lanes::owner::Owner,
    ports::{InLane, Withdrawal},
    time::Timestamp,
};

impl Owner<'_> {
    /// Takes a delivery out of its lane, if the lane is this owner's.
    pub(super) fn withdraw(&mut self, delivery: InLane) -> Withdrawal {
        if self.is_ours(delivery.lane_id) { self.board.withdraw(delivery) } else { Withdrawal::Elsewhere }
    }

    /// The delivery has ended; or it is due at the instant. Of a lane that is not in memory, a survey finds it.
    pub(super) fn end_withdrawal(&mut self, delivery: InLane, due_at: Option<Timestamp>, now: Timestamp) {
        if !self.board.end_withdrawal(delivery, due_at, now) && due_at.is_some() {
            self.survey_soon(now);
        }
    }
}
