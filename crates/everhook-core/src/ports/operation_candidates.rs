//! What operations select from: dead letters and events, read in the order of their ids.

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::{ApplicationId, EventId, LaneId, OrganizationId},
    model::{DeadLetter, EventType, NewestDelivery},
    ports::StoreError,
    time::Timestamp,
};

/// Reads what an operation may be about. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached; then nothing was
/// written, as far as is known, and calling again is safe.
#[async_trait]
pub trait OperationCandidates: Send + Sync {
    /// Reads the next dead letters of an organization, whatever their status, in the order of their ids.
    ///
    /// Costs no more than its limit says, however many there are.
    async fn scan_dead_letters(&self, organization: OrganizationId, scan: Scan) -> Result<Scanned<DeadLetter>, StoreError>;

    /// Reads the next events of an organization that were accepted in a span (`from` included, `to` not), in the order of their ids, each with
    /// its state at every endpoint. Those of other applications are passed over.
    ///
    /// Stops early after an event with very many deliveries, so that one call costs little.
    async fn scan_events(
        &self,
        organization: OrganizationId,
        application: ApplicationId,
        span: (Timestamp, Timestamp),
        scan: Scan,
    ) -> Result<Scanned<EventCandidate>, StoreError>;

    /// One event, with its state at every endpoint.
    async fn newest_deliveries(&self, organization: OrganizationId, event: EventId) -> Result<Option<EventCandidate>, StoreError>;
}

/// A stretch of a list that is read in the order of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// After this id.
    pub after: Uuid,
    /// How many rows are examined, at most.
    pub limit: u32,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Up to where everything was examined; `None` if that was the end.
    pub goes_on_after: Option<Uuid>,
}

/// An event that may be delivered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCandidate {
    /// Which.
    pub event: EventId,
    /// The application it was published to.
    pub application: ApplicationId,
    /// Its type.
    pub event_type: EventType,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// Its state at the endpoints that it was ever delivered to, in the order of their ids.
    pub newest: Vec<(LaneId, NewestDelivery)>,
}
