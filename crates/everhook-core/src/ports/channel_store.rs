//! Where channels of services are kept, beside those that follow from `admin_emails` and `owner_email`.
//!
//! Beside the directory, because an organization has so few that they are read as a whole: by those who list them, and by the catalog with what else an
//! organization defines.

use async_trait::async_trait;

use crate::{
    ids::{ChannelId, OrganizationId},
    model::{AuditEntry, Channel},
    ports::{Created, StoreError, Updated},
    time::Timestamp,
};

/// Channels. Deleting an organization deletes its channels.
///
/// Every change is a new version of what the organization defines. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and
/// then changed nothing.
#[async_trait]
pub trait ChannelStore: Send + Sync {
    /// Makes a channel of a service with its lane, if its name is free and the organization has fewer than `count_max` of them. Its retry schedule is the
    /// preset `notify`, whatever the channel says.
    async fn create_channel(
        &self,
        organization: OrganizationId,
        channel: Channel,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<Created, StoreError>;

    /// All channels of an organization, those of e-mail first, each by name.
    async fn channels(&self, organization: OrganizationId) -> Result<Vec<Channel>, StoreError>;

    /// Replaces a channel of a service, if nobody changed it since `read_at` (its `updated_at` when it was read).
    async fn update_channel(
        &self,
        organization: OrganizationId,
        channel: Channel,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError>;

    /// Deletes a channel of a service; says whether there was one. Its lane stays for the deliveries that name it.
    async fn delete_channel(&self, organization: OrganizationId, id: ChannelId, entry: AuditEntry) -> Result<bool, StoreError>;
}
