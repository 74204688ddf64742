//! The uids of endpoints and applications that rows name by their ids, read once for each answer.

use everhook_core::{
    ids::{ApplicationId, EndpointId, OrganizationId, Ref, Uid},
    ports::StoreError,
};
use rustc_hash::FxHashMap;

use super::Api;

/// The uids of one organization, as far as an answer needs them: at most one read for each endpoint and application on a page.
pub struct Uids<'a> {
    api: &'a Api,
    organization: OrganizationId,
    endpoints: FxHashMap<EndpointId, Option<String>>,
    applications: FxHashMap<ApplicationId, Option<String>>,
}

impl<'a> Uids<'a> {
    /// Of this organization.
    pub fn new(api: &'a Api, organization: OrganizationId) -> Self {
        Self { api, organization, endpoints: FxHashMap::default(), applications: FxHashMap::default() }
    }

    /// The uid of an endpoint, a deleted one's too.
    pub async fn endpoint(&mut self, id: EndpointId) -> Result<Option<String>, StoreError> {
        if let Some(known) = self.endpoints.get(&id) {
            return Ok(known.clone());
        }
        let found = self.api.line.ports.directory.endpoint(self.organization, &Ref::Id(id)).await?;
        let uid = found.and_then(|endpoint| endpoint.uid).as_ref().map(Uid::to_string);
        self.endpoints.insert(id, uid.clone());
        Ok(uid)
    }

    /// The uid of an application.
    pub async fn application(&mut self, id: ApplicationId) -> Result<Option<String>, StoreError> {
        if let Some(known) = self.applications.get(&id) {
            return Ok(known.clone());
        }
        let found = self.api.line.ports.directory.application(self.organization, &Ref::Id(id)).await?;
        let uid = found.and_then(|application| application.uid).as_ref().map(Uid::to_string);
        self.applications.insert(id, uid.clone());
        Ok(uid)
    }
}
