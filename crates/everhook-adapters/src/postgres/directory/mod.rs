//! Who owns what: the port `Directory`, one file a resource.
//!
//! What somebody changes begins with `changing`, which lets one change of an organization at a time through, on all nodes; and it ends with
//! `conclude`, which enters it in the audit log. What deliveries and publishers wait for is read by the connections of the line.

mod api_keys;
mod applications;
mod endpoint_row;
mod endpoints;
mod event_types;
mod order_change;
mod organizations;
mod retry_schedules;
mod schedules;
mod versions;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, EventTypeId, OrganizationId, Ref, RevisionNumber, ScheduleId, ScheduleVersion},
    model::{
        ApiKey, ApiKeyHash, Application, ApplicationKind, AuditEntry, Endpoint, EventTypeDefinition, Organization, OrganizationSchedule,
        Page, PageRequest, RetrySchedule, Revision,
    },
    ports::{
        ApplicationRow, Change, Created, Directory, EndpointFilter, EndpointUpdated, MoveEndpoints, Moved, NewOrganization,
        ScheduleDeleted, ScheduleRef, StoreError, Updated,
    },
    time::Timestamp,
};

use super::{PostgresStore, audit_log::conclude, connect::Connection, fault::Outcome, transaction::Tx};
use crate::encoding::schedule_json;

#[async_trait]
impl Directory for PostgresStore {
    async fn create_organization(&self, new: NewOrganization, entry: AuditEntry) -> Result<Created, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, new.organization.id).await?;
        let outcome = organizations::create(&tx, &new).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn organization(&self, of: &Ref<OrganizationId>) -> Result<Option<Organization>, StoreError> {
        Ok(organizations::find(&self.reader().await?, of).await?)
    }

    async fn organizations(&self, page: PageRequest) -> Result<Page<Organization>, StoreError> {
        Ok(organizations::list(&self.reader().await?, page).await?)
    }

    async fn update_organization(&self, organization: Organization, entry: AuditEntry) -> Result<Updated, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, organization.id).await?;
        let outcome = organizations::update(&tx, &organization).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn try_write(&self, organization: OrganizationId) -> Result<(), StoreError> {
        Ok(organizations::write_as_it_stands(&self.reader().await?, organization).await?)
    }

    async fn create_application(&self, application: Application, entry: AuditEntry) -> Result<Created, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, application.organization).await?;
        let outcome = applications::create(&tx, &application).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn application(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<Option<Application>, StoreError> {
        Ok(applications::find(&self.reader().await?, organization, of).await?)
    }

    async fn built_in_application(&self, organization: OrganizationId, kind: ApplicationKind) -> Result<Option<Application>, StoreError> {
        Ok(applications::find_built_in(&self.line_reader().await?, organization, kind).await?)
    }

    async fn applications(&self, organization: OrganizationId, page: PageRequest) -> Result<Page<Application>, StoreError> {
        Ok(applications::list(&self.reader().await?, organization, page).await?)
    }

    async fn update_application(&self, application: Application, entry: AuditEntry) -> Result<Updated, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, application.organization).await?;
        let outcome = applications::update(&tx, &application).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn application_row(&self, id: ApplicationId) -> Result<Option<ApplicationRow>, StoreError> {
        let mut connection = self.pools.line().await?;
        let snapshot = Tx::snapshot(&mut connection).await?;
        Ok(applications::read_row(&snapshot, id).await?)
    }

    async fn create_endpoint(&self, endpoint: Endpoint, entry: AuditEntry) -> Result<Created, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, endpoint.organization).await?;
        let outcome = endpoints::create(&tx, &endpoint).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn endpoint(&self, organization: OrganizationId, of: &Ref<EndpointId>) -> Result<Option<Endpoint>, StoreError> {
        Ok(endpoints::find(&self.reader().await?, organization, of).await?)
    }

    async fn endpoints(
        &self,
        organization: OrganizationId,
        filter: EndpointFilter,
        page: PageRequest,
    ) -> Result<Page<Endpoint>, StoreError> {
        Ok(endpoints::list(&self.reader().await?, organization, &filter, page).await?)
    }

    async fn update_endpoint(&self, endpoint: Endpoint, read_at: Timestamp, entry: AuditEntry) -> Result<EndpointUpdated, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, endpoint.organization).await?;
        let outcome = endpoints::update(&tx, &endpoint, read_at).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn revision(
        &self,
        organization: OrganizationId,
        endpoint: EndpointId,
        number: RevisionNumber,
    ) -> Result<Option<Revision>, StoreError> {
        Ok(endpoints::revision(&self.reader().await?, organization, endpoint, number).await?)
    }

    async fn end_drain(&self, endpoint: EndpointId) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        if endpoints::end_drain(&tx, endpoint).await? {
            tx.commit().await?;
        }
        Ok(())
    }

    async fn schedule_version(&self, schedule: &RetrySchedule) -> Result<ScheduleVersion, StoreError> {
        Ok(schedules::ensure_version(&self.reader().await?, &schedule_json::write(schedule)).await?)
    }

    async fn schedule(&self, version: ScheduleVersion) -> Result<Option<RetrySchedule>, StoreError> {
        Ok(schedules::find(&self.line_reader().await?, version).await?)
    }

    async fn create_retry_schedule(
        &self,
        schedule: OrganizationSchedule,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<Created, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, schedule.organization).await?;
        let outcome = retry_schedules::create(&tx, &schedule, count_max).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn retry_schedule(&self, organization: OrganizationId, of: &ScheduleRef) -> Result<Option<OrganizationSchedule>, StoreError> {
        Ok(retry_schedules::find(&self.reader().await?, organization, of).await?)
    }

    async fn retry_schedules(&self, organization: OrganizationId) -> Result<Vec<OrganizationSchedule>, StoreError> {
        Ok(retry_schedules::list(&self.reader().await?, organization).await?)
    }

    async fn update_retry_schedule(
        &self,
        schedule: OrganizationSchedule,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, schedule.organization).await?;
        let outcome = retry_schedules::update(&tx, &schedule, read_at).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn delete_retry_schedule(
        &self,
        organization: OrganizationId,
        id: ScheduleId,
        entry: AuditEntry,
    ) -> Result<ScheduleDeleted, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, organization).await?;
        let outcome = retry_schedules::delete(&tx, organization, id).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn move_endpoints(&self, request: MoveEndpoints, entry: AuditEntry) -> Result<Moved, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, request.organization).await?;
        let outcome = retry_schedules::move_endpoints(&tx, &request).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn create_event_type(&self, definition: EventTypeDefinition, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, definition.organization).await?;
        let outcome = event_types::create(&tx, &definition, count_max).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn event_type(&self, organization: OrganizationId, of: &Ref<EventTypeId>) -> Result<Option<EventTypeDefinition>, StoreError> {
        Ok(event_types::find(&self.line_reader().await?, organization, of).await?)
    }

    async fn event_types(
        &self,
        organization: OrganizationId,
        archived: Option<bool>,
        page: PageRequest,
    ) -> Result<Page<EventTypeDefinition>, StoreError> {
        Ok(event_types::list(&self.reader().await?, organization, archived, page).await?)
    }

    async fn update_event_type(
        &self,
        definition: EventTypeDefinition,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, definition.organization).await?;
        let outcome = event_types::update(&tx, &definition, read_at).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn delete_event_type(&self, organization: OrganizationId, id: EventTypeId, entry: AuditEntry) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, organization).await?;
        let outcome = event_types::delete(&tx, organization, id).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn create_api_key(&self, key: ApiKey, hash: ApiKeyHash, entry: AuditEntry) -> Result<Created, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, key.organization).await?;
        let outcome = api_keys::create(&tx, &key, &hash).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn api_key(&self, hash: &ApiKeyHash) -> Result<Option<ApiKey>, StoreError> {
        Ok(api_keys::find(&self.line_reader().await?, hash).await?)
    }

    async fn api_key_by_id(&self, organization: OrganizationId, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        Ok(api_keys::find_by_id(&self.reader().await?, organization, id).await?)
    }

    async fn api_keys(&self, organization: OrganizationId, page: PageRequest) -> Result<Page<ApiKey>, StoreError> {
        Ok(api_keys::list(&self.reader().await?, organization, page).await?)
    }

    async fn revoke_api_key(&self, organization: OrganizationId, id: ApiKeyId, entry: AuditEntry) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        let tx = changing(&mut connection, organization).await?;
        let outcome = api_keys::revoke(&tx, organization, id).await?;
        tx.note_change(Change::ApiKey(id)).await?;
        Ok(conclude(tx, outcome, &entry).await?)
    }

    async fn note_key_uses(&self, uses: Vec<(ApiKeyId, Timestamp)>) -> Result<(), StoreError> {
        Ok(api_keys::note_uses(&self.reader().await?, &uses).await?)
    }
}

/// Begins a change of an organization's configuration. From here to its end nobody else changes anything of it, so that what it finds stays true.
async fn changing(connection: &mut Connection, organization: OrganizationId) -> Outcome<Tx<'_>> {
    let tx = Tx::begin(connection).await?;
    tx.lock_organization(organization).await?;
    Ok(tx)
}

/// Whether a column can hold this text at all: the server takes no NUL. What somebody asks for may have one; what is kept was checked before.
fn can_be_kept(text: &str) -> bool {
    !text.contains('\0')
}
