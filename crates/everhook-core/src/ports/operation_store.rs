//! Where operations are kept: what they selected, and how far they have come.

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OperationId, OrganizationId},
    model::{AuditEntry, Operation, OperationStatus, Page, PageRequest, Selection},
    ports::{Alert, StoreError},
    time::Timestamp,
};

/// Operations and their items. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached; then nothing was written, as far
/// as is known, and calling again is safe.
#[async_trait]
pub trait OperationStore: Send + Sync {
    /// Keeps a new operation, with nothing selected yet, and enters it in the audit log, unless its organization has `open_max` under way.
    async fn begin(&self, operation: Operation, selection: Selection, open_max: u32, entry: AuditEntry) -> Result<Begun, StoreError>;

    /// One operation.
    async fn operation(&self, organization: OrganizationId, id: OperationId) -> Result<Option<Operation>, StoreError>;

    /// Lists operations, newest first: all of the organization, or those that are about one application alone.
    async fn operations(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        page: PageRequest,
    ) -> Result<Page<Operation>, StoreError>;

    /// Those that have something left to do, oldest first.
    async fn open_operations(&self, limit: u32) -> Result<Vec<OpenOperation>, StoreError>;

    /// Adds items to an operation and moves its selection on, in one atomic write. An item that it has already is left as it is.
    ///
    /// At most 2,000 items. Nothing is written unless the selection is still at the position where the step began: not for an operation that has ended, and not
    /// by a node that lost its duty and comes late. It would add what was worked off already, and everything behind it would be done twice.
    async fn select(&self, step: SelectionStep) -> Result<(), StoreError>;

    /// The next items, in the order of their events.
    async fn items(&self, operation: OperationId, limit: u32) -> Result<Vec<OperationItem>, StoreError>;

    /// Notes that an operation is working. Says whether it is: not if it has ended.
    async fn start(&self, operation: OperationId, at: Timestamp) -> Result<bool, StoreError>;

    /// Discards the dead letters of the next items, takes those off the list and counts them, in one atomic write. Says how many items there were:
    /// none if it has ended.
    async fn discard_next(&self, operation: OperationId, limit: u32) -> Result<u32, StoreError>;

    /// Ends an operation, and records the alert about it and what is entered in the audit log.
    async fn end(&self, ending: Ending) -> Result<OperationEnded, StoreError>;

    /// Forgets items of an operation that has ended.
    async fn clear(&self, operation: OperationId, limit: u32) -> Result<Cleared, StoreError>;
}

/// What became of a new operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is kept.
    Begun,
    /// Its organization has too many under way.
    TooMany,
}

/// An operation that has something left to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOperation {
    /// Its state.
    pub operation: Operation,
    /// What it is about.
    pub selection: Selection,
    /// What is left to do.
    pub phase: Phase,
}

/// What is left to do of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its items are being selected; everything up to this id was examined.
    Selecting(Uuid),
    /// Its items wait to be worked off.
    Selected,
    /// It has ended, and its items are forgotten.
    Clearing,
}

/// One event for one endpoint, on an operation's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationItem {
    /// Its place on the list: with the endpoint, it names the item.
    pub position: i64,
    /// What.
    pub event: EventId,
    /// Where to.
    pub lane_id: LaneId,
    /// The endpoint's application.
    pub application: ApplicationId,
    /// The delivery that would be done again; `None` if there was none.
    pub of: Option<DeliveryId>,
}

/// Items to be added to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionStep {
    /// Which operation.
    pub operation: OperationId,
    /// The id behind which they were looked for: the position of the selection before this step.
    pub after: Uuid,
    /// The items: event, endpoint, and the delivery that would be done again.
    pub items: Vec<(EventId, LaneId, Option<DeliveryId>)>,
    /// How many more belong to it and need nothing.
    pub skipped: u64,
    /// The position of the selection after this step; `None` leaves it where it was.
    pub phase: Option<Phase>,
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Whose operation.
    pub organization: OrganizationId,
    /// Which.
    pub operation: OperationId,
    /// How it ends.
    pub status: OperationStatus,
    /// When.
    pub at: Timestamp,
    /// The alert about it, if this is what ends it.
    pub alert: Alert,
    /// What the audit log gets with it; `None` if nobody ended it but itself.
    pub entry: Option<AuditEntry>,
}

/// What became of an ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationEnded {
    /// It has ended now.
    Ended,
    /// It had ended before, so.
    Before(OperationStatus),
    /// It says that everything was worked off, and something was not.
    NotYet,
    /// There is no such operation in this organization.
    NotFound,
}

/// What became of clearing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// Items are left.
    SomeLeft,
    /// None are left.
    All,
}
