//! Endpoints: where events are delivered to.
//!
//! Every look-up takes the organization, so that scoping cannot be forgotten. Every change takes the entry that the audit log gets with it, in the
//! same transaction, if it takes place.

use std::num::NonZeroU32;

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, EndpointId, OrganizationId, Ref, RevisionNumber, ScheduleId, Uid},
    model::{AuditEntry, Endpoint, EventType, Page, PageRequest, Revision},
    ports::{Created, StoreError},
    time::Timestamp,
};

/// The endpoints of organizations, with their revisions. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and then
/// changed nothing.
#[async_trait]
pub trait EndpointStore: Send + Sync {
    /// Makes an endpoint with its first revision, if its application is there and the organization's limits allow one more, and a new version of
    /// its application's configuration.
    async fn create_endpoint(&self, endpoint: Endpoint, entry: AuditEntry) -> Result<Created, StoreError>;

    /// Finds an endpoint of an organization; a deleted one only by its id.
    async fn endpoint(&self, organization: OrganizationId, of: &Ref<EndpointId>) -> Result<Option<Endpoint>, StoreError>;

    /// Lists an organization's endpoints that are not deleted.
    ///
    /// With [`EndpointFilter::compared_max`], a page may have fewer rows than asked for, or none, before the list ends: its cursor then continues
    /// behind the last endpoint that was compared.
    async fn endpoints(
        &self,
        organization: OrganizationId,
        filter: EndpointFilter,
        page: PageRequest,
    ) -> Result<Page<Endpoint>, StoreError>;

    /// The uids of some endpoints and applications of an organization, the deleted endpoints' too: of as many as a page of a list has. Those without
    /// one are
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

/// Uids that a list shows beside ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UidsRead {
    /// Of endpoints.
    pub endpoints: Vec<(EndpointId, Uid)>,
    /// Of applications.
    pub applications: Vec<(ApplicationId, Uid)>,
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
    /// How many endpoints one page compares with the filter; `None`: as many as it takes. A filter that few of very many endpoints match would
    /// otherwise read all of them.
    pub compared_max: Option<NonZeroU32>,
}
