//! The health of endpoints that cannot be read or reported on demand.

use async_trait::async_trait;
use everhook_core::{
    ids::EndpointId,
    model::HealthRecord,
    ports::{EndpointHealthStore, FailingEndpoint, FailingRequest, HealthReport, StoreError},
};

use super::{Faulty, Kind, injected};

#[async_trait]
impl<S: EndpointHealthStore> EndpointHealthStore for Faulty<S> {
    async fn failing_endpoints(&self, request: FailingRequest) -> Result<Vec<FailingEndpoint>, StoreError> {
        through!(self, self.store.failing_endpoints(request))
    }

    async fn recovered_endpoints(&self, limit: u32) -> Result<Vec<FailingEndpoint>, StoreError> {
        through!(self, self.store.recovered_endpoints(limit))
    }

    async fn report_health(&self, report: HealthReport) -> Result<bool, StoreError> {
        through!(self, self.store.report_health(report))
    }

    async fn health_history(&self, endpoint: EndpointId) -> Result<Vec<HealthRecord>, StoreError> {
        through!(self, self.store.health_history(endpoint))
    }
}
