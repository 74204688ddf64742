//! What the suite needs of an adapter: its ports, and beyond them only what [`Backing`] names.

use std::sync::Arc;

use everhook_core::{
    ports::{AuditLog, BreakerStore, DeliveryQueue, Directory, EventStore, History, OperationStore, Retention, Statistics},
    time::Timestamp,
};

/// Every port that a store implements, as one.
pub trait Store:
    EventStore + DeliveryQueue + BreakerStore + Directory + AuditLog + History + Statistics + OperationStore + Retention + Send + Sync
{
}

impl<T> Store for T where
    T: EventStore + DeliveryQueue + BreakerStore + Directory + AuditLog + History + Statistics + OperationStore + Retention + Send + Sync
{
}

/// Where a store keeps its rows. A test crate has one in its module `backing`, under the name `Backing`.
pub trait Backing: Sized + Send + Sync {
    /// A place with nothing in it, for one test alone: many queries are of the whole store. It goes when this is dropped.
    async fn create() -> Self;

    /// Opens the store on this place: for the first time, or again after the one before was dropped. Also then it holds all that was written.
    async fn open(&self) -> Arc<dyn Store>;

    /// Lets the store that is open forget at most `limit` idempotency keys that were given before the instant, and says how many it forgot.
    async fn forget_keys(&self, before: Timestamp, limit: u32) -> u32;
}
