//! Applications: what events are published to.
//!
//! Every look-up takes the organization, so that scoping cannot be forgotten. Every change takes the entry that the audit log gets with it, in the
//! same transaction, if it takes place.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, EndpointId, OrganizationId, Ref},
    model::{Application, ApplicationKind, AuditEntry, CheckChange, Operation, Page, PageRequest, Selection},
    ports::{Created, Deleted, StoreError, Updated},
    time::Timestamp,
};

/// The applications of organizations, and what deletions leave over. Every method fails with [`StoreError::Unavailable`] if the store cannot be
/// reached, and then changed nothing.
#[async_trait]
pub trait ApplicationStore: Send + Sync {
    /// Makes an application, if the organization's limits allow one more. The channel of its owner follows from it.
    async fn create_application(&self, application: Application, entry: AuditEntry) -> Result<Created, StoreError>;

    /// Finds an application of an organization.
    async fn application(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<Option<Application>, StoreError>;

    /// Finds one of an organization's built-in applications.
    async fn built_in_application(&self, organization: OrganizationId, kind: ApplicationKind) -> Result<Option<Application>, StoreError>;

    /// Lists an organization's applications.
    async fn applications(&self, organization: OrganizationId, page: PageRequest) -> Result<Page<Application>, StoreError>;

    /// Replaces what can be changed of an application, if nobody changed it since it was read, nor the manifest that `check` follows from. The channels of
    /// owners follow from it.
    async fn update_application(
        &self,
        read: Application,
        changed: Application,
        check: CheckChange,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError>;

    /// Deletes an application that is not built in: from the end of this write on it is not found, nothing is published to it, its name and uid are
    /// free, its owner has no channel for it any more, and the keys that reach it alone are revoked. Its endpoints are left to [`delete_contents`](Self::delete_contents), and the data of its events to
    /// the operation, which begins in the same write.
    async fn delete_application(&self, organization: OrganizationId, id: ApplicationId, deletion: Deletion) -> Result<Deleted, StoreError>;

    /// Deletes some of what deleted organizations and applications have left: about `limit` endpoints, each as a change of its state would. Call it
    /// again
    /// until nothing is left; what was not reached waits over a restart.
    async fn delete_contents(&self, at: Timestamp, limit: u32) -> Result<ContentsDeleted, StoreError>;
}

/// Some of what deleted organizations and applications had left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentsDeleted {
    /// Those of the endpoints that are deleted now for which deliveries wait: their lanes are to be notified.
    pub awaited: Vec<(ApplicationId, EndpointId)>,
    /// Whether there may be more.
    pub has_more: bool,
}

/// What is written with the deletion of something that has events.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// What the audit log says of it.
    pub entry: AuditEntry,
    /// The operation that erases the data of the events, of kind [`OperationKind::DeleteData`](crate::model::OperationKind::DeleteData).
    pub operation: Operation,
    /// Which events these are.
    pub selection: Selection,
}
