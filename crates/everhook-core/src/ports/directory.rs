//! Who owns what: organizations, applications, endpoints, keys and schedules.
//!
//! Every look-up on behalf of a user takes the organization, so that scoping cannot be forgotten. Every change takes the entry that the audit
//! log gets with it, in the same transaction, if it takes place.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::{
    ids::{ApiKeyId, ApplicationId, EndpointId, EventTypeId, OrganizationId, Ref, RevisionNumber, ScheduleId, ScheduleVersion, Uid},
    model::{
        ApiKey, ApiKeyHash, Application, ApplicationKind, AuditEntry, Endpoint, EndpointState, EventType, EventTypeDefinition,
        EventTypeMark, Organization, OrganizationLimits, OrganizationSchedule, Page, PageRequest, PoolAssignment, RetrySchedule, Revision,
    },
    ports::{ConfigCursor, ConfigRead, Definitions, StoreError},
    time::Timestamp,
};

/// The configuration of the server. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and then changed nothing.
#[async_trait]
pub trait Directory: Send + Sync {
    /// Makes an organization with its two built-in applications.
    async fn create_organization(&self, new: NewOrganization, entry: AuditEntry) -> Result<Created, StoreError>;
    /// Finds an organization. Not scoped: only admins may ask.
    async fn organization(&self, of: &Ref<OrganizationId>) -> Result<Option<Organization>, StoreError>;
    /// Lists organizations. Not scoped: only admins may ask.
    async fn organizations(&self, page: PageRequest) -> Result<Page<Organization>, StoreError>;
    /// Replaces what can be changed of an organization, if nobody changed it since it was read. One that goes to another worker pool is sent for by
    /// nobody until each boot of the former pool has let go of it ([`Leases::depart`](super::Leases::depart)) or is dead.
    async fn update_organization(&self, read: Organization, changed: Organization, entry: AuditEntry) -> Result<Updated, StoreError>;

    /// Deletes an organization: from the end of this write on it is not found, nothing is published to its applications, its uid is free, and its keys
    /// are revoked. What it has is left to [`delete_remains`](Self::delete_remains). The entry is another organization's: its own log is read by nobody.
    async fn delete_organization(&self, id: OrganizationId, at: Timestamp, entry: AuditEntry) -> Result<Deleted, StoreError>;
    /// Deletes an application that is not built in: from the end of this write on it is not found, nothing is published to it, its name and uid are
    /// free, and the keys that reach it alone are revoked. Its endpoints are left to [`delete_remains`](Self::delete_remains).
    async fn delete_application(&self, organization: OrganizationId, id: ApplicationId, entry: AuditEntry) -> Result<Deleted, StoreError>;
    /// Deletes some of what deleted organizations and applications have left: about `limit` endpoints, each as a change of its state would. Call it again
    /// until nothing is left; what was not reached waits over a restart.
    async fn delete_remains(&self, at: Timestamp, limit: u32) -> Result<RemainsDeleted, StoreError>;

    /// Writes an organization's row as it stands: shows whether the store takes writes.
    async fn try_write(&self, organization: OrganizationId) -> Result<(), StoreError>;

    /// Makes an application, if the organization's limits allow one more.
    async fn create_application(&self, application: Application, entry: AuditEntry) -> Result<Created, StoreError>;
    /// Finds an application of an organization.
    async fn application(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<Option<Application>, StoreError>;
    /// Finds one of an organization's built-in applications.
    async fn built_in_application(&self, organization: OrganizationId, kind: ApplicationKind) -> Result<Option<Application>, StoreError>;
    /// Lists an organization's applications.
    async fn applications(&self, organization: OrganizationId, page: PageRequest) -> Result<Page<Application>, StoreError>;
    /// Replaces what can be changed of an application, if nobody changed it since it was read.
    async fn update_application(&self, read: Application, changed: Application, entry: AuditEntry) -> Result<Updated, StoreError>;
    /// Reads a page of an application's configuration: what changed after the cursor. For the catalog.
    async fn configuration(&self, id: ApplicationId, after: ConfigCursor) -> Result<ConfigRead, StoreError>;
    /// Reads an application with all its endpoints and the version of that configuration, page by page. For tests and tools: it holds all of it in memory.
    async fn application_row(&self, id: ApplicationId) -> Result<Option<ApplicationRow>, StoreError> {
        let (mut endpoints, mut cursor) = (BTreeMap::new(), ConfigCursor::START);
        loop {
            let page = match self.configuration(id, cursor).await? {
                ConfigRead::NotFound => return Ok(None),
                ConfigRead::Outdated => {
                    (endpoints, cursor) = (BTreeMap::new(), ConfigCursor::START);
                    continue;
                }
                ConfigRead::Page(page) => *page,
            };
            for endpoint in page.endpoints {
                match endpoint.state {
                    EndpointState::Deleted { .. } => drop(endpoints.remove(&endpoint.id)),
                    _ => drop(endpoints.insert(endpoint.id, endpoint)),
                }
            }
            if let Some(next) = page.next {
                cursor = next;
                continue;
            }
            let definitions = self.definitions(page.application.organization).await?;
            return Ok(Some(ApplicationRow {
                application: page.application,
                config_version: page.version.total(),
                limits: page.limits,
                post: page.post,
                endpoints: endpoints.into_values().collect(),
                event_types: definitions.event_types,
            }));
        }
    }
    /// Reads what an organization defines for all its applications, as one snapshot. For the catalog.
    async fn definitions(&self, organization: OrganizationId) -> Result<Definitions, StoreError>;

    /// Makes an endpoint with its first revision, if its application is there and the organization's limits allow one more, and a new version of
    /// its application's configuration.
    async fn create_endpoint(&self, endpoint: Endpoint, entry: AuditEntry) -> Result<Created, StoreError>;
    /// Finds an endpoint of an organization; a deleted one only by its id.
    async fn endpoint(&self, organization: OrganizationId, of: &Ref<EndpointId>) -> Result<Option<Endpoint>, StoreError>;
    /// Lists an organization's endpoints that are not deleted.
    async fn endpoints(
        &self,
        organization: OrganizationId,
        filter: EndpointFilter,
        page: PageRequest,
    ) -> Result<Page<Endpoint>, StoreError>;
    /// The uids of some endpoints and applications of an organization, the deleted endpoints' too: of as many as a page of a list has. Those without one are
    /// left out.
    async fn uids(
        &self,
        organization: OrganizationId,
        endpoints: Vec<EndpointId>,
        applications: Vec<ApplicationId>,
    ) -> Result<UidsRead, StoreError>;
    /// Replaces an endpoint, and makes a new version of its application's configuration, if nobody changed it since `read_at`
    /// (its `updated_at` when it was read). If its `revision` has a number that is not kept yet, [`Revision::of`] it is kept under that.
    async fn update_endpoint(&self, endpoint: Endpoint, read_at: Timestamp, entry: AuditEntry) -> Result<EndpointUpdated, StoreError>;
    /// Reads a revision of an endpoint, a deleted one's too.
    async fn revision(
        &self,
        organization: OrganizationId,
        endpoint: EndpointId,
        number: RevisionNumber,
    ) -> Result<Option<Revision>, StoreError>;
    /// Notes that an endpoint has sent what gathered during its pause: its rate is no longer held down.
    async fn end_drain(&self, endpoint: EndpointId) -> Result<(), StoreError>;

    /// Finds or makes the version of a schedule that is equal to this one.
    async fn schedule_version(&self, schedule: &RetrySchedule) -> Result<ScheduleVersion, StoreError>;
    /// Reads a schedule version.
    async fn schedule(&self, version: ScheduleVersion) -> Result<Option<RetrySchedule>, StoreError>;

    /// Makes a retry schedule, if the organization has fewer than `count_max`.
    async fn create_retry_schedule(&self, schedule: OrganizationSchedule, count_max: u32, entry: AuditEntry)
    -> Result<Created, StoreError>;
    /// Finds a retry schedule of an organization.
    async fn retry_schedule(&self, organization: OrganizationId, of: &ScheduleRef) -> Result<Option<OrganizationSchedule>, StoreError>;
    /// Lists an organization's retry schedules, newest first: all of them, their number is bounded.
    async fn retry_schedules(&self, organization: OrganizationId) -> Result<Vec<OrganizationSchedule>, StoreError>;
    /// Replaces a retry schedule's name and version, and makes a new version of the configuration of every application with an endpoint that
    /// follows it, if nobody changed it since `read_at` (its `updated_at` when it was read).
    async fn update_retry_schedule(
        &self,
        schedule: OrganizationSchedule,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError>;
    /// Deletes a retry schedule that no endpoint follows. Its versions stay for the deliveries that keep them.
    async fn delete_retry_schedule(
        &self,
        organization: OrganizationId,
        id: ScheduleId,
        entry: AuditEntry,
    ) -> Result<ScheduleDeleted, StoreError>;
    /// Moves some of the endpoints that follow one schedule to another; call it again until none is left.
    async fn move_endpoints(&self, request: MoveEndpoints, entry: AuditEntry) -> Result<Moved, StoreError>;

    /// Makes an event type, if the organization has fewer than `count_max`, and a new version of the configuration of all its applications.
    async fn create_event_type(&self, definition: EventTypeDefinition, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError>;
    /// Finds an event type of an organization, by its id or its name.
    async fn event_type(&self, organization: OrganizationId, of: &Ref<EventTypeId>) -> Result<Option<EventTypeDefinition>, StoreError>;
    /// Lists an organization's event types: those that are archived, those that are not, or all.
    async fn event_types(
        &self,
        organization: OrganizationId,
        archived: Option<bool>,
        page: PageRequest,
    ) -> Result<Page<EventTypeDefinition>, StoreError>;
    /// Replaces an event type, as `create_event_type` does, if nobody changed it since `read_at` (its `updated_at` when it was read).
    async fn update_event_type(
        &self,
        definition: EventTypeDefinition,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError>;
    /// Deletes an event type of an organization; says whether there was one.
    async fn delete_event_type(&self, organization: OrganizationId, id: EventTypeId, entry: AuditEntry) -> Result<bool, StoreError>;

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

/// An organization to be made, with the applications that it is born with.
#[derive(Clone, Debug)]
pub struct NewOrganization {
    /// The organization.
    pub organization: Organization,
    /// Its application named `default`.
    pub default: Application,
    /// Its application named `operational`.
    pub operational: Application,
}

/// What became of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is durable.
    Created,
    /// Its uid is taken.
    UidTaken,
    /// Its name is taken, where names are unique.
    NameTaken,
    /// There are as many of its kind as there may be.
    TooMany,
    /// The retry schedule that it should follow was deleted meanwhile.
    NoSuchSchedule,
    /// The endpoints of its application would have more than [`APPLICATION_CONFIG_BYTES_MAX`](super::APPLICATION_CONFIG_BYTES_MAX).
    ConfigTooLarge,
    /// The application that it should belong to was deleted meanwhile.
    NoSuchApplication,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    /// It is durable.
    Updated,
    /// Its uid is taken.
    UidTaken,
    /// Its name is taken, where names are unique.
    NameTaken,
    /// Somebody changed or removed it meanwhile: read it again.
    Changed,
    /// The retry schedule that it should follow was deleted meanwhile.
    NoSuchSchedule,
}

/// Uids that a list shows beside ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UidsRead {
    /// Of endpoints.
    pub endpoints: Vec<(EndpointId, Uid)>,
    /// Of applications.
    pub applications: Vec<(ApplicationId, Uid)>,
}

/// What became of an organization or application that should go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, and so are these keys.
    Deleted(Vec<ApiKeyId>),
    /// There is none.
    NotFound,
}

/// Some of what deleted organizations and applications had left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemainsDeleted {
    /// Those of the endpoints that are deleted now for which deliveries wait: their lanes are to be told.
    pub awaited: Vec<(ApplicationId, EndpointId)>,
    /// Whether there may be more.
    pub has_more: bool,
}

/// How a request names a retry schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleRef {
    /// By its id.
    Id(ScheduleId),
    /// By its name.
    Name(String),
}

impl ScheduleRef {
    /// Reads what a user wrote: no name is a UUID.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

/// What became of a retry schedule that should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleDeleted {
    /// It is gone.
    Deleted,
    /// It stays: so many endpoints follow it.
    InUse(u32),
    /// There is none.
    NotFound,
}

/// Endpoints that should follow another schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveEndpoints {
    /// The tenant.
    pub organization: OrganizationId,
    /// The schedule that they follow now.
    pub from: ScheduleId,
    /// The one that they should follow; `None` if the version below is a preset's.
    pub to: Option<ScheduleId>,
    /// The version that their new deliveries keep.
    pub version: ScheduleVersion,
    /// The present.
    pub now: Timestamp,
    /// How many at most in this write.
    pub limit: u32,
}

/// What came of moving endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// So many were moved; fewer than the limit means that none is left.
    Moved(u32),
    /// The schedule that they should follow was deleted meanwhile.
    NoSuchSchedule,
}

/// What became of a change to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointUpdated {
    /// It is durable.
    Updated,
    /// Its uid is taken.
    UidTaken,
    /// Somebody changed or removed it meanwhile: read it again.
    Changed,
    /// The retry schedule that it should follow was deleted meanwhile.
    NoSuchSchedule,
    /// Its ordering was changed before, and deliveries of the mode before that are still open: it cannot be changed again yet.
    OrderSettles,
    /// It has grown, and the endpoints of its application would have more than
    /// [`APPLICATION_CONFIG_BYTES_MAX`](super::APPLICATION_CONFIG_BYTES_MAX).
    ConfigTooLarge,
}

/// An application and its endpoints, at one version of their configuration.
#[derive(Clone, Debug)]
pub struct ApplicationRow {
    /// The application.
    pub application: Application,
    /// Rises with every change to the application, one of its endpoints, or what it shares with others.
    pub config_version: i64,
    /// What its organization may use.
    pub limits: OrganizationLimits,
    /// Whether the asking node's pool sends for it.
    pub post: PoolAssignment,
    /// All its endpoints, the disabled included, the deleted not.
    pub endpoints: Vec<Endpoint>,
    /// The types that its organization defined.
    pub event_types: Vec<EventTypeMark>,
}

/// Which endpoints to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointFilter {
    /// Those of this application.
    pub application: Option<ApplicationId>,
    /// Those that are enabled, or that are not.
    pub enabled: Option<bool>,
    /// Those that get events of this type.
    pub event_type: Option<EventType>,
    /// Those that follow this retry schedule.
    pub follows: Option<ScheduleId>,
    /// Those that ask for this label, with this value or any.
    pub label: Option<(String, Option<String>)>,
}
