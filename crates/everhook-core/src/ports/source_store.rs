//! Where sources are kept: places that providers send their webhooks to.
//!
//! Beside the directory, because what comes in is looked up here by strangers: by the id in a URL, without an organization.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, OrganizationId, Ref, SourceId},
    model::{AuditEntry, Page, PageRequest, Source, SourceActivity},
    ports::{Created, StoreError, Updated},
    time::Timestamp,
};

/// Sources. Deleting an application or an organization deletes theirs in the same write.
///
/// Every change is announced to other nodes as [`Change::Source`](crate::ports::Change::Source). Every method fails with [`StoreError::Unavailable`] if the
/// store cannot be reached, and then changed nothing.
#[async_trait]
pub trait SourceStore: Send + Sync {
    /// Makes a source, if its application is there, its name is free, and the organization has fewer than `count_max`.
    async fn create_source(&self, source: Source, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError>;

    /// Finds a source of an organization, by its id or its name.
    async fn source(&self, organization: OrganizationId, of: &Ref<SourceId>) -> Result<Option<Source>, StoreError>;

    /// Finds the source that a URL names. Not scoped: the caller is not authenticated.
    async fn source_by_id(&self, id: SourceId) -> Result<Option<Source>, StoreError>;

    /// Lists an organization's sources, newest first: all, or those of one application.
    async fn sources(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        page: PageRequest,
    ) -> Result<Page<Source>, StoreError>;

    /// Replaces a source, if nobody changed it since `read_at` (its `updated_at` when it was read).
    async fn update_source(&self, source: Source, read_at: Timestamp, entry: AuditEntry) -> Result<Updated, StoreError>;

    /// Deletes a source of an organization, with its activity; says whether there was one.
    async fn delete_source(&self, organization: OrganizationId, id: SourceId, entry: AuditEntry) -> Result<bool, StoreError>;

    /// Notes what happened at sources last, each at most once in the list. What is known already and is later stays; a source that was deleted meanwhile is
    /// left out.
    async fn note_source_activity(&self, news: Vec<(SourceId, SourceActivity)>) -> Result<(), StoreError>;

    /// What happened at these sources last: as many as a page of a list has. Those at which nothing happened are left out.
    async fn source_activity(&self, of: Vec<SourceId>) -> Result<Vec<(SourceId, SourceActivity)>, StoreError>;
}
