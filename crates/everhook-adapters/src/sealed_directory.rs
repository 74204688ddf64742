//! The directory with the values of endpoints' custom headers sealed: they are often credentials, as secrets are.
//!
//! Wiring puts it in front of either store. Whoever asks it sees values in the clear; the store keeps them sealed, in its endpoints and in their
//! revisions. Names stay readable: they say what kind of credential it is, and help to find an endpoint.

use std::sync::Arc;

use async_trait::async_trait;
use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, EventTypeId, OrganizationId, Ref, RevisionNumber, ScheduleId, ScheduleVersion},
    model::{
        ApiKey, ApiKeyHash, Application, ApplicationKind, AuditEntry, Endpoint, EventTypeDefinition, Organization, OrganizationSchedule,
        Page, PageRequest, RetrySchedule, Revision, SealedSecret,
    },
    ports::{
        ConfigCursor, ConfigRead, Created, Definitions, Deleted, Directory, EndpointFilter, EndpointUpdated, MoveEndpoints, Moved,
        NewOrganization, RemainsDeleted, ScheduleDeleted, ScheduleRef, StoreError, UidsRead, Updated, Vault,
    },
    time::Timestamp,
};

/// How many endpoints of an application are opened before others have their turn on this thread. Each may have 64 headers.
const OPENED_AT_ONCE: usize = 32;

/// A directory that seals what it writes of endpoints' headers.
pub struct SealedDirectory {
    directory: Arc<dyn Directory>,
    vault: Arc<dyn Vault>,
}

impl SealedDirectory {
    /// The same directory, with the values sealed.
    pub fn new(directory: Arc<dyn Directory>, vault: Arc<dyn Vault>) -> Self {
        Self { directory, vault }
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
impl Directory for SealedDirectory {
    async fn create_organization(&self, new: NewOrganization, entry: AuditEntry) -> Result<Created, StoreError> {
        self.directory.create_organization(new, entry).await
    }

    async fn organization(&self, of: &Ref<OrganizationId>) -> Result<Option<Organization>, StoreError> {
        self.directory.organization(of).await
    }

    async fn organizations(&self, page: PageRequest) -> Result<Page<Organization>, StoreError> {
        self.directory.organizations(page).await
    }

    async fn update_organization(&self, read: Organization, changed: Organization, entry: AuditEntry) -> Result<Updated, StoreError> {
        self.directory.update_organization(read, changed, entry).await
    }

    async fn delete_organization(&self, id: OrganizationId, at: Timestamp, entry: AuditEntry) -> Result<Deleted, StoreError> {
        self.directory.delete_organization(id, at, entry).await
    }

    async fn delete_application(&self, organization: OrganizationId, id: ApplicationId, entry: AuditEntry) -> Result<Deleted, StoreError> {
        self.directory.delete_application(organization, id, entry).await
    }

    async fn delete_remains(&self, at: Timestamp, limit: u32) -> Result<RemainsDeleted, StoreError> {
        self.directory.delete_remains(at, limit).await
    }

    async fn try_write(&self, organization: OrganizationId) -> Result<(), StoreError> {
        self.directory.try_write(organization).await
    }

    async fn create_application(&self, application: Application, entry: AuditEntry) -> Result<Created, StoreError> {
        self.directory.create_application(application, entry).await
    }

    async fn application(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<Option<Application>, StoreError> {
        self.directory.application(organization, of).await
    }

    async fn built_in_application(&self, organization: OrganizationId, kind: ApplicationKind) -> Result<Option<Application>, StoreError> {
        self.directory.built_in_application(organization, kind).await
    }

    async fn applications(&self, organization: OrganizationId, page: PageRequest) -> Result<Page<Application>, StoreError> {
        self.directory.applications(organization, page).await
    }

    async fn update_application(&self, read: Application, changed: Application, entry: AuditEntry) -> Result<Updated, StoreError> {
        self.directory.update_application(read, changed, entry).await
    }

    async fn configuration(&self, id: ApplicationId, after: ConfigCursor) -> Result<ConfigRead, StoreError> {
        let mut page = match self.directory.configuration(id, after).await? {
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
        self.directory.definitions(organization).await
    }

    async fn create_endpoint(&self, endpoint: Endpoint, entry: AuditEntry) -> Result<Created, StoreError> {
        self.directory.create_endpoint(self.seal_endpoint(endpoint), entry).await
    }

    async fn endpoint(&self, organization: OrganizationId, of: &Ref<EndpointId>) -> Result<Option<Endpoint>, StoreError> {
        self.directory.endpoint(organization, of).await?.map(|found| self.open_endpoint(found)).transpose()
    }

    async fn endpoints(
        &self,
        organization: OrganizationId,
        filter: EndpointFilter,
        page: PageRequest,
    ) -> Result<Page<Endpoint>, StoreError> {
        let mut page = self.directory.endpoints(organization, filter, page).await?;
        page.rows = page.rows.into_iter().map(|endpoint| self.open_endpoint(endpoint)).collect::<Result<_, _>>()?;
        Ok(page)
    }

    async fn uids(
        &self,
        organization: OrganizationId,
        endpoints: Vec<EndpointId>,
        applications: Vec<ApplicationId>,
    ) -> Result<UidsRead, StoreError> {
        self.directory.uids(organization, endpoints, applications).await
    }

    async fn update_endpoint(&self, endpoint: Endpoint, read_at: Timestamp, entry: AuditEntry) -> Result<EndpointUpdated, StoreError> {
        self.directory.update_endpoint(self.seal_endpoint(endpoint), read_at, entry).await
    }

    async fn revision(
        &self,
        organization: OrganizationId,
        endpoint: EndpointId,
        number: RevisionNumber,
    ) -> Result<Option<Revision>, StoreError> {
        let Some(mut revision) = self.directory.revision(organization, endpoint, number).await? else { return Ok(None) };
        revision.headers = self.open(endpoint, revision.headers)?;
        Ok(Some(revision))
    }

    async fn end_drain(&self, endpoint: EndpointId) -> Result<(), StoreError> {
        self.directory.end_drain(endpoint).await
    }

    async fn schedule_version(&self, schedule: &RetrySchedule) -> Result<ScheduleVersion, StoreError> {
        self.directory.schedule_version(schedule).await
    }

    async fn schedule(&self, version: ScheduleVersion) -> Result<Option<RetrySchedule>, StoreError> {
        self.directory.schedule(version).await
    }

    async fn create_retry_schedule(
        &self,
        schedule: OrganizationSchedule,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<Created, StoreError> {
        self.directory.create_retry_schedule(schedule, count_max, entry).await
    }

    async fn retry_schedule(&self, organization: OrganizationId, of: &ScheduleRef) -> Result<Option<OrganizationSchedule>, StoreError> {
        self.directory.retry_schedule(organization, of).await
    }

    async fn retry_schedules(&self, organization: OrganizationId) -> Result<Vec<OrganizationSchedule>, StoreError> {
        self.directory.retry_schedules(organization).await
    }

    async fn update_retry_schedule(
        &self,
        schedule: OrganizationSchedule,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        self.directory.update_retry_schedule(schedule, read_at, entry).await
    }

    async fn delete_retry_schedule(
        &self,
        organization: OrganizationId,
        id: ScheduleId,
        entry: AuditEntry,
    ) -> Result<ScheduleDeleted, StoreError> {
        self.directory.delete_retry_schedule(organization, id, entry).await
    }

    async fn move_endpoints(&self, request: MoveEndpoints, entry: AuditEntry) -> Result<Moved, StoreError> {
        self.directory.move_endpoints(request, entry).await
    }

    async fn create_event_type(&self, definition: EventTypeDefinition, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        self.directory.create_event_type(definition, count_max, entry).await
    }

    async fn event_type(&self, organization: OrganizationId, of: &Ref<EventTypeId>) -> Result<Option<EventTypeDefinition>, StoreError> {
        self.directory.event_type(organization, of).await
    }

    async fn event_types(
        &self,
        organization: OrganizationId,
        archived: Option<bool>,
        page: PageRequest,
    ) -> Result<Page<EventTypeDefinition>, StoreError> {
        self.directory.event_types(organization, archived, page).await
    }

    async fn update_event_type(
        &self,
        definition: EventTypeDefinition,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        self.directory.update_event_type(definition, read_at, entry).await
    }

    async fn delete_event_type(&self, organization: OrganizationId, id: EventTypeId, entry: AuditEntry) -> Result<bool, StoreError> {
        self.directory.delete_event_type(organization, id, entry).await
    }

    async fn create_api_key(&self, key: ApiKey, hash: ApiKeyHash, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        self.directory.create_api_key(key, hash, count_max, entry).await
    }

    async fn api_key(&self, hash: &ApiKeyHash) -> Result<Option<ApiKey>, StoreError> {
        self.directory.api_key(hash).await
    }

    async fn api_key_by_id(&self, organization: OrganizationId, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        self.directory.api_key_by_id(organization, id).await
    }

    async fn api_keys(&self, organization: OrganizationId, page: PageRequest) -> Result<Page<ApiKey>, StoreError> {
        self.directory.api_keys(organization, page).await
    }

    async fn revoke_api_key(&self, organization: OrganizationId, id: ApiKeyId, entry: AuditEntry) -> Result<bool, StoreError> {
        self.directory.revoke_api_key(organization, id, entry).await
    }

    async fn note_key_uses(&self, uses: Vec<(ApiKeyId, Timestamp)>) -> Result<(), StoreError> {
        self.directory.note_key_uses(uses).await
    }
}
