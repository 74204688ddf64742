//! Who owns what: the ports of the control plane, one file a resource. What somebody changes goes through `change`, which enters it in the audit log.

mod api_keys;
mod applications;
mod approvals;
mod channels;
mod deletions;
mod endpoint_row;
mod endpoints;
mod event_types;
mod manifests;
mod organizations;
mod processors;
mod retry_schedules;
mod schedules;
mod sources;
mod uids;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, EventTypeId, OrganizationId, Ref, RevisionNumber, ScheduleId, ScheduleVersion},
    model::{
        ApiKey, ApiKeyHash, Application, ApplicationKind, AuditEntry, CheckChange, Endpoint, EventTypeDefinition, Organization,
        OrganizationSchedule, Page, PageRequest, RetrySchedule, Revision,
    },
    ports::{
        ApiKeyStore, ApplicationStore, ConfigCursor, ConfigRead, ConfigurationReader, ContentsDeleted, Created, Definitions, Deleted,
        Deletion, EndpointFilter, EndpointStore, EndpointUpdated, EventTypeStore, MoveEndpoints, Moved, NewOrganization, OrganizationStore,
        RetryScheduleStore, ScheduleDeleted, ScheduleRef, StoreError, UidsRead, Updated,
    },
    time::Timestamp,
};

use super::{SqliteStore, schedule_json};

/// About how many rows a deletion writes at once: the keys and the sources of an organization.
const ROWS_A_DELETION: usize = 2_000;

#[async_trait]
impl OrganizationStore for SqliteStore {
    async fn create_organization(&self, new: NewOrganization, entry: AuditEntry) -> Result<Created, StoreError> {
        self.change(3, entry, move |tx| organizations::create(tx, &new)).await
    }

    async fn organization(&self, of: &Ref<OrganizationId>) -> Result<Option<Organization>, StoreError> {
        let of = of.clone();
        self.read(move |connection| organizations::find(connection, &of)).await
    }

    async fn organizations(&self, page: PageRequest) -> Result<Page<Organization>, StoreError> {
        self.read(move |connection| organizations::list(connection, page)).await
    }

    async fn update_organization(&self, read: Organization, changed: Organization, entry: AuditEntry) -> Result<Updated, StoreError> {
        self.change(1, entry, move |tx| organizations::update(tx, &read, &changed)).await
    }

    async fn delete_organization(&self, id: OrganizationId, at: Timestamp, deletion: Deletion) -> Result<Deleted, StoreError> {
        let Deletion { entry, operation, selection } = deletion;
        self.change(ROWS_A_DELETION, entry, move |tx| deletions::delete_organization(tx, id, at, (&operation, &selection))).await
    }

    async fn try_write(&self, organization: OrganizationId) -> Result<(), StoreError> {
        self.write(1, move |tx| organizations::write_as_it_stands(tx, organization)).await
    }
}

#[async_trait]
impl ApplicationStore for SqliteStore {
    async fn create_application(&self, application: Application, entry: AuditEntry) -> Result<Created, StoreError> {
        self.change(3, entry, move |tx| applications::create(tx, &application)).await
    }

    async fn application(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<Option<Application>, StoreError> {
        let of = of.clone();
        self.read(move |connection| applications::find(connection, organization, &of)).await
    }

    async fn built_in_application(&self, organization: OrganizationId, kind: ApplicationKind) -> Result<Option<Application>, StoreError> {
        self.read(move |connection| applications::find_built_in(connection, organization, kind)).await
    }

    async fn applications(&self, organization: OrganizationId, page: PageRequest) -> Result<Page<Application>, StoreError> {
        self.read(move |connection| applications::list(connection, organization, page)).await
    }

    async fn update_application(
        &self,
        read: Application,
        changed: Application,
        check: CheckChange,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        self.change(5, entry, move |tx| applications::update(tx, &read, &changed, &check)).await
    }

    async fn delete_application(&self, organization: OrganizationId, id: ApplicationId, deletion: Deletion) -> Result<Deleted, StoreError> {
        let Deletion { entry, operation, selection } = deletion;
        self.change(ROWS_A_DELETION, entry, move |tx| deletions::delete_application(tx, organization, id, (&operation, &selection))).await
    }

    async fn delete_contents(&self, at: Timestamp, limit: u32) -> Result<ContentsDeleted, StoreError> {
        // Most looks find nothing, and take no turn with the writer.
        if !self.read(deletions::any).await? {
            return Ok(ContentsDeleted::default());
        }
        self.write(limit as usize, move |tx| deletions::delete_contents(tx, at, limit)).await
    }
}

#[async_trait]
impl EndpointStore for SqliteStore {
    async fn create_endpoint(&self, endpoint: Endpoint, entry: AuditEntry) -> Result<Created, StoreError> {
        self.change(3, entry, move |tx| endpoints::create(tx, &endpoint)).await
    }

    async fn endpoint(&self, organization: OrganizationId, of: &Ref<EndpointId>) -> Result<Option<Endpoint>, StoreError> {
        let of = of.clone();
        self.read(move |connection| endpoints::find(connection, organization, &of)).await
    }

    async fn endpoints(
        &self,
        organization: OrganizationId,
        filter: EndpointFilter,
        page: PageRequest,
    ) -> Result<Page<Endpoint>, StoreError> {
        self.read(move |connection| endpoints::list(connection, organization, &filter, page)).await
    }

    async fn uids(
        &self,
        organization: OrganizationId,
        endpoints: Vec<EndpointId>,
        applications: Vec<ApplicationId>,
    ) -> Result<UidsRead, StoreError> {
        self.read(move |connection| uids::read(connection, organization, &endpoints, &applications)).await
    }

    async fn update_endpoint(&self, endpoint: Endpoint, read_at: Timestamp, entry: AuditEntry) -> Result<EndpointUpdated, StoreError> {
        self.change(3, entry, move |tx| endpoints::update(tx, &endpoint, read_at)).await
    }

    async fn revision(
        &self,
        organization: OrganizationId,
        endpoint: EndpointId,
        number: RevisionNumber,
    ) -> Result<Option<Revision>, StoreError> {
        self.read_history(move |connection| endpoints::revision(connection, organization, endpoint, number)).await
    }

    async fn end_drain(&self, endpoint: EndpointId) -> Result<(), StoreError> {
        self.write(2, move |tx| endpoints::end_drain(tx, endpoint)).await
    }
}

#[async_trait]
impl ConfigurationReader for SqliteStore {
    async fn configuration(&self, id: ApplicationId, after: ConfigCursor) -> Result<ConfigRead, StoreError> {
        self.read(move |connection| applications::read_configuration(connection, id, after)).await
    }

    async fn definitions(&self, organization: OrganizationId) -> Result<Definitions, StoreError> {
        self.read(move |connection| organizations::definitions(connection, organization)).await
    }
}

#[async_trait]
impl RetryScheduleStore for SqliteStore {
    async fn schedule_version(&self, schedule: &RetrySchedule) -> Result<ScheduleVersion, StoreError> {
        let definition = schedule_json::write(schedule);
        let asked = definition.clone();
        if let Some(version) = self.read(move |connection| schedules::find_version(connection, &asked)).await? {
            return Ok(version);
        }
        self.write(1, move |tx| schedules::ensure_version(tx, &definition)).await
    }

    async fn schedule(&self, version: ScheduleVersion) -> Result<Option<RetrySchedule>, StoreError> {
        self.read(move |connection| schedules::find(connection, version)).await
    }

    async fn create_retry_schedule(
        &self,
        schedule: OrganizationSchedule,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<Created, StoreError> {
        self.change(1, entry, move |tx| retry_schedules::create(tx, &schedule, count_max)).await
    }

    async fn retry_schedule(&self, organization: OrganizationId, of: &ScheduleRef) -> Result<Option<OrganizationSchedule>, StoreError> {
        let of = of.clone();
        self.read(move |connection| retry_schedules::find(connection, organization, &of)).await
    }

    async fn retry_schedules(&self, organization: OrganizationId) -> Result<Vec<OrganizationSchedule>, StoreError> {
        self.read(move |connection| retry_schedules::list(connection, organization)).await
    }

    async fn update_retry_schedule(
        &self,
        schedule: OrganizationSchedule,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        self.change(2, entry, move |tx| retry_schedules::update(tx, &schedule, read_at)).await
    }

    async fn delete_retry_schedule(
        &self,
        organization: OrganizationId,
        id: ScheduleId,
        entry: AuditEntry,
    ) -> Result<ScheduleDeleted, StoreError> {
        self.change(1, entry, move |tx| retry_schedules::delete(tx, organization, id)).await
    }

    async fn move_endpoints(&self, request: MoveEndpoints, entry: AuditEntry) -> Result<Moved, StoreError> {
        self.change(request.limit as usize, entry, move |tx| retry_schedules::move_endpoints(tx, &request)).await
    }
}

#[async_trait]
impl EventTypeStore for SqliteStore {
    async fn create_event_type(&self, definition: EventTypeDefinition, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        self.change(2, entry, move |tx| event_types::create(tx, &definition, count_max)).await
    }

    async fn event_type(&self, organization: OrganizationId, of: &Ref<EventTypeId>) -> Result<Option<EventTypeDefinition>, StoreError> {
        let of = of.clone();
        self.read(move |connection| event_types::find(connection, organization, &of)).await
    }

    async fn event_types(
        &self,
        organization: OrganizationId,
        archived: Option<bool>,
        page: PageRequest,
    ) -> Result<Page<EventTypeDefinition>, StoreError> {
        self.read(move |connection| event_types::list(connection, organization, archived, page)).await
    }

    async fn update_event_type(
        &self,
        definition: EventTypeDefinition,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        self.change(2, entry, move |tx| event_types::update(tx, &definition, read_at)).await
    }

    async fn delete_event_type(&self, organization: OrganizationId, id: EventTypeId, entry: AuditEntry) -> Result<bool, StoreError> {
        self.change(2, entry, move |tx| event_types::delete(tx, organization, id)).await
    }
}

#[async_trait]
impl ApiKeyStore for SqliteStore {
    async fn create_api_key(&self, key: ApiKey, hash: ApiKeyHash, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        self.change(1, entry, move |tx| api_keys::create(tx, &key, &hash, count_max)).await
    }

    async fn api_key(&self, hash: &ApiKeyHash) -> Result<Option<ApiKey>, StoreError> {
        let hash = *hash;
        self.read(move |connection| api_keys::find(connection, &hash)).await
    }

    async fn api_key_by_id(&self, organization: OrganizationId, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        self.read(move |connection| api_keys::find_by_id(connection, organization, id)).await
    }

    async fn api_keys(&self, organization: OrganizationId, page: PageRequest) -> Result<Page<ApiKey>, StoreError> {
        self.read(move |connection| api_keys::list(connection, organization, page)).await
    }

    async fn revoke_api_key(&self, organization: OrganizationId, id: ApiKeyId, entry: AuditEntry) -> Result<bool, StoreError> {
        self.change(1, entry, move |tx| api_keys::revoke(tx, organization, id)).await
    }

    async fn note_key_uses(&self, uses: Vec<(ApiKeyId, Timestamp)>) -> Result<(), StoreError> {
        self.write(uses.len(), move |tx| api_keys::note_uses(tx, &uses)).await
    }
}
