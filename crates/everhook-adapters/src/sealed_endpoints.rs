//! Endpoints with the values of their custom headers sealed: they are often credentials, as secrets are.
//!
//! Wiring puts it in front of either store. Whoever asks it sees values in the clear; the store keeps them sealed, in its endpoints and in their
//! revisions. Names stay readable: they say what kind of credential it is, and help to find an endpoint.

use std::sync::Arc;

use async_trait::async_trait;
use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use everhook_core::{
    ids::{ApplicationId, EndpointId, OrganizationId, Ref, RevisionNumber},
    model::{AuditEntry, Endpoint, Page, PageRequest, Revision, SealedSecret},
    ports::{
        ConfigCursor, ConfigRead, ConfigurationReader, Created, Definitions, EndpointFilter, EndpointStore, EndpointUpdated, StoreError,
        UidsRead, Vault,
    },
    time::Timestamp,
};

/// How many endpoints of an application are opened before others have their turn on this thread. Each may have 64 headers.
const OPENED_AT_ONCE: usize = 32;

/// Seals what is written of endpoints' headers, and opens what is read of them.
pub struct SealedEndpoints {
    endpoints: Arc<dyn EndpointStore>,
    configuration: Arc<dyn ConfigurationReader>,
    vault: Arc<dyn Vault>,
}

impl SealedEndpoints {
    /// The same endpoints, with the values sealed: by either way in.
    pub fn new(endpoints: Arc<dyn EndpointStore>, configuration: Arc<dyn ConfigurationReader>, vault: Arc<dyn Vault>) -> Self {
        Self { endpoints, configuration, vault }
    }

    fn seal_endpoint(&self, endpoint: Endpoint) -> Endpoint {
        let seal = |(name, value): (String, String)| {
            let SealedSecret(sealed) = self.vault.seal(endpoint.id.as_uuid(), value.as_bytes());
            (name, BASE64_STANDARD_NO_PAD.encode(sealed))
        };
        Endpoint { headers: endpoint.headers.into_iter().map(seal).collect(), ..endpoint }
    }

    fn open_endpoint(&self, endpoint: Endpoint) -> Result<Endpoint, StoreError> {
        let headers = self.open(endpoint.id, endpoint.headers)?;
        Ok(Endpoint { headers, ..endpoint })
    }

    /// Opens values that were sealed for this endpoint.
    fn open(&self, of: EndpointId, headers: Vec<(String, String)>) -> Result<Vec<(String, String)>, StoreError> {
        let open = |(name, sealed): (String, String)| {
            let sealed = SealedSecret(BASE64_STANDARD_NO_PAD.decode(sealed).map_err(StoreError::corrupt)?);
            let value = self.vault.open(of.as_uuid(), &sealed).map_err(StoreError::corrupt)?;
            Ok((name, String::from_utf8(value).map_err(StoreError::corrupt)?))
        };
        headers.into_iter().map(open).collect()
    }
}

#[async_trait]
impl EndpointStore for SealedEndpoints {
    async fn create_endpoint(&self, endpoint: Endpoint, entry: AuditEntry) -> Result<Created, StoreError> {
        self.endpoints.create_endpoint(self.seal_endpoint(endpoint), entry).await
    }

    async fn endpoint(&self, organization: OrganizationId, of: &Ref<EndpointId>) -> Result<Option<Endpoint>, StoreError> {
        self.endpoints.endpoint(organization, of).await?.map(|found| self.open_endpoint(found)).transpose()
    }

    async fn endpoints(
        &self,
        organization: OrganizationId,
        filter: EndpointFilter,
        page: PageRequest,
    ) -> Result<Page<Endpoint>, StoreError> {
        let mut page = self.endpoints.endpoints(organization, filter, page).await?;
        page.rows = page.rows.into_iter().map(|endpoint| self.open_endpoint(endpoint)).collect::<Result<_, _>>()?;
        Ok(page)
    }

    async fn uids(
        &self,
        organization: OrganizationId,
        endpoints: Vec<EndpointId>,
        applications: Vec<ApplicationId>,
    ) -> Result<UidsRead, StoreError> {
        self.endpoints.uids(organization, endpoints, applications).await
    }

    async fn update_endpoint(&self, endpoint: Endpoint, read_at: Timestamp, entry: AuditEntry) -> Result<EndpointUpdated, StoreError> {
        self.endpoints.update_endpoint(self.seal_endpoint(endpoint), read_at, entry).await
    }

    async fn revision(
        &self,
        organization: OrganizationId,
        endpoint: EndpointId,
        number: RevisionNumber,
    ) -> Result<Option<Revision>, StoreError> {
        let Some(mut revision) = self.endpoints.revision(organization, endpoint, number).await? else { return Ok(None) };
        revision.headers = self.open(endpoint, revision.headers)?;
        Ok(Some(revision))
    }

    async fn end_drain(&self, endpoint: EndpointId) -> Result<(), StoreError> {
        self.endpoints.end_drain(endpoint).await
    }
}

#[async_trait]
impl ConfigurationReader for SealedEndpoints {
    async fn configuration(&self, id: ApplicationId, after: ConfigCursor) -> Result<ConfigRead, StoreError> {
        let mut page = match self.configuration.configuration(id, after).await? {
            ConfigRead::Page(page) => page,
            nothing => return Ok(nothing),
        };
        let mut opened = Vec::with_capacity(page.endpoints.len());
        for endpoint in std::mem::take(&mut page.endpoints) {
            opened.push(self.open_endpoint(endpoint)?);
            if opened.len().is_multiple_of(OPENED_AT_ONCE) {
                tokio::task::yield_now().await;
            }
        }
        page.endpoints = opened;
        Ok(ConfigRead::Page(page))
    }

    async fn definitions(&self, organization: OrganizationId) -> Result<Definitions, StoreError> {
        self.configuration.definitions(organization).await
    }
}
