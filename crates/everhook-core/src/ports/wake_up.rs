//! Hints to the owner of a lane. Only the store says what is true: a lost hint costs milliseconds, never an event.

use std::sync::Arc;

use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OrganizationId},
    model::{Due, LanePolicy, Priority},
    ports::{Departure, WaitingQueue},
    time::Timestamp,
};

/// A waiting delivery that was just made durable, on its way into its lane.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Which lane, and what it goes by.
    pub lane: Arc<LanePolicy>,
    /// Which of the lane's queues.
    pub priority: Priority,
    /// The delivery.
    pub due: Due,
}

/// A waiting delivery whose next attempt was just brought forward.
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// Which lane, and what it goes by.
    pub lane: Arc<LanePolicy>,
    /// Which of the lane's queues.
    pub priority: Priority,
    /// The delivery.
    pub delivery: DeliveryId,
    /// When it is due now.
    pub due_at: Timestamp,
}

/// Notifies the owner of a lane of what to check.
pub trait WakeUp: Send + Sync {
    /// These deliveries are durable and waiting.
    fn committed(&self, deliveries: Vec<Committed>);

    /// These deliveries are due earlier than they were.
    fn forwarded(&self, deliveries: Vec<Forwarded>);

    /// Something that waited for this endpoint was cancelled, says another node: what its lane has in memory is read again.
    fn cancelled(&self, lane_id: LaneId);

    /// Something waits in these queues, says another node.
    fn waiting(&self, queues: Vec<WaitingQueue>);

    /// This endpoint was changed: its limits, its pause, its breaker, or whether it gets events at all.
    fn changed(&self, application: ApplicationId, lane_id: LaneId);

    /// What this organization may use was changed.
    fn organization_changed(&self, organization: OrganizationId);

    /// These organizations went to another worker pool: nothing more is sent for them, and which is announced once nothing is left.
    fn departing(&self, departures: Vec<Departure>);

    /// Anything may have been changed, nobody knows what: endpoints, breakers, what organizations may use.
    fn everything_changed(&self);

    /// The data of these events was erased: it leaves memory, wherever deliveries wait with it.
    fn erased(&self, events: Vec<EventId>);
}
