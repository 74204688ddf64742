//! What nodes report to each other about the apps that they call: which capabilities they have calls of, and whose breakers have opened there.

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::{ApplicationId, LaneId},
    model::VoteCount,
    ports::StoreError,
    time::Timestamp,
};

/// Votes on breakers of capabilities, one of each node that has calls. Nothing is lost with them: a node that cannot read or write them goes by its own
/// breaker.
///
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be reached.
#[async_trait]
pub trait BreakerVotes: Send + Sync {
    /// Notes that a node has calls of these capabilities. What it has voted stays.
    async fn note_callers(&self, node: Uuid, lanes: Vec<LaneId>, at: Timestamp) -> Result<(), StoreError>;

    /// Notes that a node's breaker has opened, in place of what it noted before. The node has calls.
    async fn vote(&self, vote: BreakerVote) -> Result<(), StoreError>;

    /// The votes, at an instant, of the nodes that have had calls of a capability since another.
    async fn votes(&self, lane_id: LaneId, callers_since: Timestamp, now: Timestamp) -> Result<VoteCount, StoreError>;

    /// Has the other nodes read the breaker of a capability again.
    async fn report_breaker(&self, application: ApplicationId, lane_id: LaneId) -> Result<(), StoreError>;

    /// Removes some votes of nodes that had no calls since an instant, at most `limit`. Says how many.
    async fn forget_votes(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError>;
}

/// That a node's breaker has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerVote {
    /// Which node.
    pub node: Uuid,
    /// Whose breaker.
    pub lane_id: LaneId,
    /// Whether the app answered, and its answers were no good. Otherwise it gave none in time.
    pub has_answers: bool,
    /// When.
    pub at: Timestamp,
    /// Until when the vote counts.
    pub until: Timestamp,
}
