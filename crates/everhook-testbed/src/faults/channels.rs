//! Channels that cannot be read or written on demand.

use async_trait::async_trait;
use everhook_core::{
    ids::{ChannelId, OrganizationId},
    model::{AuditEntry, Channel},
    ports::{ChannelStore, Created, StoreError, Updated},
    time::Timestamp,
};

use super::{Faulty, Kind, injected};

#[async_trait]
impl<S: ChannelStore> ChannelStore for Faulty<S> {
    async fn create_channel(
        &self,
        organization: OrganizationId,
        channel: Channel,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<Created, StoreError> {
        through!(self, self.store.create_channel(organization, channel, count_max, entry))
    }

    async fn channels(&self, organization: OrganizationId) -> Result<Vec<Channel>, StoreError> {
        through!(self, self.store.channels(organization))
    }

    async fn update_channel(
        &self,
        organization: OrganizationId,
        channel: Channel,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        through!(self, self.store.update_channel(organization, channel, read_at, entry))
    }

    async fn delete_channel(&self, organization: OrganizationId, id: ChannelId, entry: AuditEntry) -> Result<bool, StoreError> {
        through!(self, self.store.delete_channel(organization, id, entry))
    }
}
