//! Retry schedules: those that organizations name, and the versions that deliveries keep.
//!
//! Every look-up takes the organization, so that scoping cannot be forgotten. Every change takes the entry that the audit log gets with it, in the
//! same transaction, if it takes place.

use async_trait::async_trait;

use crate::{
    ids::{OrganizationId, ScheduleId, ScheduleVersion},
    model::{AuditEntry, OrganizationSchedule, RetrySchedule},
    ports::{Created, StoreError, Updated},
    time::Timestamp,
};

/// The retry schedules of organizations, and the versions of all schedules. Every method fails with [`StoreError::Unavailable`] if the store cannot
/// be reached, and then changed nothing.
#[async_trait]
pub trait RetryScheduleStore: Send + Sync {
    /// Finds or makes the version of a schedule that is equal to this one.
    async fn schedule_version(&self, schedule: &RetrySchedule) -> Result<ScheduleVersion, StoreError>;

    /// Reads a schedule version.
    async fn schedule(&self, version: ScheduleVersion) -> Result<Option<RetrySchedule>, StoreError>;

    /// Makes a retry schedule, if the organization has fewer than `count_max`.
    async fn create_retry_schedule(&self, schedule: OrganizationSchedule, count_max: u32, entry: AuditEntry)
    -> Result<Created, StoreError>;

    /// Finds a retry schedule of an organization.
    async fn retry_schedule(&self, organization: OrganizationId, of: &ScheduleRef) -> Result<Option<OrganizationSchedule>, StoreError>;

    /// Lists an organization's retry schedules, newest first: all of them, their number is bounded.
    async fn retry_schedules(&self, organization: OrganizationId) -> Result<Vec<OrganizationSchedule>, StoreError>;

    /// Replaces a retry schedule's name and version, and makes a new version of the configuration of every application with an endpoint that
    /// follows it, if nobody changed it since `read_at` (its `updated_at` when it was read).
    async fn update_retry_schedule(
        &self,
        schedule: OrganizationSchedule,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError>;

    /// Deletes a retry schedule that no endpoint follows. Its versions stay for the deliveries that keep them.
    async fn delete_retry_schedule(
        &self,
        organization: OrganizationId,
        id: ScheduleId,
        entry: AuditEntry,
    ) -> Result<ScheduleDeleted, StoreError>;

    /// Moves some of the endpoints that follow one schedule to another; call it again until none is left.
    async fn move_endpoints(&self, request: MoveEndpoints, entry: AuditEntry) -> Result<Moved, StoreError>;
}

/// How a request names a retry schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleRef {
    /// By its id.
    Id(ScheduleId),
    /// By its name.
    Name(String),
}

impl ScheduleRef {
    /// Reads what a user wrote: no name is a UUID.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

/// What became of a retry schedule that should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleDeleted {
    /// It is gone.
    Deleted,
    /// It stays: so many endpoints follow it.
    InUse(u32),
    /// There is none.
    NotFound,
}

/// Endpoints that should follow another schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveEndpoints {
    /// The tenant.
    pub organization: OrganizationId,
    /// The schedule that they follow now.
    pub from: ScheduleId,
    /// The one that they should follow; `None` if the version below is a preset's.
    pub to: Option<ScheduleId>,
    /// The version that their new deliveries keep.
    pub version: ScheduleVersion,
    /// The present.
    pub now: Timestamp,
    /// How many at most in this write.
    pub limit: u32,
}

/// What came of moving endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// So many were moved; fewer than the limit means that none is left.
    Moved(u32),
    /// The schedule that they should follow was deleted meanwhile.
    NoSuchSchedule,
}
