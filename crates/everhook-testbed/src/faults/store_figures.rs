//! Figures of the store that cannot be read on demand.

use async_trait::async_trait;
use everhook_core::{
    ids::OrganizationId,
    ports::{QueueFigures, StoreError, StoreFigures},
    time::Timestamp,
};

use super::{Faulty, Kind, injected};

#[async_trait]
impl<S: StoreFigures> StoreFigures for Faulty<S> {
    async fn queue_figures(&self, now: Timestamp, rows_max: u32) -> Result<QueueFigures, StoreError> {
        through!(self, self.store.queue_figures(now, rows_max))
    }

    async fn dead_letters_by_organization(&self, organizations_max: u32) -> Result<Vec<(OrganizationId, u64)>, StoreError> {
        through!(self, self.store.dead_letters_by_organization(organizations_max))
    }

    async fn disabled_endpoint_count(&self) -> Result<u64, StoreError> {
        through!(self, self.store.disabled_endpoint_count())
    }
}
