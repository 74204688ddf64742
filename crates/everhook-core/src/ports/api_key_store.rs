//! API keys: who may call the API, and for what.
//!
//! Every change takes the entry that the audit log gets with it, in the same transaction, if it takes place.

use async_trait::async_trait;

use crate::{
    ids::{ApiKeyId, OrganizationId},
    model::{ApiKey, ApiKeyHash, AuditEntry, Page, PageRequest},
    ports::{Created, StoreError},
    time::Timestamp,
};

/// The API keys of organizations. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and then changed nothing.
#[async_trait]
pub trait ApiKeyStore: Send + Sync {
    /// Keeps an API key's record under the hash of its text. The same hash again replaces nothing and is `UidTaken`. An organization that has
    /// `count_max` of them gets no more, and neither does one without the application that the key is limited to.
    async fn create_api_key(&self, key: ApiKey, hash: ApiKeyHash, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError>;

    /// Finds the record of a key that somebody showed. Not scoped: the key itself says whose it is.
    async fn api_key(&self, hash: &ApiKeyHash) -> Result<Option<ApiKey>, StoreError>;

    /// Finds a key's record by its id.
    async fn api_key_by_id(&self, organization: OrganizationId, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError>;

    /// Lists an organization's keys.
    async fn api_keys(&self, organization: OrganizationId, page: PageRequest) -> Result<Page<ApiKey>, StoreError>;

    /// Revokes a key of an organization; says whether there was one.
    async fn revoke_api_key(&self, organization: OrganizationId, id: ApiKeyId, entry: AuditEntry) -> Result<bool, StoreError>;

    /// Notes when keys were last used. One that was revoked meanwhile is left out, and so is an instant before the one that is known.
    async fn note_key_uses(&self, uses: Vec<(ApiKeyId, Timestamp)>) -> Result<(), StoreError>;
}
