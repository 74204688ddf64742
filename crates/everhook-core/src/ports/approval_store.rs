//! Where calls are kept that a person decides about.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, ApprovalId, EventId, OrganizationId},
    model::{Approval, ApprovalDecision, ApprovalStatus, AuditEntry, Page, PageRequest},
    ports::{Alert, StoreError},
    time::Timestamp,
};

/// Approvals. They go with their application, some time after it was deleted.
///
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be reached; then nothing was written, as far as is known, and calling again is
/// safe.
#[async_trait]
pub trait ApprovalStore: Send + Sync {
    /// Keeps a call that waits for a person, and the alert about it, in one atomic write; unless its application has `pending_max` that
    /// wait, give or take those that are kept at the same moment, or was deleted. The same again changes nothing.
    async fn request_approval(&self, approval: Approval, pending_max: u32, alert: Alert) -> Result<ApprovalRequested, StoreError>;

    /// One approval, whole.
    async fn approval(&self, organization: OrganizationId, id: ApprovalId) -> Result<Option<Approval>, StoreError>;

    /// Lists approvals, newest first, without what is sealed.
    async fn approvals(
        &self,
        organization: OrganizationId,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<Page<Approval>, StoreError>;

    /// Keeps a decision if nobody decided before, with its entry in the audit log, in one atomic write. The call is kept as long as an event is to be
    /// published for it.
    async fn decide_approval(
        &self,
        organization: OrganizationId,
        id: ApprovalId,
        decision: ApprovalDecision,
        entry: AuditEntry,
    ) -> Result<Decided, StoreError>;

    /// Approvals behind this one whose decision has an event that is not published yet, oldest first, whole.
    async fn unpublished_approvals(&self, after: ApprovalId, limit: u32) -> Result<Vec<Approval>, StoreError>;

    /// Notes that the event of a decision is durable, and forgets the call. Doing it again changes nothing.
    async fn approval_published(&self, id: ApprovalId, event: EventId) -> Result<(), StoreError>;

    /// Those that wait whose time is over first, without what is sealed.
    async fn expiring_approvals(&self, limit: u32) -> Result<Vec<Approval>, StoreError>;

    /// Removes some approvals that were decided before an instant and have nothing left to be published, at most `limit`. Says how many.
    async fn forget_approvals(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError>;
}

/// Which approvals to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Of this application.
    pub application: Option<ApplicationId>,
    /// In that state.
    pub status: Option<ApprovalStatus>,
}

/// What became of a call that should wait for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalRequested {
    /// It is durable.
    Kept,
    /// As many wait as may.
    TooMany,
    /// The application is not there any more.
    NoSuchApplication,
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// It is durable.
    Decided,
    /// A decision was made before: the approval as it is.
    Before(Box<Approval>),
    /// There is no such approval.
    NotFound,
}
