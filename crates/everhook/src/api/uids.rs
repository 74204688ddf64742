//! The uids of endpoints and applications that rows name by their ids: one read for each answer.

use everhook_core::{
    ids::{ApplicationId, EndpointId, OrganizationId, Uid},
    model::{DeadLetter, Delivery, Operation},
    ports::{EventSummary, StoreError},
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Api;

/// The uids of one organization that an answer shows.
pub struct Uids {
    endpoints: FxHashMap<EndpointId, Uid>,
    applications: FxHashMap<ApplicationId, Uid>,
}

impl Uids {
    /// Those that these deliveries name.
    pub async fn of_deliveries(api: &Api, organization: OrganizationId, rows: &[Delivery]) -> Result<Self, StoreError> {
        let endpoints = rows.iter().map(|delivery| delivery.lane_id.endpoint()).collect();
        Self::read(api, organization, endpoints, rows.iter().map(|delivery| delivery.application).collect()).await
    }

    /// Those that these events name.
    pub async fn of_events(api: &Api, organization: OrganizationId, rows: &[EventSummary]) -> Result<Self, StoreError> {
        Self::read(api, organization, FxHashSet::default(), rows.iter().map(|event| event.application).collect()).await
    }

    /// Those that these dead letters name.
    pub async fn of_dead_letters(api: &Api, organization: OrganizationId, rows: &[DeadLetter]) -> Result<Self, StoreError> {
        let endpoints = rows.iter().map(|letter| letter.lane_id.endpoint()).collect();
        Self::read(api, organization, endpoints, rows.iter().map(|letter| letter.application).collect()).await
    }

    /// Those that these operations name.
    pub async fn of_operations(api: &Api, organization: OrganizationId, rows: &[Operation]) -> Result<Self, StoreError> {
        let endpoints = rows.iter().filter_map(|operation| operation.endpoint).collect();
        Self::read(api, organization, endpoints, rows.iter().filter_map(|operation| operation.application).collect()).await
    }

    /// Those of these applications. Nothing is read if there is none.
    pub async fn of_applications(
        api: &Api,
        organization: OrganizationId,
        applications: impl IntoIterator<Item = ApplicationId>,
    ) -> Result<Self, StoreError> {
        let applications: FxHashSet<ApplicationId> = applications.into_iter().collect();
        if applications.is_empty() {
            return Ok(Self { endpoints: FxHashMap::default(), applications: FxHashMap::default() });
        }
        Self::read(api, organization, FxHashSet::default(), applications).await
    }

    async fn read(
        api: &Api,
        organization: OrganizationId,
        endpoints: FxHashSet<EndpointId>,
        applications: FxHashSet<ApplicationId>,
    ) -> Result<Self, StoreError> {
        let read = api.line.ports.endpoints.uids(organization, endpoints.into_iter().collect(), applications.into_iter().collect()).await?;
        Ok(Self { endpoints: read.endpoints.into_iter().collect(), applications: read.applications.into_iter().collect() })
    }

    /// The uid of an endpoint, a deleted one's too.
    pub fn endpoint(&self, id: EndpointId) -> Option<String> {
        self.endpoints.get(&id).map(Uid::to_string)
    }

    /// The uid of an application.
    pub fn application(&self, id: ApplicationId) -> Option<String> {
        self.applications.get(&id).map(Uid::to_string)
    }
}
