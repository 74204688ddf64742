//! Organizations: who has everything else.
//!
//! Not scoped: only admins may ask. Every change takes the entry that the audit log gets with it, in the same transaction, if it takes place.

use async_trait::async_trait;

use crate::{
    ids::{OrganizationId, Ref},
    model::{Application, AuditEntry, Organization, Page, PageRequest},
    ports::{Created, Deleted, Deletion, StoreError, Updated},
    time::Timestamp,
};

/// The organizations of the server. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and then changed nothing.
#[async_trait]
pub trait OrganizationStore: Send + Sync {
    /// Makes an organization with its two built-in applications.
    async fn create_organization(&self, new: NewOrganization, entry: AuditEntry) -> Result<Created, StoreError>;

    /// Finds an organization.
    async fn organization(&self, of: &Ref<OrganizationId>) -> Result<Option<Organization>, StoreError>;

    /// Lists organizations.
    async fn organizations(&self, page: PageRequest) -> Result<Page<Organization>, StoreError>;

    /// Replaces what can be changed of an organization, if nobody changed it since it was read. One that goes to another worker pool is sent for by
    /// nobody until each boot of the former pool has let go of it ([`Leases::depart`](super::Leases::depart)) or is dead.
    async fn update_organization(&self, read: Organization, changed: Organization, entry: AuditEntry) -> Result<Updated, StoreError>;

    /// Deletes an organization: from the end of this write on it is not found, nothing is published to its applications, its uid is free, and its keys
    /// are revoked. What it has is left to [`ApplicationStore::delete_contents`](super::ApplicationStore::delete_contents), and the data of its events to the
    /// operation, which begins in the same write. The entry and the operation are another organization's: its own are read by nobody.
    async fn delete_organization(&self, id: OrganizationId, at: Timestamp, deletion: Deletion) -> Result<Deleted, StoreError>;

    /// Writes an organization's row unchanged: shows whether the store takes writes.
    async fn try_write(&self, organization: OrganizationId) -> Result<(), StoreError>;
}

/// An organization to be made, with the applications that it is born with.
#[derive(Clone, Debug)]
pub struct NewOrganization {
    /// The organization.
    pub organization: Organization,
    /// Its application named `default`.
    pub default: Application,
    /// Its application named `operational`.
    pub operational: Application,
}
