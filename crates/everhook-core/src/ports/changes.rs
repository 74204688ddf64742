//! What was changed in the directory or erased by other nodes, so that what this one remembers of it does not outlive the change by more than a second.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    ids::{ApiKeyId, ApplicationId, EndpointId, EventId, OrganizationId, SourceId},
    ports::StoreError,
};

/// How often changes are asked for, where nodes share a store.
pub const CHANGES_EVERY: Duration = Duration::from_millis(500);

/// The changes of all nodes, in one order. Each is recorded in the write that makes it.
#[async_trait]
pub trait Changes: Send + Sync {
    /// The place after the last change. Read before anything is remembered.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn newest(&self) -> Result<ChangeCursor, StoreError>;

    /// The changes after a place, oldest first, and the place to continue from. The node's own may be among them, and some
    /// that were returned before: a change of a write that is still open while a later one is durable is not passed over. A place that is too old to know what came after it is
    /// answered with [`Change::Everything`].
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn changes(&self, after: ChangeCursor) -> Result<Changed, StoreError>;
}

/// A place in the order of changes. Only the store knows what its number means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeCursor(pub i64);

/// Some changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Oldest first.
    pub changes: Vec<Change>,
    /// The place after them.
    pub cursor: ChangeCursor,
    /// Whether there are more already.
    pub has_more: bool,
}

/// Something that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An endpoint, its breaker by hand included, or its being there at all.
    Endpoint(ApplicationId, EndpointId),
    /// An application: whatever raises its `config_version`.
    Application(ApplicationId),
    /// An organization, what it may use, or its automatic replay.
    Organization(OrganizationId),
    /// What an organization defines for its applications: an event type, a retry schedule, or which endpoints use one. No lane goes by it.
    Definitions(OrganizationId),
    /// A source, or its being there at all.
    Source(SourceId),
    /// An API key was revoked.
    ApiKey(ApiKeyId),
    /// An event's data was erased: what is in memory of it must not be sent.
    Erased(EventId),
    /// A delivery that waited for this endpoint was cancelled: what is in memory of its lane must be read again.
    Cancelled(ApplicationId, EndpointId),
    /// It is not known any more what. What was erased is returned all the same.
    Everything,
}
