//! The directory as a node of a worker pool reads it: whether its pool sends for the organization of an application is the registry's to say.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, EventTypeId, OrganizationId, Ref, RevisionNumber, ScheduleId, ScheduleVersion},
    model::{
        ApiKey, ApiKeyHash, Application, ApplicationKind, AuditEntry, Endpoint, EventTypeDefinition, Organization, OrganizationSchedule,
        Page, PageRequest, RetrySchedule, Revision,
    },
    ports::{
        ConfigCursor, ConfigPage, ConfigRead, Created, Definitions, Deleted, Directory, EndpointFilter, EndpointUpdated, MoveEndpoints,
        Moved, NewOrganization, RemainsDeleted, ScheduleDeleted, ScheduleRef, StoreError, UidsRead, Updated,
    },
    time::Timestamp,
};

use super::registry::Member;

/// A directory behind one node's end of the registry.
pub struct Posted {
    directory: Arc<dyn Directory>,
    member: Arc<Member>,
}

impl Posted {
    /// The directory, as this node reads it.
    pub fn new(directory: Arc<dyn Directory>, member: Arc<Member>) -> Self {
        Self { directory, member }
    }
}

#[async_trait]
impl Directory for Posted {
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
        self.member.reach().await;
        // Read before the row, so that it may be out of date when the answer comes: so may a snapshot's.
        let post = self.member.post();
        Ok(match self.directory.configuration(id, after).await? {
            ConfigRead::Page(page) => ConfigRead::Page(Box::new(ConfigPage { post, ..*page })),
            nothing => nothing,
        })
    }

    async fn definitions(&self, organization: OrganizationId) -> Result<Definitions, StoreError> {
        self.directory.definitions(organization).await
    }

    async fn create_endpoint(&self, endpoint: Endpoint, entry: AuditEntry) -> Result<Created, StoreError> {
        self.directory.create_endpoint(endpoint, entry).await
    }

    async fn endpoint(&self, organization: OrganizationId, of: &Ref<EndpointId>) -> Result<Option<Endpoint>, StoreError> {
        self.directory.endpoint(organization, of).await
    }

    async fn endpoints(
        &self,
        organization: OrganizationId,
        filter: EndpointFilter,
        page: PageRequest,
    ) -> Result<Page<Endpoint>, StoreError> {
        self.directory.endpoints(organization, filter, page).await
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
        self.directory.update_endpoint(endpoint, read_at, entry).await
    }

    async fn revision(
        &self,
        organization: OrganizationId,
        endpoint: EndpointId,
        number: RevisionNumber,
    ) -> Result<Option<Revision>, StoreError> {
        self.directory.revision(organization, endpoint, number).await
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
        let found = self.directory.api_key(hash).await;
        // An answer that is on its way to a node which is cut off may be out of date when it comes.
        self.member.reach().await;
        found
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
