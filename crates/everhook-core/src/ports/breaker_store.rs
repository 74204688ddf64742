//! Where the state of breakers outlives the process.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, LaneId},
    model::{AuditEntry, BreakerTransition, KeptBreaker},
    ports::{Alert, StoreError},
    time::Timestamp,
};

pub use crate::model::OpenPeriod;

/// Keeps the state of each breaker: written on each transition, read when a lane's owner starts.
#[async_trait]
pub trait BreakerStore: Send + Sync {
    /// Every breaker that was ever other than closed.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn breakers(&self) -> Result<Vec<BreakerRow>, StoreError>;

    /// One endpoint's; `None` if it never was other than closed.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn breaker(&self, lane_id: LaneId) -> Result<Option<BreakerRow>, StoreError>;

    /// Keeps changes, in order, in one atomic write. Each is independent: one that is outdated is not written, and the others are.
    ///
    /// A transition into the open state begins a period, and one into the closed state ends it: history shows which deliveries waited for it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was written, as far as is known; a change that was written after all is then found outdated.
    async fn keep(&self, changes: Vec<BreakerChange>) -> Result<Vec<BreakerKept>, StoreError>;

    /// The periods since `since` in which an endpoint's breaker was not closed, oldest first, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn open_periods(&self, lane_id: LaneId, since: Timestamp, limit: u32) -> Result<Vec<OpenPeriod>, StoreError>;
}

/// The state of a breaker, as the store has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerRow {
    /// Whose.
    pub lane_id: LaneId,
    /// Rises by one with each change.
    pub revision: i64,
    /// Its state.
    pub kept: KeptBreaker,
}

/// A change to be kept.
#[derive(Clone, Debug)]
pub struct BreakerChange {
    /// The application of the endpoint.
    pub application: ApplicationId,
    /// Whose breaker.
    pub lane_id: LaneId,
    /// The revision that it makes: one more than the one it was decided on.
    pub revision: i64,
    /// The current state of the breaker.
    pub kept: KeptBreaker,
    /// What happened; `None` if only numbers changed.
    pub transition: Option<BreakerTransition>,
    /// The alerts about it.
    pub alerts: Vec<Alert>,
    /// What the audit log gets with it; `None` if the owner of the lane decided, which is no change of anybody's.
    pub entry: Option<AuditEntry>,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerKept {
    /// It is durable.
    Kept,
    /// Another writer changed it first: this is the current state.
    Outdated(BreakerRow),
}
