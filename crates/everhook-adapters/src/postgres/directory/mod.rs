//! Who owns what: the ports of the control plane, one file a resource.
//!
//! What somebody changes is `changed!`: it begins with `changing`, which lets one change of an organization at a time through, on all nodes; and it
//! ends with `conclude`, which enters it in the audit log. What deliveries and publishers wait for is read by the connections of the line.

mod api_keys;
mod applications;
mod approvals;
mod deletions;
mod endpoint_row;
mod endpoints;
mod event_types;
mod order_change;
mod organizations;
mod processors;
mod retry_schedules;
mod schedules;
mod uids;
mod versions;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, EventTypeId, OrganizationId, Ref, RevisionNumber, ScheduleId, ScheduleVersion},
    model::{
        ApiKey, ApiKeyHash, Application, ApplicationKind, AuditEntry, CheckChange, EmailAddress, Endpoint, EventTypeDefinition,
        Organization, OrganizationSchedule, Page, PageRequest, RetrySchedule, Revision, Source,
    },
    policy::presets,
    ports::{
        ApiKeyStore, ApplicationStore, Change, ConfigCursor, ConfigRead, ConfigurationReader, ContentsDeleted, Created, Definitions,
        Deleted, Deletion, EndpointFilter, EndpointStore, EndpointUpdated, EventTypeStore, MoveEndpoints, Moved, NewOrganization,
        OrganizationStore, RetryScheduleStore, ScheduleDeleted, ScheduleRef, StoreError, UidsRead, Updated,
    },
    time::Timestamp,
};

use super::{PostgresStore, audit_log::conclude, collisions::retry_on_conflict, connect::Connection, fault::Outcome, transaction::Tx};
use crate::encoding::schedule_json;

/// Makes a change of an organization's configuration, and enters it in the audit log if it took place. One that meets another transaction, and is
/// rolled back for it, is made again. A macro, because no closure that borrows a transaction can be said to be sendable.
macro_rules! changed {
    ($store:ident, $organization:expr, $entry:ident, |$tx:ident| $change:expr) => {{
        let made = retry_on_conflict(|| async {
            let mut connection = $store.connection().await?;
            let $tx = changing(&mut connection, $organization).await?;
            let outcome = $change.await?;
            conclude($tx, outcome, &$entry).await
        });
        Ok(made.await?)
    }};
}

// Behind the macro, which they use.
mod channels;
mod manifests;
mod sources;

impl PostgresStore {
    /// The version of the retry schedule that an organization's channels go by, if it has any.
    async fn schedule_of_channels(&self, organization: &Organization) -> Result<Option<ScheduleVersion>, StoreError> {
        match organization.admin_emails.is_empty() {
            true => Ok(None),
            false => self.schedule_version(&presets::notify()).await.map(Some),
        }
    }

    /// The version of the retry schedule that an owner's channel goes by, if there is an owner.
    async fn schedule_of_owner(&self, owner: Option<&EmailAddress>) -> Result<Option<ScheduleVersion>, StoreError> {
        match owner {
            None => Ok(None),
            Some(_) => self.schedule_version(&presets::notify()).await.map(Some),
        }
    }

    /// The version of the retry schedule that a source's processor goes by, if it has one.
    async fn schedule_of_processor(&self, source: &Source) -> Result<Option<ScheduleVersion>, StoreError> {
        match source.processor {
            None => Ok(None),
            Some(_) => self.schedule_version(&presets::ingest()).await.map(Some),
        }
    }
}

#[async_trait]
impl OrganizationStore for PostgresStore {
    async fn create_organization(&self, new: NewOrganization, entry: AuditEntry) -> Result<Created, StoreError> {
        let notify = self.schedule_of_channels(&new.organization).await?;
        changed!(self, new.organization.id, entry, |tx| organizations::create(&tx, &new, notify))
    }

    async fn organization(&self, of: &Ref<OrganizationId>) -> Result<Option<Organization>, StoreError> {
        Ok(organizations::find(&self.reader().await?, of).await?)
    }

    async fn organizations(&self, page: PageRequest) -> Result<Page<Organization>, StoreError> {
        Ok(organizations::list(&self.reader().await?, page).await?)
    }

    async fn update_organization(&self, read: Organization, changed: Organization, entry: AuditEntry) -> Result<Updated, StoreError> {
        let notify = self.schedule_of_channels(&changed).await?;
        changed!(self, read.id, entry, |tx| organizations::update(&tx, &read, &changed, notify))
    }

    async fn delete_organization(&self, id: OrganizationId, at: Timestamp, deletion: Deletion) -> Result<Deleted, StoreError> {
        let Deletion { entry, operation, selection } = deletion;
        changed!(self, id, entry, |tx| deletions::delete_organization(&tx, id, at, (&operation, &selection)))
    }

    async fn try_write(&self, organization: OrganizationId) -> Result<(), StoreError> {
        Ok(organizations::write_as_it_stands(&self.reader().await?, organization).await?)
    }
}

#[async_trait]
impl ApplicationStore for PostgresStore {
    async fn create_application(&self, application: Application, entry: AuditEntry) -> Result<Created, StoreError> {
        let notify = self.schedule_of_owner(application.owner_email.as_ref()).await?;
        changed!(self, application.organization, entry, |tx| applications::create(&tx, &application, notify))
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

    async fn update_application(
        &self,
        read: Application,
        changed: Application,
        check: CheckChange,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        let notify = self.schedule_of_owner(changed.owner_email.as_ref()).await?;
        changed!(self, read.organization, entry, |tx| applications::update(&tx, &read, &changed, &check, notify))
    }

    async fn delete_application(&self, organization: OrganizationId, id: ApplicationId, deletion: Deletion) -> Result<Deleted, StoreError> {
        let Deletion { entry, operation, selection } = deletion;
        changed!(self, organization, entry, |tx| deletions::delete_application(&tx, organization, id, (&operation, &selection)))
    }

    async fn delete_contents(&self, at: Timestamp, limit: u32) -> Result<ContentsDeleted, StoreError> {
        // Most looks find nothing, and begin no transaction.
        if !deletions::any(&self.reader().await?).await? {
            return Ok(ContentsDeleted::default());
        }
        let deleted = retry_on_conflict(|| async {
            let mut connection = self.connection().await?;
            let tx = Tx::begin(&mut connection).await?;
            let deleted = deletions::delete_contents(&tx, at, limit).await?;
            if deleted.has_more {
                tx.commit().await?;
            }
            Ok(deleted)
        });
        Ok(deleted.await?)
    }
}

#[async_trait]
impl EndpointStore for PostgresStore {
    async fn create_endpoint(&self, endpoint: Endpoint, entry: AuditEntry) -> Result<Created, StoreError> {
        changed!(self, endpoint.organization, entry, |tx| endpoints::create(&tx, &endpoint))
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

    async fn uids(
        &self,
        organization: OrganizationId,
        endpoints: Vec<EndpointId>,
        applications: Vec<ApplicationId>,
    ) -> Result<UidsRead, StoreError> {
        Ok(uids::read(&self.reader().await?, organization, &endpoints, &applications).await?)
    }

    async fn update_endpoint(&self, endpoint: Endpoint, read_at: Timestamp, entry: AuditEntry) -> Result<EndpointUpdated, StoreError> {
        changed!(self, endpoint.organization, entry, |tx| endpoints::update(&tx, &endpoint, read_at))
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
}

#[async_trait]
impl ConfigurationReader for PostgresStore {
    async fn configuration(&self, id: ApplicationId, after: ConfigCursor) -> Result<ConfigRead, StoreError> {
        let mut connection = self.pools.line().await?;
        let snapshot = Tx::snapshot(&mut connection).await?;
        Ok(applications::read_configuration(&snapshot, id, &self.pool, after).await?)
    }

    async fn definitions(&self, organization: OrganizationId) -> Result<Definitions, StoreError> {
        let mut connection = self.pools.line().await?;
        let snapshot = Tx::snapshot(&mut connection).await?;
        Ok(organizations::definitions(&snapshot, organization).await?)
    }
}

#[async_trait]
impl RetryScheduleStore for PostgresStore {
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
        changed!(self, schedule.organization, entry, |tx| retry_schedules::create(&tx, &schedule, count_max))
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
        changed!(self, schedule.organization, entry, |tx| retry_schedules::update(&tx, &schedule, read_at))
    }

    async fn delete_retry_schedule(
        &self,
        organization: OrganizationId,
        id: ScheduleId,
        entry: AuditEntry,
    ) -> Result<ScheduleDeleted, StoreError> {
        changed!(self, organization, entry, |tx| retry_schedules::delete(&tx, organization, id))
    }

    async fn move_endpoints(&self, request: MoveEndpoints, entry: AuditEntry) -> Result<Moved, StoreError> {
        changed!(self, request.organization, entry, |tx| retry_schedules::move_endpoints(&tx, &request))
    }
}

#[async_trait]
impl EventTypeStore for PostgresStore {
    async fn create_event_type(&self, definition: EventTypeDefinition, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        changed!(self, definition.organization, entry, |tx| event_types::create(&tx, &definition, count_max))
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
        changed!(self, definition.organization, entry, |tx| event_types::update(&tx, &definition, read_at))
    }

    async fn delete_event_type(&self, organization: OrganizationId, id: EventTypeId, entry: AuditEntry) -> Result<bool, StoreError> {
        changed!(self, organization, entry, |tx| event_types::delete(&tx, organization, id))
    }
}

#[async_trait]
impl ApiKeyStore for PostgresStore {
    async fn create_api_key(&self, key: ApiKey, hash: ApiKeyHash, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        changed!(self, key.organization, entry, |tx| api_keys::create(&tx, &key, &hash, count_max))
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
        changed!(self, organization, entry, |tx| revoke_api_key(&tx, organization, id))
    }

    async fn note_key_uses(&self, uses: Vec<(ApiKeyId, Timestamp)>) -> Result<(), StoreError> {
        Ok(api_keys::note_uses(&self.reader().await?, &uses).await?)
    }
}

/// Revokes a key, and tells the nodes that remember it.
async fn revoke_api_key(tx: &Tx<'_>, organization: OrganizationId, id: ApiKeyId) -> Outcome<bool> {
    let is_revoked = api_keys::revoke(tx, organization, id).await?;
    tx.note_change(Change::ApiKey(id)).await?;
    Ok(is_revoked)
}

/// Begins a change of an organization's configuration. From here to its end nobody else changes anything of it, so that what it finds stays true.
pub(super) async fn changing(connection: &mut Connection, organization: OrganizationId) -> Outcome<Tx<'_>> {
    let tx = Tx::begin(connection).await?;
    tx.lock_organization(organization).await?;
    Ok(tx)
}

/// Whether a column can hold this text at all: the server takes no NUL. What somebody asks for may have one; what is kept was checked before.
fn can_be_kept(text: &str) -> bool {
    !text.contains('\0')
}
