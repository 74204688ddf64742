//! Event types: what organizations define of the events that they publish.
//!
//! Every look-up takes the organization, so that scoping cannot be forgotten. Every change takes the entry that the audit log gets with it, in the
//! same transaction, if it takes place.

use async_trait::async_trait;

use crate::{
    ids::{EventTypeId, OrganizationId, Ref},
    model::{AuditEntry, EventTypeDefinition, Page, PageRequest},
    ports::{Created, StoreError, Updated},
    time::Timestamp,
};

/// The event types of organizations. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and then changed nothing.
#[async_trait]
pub trait EventTypeStore: Send + Sync {
    /// Makes an event type, if the organization has fewer than `count_max`, and a new version of the configuration of all its applications.
    async fn create_event_type(&self, definition: EventTypeDefinition, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError>;

    /// Finds an event type of an organization, by its id or its name.
    async fn event_type(&self, organization: OrganizationId, of: &Ref<EventTypeId>) -> Result<Option<EventTypeDefinition>, StoreError>;

    /// Lists an organization's event types: those that are archived, those that are not, or all.
    async fn event_types(
        &self,
        organization: OrganizationId,
        archived: Option<bool>,
        page: PageRequest,
    ) -> Result<Page<EventTypeDefinition>, StoreError>;

    /// Replaces an event type, as `create_event_type` does, if nobody changed it since `read_at` (its `updated_at` when it was read).
    async fn update_event_type(
        &self,
        definition: EventTypeDefinition,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError>;

    /// Deletes an event type of an organization; says whether there was one.
    async fn delete_event_type(&self, organization: OrganizationId, id: EventTypeId, entry: AuditEntry) -> Result<bool, StoreError>;
}
