//! Where the statistics of endpoints and capabilities are kept, and those of their applications and organizations.

use async_trait::async_trait;

use crate::{
    ids::LaneId,
    model::{AttemptStatistics, EndpointActivity, Tally},
    ports::StoreError,
    time::Timestamp,
};

/// Adds up what happened at endpoints, by the minute. Statistics are for people and for alerts: no delivery depends on them.
#[async_trait]
pub trait Statistics: Send + Sync {
    /// Adds tallies to what is kept, in order, in one atomic write: of their lanes, and of the applications and organizations that these are of. Those of one
    /// endpoint come in the order in which they happened.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was added, as far as is known. Adding again may then count twice.
    async fn add(&self, tallies: Vec<Tally>) -> Result<(), StoreError>;

    /// What happened at an endpoint, or in all lanes of the application or organization whose id this is, from `from` until before `to`, in whole minutes: those that are only touched count too. It costs as much as
    /// there are minutes with attempts in it, however many attempts they had.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn attempt_statistics(&self, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Result<AttemptStatistics, StoreError>;

    /// How endpoints do since their last success, in the order in which they are named. One that was never attempted has nothing to show.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn activities(&self, lanes: Vec<LaneId>) -> Result<Vec<EndpointActivity>, StoreError>;

    /// Lets an endpoint's failures in a row begin anew, because it was enabled again.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was changed, as far as is known.
    async fn forget_failures(&self, lane_id: LaneId) -> Result<(), StoreError>;
}
