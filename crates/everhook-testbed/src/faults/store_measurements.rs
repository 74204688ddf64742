//! Measurements of the store that cannot be read on demand.

use async_trait::async_trait;
use everhook_core::{
    ids::OrganizationId,
    ports::{QueueMeasurements, StoreError, StoreMeasurements},
    time::Timestamp,
};

use super::{Faulty, Kind, injected};

#[async_trait]
impl<S: StoreMeasurements> StoreMeasurements for Faulty<S> {
    async fn queue_measurements(&self, now: Timestamp, rows_max: u32) -> Result<QueueMeasurements, StoreError> {
        through!(self, self.store.queue_measurements(now, rows_max))
    }

    async fn dead_letters_by_organization(&self, organizations_max: u32) -> Result<Vec<(OrganizationId, u64)>, StoreError> {
        through!(self, self.store.dead_letters_by_organization(organizations_max))
    }

    async fn disabled_endpoint_count(&self) -> Result<u64, StoreError> {
        through!(self, self.store.disabled_endpoint_count())
    }
}
