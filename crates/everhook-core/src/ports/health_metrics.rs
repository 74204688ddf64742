//! Where health metrics are kept.

use async_trait::async_trait;

use crate::{
    ids::{HealthConnectionId, HealthMetricId, OrganizationId},
    model::{
        AuditEntry, Page, PageRequest,
        health::{Metric, MetricDraft, MetricType, ProfileId, Provider, RecordId},
    },
    ports::{Effect, StoreError, TimeRange},
    time::Timestamp,
};

/// Metrics. Deleting an organization deletes its metrics, in steps.
///
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and then changed nothing.
#[async_trait]
pub trait HealthMetrics: Send + Sync {
    /// Writes metrics for the profiles of connections, in one write. A row is found by profile, provider, type and record id, else by the dedupe hash, and
    /// changed only if it says something else: the same write twice changes nothing. Connections that are not there any more, or not connected, get
    /// nothing; that none is left is answered with `None`.
    async fn write_metrics(&self, write: MetricWrite) -> Result<Option<MetricsWritten>, StoreError>;

    /// Deletes what was made of a provider's record for some profiles; says how many metrics that were.
    async fn delete_record(&self, of: RecordOf) -> Result<u32, StoreError>;

    /// Lists an organization's metrics, newest first: in the order in which they were first written.
    async fn metrics(&self, organization: OrganizationId, filter: MetricFilter, page: PageRequest) -> Result<Page<Metric>, StoreError>;

    /// Deletes some metrics of a profile, so that nothing of them is left in the store's files; says how many. Fewer than `limit`: there are no more.
    async fn erase_metrics(&self, organization: OrganizationId, profile: ProfileId, limit: u32) -> Result<u32, StoreError>;

    /// Deletes the connections of a profile, so that nothing of them is left in the store's files, and enters that it was erased.
    async fn erase_connections(
        &self,
        organization: OrganizationId,
        profile: ProfileId,
        entry: AuditEntry,
    ) -> Result<ProfileErased, StoreError>;
}

/// Metrics to be written.
#[derive(Clone, Debug)]
pub struct MetricWrite {
    /// The tenant.
    pub organization: OrganizationId,
    /// Who measured.
    pub provider: Provider,
    /// Through which connections, and the profile of each: the metrics are written for all of these.
    pub connections: Vec<(HealthConnectionId, ProfileId)>,
    /// What was measured.
    pub drafts: Vec<MetricDraft>,
    /// The ids of new rows: as many as connections times drafts.
    pub new_ids: Vec<HealthMetricId>,
    /// When.
    pub at: Timestamp,
}

/// What became of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricsWritten {
    /// New rows.
    pub inserted: u32,
    /// Rows that say something else now.
    pub updated: u32,
    /// Rows that said the same before.
    pub unchanged: u32,
}

/// That the connections of a profile are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileErased {
    /// How many there were.
    pub connections: u32,
}

impl Effect for ProfileErased {
    /// That somebody was to be erased is entered also if only metrics were left of them.
    fn took_place(&self) -> bool {
        true
    }
}

/// A provider's record.
#[derive(Clone, Debug)]
pub struct RecordOf {
    /// The tenant.
    pub organization: OrganizationId,
    /// Who measured.
    pub provider: Provider,
    /// Of which profiles.
    pub profiles: Vec<ProfileId>,
    /// The record.
    pub record: RecordId,
}

/// Which metrics are meant. What is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricFilter {
    /// Of this profile.
    pub profile: Option<ProfileId>,
    /// Of this type.
    pub metric_type: Option<MetricType>,
    /// That began in this time.
    pub started: TimeRange,
}
