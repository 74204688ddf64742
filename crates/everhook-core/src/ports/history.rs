//! What happened: reads for people, and the one change that only concerns history (discarding).

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, DeliveryId, EndpointId, EventId, OrganizationId, SourceId},
    model::{
        Attempt, AuditEntry, ContentType, DeadLetter, DeadLetterStatus, Delivery, Event, EventType, FailureCategory, LaneKind, Page,
        PageRequest,
    },
    ports::StoreError,
    time::Timestamp,
};

/// Events, deliveries, attempts and dead letters of one organization. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached.
#[async_trait]
pub trait History: Send + Sync {
    /// Lists events, newest first, without their data.
    async fn events(&self, organization: OrganizationId, filter: EventFilter, page: PageRequest) -> Result<Page<EventSummary>, StoreError>;
    /// The event that an idempotency key was given to, as long as the key is remembered; of any application of the organization if none is named.
    async fn event_of_key(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        key: String,
    ) -> Result<Option<EventId>, StoreError>;
    /// One event with its data; without, if that was erased. An alias finds the event that it refers to, under that one's own id.
    async fn event(&self, organization: OrganizationId, id: EventId) -> Result<Option<(EventSummary, Option<Event>)>, StoreError>;
    /// Lists events that came through a source, newest first, without their data. Nothing if the source is another organization's.
    async fn received_events(
        &self,
        organization: OrganizationId,
        filter: ReceivedFilter,
        page: PageRequest,
    ) -> Result<Page<ReceivedSummary>, StoreError>;

    /// Lists deliveries, newest first.
    async fn deliveries(
        &self,
        organization: OrganizationId,
        filter: DeliveryFilter,
        page: PageRequest,
    ) -> Result<Page<Delivery>, StoreError>;
    /// One delivery with its attempts, oldest first.
    async fn delivery(&self, organization: OrganizationId, id: DeliveryId) -> Result<Option<(Delivery, Vec<Attempt>)>, StoreError>;

    /// Lists dead letters, newest first.
    async fn dead_letters(
        &self,
        organization: OrganizationId,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError>;
    /// One dead letter.
    async fn dead_letter(&self, organization: OrganizationId, id: DeliveryId) -> Result<Option<DeadLetter>, StoreError>;
    /// Throws a dead letter away, and enters it in the audit log. It stays in history as `discarded`.
    async fn discard(&self, organization: OrganizationId, id: DeliveryId, entry: AuditEntry) -> Result<Discarded, StoreError>;
}

/// An event as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSummary {
    /// Its identity.
    pub id: EventId,
    /// The application it was published to.
    pub application: ApplicationId,
    /// Its type.
    pub event_type: EventType,
    /// What its data is.
    pub content_type: ContentType,
    /// Its priority.
    pub priority: crate::model::Priority,
    /// When it happened.
    pub timestamp: Timestamp,
    /// Its idempotency key.
    pub idempotency_key: String,
    /// Where it came from.
    pub source: Option<String>,
    /// Its place in the application.
    pub sequence_number: i64,
    /// How many deliveries it made when it was published.
    pub deliveries: u32,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When its data was erased, if it was.
    pub erased_at: Option<Timestamp>,
}

/// An event of a source, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedSummary {
    /// The event.
    pub event: EventSummary,
    /// The source that it came through.
    pub source: SourceId,
    /// Whom it is about, by the provider's name for them. `None` also if it was erased.
    pub external_user: Option<String>,
    /// The event that said the same before.
    pub duplicate_of: Option<EventId>,
}

/// A span of time, `from` included, `to` not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// Not before.
    pub from: Option<Timestamp>,
    /// Before.
    pub to: Option<Timestamp>,
}

/// Which events to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Of this application.
    pub application: Option<ApplicationId>,
    /// Of this type.
    pub event_type: Option<EventType>,
    /// Accepted in this span.
    pub accepted: TimeRange,
}

/// Which events of a source to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFilter {
    /// Of this source.
    pub source: SourceId,
    /// Of this type.
    pub event_type: Option<EventType>,
    /// About this user of the provider.
    pub external_user: Option<String>,
    /// Accepted in this span.
    pub accepted: TimeRange,
}

/// Which deliveries to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Of this application.
    pub application: Option<ApplicationId>,
    /// For this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Of this event.
    pub event: Option<EventId>,
    /// Of this type.
    pub event_type: Option<EventType>,
    /// In this state.
    pub status: Option<DeliveryStatus>,
    /// Whose last attempt failed so.
    pub category: Option<FailureCategory>,
    /// Whose last attempt was answered with a status from the first to the second.
    pub http_status: Option<(u16, u16)>,
    /// Made in this span.
    pub made: TimeRange,
}

/// The states that a list of deliveries can be narrowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// Waiting for its first or a further attempt.
    Waiting,
    /// Held behind another in an ordered lane.
    Held,
    /// Parked until something outside has come.
    Parked,
    /// Waiting or held.
    Pending,
    /// Waiting after at least one failed attempt.
    WaitingAfterFailure,
    /// Delivered.
    Delivered,
    /// Dead.
    Dead,
    /// Cancelled.
    Cancelled,
}

/// Which dead letters to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Of this application.
    pub application: Option<ApplicationId>,
    /// For this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Of this kind of destination.
    pub kind: Option<LaneKind>,
    /// Of this type.
    pub event_type: Option<EventType>,
    /// In that state.
    pub status: Option<DeadLetterStatus>,
    /// Whose last attempt failed so.
    pub category: Option<FailureCategory>,
    /// That first died in this span.
    pub died: TimeRange,
}

/// What became of a discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// It is `discarded`.
    Discarded,
    /// There is no such dead letter in this organization.
    NotFound,
    /// It is being retried, resolved or discarded already.
    NotDead(DeadLetterStatus),
}
