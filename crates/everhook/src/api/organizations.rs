//! Organizations: for admins.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::OrganizationId,
    limits,
    manage::{
        Change,
        auto_replay::{self, AutoReplayChange},
        organizations::{self, LimitsChange, OrganizationChange},
    },
    model::{AutoReplay, Organization, OrganizationLimits, Page},
    ports::StoreError,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    access::{MayAdminister, MayAdministerNamed},
    auto_replay::{AutoReplayIn, AutoReplayOut},
    body::JsonBody,
    creation::{Creates, New},
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, PageQuery},
    run_to_completion,
    wire::{Field, NoParams, Object, Params, json},
};

/// A tenant.
#[derive(Serialize, ToSchema)]
pub struct OrganizationOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(required = true)]
    uid: Option<String>,
    name: String,
    limits: LimitsOut,
    /// The limits that apply: those above, else those of the server's `profile`, else the built-in ones.
    effective_limits: LimitsOut,
    worker_pool: String,
    admin_emails: Vec<String>,
    dlq_auto_replay: AutoReplayOut,
    #[schema(format = DateTime)]
    created_at: String,
}

/// The limits of an organization, over all its applications. In `limits`, null means that none is set; in `effective_limits`, that there is none.
#[derive(Serialize, ToSchema)]
pub struct LimitsOut {
    #[schema(required = true)]
    deliveries_per_minute: Option<u32>,
    #[schema(required = true)]
    events_per_minute: Option<u32>,
    #[schema(required = true)]
    concurrency: Option<u32>,
    #[schema(required = true)]
    endpoints: Option<u32>,
    #[schema(required = true)]
    applications: Option<u32>,
    #[schema(required = true)]
    manual_retries_per_minute: Option<u32>,
}

impl From<OrganizationLimits> for LimitsOut {
    fn from(limits: OrganizationLimits) -> Self {
        Self {
            deliveries_per_minute: limits.deliveries_per_minute,
            events_per_minute: limits.events_per_minute,
            concurrency: limits.concurrency,
            endpoints: limits.endpoints,
            applications: limits.applications,
            manual_retries_per_minute: limits.manual_retries_per_minute,
        }
    }
}

impl OrganizationOut {
    async fn new(api: &Api, organization: Organization) -> Result<Self, StoreError> {
        let auto_replay = auto_replay::find(&api.line, organization.id).await?;
        Ok(Self {
            id: organization.id.to_string(),
            uid: organization.uid.map(|uid| uid.to_string()),
            name: organization.name,
            limits: organization.limits.into(),
            effective_limits: limits::effective(organization.limits, api.line.catalog.profile()).into(),
            worker_pool: organization.worker_pool.to_string(),
            admin_emails: organization.admin_emails.iter().map(ToString::to_string).collect(),
            dlq_auto_replay: auto_replay.into(),
            created_at: organization.created_at.to_string(),
        })
    }
}

/// An organization. An update needs only the changed fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "Acme", "uid": "acme", "limits": {"events_per_minute": 60000}}))]
pub struct OrganizationIn {
    /// A name for people. Required at creation.
    #[serde(default)]
    #[schema(value_type = String, required = false)]
    name: Field<String>,
    /// Can replace the id in paths and in `X-Organization`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    uid: Field<String>,
    /// Its limits; null removes all limits.
    #[serde(default)]
    #[schema(value_type = Option<LimitsIn>)]
    limits: Field<Object<LimitsIn>>,
    /// The worker pool that sends its deliveries: 1 to 32 of the characters a-z 0-9 _ -; null means `default`. Other pools require
    /// PostgreSQL. Without a node in the pool, deliveries wait.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    worker_pool: Field<String>,
    /// Who gets an e-mail when an endpoint is disabled: at most 20 addresses; null means none. Requires a mail server (`smtp`).
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, example = json!(["ops@example.com"]))]
    admin_emails: Field<Vec<String>>,
    /// Automatic replay of dead letters; null disables it.
    #[serde(default)]
    #[schema(value_type = Option<AutoReplayIn>)]
    dlq_auto_replay: Field<Object<AutoReplayIn>>,
}

/// The same, where it creates one.
pub type NewOrganizationIn = New<OrganizationIn>;

impl Creates for OrganizationIn {
    const REQUIRED: &'static [&'static str] = &["name"];
}

/// The limits to change; null removes one.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsIn {
    /// Requests started per minute, 1 to 10,000,000; further deliveries wait.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    deliveries_per_minute: Field<i64>,
    /// Events published per minute, 1 to 10,000,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    events_per_minute: Field<i64>,
    /// Requests in progress at once, 1 to 1,000,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    concurrency: Field<i64>,
    /// Endpoints, 0 to 1,000,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    endpoints: Field<i64>,
    /// Applications in addition to the built-in ones, 0 to 1,000,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    applications: Field<i64>,
    /// Manual retries per minute, 1 to 10,000,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    manual_retries_per_minute: Field<i64>,
}

impl From<LimitsIn> for LimitsChange {
    fn from(asked: LimitsIn) -> Self {
        Self {
            deliveries_per_minute: asked.deliveries_per_minute.0,
            events_per_minute: asked.events_per_minute.0,
            concurrency: asked.concurrency.0,
            endpoints: asked.endpoints.0,
            applications: asked.applications.0,
            manual_retries_per_minute: asked.manual_retries_per_minute.0,
        }
    }
}

impl OrganizationIn {
    fn read(self) -> Result<(OrganizationChange, Change<AutoReplayChange>), ApiError> {
        let change = OrganizationChange {
            name: self.name.0,
            uid: self.uid.0,
            limits: self.limits.map(|Object(limits)| limits.into()),
            worker_pool: self.worker_pool.0,
            admin_emails: self.admin_emails.0,
        };
        Ok((change, super::auto_replay::read(self.dlq_auto_replay)?))
    }
}

/// Creates an organization, with its applications `default` and `operational`.
#[utoipa::path(
    post, path = "/v1/organizations", tag = "organizations", operation_id = "create_organization", request_body = NewOrganizationIn,
    security(("api_key" = ["admin"])),
    responses((status = 201, description = "Created", body = OrganizationOut), ChangeProblems),
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    MayAdminister(caller): MayAdminister,
    _query: NoParams,
    JsonBody(asked): JsonBody<OrganizationIn>,
) -> Result<Response, ApiError> {
    let (change, auto) = asked.read()?;
    let make = async move {
        // Nothing is kept yet of an organization that is not there: what is asked for is checked before it is made.
        let settings = auto_replay::check(&api.line, OrganizationId::from_uuid(uuid::Uuid::nil()), auto).await?;
        let made = organizations::create(&api.line, &caller.author(), change).await?;
        finish(&api, made, settings).await
    };
    Ok(json(StatusCode::CREATED, &run_to_completion(make).await??))
}

/// A page of them.
pub type OrganizationList = List<OrganizationOut>;

/// Lists all organizations, newest first.
#[utoipa::path(
    get, path = "/v1/organizations", tag = "organizations", operation_id = "list_organizations", params(PageQuery),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "A page of organizations", body = OrganizationList), ReadProblems),
)]
pub async fn list(State(api): State<Arc<Api>>, _caller: MayAdminister, Params(query): Params<PageQuery>) -> Result<Response, ApiError> {
    let page = query.read()?.fetch(|page| api.line.ports.organizations.organizations(page)).await?;
    let Page { rows, next, prev } = page;
    let mut out = Vec::with_capacity(rows.len());
    for organization in rows {
        out.push(OrganizationOut::new(&api, organization).await?);
    }
    Ok(json(StatusCode::OK, &List::from(Page { rows: out, next, prev })))
}

/// Returns an organization.
#[utoipa::path(
    get, path = "/v1/organizations/{id}", tag = "organizations", operation_id = "get_organization",
    params(("id" = String, Path, description = "The organization's id or uid")), security(("api_key" = ["admin"])),
    responses((status = 200, description = "The organization", body = OrganizationOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayAdministerNamed(_caller, of): MayAdministerNamed,
    _query: NoParams,
) -> Result<Response, ApiError> {
    let found = api.line.ports.organizations.organization(&of).await?;
    let organization = found.ok_or_else(|| ApiError::not_found("organization"))?;
    Ok(json(StatusCode::OK, &OrganizationOut::new(&api, organization).await?))
}

/// Updates the fields that are sent.
#[utoipa::path(
    method(put, patch), path = "/v1/organizations/{id}", tag = "organizations", operation_id = "change_organization", request_body = OrganizationIn,
    params(("id" = String, Path, description = "The organization's id or uid")), security(("api_key" = ["admin"])),
    responses((status = 200, description = "Changed", body = OrganizationOut), ChangeProblems),
)]
pub async fn change(
    State(api): State<Arc<Api>>,
    MayAdministerNamed(caller, of): MayAdministerNamed,
    _query: NoParams,
    JsonBody(asked): JsonBody<OrganizationIn>,
) -> Result<Response, ApiError> {
    let found = api.line.ports.organizations.organization(&of).await?.ok_or_else(|| ApiError::not_found("organization"))?;
    let (change, auto) = asked.read()?;
    let change = async move {
        let settings = auto_replay::check(&api.line, found.id, auto).await?;
        let changed = organizations::change(&api.line, &caller.author(), &of, change).await?;
        finish(&api, changed, settings).await
    };
    Ok(json(StatusCode::OK, &run_to_completion(change).await??))
}

async fn finish(api: &Api, organization: Organization, settings: Option<AutoReplay>) -> Result<OrganizationOut, ApiError> {
    if let Some(settings) = settings {
        auto_replay::set(&api.line, organization.id, settings).await?;
    }
    Ok(OrganizationOut::new(api, organization).await?)
}

/// Deletes an organization with all its data. From then on its API keys are refused and nothing can be published; its applications and endpoints are
/// deleted in the background. Its history is kept until retention removes it, but can no longer be read. `default` cannot be deleted.
#[utoipa::path(
    delete, path = "/v1/organizations/{id}", tag = "organizations", operation_id = "delete_organization",
    params(("id" = String, Path, description = "The organization's id or uid")), security(("api_key" = ["admin"])),
    responses((status = 204, description = "Deleted"), ChangeProblems),
)]
pub async fn delete(
    State(api): State<Arc<Api>>,
    MayAdministerNamed(caller, of): MayAdministerNamed,
    _query: NoParams,
) -> Result<StatusCode, ApiError> {
    let delete = async move {
        let keys = organizations::delete(&api.line, &caller.author(), &of).await?;
        keys.into_iter().for_each(|key| api.keys.forget(key));
        Ok::<_, ApiError>(StatusCode::NO_CONTENT)
    };
    run_to_completion(delete).await?
}
