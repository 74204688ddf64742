//! What a person does to a delivery that has not ended: its next attempt is brought forward, or it is cancelled.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OperationId},
    model::{AuditEntry, CancelCause, Priority},
    ports::{Effect, Freed, Scan, Scanned, StoreError},
    time::Timestamp,
};

/// Changes deliveries that wait, are held or parked. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached; then nothing was written,
/// as far as is known, and calling again is safe.
#[async_trait]
pub trait DeliveryControl: Send + Sync {
    /// Makes the next attempt of waiting deliveries due, in one atomic write, and enters that in the audit log unless nothing changed. Their attempts, their
    /// priority and their order stay as they are.
    ///
    /// At most 2,000 deliveries. The answers are in the order of the request.
    async fn bring_forward(&self, request: BringForward) -> Result<Vec<BroughtForward>, StoreError>;

    /// Cancels a delivery that waits, is held or parked, frees the next of its order, and enters that in the audit log, in one atomic write.
    ///
    /// A dead letter that it was bringing back is dead again. An outcome that is settled later is [stale](crate::ports::Settled::Stale).
    async fn cancel_delivery(&self, request: CancelDelivery) -> Result<DeliveryCancelled, StoreError>;

    /// Reads the next deliveries that wait for an endpoint, were created by an instant and are due after it. The place to continue from is the store's own
    /// and is no delivery's id; a row may be read twice.
    ///
    /// Costs no more than its limit says, however many deliveries there are.
    async fn scan_waiting(&self, lane_id: LaneId, created_by: Timestamp, scan: Scan) -> Result<Scanned<WaitingRow>, StoreError>;

    /// How many deliveries wait, are held or parked for an endpoint, counted up to a limit.
    async fn waiting_backlog(&self, lane_id: LaneId, limit: u32) -> Result<WaitingBacklog, StoreError>;

    /// Makes the next attempt of the next deliveries on an operation's list due, takes them off the list and counts them, in one atomic write. Those that
    /// no longer wait, or are due already, count as skipped. `None` if the operation does not run: nothing was changed.
    async fn bring_listed_forward(
        &self,
        operation: OperationId,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<Vec<ForwardedDelivery>>, StoreError>;
}

/// Which deliveries to bring forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BringForward {
    /// The deliveries, each with its endpoint.
    pub deliveries: Vec<(LaneId, DeliveryId)>,
    /// When they are due from now on.
    pub at: Timestamp,
    /// What the audit log gets if one of them was brought forward.
    pub entry: AuditEntry,
}

/// What became of a delivery that was to be brought forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroughtForward {
    /// It is due now.
    Forwarded(Priority),
    /// It was due before: it waits for its turn, or an attempt is under way.
    AlreadyDue,
    /// It is held behind another delivery of its order.
    Held,
    /// It is parked until something outside has come.
    Parked,
    /// It has ended.
    Ended,
}

impl Effect for Vec<BroughtForward> {
    fn took_place(&self) -> bool {
        self.iter().any(|answer| matches!(answer, BroughtForward::Forwarded(_)))
    }
}

/// Which delivery to cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelDelivery {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Its endpoint, and that one's application.
    pub lane_id: LaneId,
    /// The endpoint's application.
    pub application: ApplicationId,
    /// Why.
    pub cause: CancelCause,
    /// When.
    pub at: Timestamp,
    /// What the audit log gets with it.
    pub entry: AuditEntry,
}

/// What became of a cancellation.
#[derive(Clone, Debug)]
pub enum DeliveryCancelled {
    /// It is cancelled.
    Cancelled {
        /// The delivery that was held behind it and waits now.
        freed: Option<Box<Freed>>,
    },
    /// It had ended before.
    Ended,
}

impl Effect for DeliveryCancelled {
    fn took_place(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }
}

/// A delivery that waits for an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingRow {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Its event.
    pub event: EventId,
}

/// What waits for an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingBacklog {
    /// How many deliveries were counted.
    pub count: u32,
    /// How many of those are parked.
    pub parked: u32,
    /// When the oldest of those was created.
    pub oldest_at: Option<Timestamp>,
}

/// A delivery that was brought forward by an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedDelivery {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Its endpoint.
    pub lane_id: LaneId,
    /// The endpoint's application.
    pub application: ApplicationId,
    /// Which of its lane's queues it waits in.
    pub priority: Priority,
}
