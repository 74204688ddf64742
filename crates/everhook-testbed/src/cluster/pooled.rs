//! What a node reads of the store through its end of the registry: configuration, where the registry says whether its worker pool sends for an
//! application, and API keys, whose answers wait while the node is cut off.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, OrganizationId},
    model::{ApiKey, ApiKeyHash, AuditEntry, Page, PageRequest},
    ports::{ApiKeyStore, ConfigCursor, ConfigPage, ConfigRead, ConfigurationReader, Created, Definitions, StoreError},
    time::Timestamp,
};

use super::registry::Member;

/// The configuration behind one node's end of the registry.
pub struct PooledConfiguration {
    configuration: Arc<dyn ConfigurationReader>,
    member: Arc<Member>,
}

impl PooledConfiguration {
    /// The configuration, as this node reads it.
    pub fn new(configuration: Arc<dyn ConfigurationReader>, member: Arc<Member>) -> Self {
        Self { configuration, member }
    }
}

#[async_trait]
impl ConfigurationReader for PooledConfiguration {
    async fn configuration(&self, id: ApplicationId, after: ConfigCursor) -> Result<ConfigRead, StoreError> {
        self.member.reach().await;
        // Read before the row, so that it may be out of date when the answer comes: so may a snapshot's.
        let pool = self.member.assignment();
        Ok(match self.configuration.configuration(id, after).await? {
            ConfigRead::Page(page) => ConfigRead::Page(Box::new(ConfigPage { pool, ..*page })),
            nothing => nothing,
        })
    }

    async fn definitions(&self, organization: OrganizationId) -> Result<Definitions, StoreError> {
        self.configuration.definitions(organization).await
    }
}

/// API keys behind one node's end of the registry.
pub struct ReachedApiKeys {
    keys: Arc<dyn ApiKeyStore>,
    member: Arc<Member>,
}

impl ReachedApiKeys {
    /// The keys, as this node reads them.
    pub fn new(keys: Arc<dyn ApiKeyStore>, member: Arc<Member>) -> Self {
        Self { keys, member }
    }
}

#[async_trait]
impl ApiKeyStore for ReachedApiKeys {
    async fn create_api_key(&self, key: ApiKey, hash: ApiKeyHash, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        self.keys.create_api_key(key, hash, count_max, entry).await
    }

    async fn api_key(&self, hash: &ApiKeyHash) -> Result<Option<ApiKey>, StoreError> {
        let found = self.keys.api_key(hash).await;
        // An answer that is on its way to a node which is cut off may be out of date when it comes.
        self.member.reach().await;
        found
    }

    async fn api_key_by_id(&self, organization: OrganizationId, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        self.keys.api_key_by_id(organization, id).await
    }

    async fn api_keys(&self, organization: OrganizationId, page: PageRequest) -> Result<Page<ApiKey>, StoreError> {
        self.keys.api_keys(organization, page).await
    }

    async fn revoke_api_key(&self, organization: OrganizationId, id: ApiKeyId, entry: AuditEntry) -> Result<bool, StoreError> {
        self.keys.revoke_api_key(organization, id, entry).await
    }

    async fn note_key_uses(&self, uses: Vec<(ApiKeyId, Timestamp)>) -> Result<(), StoreError> {
        self.keys.note_key_uses(uses).await
    }
}
