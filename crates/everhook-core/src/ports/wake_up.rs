//! Hints to the owner of a lane. Only the store says what is true: a lost hint costs milliseconds, never an event.

use crate::{
    ids::{ApplicationId, EndpointId, OrganizationId},
    model::{Due, Priority},
};

/// A waiting delivery that was just made durable, on its way into its lane.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Whose lane it is.
    pub organization: OrganizationId,
    /// The application the event was published to.
    pub application: ApplicationId,
    /// Which lane.
    pub endpoint: EndpointId,
    /// Which of the lane's queues.
    pub priority: Priority,
    /// How many requests the endpoint takes at once.
    pub max_concurrency: u32,
    /// The delivery.
    pub due: Due,
}

/// Tells the owner of a lane what to look at.
pub trait WakeUp: Send + Sync {
    /// These deliveries are durable and waiting.
    fn committed(&self, deliveries: Vec<Committed>);

    /// This endpoint was changed: its limits, or whether it gets events at all.
    fn changed(&self, application: ApplicationId, endpoint: EndpointId);
}
