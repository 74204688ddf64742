//! Which endpoints fail for long, and what was reported about them. Used by the job that checks endpoints, and to show an endpoint's health.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, EndpointId, OrganizationId},
    model::{EndpointActivity, FailingClock, HealthRecord},
    ports::{Alert, Disabling, StoreError},
    time::Timestamp,
};

/// Keeps the failing clocks of endpoints, which [`Statistics::add`](super::Statistics::add) moves.
#[async_trait]
pub trait EndpointHealthStore: Send + Sync {
    /// Enabled endpoints that are not paused and fail for long, those that fail the longest first, after the place given. It costs as much as there are
    /// endpoints that fail for so long, however many others there are.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn failing_endpoints(&self, request: FailingRequest) -> Result<Vec<FailingEndpoint>, StoreError>;

    /// Endpoints that succeeded after their owners were notified of failures, and whose owners were not notified of the recovery yet; at most so many.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn recovered_endpoints(&self, limit: u32) -> Result<Vec<FailingEndpoint>, StoreError>;

    /// Records a report in one atomic write: in the clock and the history of the endpoint, as an alert, and with the endpoint disabled if it says so. Says `false`,
    /// and records nothing, if the clock has changed since it was read, or the endpoint is to be disabled and is not enabled or is paused: several nodes may
    /// report the same, and one of them does.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was recorded, as far as is known. Reporting again is safe.
    async fn report_health(&self, report: HealthReport) -> Result<bool, StoreError>;

    /// What was reported about an endpoint, the newest first; at most [`HEALTH_RECORDS_MAX`](crate::model::HEALTH_RECORDS_MAX).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn health_history(&self, endpoint: EndpointId) -> Result<Vec<HealthRecord>, StoreError>;
}

/// Which endpoints are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingRequest {
    /// They fail since then, or since before.
    pub since: Timestamp,
    /// If their owner was warned, they fail since then, or since before.
    pub warned_since: Timestamp,
    /// The last one of the page before.
    pub after: Option<(Timestamp, EndpointId)>,
    /// At most so many.
    pub limit: u32,
}

/// An endpoint, and how it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingEndpoint {
    /// Which.
    pub endpoint: EndpointId,
    /// Whose.
    pub organization: OrganizationId,
    /// How it does.
    pub activity: EndpointActivity,
}

/// Something that is reported about an endpoint.
#[derive(Clone, Debug)]
pub struct HealthReport {
    /// Which.
    pub endpoint: EndpointId,
    /// The application that it belongs to.
    pub application: ApplicationId,
    /// The clock that it follows from.
    pub seen: FailingClock,
    /// What its history gets.
    pub record: HealthRecord,
    /// The alert for its owner.
    pub alert: Alert,
    /// How it is disabled, if it is.
    pub disables: Option<Disabling>,
}
