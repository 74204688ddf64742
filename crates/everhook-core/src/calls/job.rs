//! Requests about jobs: those of calls, with where to call back. Made by `line::job`, which decides what an answer means.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use uuid::Uuid;

use super::{Calls, OpenCapability, request::Outgoing};
use crate::{
    ids::{ApplicationId, LaneId, OrganizationId, Ref},
    model::TraceParent,
    ports::{OutgoingRequest, StoreError},
    signing::Keys,
    time::Timestamp,
};

/// A request about a job.
pub(crate) struct JobRequest<'a> {
    /// What is asked of.
    pub(crate) capability: &'a OpenCapability,
    /// The call that became the job.
    pub(crate) request_id: Uuid,
    /// The body.
    pub(crate) body: Bytes,
    /// Which request it is, from 1, and of how many.
    pub(crate) attempt: (u32, u32),
    /// When it is given up.
    pub(crate) timeout: Duration,
    /// The caller's trace.
    pub(crate) trace: Option<TraceParent>,
    /// The present.
    pub(crate) at: Timestamp,
}

impl Calls {
    /// The capability of a lane, as the manifest stands; `None` if that does not name it any more.
    ///
    /// # Errors
    /// [`StoreError`] if it had to be read and could not be.
    pub(crate) async fn of_lane(
        &self,
        organization: OrganizationId,
        application: ApplicationId,
        lane_id: LaneId,
    ) -> Result<Option<Arc<OpenCapability>>, StoreError> {
        let app = self.app(organization, &Ref::Id(application)).await?;
        Ok(app.and_then(|app| app.capabilities.values().find(|capability| capability.lane_id == lane_id).cloned()))
    }

    /// What signs the requests about an application's calls; `None` if it has no manifest.
    ///
    /// # Errors
    /// [`StoreError`] if it had to be read and could not be.
    pub(crate) async fn keys(&self, organization: OrganizationId, application: ApplicationId) -> Result<Option<Arc<Keys>>, StoreError> {
        Ok(self.app(organization, &Ref::Id(application)).await?.and_then(|app| app.keys.clone()))
    }

    /// Builds a request, signed as calls are; `None` if there is no base URL.
    pub(crate) fn build_job(&self, asked: JobRequest<'_>) -> Option<OutgoingRequest> {
        let (attempt, attempts_max) = asked.attempt;
        let mut request = self.build(&Outgoing {
            capability: asked.capability,
            target: asked.capability.target.clone()?,
            request_id: asked.request_id,
            payload: asked.body,
            trace: asked.trace.as_ref(),
            attempt,
            left: asked.timeout,
            timeout: asked.timeout,
            at: asked.at,
        });
        // A job is repeated by its retry schedule, not by what the manifest says of calls.
        if let Some((_, value)) = request.headers.iter_mut().find(|(name, _)| name == "x-max-attempts") {
            *value = Bytes::from(attempts_max.to_string());
        }
        Some(request)
    }
}
