//! Where the statistics of endpoints, capabilities and sources are kept, and those of their applications and organizations.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    ids::{LaneId, SourceId},
    model::{AttemptStatistics, BreakdownTally, ClockReset, EndpointActivity, FailingRule, SourceTally, Tally},
    ports::{Alert, StoreError},
    time::Timestamp,
};

/// Adds up what happened at endpoints and sources, by the minute. Statistics are for people and for alerts: no delivery depends on them.
#[async_trait]
pub trait Statistics: Send + Sync {
    /// Adds tallies to what is kept, in order, in one atomic write: of their lanes, and of the applications and organizations that these are of. Those of one
    /// endpoint come in the order in which they happened. The rule says from when on an endpoint counts as failing.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was added, as far as is known. Adding again may then count twice.
    async fn add(&self, tallies: Vec<Tally>, rule: FailingRule) -> Result<(), StoreError>;

    /// Adds tallies of capabilities to what is kept, as [`Statistics::add`] does, and keeps what organizations are to be notified of, in one atomic write.
    /// Capabilities are never disabled, so that no rule is needed.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was written, as far as is known. Adding again may then count twice, but publishes nothing twice: an alert that
    /// is there already stays as it is.
    async fn add_calls(&self, tallies: Vec<Tally>, alerts: Vec<Alert>) -> Result<(), StoreError>;

    /// Adds what happened in parts of organizations to what is kept, in one atomic write. Where an organization has more parts of a kind than are told apart,
    /// new ones are counted under [`BreakdownKind::others`](crate::model::BreakdownKind::others).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was added, as far as is known. Adding again may then count twice.
    async fn add_breakdowns(&self, tallies: Vec<BreakdownTally>) -> Result<(), StoreError>;

    /// What happened at an endpoint, or in all lanes of the application, organization or part of one whose id this is, from `from` until before `to`, in whole
    /// minutes: those that are only touched count too. Whole days and hours in it are read as such, so that it costs as much as there are days, however
    /// many attempts they had.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn attempt_statistics(&self, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Result<AttemptStatistics, StoreError>;

    /// How endpoints do since their last success, in the order in which they are named. One that was never attempted has nothing to show.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn activities(&self, lanes: Vec<LaneId>) -> Result<Vec<EndpointActivity>, StoreError>;

    /// Lets an endpoint's failures in a row and its failing clock begin anew, because it was enabled again or resumed.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was changed, as far as is known.
    async fn forget_failures(&self, lane_id: LaneId, why: ClockReset) -> Result<(), StoreError>;

    /// Adds what happened at sources to what is kept, in one atomic write. A source that was deleted meanwhile may be among them.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was added, as far as is known. Adding again may then count twice.
    async fn add_source_tallies(&self, tallies: Vec<SourceTally>) -> Result<(), StoreError>;

    /// What happened at a source from `from` until before `to`, in steps of whole minutes that begin at multiples of `step` since the epoch, the oldest
    /// first. Minutes that are only touched count too; steps in which nothing happened are left out. It costs as much as there are minutes in it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn source_statistics(
        &self,
        source: SourceId,
        from: Timestamp,
        to: Timestamp,
        step: Duration,
    ) -> Result<Vec<SourceTally>, StoreError>;
}
