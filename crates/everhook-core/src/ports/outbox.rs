//! What organizations are to be told: written with whatever it tells of, and kept until it was told. Step 5 of the line reads it.

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use crate::{ids::OrganizationId, model::EventType, ports::StoreError};

/// The alerts that wait to be told. They are put there by the write that they tell of: a settlement, a change of a breaker, the end of an operation.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// The alerts that were not told yet, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn pending(&self, limit: u32) -> Result<Vec<Alert>, StoreError>;

    /// Removes alerts that were told. Those that are not there any more cost nothing.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: they will be told again, under the same idempotency key.
    async fn done(&self, ids: Vec<AlertId>) -> Result<(), StoreError>;
}

/// Names an alert.
pub type AlertId = Uuid;

/// Something that the organization is told, as an event of its `operational` application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its identity, and the idempotency key of the event that tells it.
    pub id: AlertId,
    /// Who is told.
    pub organization: OrganizationId,
    /// What kind of event tells it.
    pub event_type: EventType,
    /// The event's data: JSON.
    pub data: Bytes,
}
