//! What an alert is about: its name, and its timeout. Looked up when an alert changes or a lane is slow, not for every lane that is watched.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    catalog::Destination,
    ids::{ApplicationId, EndpointId, LaneId, OrganizationId, Ref, SourceId},
    line::Line,
    model::{AlertScope, EmailAddress, EndpointState, callback_lane},
    policy::timeout::attempt_timeout,
    ports::StoreError,
};

/// Something that rules watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// What kind of thing.
    pub scope: AlertScope,
    /// Which.
    pub target: Uuid,
    /// Whose.
    pub organization: OrganizationId,
    /// The application that it belongs to, if it does to one.
    pub application: Option<ApplicationId>,
}

/// What people call it; `None` if it is not there any more, or not in use.
pub async fn name_of(line: &Line, subject: &Subject) -> Result<Option<String>, StoreError> {
    let organization = subject.organization;
    match subject.scope {
        AlertScope::Endpoint => {
            let id = EndpointId::from_uuid(subject.target);
            let found = line.ports.endpoints.endpoint(organization, &Ref::Id(id)).await?;
            let found = found.filter(|endpoint| endpoint.state == EndpointState::Enabled);
            Ok(found.map(|endpoint| endpoint.name.unwrap_or_else(|| endpoint.target.written.clone())))
        }
        AlertScope::Capability => capability(line, subject).await.map(|found| found.map(|(name, _)| name)),
        AlertScope::Application => {
            let id = ApplicationId::from_uuid(subject.target);
            Ok(line.ports.applications.application(organization, &Ref::Id(id)).await?.map(|application| application.name))
        }
        AlertScope::Organization => {
            Ok(line.ports.organizations.organization(&Ref::Id(organization)).await?.map(|organization| organization.name))
        }
        AlertScope::Source => {
            let id = SourceId::from_uuid(subject.target);
            Ok(line.ports.sources.source(organization, &Ref::Id(id)).await?.map(|source| source.name.as_str().to_owned()))
        }
        AlertScope::Server => Ok(None),
    }
}

/// The owner of its application: whom the manifest names, or else the application. `None` if neither does.
pub async fn owner_of(line: &Line, subject: &Subject) -> Result<Option<EmailAddress>, StoreError> {
    let Some(application) = subject.application else { return Ok(None) };
    let manifest = line.ports.manifests.manifest(application).await?;
    if let Some(owner) = manifest.and_then(|manifest| manifest.owner_email) {
        return Ok(Some(owner));
    }
    let found = line.ports.applications.application(subject.organization, &Ref::Id(application)).await?;
    Ok(found.and_then(|application| application.owner_email))
}

/// How long an attempt may take there; `None` if that is not known any more.
pub async fn timeout_of(line: &Line, subject: &Subject) -> Result<Option<Duration>, StoreError> {
    if subject.scope == AlertScope::Capability {
        return capability(line, subject).await.map(|found| found.and_then(|(_, timeout)| timeout));
    }
    let Some(application) = subject.application else { return Ok(None) };
    let Some(view) = line.catalog.application(application).await? else { return Ok(None) };
    let Some(Destination::Endpoint(to)) = view.destination(LaneId::from_uuid(subject.target)) else { return Ok(None) };
    let schedule = line.catalog.schedule(to.endpoint.organization, view.retry_schedule_of(&to.endpoint)).await?;
    Ok(Some(attempt_timeout(to.endpoint.timeout, schedule.timeout, 1.0, 1)))
}

/// A capability by its lane, with its timeout; callbacks of jobs, which have a lane beside those of the capabilities, without one.
async fn capability(line: &Line, subject: &Subject) -> Result<Option<(String, Option<Duration>)>, StoreError> {
    let Some(application) = subject.application else { return Ok(None) };
    let lane_id = LaneId::from_uuid(subject.target);
    if callback_lane(application) == lane_id {
        return Ok(Some(("callbacks".to_owned(), None)));
    }
    let Some(app) = line.calls.app(subject.organization, &Ref::Id(application)).await? else { return Ok(None) };
    let found = app.capabilities.values().find(|capability| capability.lane_id == lane_id);
    Ok(found.map(|capability| (capability.name.as_str().to_owned(), Some(capability.spec.timeout))))
}
