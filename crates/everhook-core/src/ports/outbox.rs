//! Operational events that are to be published: written with the change that they are about, and kept until they were published. Step 5 of the line reads it.

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use crate::{ids::OrganizationId, model::EventType, ports::StoreError};

/// The alerts that wait to be published. They are put there by the write that they are about: a settlement, a change of a breaker, the end of an operation.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// The alerts that were not published yet, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn pending(&self, limit: u32) -> Result<Vec<Alert>, StoreError>;

    /// Removes alerts that were published. Those that are not there any more cost nothing.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: they will be published again, under the same idempotency key.
    async fn done(&self, ids: Vec<AlertId>) -> Result<(), StoreError>;
}

/// Names an alert.
pub type AlertId = Uuid;

/// An alert for an organization, which becomes an event of its `operational` application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its identity, and the idempotency key of its event.
    pub id: AlertId,
    /// The organization.
    pub organization: OrganizationId,
    /// The type of its event.
    pub event_type: EventType,
    /// The event's data: JSON.
    pub data: Bytes,
}
