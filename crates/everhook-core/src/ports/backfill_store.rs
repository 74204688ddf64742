//! Where it is kept how far backfills of health data have come. They are operations: begun, started, ended and listed as such.

use async_trait::async_trait;

use crate::{
    ids::{OperationId, OrganizationId},
    model::{
        Operation,
        health::{Backfill, ChunkOutcome},
    },
    ports::StoreError,
};

/// The outcomes of backfills. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached; then nothing was written, as far as is
/// known, and calling again is safe.
#[async_trait]
pub trait BackfillStore: Send + Sync {
    /// Backfills that have not ended: the oldest of every organization first, then the second of each, and so on, each time by id. So nobody's backfills keep
    /// those of others out.
    async fn open_backfills(&self, limit: u32) -> Result<Vec<KeptBackfill>, StoreError>;

    /// One backfill; `None` also for an operation of another kind.
    async fn backfill(&self, organization: OrganizationId, id: OperationId) -> Result<Option<KeptBackfill>, StoreError>;

    /// Adds the outcomes of the next pieces and counts them, in one atomic write. Says whether that was done: not unless the operation is running and has
    /// exactly `known` outcomes. A node that lost the duty and comes late adds nothing, and no piece is passed over.
    async fn add_outcomes(&self, operation: OperationId, known: usize, outcomes: Vec<ChunkOutcome>) -> Result<bool, StoreError>;
}

/// A backfill and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBackfill {
    /// The operation.
    pub operation: Operation,
    /// What it asks for.
    pub backfill: Backfill,
    /// What became of its first pieces, in their order. The others are still to be asked for.
    pub outcomes: Vec<ChunkOutcome>,
}
