//! Organizations: for admins.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::OrganizationId,
    manage::organizations::{self, LimitsChange, OrganizationChange},
    model::{Organization, OrganizationLimits},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    access::MayAdminister,
    body::JsonBody,
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, PageQuery},
    to_the_end,
    wire::{Field, Named, NoParams, Object, Params, json},
};

/// A tenant.
#[derive(Serialize, ToSchema)]
pub struct OrganizationOut {
    #[schema(format = "uuid")]
    id: String,
    uid: Option<String>,
    name: String,
    limits: LimitsOut,
    #[schema(format = DateTime)]
    created_at: String,
}

/// How much an organization may have and do, over all its applications; null is no limit.
#[derive(Serialize, ToSchema)]
pub struct LimitsOut {
    deliveries_per_minute: Option<u32>,
    events_per_minute: Option<u32>,
    concurrency: Option<u32>,
    endpoints: Option<u32>,
    applications: Option<u32>,
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

impl From<Organization> for OrganizationOut {
    fn from(organization: Organization) -> Self {
        Self {
            id: organization.id.to_string(),
            uid: organization.uid.map(|uid| uid.to_string()),
            name: organization.name,
            limits: organization.limits.into(),
            created_at: organization.created_at.to_string(),
        }
    }
}

/// What an organization should be; a change needs only the fields that change.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrganizationIn {
    /// Shown to people; needed at creation.
    #[serde(default)]
    #[schema(value_type = String, required = false)]
    name: Field<String>,
    /// Stands for the id in paths and in `X-Organization`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    uid: Field<String>,
    /// How much it may have and do; null lifts all limits.
    #[serde(default)]
    #[schema(value_type = Option<LimitsIn>)]
    limits: Field<Object<LimitsIn>>,
}

/// Limits to change; null lifts one.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsIn {
    /// Requests begun in a minute, 1 to 10,000,000; past it deliveries wait.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    deliveries_per_minute: Field<i64>,
    /// Events published in a minute, 1 to 10,000,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    events_per_minute: Field<i64>,
    /// Requests under way at once, 1 to 1,000,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    concurrency: Field<i64>,
    /// Endpoints, 0 to 1,000,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    endpoints: Field<i64>,
    /// Applications beside the built-in ones, 0 to 1,000,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    applications: Field<i64>,
    /// Retries by hand in a minute, 1 to 10,000,000.
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

impl From<OrganizationIn> for OrganizationChange {
    fn from(asked: OrganizationIn) -> Self {
        Self { name: asked.name.0, uid: asked.uid.0, limits: asked.limits.map(|Object(limits)| limits.into()) }
    }
}

/// Makes an organization, with its applications `default` and `operational`.
#[utoipa::path(
    post, path = "/v1/organizations", tag = "organizations", operation_id = "create_organization", request_body = OrganizationIn,
    security(("api_key" = ["admin"])),
    responses((status = 201, description = "Made", body = OrganizationOut), ChangeProblems),
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    _caller: MayAdminister,
    _query: NoParams,
    JsonBody(asked): JsonBody<OrganizationIn>,
) -> Result<Response, ApiError> {
    let made = to_the_end(async move { organizations::create(&api.line, asked.into()).await }).await??;
    Ok(json(StatusCode::CREATED, &OrganizationOut::from(made)))
}

/// Lists all organizations, newest first.
#[utoipa::path(
    get, path = "/v1/organizations", tag = "organizations", operation_id = "list_organizations", params(PageQuery),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "A page of organizations", body = List<OrganizationOut>), ReadProblems),
)]
pub async fn list(State(api): State<Arc<Api>>, _caller: MayAdminister, Params(query): Params<PageQuery>) -> Result<Response, ApiError> {
    let page = query.read()?.fetch(|page| api.line.ports.directory.organizations(page)).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(OrganizationOut::from))))
}

/// One organization.
#[utoipa::path(
    get, path = "/v1/organizations/{id}", tag = "organizations", operation_id = "get_organization",
    params(("id" = String, Path, description = "The organization's id or uid")), security(("api_key" = ["admin"])),
    responses((status = 200, description = "The organization", body = OrganizationOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    _caller: MayAdminister,
    _query: NoParams,
    Named(of): Named<OrganizationId>,
) -> Result<Response, ApiError> {
    let found = api.line.ports.directory.organization(&of).await?;
    let organization = found.ok_or_else(|| ApiError::not_found("organization"))?;
    Ok(json(StatusCode::OK, &OrganizationOut::from(organization)))
}

/// Changes the fields that are sent.
#[utoipa::path(
    put, path = "/v1/organizations/{id}", tag = "organizations", operation_id = "change_organization", request_body = OrganizationIn,
    params(("id" = String, Path, description = "The organization's id or uid")), security(("api_key" = ["admin"])),
    responses((status = 200, description = "Changed", body = OrganizationOut), ChangeProblems),
)]
pub async fn change(
    State(api): State<Arc<Api>>,
    _caller: MayAdminister,
    _query: NoParams,
    Named(of): Named<OrganizationId>,
    JsonBody(asked): JsonBody<OrganizationIn>,
) -> Result<Response, ApiError> {
    let changed = to_the_end(async move { organizations::change(&api.line, &of, asked.into()).await }).await??;
    Ok(json(StatusCode::OK, &OrganizationOut::from(changed)))
}
