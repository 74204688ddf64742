//! How much is in the store, for monitoring. Nothing that Everhook does depends on it.

use async_trait::async_trait;

use crate::{ids::OrganizationId, model::Priority, ports::StoreError, time::Timestamp};

/// Counts what is in the store.
#[async_trait]
pub trait StoreMeasurements: Send + Sync {
    /// How much waits, of all organizations. It takes the longer the more there is, up to `rows_max` deliveries: asked now and then, never for an answer.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn queue_measurements(&self, now: Timestamp, rows_max: u32) -> Result<QueueMeasurements, StoreError>;

    /// How many dead letters wait for a person, of the organizations that have the most; at most so many organizations. It takes the longer the more dead
    /// letters there are.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn dead_letters_by_organization(&self, organizations_max: u32) -> Result<Vec<(OrganizationId, u64)>, StoreError>;

    /// How many endpoints are disabled, of all organizations.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn disabled_endpoint_count(&self) -> Result<u64, StoreError>;
}

/// How much waits for an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueMeasurements {
    /// Deliveries that wait, by priority in the order of [`Priority::ALL`].
    pub waiting: [u64; Priority::ALL.len()],
    /// Those of them that are due.
    pub due: [u64; Priority::ALL.len()],
    /// Since when the oldest of them is due, if one is.
    pub oldest_due_at: Option<Timestamp>,
}
