//! Deliveries that wait for something outside: how they end that from outside.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, LaneId, OrganizationId},
    model::WaitsFor,
    ports::{FreedInLane, StoreError},
    time::Timestamp,
};

/// Ends the parking of deliveries. A delivery is parked by [`settling`](crate::ports::DeliveryQueue::settle) an attempt that says so.
///
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be reached; then nothing was written, as far as is known, and calling again is
/// safe.
#[async_trait]
pub trait ParkedDeliveries: Send + Sync {
    /// Lets the deliveries of an organization that are parked for this wait again, due at once, oldest first, so many of them. Their attempts, priority,
    /// schedule and order stay as they are.
    ///
    /// What is left, or is parked later by an attempt that was begun before, is released by [`Self::resume_releases`], also if the process ends here: that
    /// something came is never missed.
    async fn release(&self, release: Release) -> Result<Unparked, StoreError>;

    /// When [`Self::resume_releases`] or [`Self::expire`] has something to do next; `None` if nothing is parked for a time and no release is checked again.
    async fn next_look(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Continues releases that are not complete, so many deliveries of each of some of them.
    async fn resume_releases(&self, at: Timestamp, limit: u32) -> Result<Unparked, StoreError>;

    /// Lets deliveries wait, due at once, whose parking is over without what they waited for, oldest first, so many of them. They know: see
    /// [`Due::expired`](crate::model::Due::expired).
    async fn expire(&self, at: Timestamp, limit: u32) -> Result<Unparked, StoreError>;

    /// The lanes of processors that were removed, alone or with their source, and that have deliveries that have not ended, whether they wait, are held or
    /// parked: so many of them, oldest first. Nobody brings any more what these wait for.
    async fn orphaned_lanes(&self, limit: u32) -> Result<Vec<OrphanedLane>, StoreError>;
}

/// Something came that deliveries may wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Whose deliveries.
    pub organization: OrganizationId,
    /// What came.
    pub waits_for: WaitsFor,
    /// When.
    pub at: Timestamp,
    /// At most this many.
    pub limit: u32,
}

/// Deliveries that are parked no longer.
#[derive(Clone, Debug, Default)]
pub struct Unparked {
    /// They wait now.
    pub deliveries: Vec<FreedInLane>,
    /// Whether there may be more: call again.
    pub may_be_more: bool,
}

/// The lane of a processor that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrphanedLane {
    /// Whose it is.
    pub organization: OrganizationId,
    /// The application of its source.
    pub application: ApplicationId,
    /// The lane.
    pub lane_id: LaneId,
}
