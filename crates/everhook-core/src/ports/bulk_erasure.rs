//! Operations that erase: which events they are about, and their erasing.

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::{EventId, OperationId, OrganizationId},
    model::ErasureCandidate,
    ports::{FreedInLane, Phase, Scan, Scanned, StoreError, TimeRange},
    time::Timestamp,
};

/// The lists of operations that erase. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached; then nothing was written,
/// as far as is known, and calling again is safe.
#[async_trait]
pub trait BulkErasure: Send + Sync {
    /// Reads the next events of an organization that were accepted in a span, erased ones too, in the order of their ids.
    ///
    /// Costs no more than its limit says, however many there are.
    async fn scan_for_erasure(
        &self,
        organization: OrganizationId,
        accepted: TimeRange,
        scan: Scan,
    ) -> Result<Scanned<ErasureCandidate>, StoreError>;

    /// Adds events to the list of an operation that erases, and moves its selection on, in one atomic write. An event that it has already is left
    /// as it is.
    ///
    /// At most 2,000 events. Nothing is written unless the selection is still at the position where the step began, as in [`OperationStore::select`](super::OperationStore::select).
    async fn select_for_erasure(&self, step: ErasureStep) -> Result<(), StoreError>;

    /// The next events that an operation erases.
    async fn next_for_erasure(&self, operation: OperationId, limit: u32) -> Result<Vec<EventId>, StoreError>;

    /// Erases events of an operation's list as [`crate::ports::EventStore::erase`] does, but for the entry in the audit log, takes them off the list
    /// and
    /// counts them, in one atomic write, or in several if they have many deliveries, each with those that it takes off; those that were erased before
    /// count as skipped. Says what was held behind their deliveries and waits now; `None` if the operation does not run: nothing was erased.
    async fn erase_listed(&self, batch: ErasureBatch) -> Result<Option<Vec<FreedInLane>>, StoreError>;
}

/// Events to be added to the list of an operation that erases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureStep {
    /// Which operation.
    pub operation: OperationId,
    /// The id behind which they were looked for: the position of the selection before this step.
    pub after: Uuid,
    /// The events.
    pub events: Vec<EventId>,
    /// The position of the selection after this step.
    pub phase: Phase,
}

/// Events of an operation's list that are erased together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureBatch {
    /// Which operation.
    pub operation: OperationId,
    /// The events. Those that are no longer on its list are left out.
    pub events: Vec<EventId>,
    /// When.
    pub at: Timestamp,
}
