//! How lanes stand, as their owner knows it.

use async_trait::async_trait;

use crate::{ids::EndpointId, policy::breaker::BreakerFacts, time::Timestamp};

/// Asks the owner of a lane what only it knows.
#[async_trait]
pub trait Lanes: Send + Sync {
    /// How a lane stands now. `None` if its owner has nothing of it in memory, or cannot be asked: then what the store keeps is all there is.
    async fn report(&self, endpoint: EndpointId) -> Option<LaneReport>;
}

/// How a lane stands.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneReport {
    /// What its breaker counts.
    pub breaker: BreakerFacts,
    /// How many requests are under way.
    pub in_flight: u32,
    /// Until when the endpoint asked to be left alone.
    pub held_until: Option<Timestamp>,
}
