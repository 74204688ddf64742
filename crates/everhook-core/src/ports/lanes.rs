//! The state of lanes, as their owner knows it.

use async_trait::async_trait;

use crate::{
    ids::{DeliveryId, LaneId},
    model::{BreakerFacts, Priority},
    time::Timestamp,
};

/// Asks the owner of a lane what only it knows.
#[async_trait]
pub trait Lanes: Send + Sync {
    /// The current state of a lane. `None` if its owner has nothing of it in memory, or cannot be asked: then what the store keeps is all there is.
    async fn report(&self, lane_id: LaneId) -> Option<LaneReport>;

    /// Takes a delivery out of its lane, so that no attempt of it begins while it is being cancelled in the store. Unless an attempt is under way, the caller
    /// must [end](Self::end_withdrawal) the withdrawal.
    async fn withdraw(&self, delivery: InLane) -> Withdrawal;

    /// The delivery that was withdrawn has ended; or it has not and is due at the instant given. Returns at once.
    fn end_withdrawal(&self, delivery: InLane, due_at: Option<Timestamp>);
}

/// A delivery in one queue of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InLane {
    /// Which lane.
    pub lane_id: LaneId,
    /// Which of its queues.
    pub priority: Priority,
    /// The delivery.
    pub delivery: DeliveryId,
}

/// Whether a delivery was taken out of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// No attempt of it begins.
    Withdrawn,
    /// An attempt is under way, or its outcome is not written yet.
    UnderWay,
    /// The lane is not this node's.
    Elsewhere,
}

/// The state of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneReport {
    /// What its breaker counts.
    pub breaker: BreakerFacts,
    /// How many requests are under way.
    pub in_flight: u32,
    /// Until when the endpoint asked to be left alone.
    pub held_until: Option<Timestamp>,
}
