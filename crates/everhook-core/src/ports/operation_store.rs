//! Where operations are kept: what they selected, and how far they have come. Beside them, which dead letters come back by themselves.

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OperationId, OrganizationId},
    model::{
        AuditEntry, AutoReplay, DeadLetter, ErasureCandidate, EventType, NewestDelivery, Operation, OperationStatus, Page, PageRequest,
        Selection,
    },
    ports::{Alert, FreedInLane, StoreError, TimeRange},
    time::Timestamp,
};

/// Operations and their items. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached; then nothing was written, as
/// far as is known, and calling again is safe.
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

    /// Reads the next dead letters of an organization, whatever their status, in the order of their ids.
    ///
    /// Costs no more than its limit says, however many there are.
    async fn scan_dead_letters(&self, organization: OrganizationId, scan: Scan) -> Result<Scanned<DeadLetter>, StoreError>;

    /// Reads the next events of an organization that were accepted in a span (`from` included, `to` not), in the order of their ids, each with
    /// how it stands at every endpoint. Those of other applications are passed over.
    ///
    /// Stops early after an event with very many deliveries, so that one call costs little.
    async fn scan_events(
        &self,
        organization: OrganizationId,
        application: ApplicationId,
        span: (Timestamp, Timestamp),
        scan: Scan,
    ) -> Result<Scanned<EventCandidate>, StoreError>;

    /// One event, with how it stands at every endpoint.
    async fn event_standing(&self, organization: OrganizationId, event: EventId) -> Result<Option<EventCandidate>, StoreError>;

    /// Adds items to an operation and moves its selection on, in one atomic write. An item that it has already is left as it is.
    ///
    /// At most 2,000 items. Nothing is written unless the selection still stands where the step began: not for an operation that has ended, and not
    /// by a node that lost its duty and comes late. It would add what was worked off already, and everything behind it would be done twice.
    async fn select(&self, step: SelectionStep) -> Result<(), StoreError>;

    /// The next items, in the order of their events.
    async fn items(&self, operation: OperationId, limit: u32) -> Result<Vec<OperationItem>, StoreError>;

    /// Notes that an operation is working. Says whether it is: not if it has ended.
    async fn start(&self, operation: OperationId, at: Timestamp) -> Result<bool, StoreError>;

    /// Discards the dead letters of the next items, takes those off the list and counts them, in one atomic write. Says how many items there were:
    /// none if it has ended.
    async fn discard_next(&self, operation: OperationId, limit: u32) -> Result<u32, StoreError>;

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
    /// At most 2,000 events. Nothing is written unless the selection still stands where the step began, as in [`Self::select`].
    async fn select_for_erasure(&self, step: ErasureStep) -> Result<(), StoreError>;

    /// The next events that an operation erases.
    async fn next_for_erasure(&self, operation: OperationId, limit: u32) -> Result<Vec<EventId>, StoreError>;

    /// Erases events of an operation's list as [`crate::ports::EventStore::erase`] does, but for the entry in the audit log, takes them off the list and
    /// counts them, in one atomic write, or in several if they have many deliveries, each with those that it takes off; those that were erased before
    /// count as skipped. Says what was held behind their deliveries and waits now; `None` if the operation does not run: nothing was erased.
    async fn erase_listed(&self, batch: ErasureBatch) -> Result<Option<Vec<FreedInLane>>, StoreError>;

    /// Ends an operation, and keeps what the organization is told about that, and what is entered in the audit log.
    async fn end(&self, ending: Ending) -> Result<OperationEnded, StoreError>;

    /// Forgets items of an operation that has ended.
    async fn clear(&self, operation: OperationId, limit: u32) -> Result<Cleared, StoreError>;

    /// How an organization's dead letters come back by themselves; `None` if that was never set.
    async fn auto_replay(&self, organization: OrganizationId) -> Result<Option<AutoReplay>, StoreError>;

    /// Sets that.
    async fn set_auto_replay(&self, organization: OrganizationId, settings: AutoReplay) -> Result<(), StoreError>;

    /// The organizations that have it switched on.
    async fn auto_replays(&self) -> Result<Vec<(OrganizationId, AutoReplay)>, StoreError>;

    /// Dead letters that are recoverable, of enabled endpoints, the longest dead first.
    async fn due_dead_letters(&self, wanted: DueDeadLetters) -> Result<Vec<DeadLetter>, StoreError>;
}

/// Which dead letters are due to come back by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueDeadLetters {
    /// Whose.
    pub organization: OrganizationId,
    /// That died so often.
    pub failures: u32,
    /// That died last, and were tried last, at this instant or before.
    pub died_until: Timestamp,
    /// At most this many.
    pub limit: u32,
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
    /// How it stands.
    pub operation: Operation,
    /// What it is about.
    pub selection: Selection,
    /// What is left to do.
    pub phase: Phase,
}

/// What is left to do of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its items are being selected; everything up to this id was looked at.
    Selecting(Uuid),
    /// Its items wait to be worked off.
    Selected,
    /// It has ended, and its items are forgotten.
    Clearing,
}

/// A stretch of a list that is read in the order of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// After this id.
    pub after: Uuid,
    /// How many rows are looked at, at most.
    pub limit: u32,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Up to where everything was looked at; `None` if that was the end.
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
    /// How it stands at the endpoints that it was ever delivered to, in the order of their ids.
    pub standings: Vec<(LaneId, NewestDelivery)>,
}

/// Events to be added to the list of an operation that erases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureStep {
    /// Which operation.
    pub operation: OperationId,
    /// The id behind which they were looked for: where the selection stands before this step.
    pub after: Uuid,
    /// The events.
    pub events: Vec<EventId>,
    /// Where the selection stands after this step.
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
    /// The id behind which they were looked for: where the selection stands before this step.
    pub after: Uuid,
    /// The items: event, endpoint, and the delivery that would be done again.
    pub items: Vec<(EventId, LaneId, Option<DeliveryId>)>,
    /// How many more belong to it and need nothing.
    pub skipped: u64,
    /// Where the selection stands after this step; `None` leaves it where it was.
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
    /// What the organization is told, if this is what ends it.
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
