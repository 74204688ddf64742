//! What the suite needs of an adapter: its ports, and beyond them only what [`Backing`] names.

use std::sync::Arc;

use everhook_adapters::vault::AesVault;
pub use everhook_core::ports::StorePorts as Store;
use everhook_core::{
    ids::{ApplicationId, LaneId, OrganizationId},
    time::Timestamp,
};

/// A lane, as the table of lanes has it.
pub struct NewLane<'k> {
    pub id: LaneId,
    pub kind: &'k str,
    pub organization: OrganizationId,
    pub application: ApplicationId,
}

/// Where a store keeps its rows. An adapter's tests have one in their module `backing`, under the name `Backing`.
pub trait Backing: Sized + Send + Sync {
    /// A place with nothing in it, for one test alone: many queries are of the whole store. It goes when this is dropped.
    async fn create() -> Self;

    /// Opens the store on this place: for the first time, or again after the one before was dropped. Also then it holds all that was written.
    async fn open(&self) -> Arc<dyn Store>;

    /// The same, with these keys. The store keeps the id of the first one if it knows none.
    async fn open_sealed(&self, vault: Arc<AesVault>) -> Arc<dyn Store>;

    /// Gives an application one more lane, of a kind whose destination has no table yet.
    async fn create_lane(&self, lane: &NewLane<'_>);

    /// Lets the store that is open forget at most `limit` idempotency keys that were given before the instant, and says how many it forgot.
    async fn forget_keys(&self, before: Timestamp, limit: u32) -> u32;
}
