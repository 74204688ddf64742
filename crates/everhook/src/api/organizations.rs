//! Organizations: for admins.

use std::{num::NonZeroU32, sync::Arc};

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

/// What an organization may use, over all its applications. One that is null does not hold.
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
        let number = |limit: Option<NonZeroU32>| limit.map(NonZeroU32::get);
        Self {
            deliveries_per_minute: number(limits.deliveries_per_minute),
            events_per_minute: number(limits.events_per_minute),
            concurrency: number(limits.concurrency),
            endpoints: number(limits.endpoints),
            applications: number(limits.applications),
            manual_retries_per_minute: number(limits.manual_retries_per_minute),
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
    /// What it may use. Only the members that are sent change; null ends a limit.
    #[serde(default)]
    #[schema(value_type = LimitsIn, required = false)]
    limits: Option<Object<LimitsIn>>,
}

/// What an organization may use, over all its applications: each 1 to 1,000,000,000, or null for no limit.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsIn {
    /// Requests to endpoints that may start a minute; what is over it waits.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    deliveries_per_minute: Field<i64>,
    /// Events that may be published a minute; what is over it is answered 429.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    events_per_minute: Field<i64>,
    /// Requests to endpoints that may be under way at once.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    concurrency: Field<i64>,
    /// Endpoints that it may have.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    endpoints: Field<i64>,
    /// Applications that it may have, beside `default` and `operational`.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    applications: Field<i64>,
    /// Deliveries that may be retried by hand a minute: 60 if nothing is set.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    manual_retries_per_minute: Field<i64>,
}

impl From<LimitsIn> for LimitsChange {
    fn from(asked: LimitsIn) -> Self {
        // A negative number is refused as zero is.
        let number = |n: Field<i64>| n.map(|n| u64::try_from(n).unwrap_or(0));
        Self {
            deliveries_per_minute: number(asked.deliveries_per_minute),
            events_per_minute: number(asked.events_per_minute),
            concurrency: number(asked.concurrency),
            endpoints: number(asked.endpoints),
            applications: number(asked.applications),
            manual_retries_per_minute: number(asked.manual_retries_per_minute),
        }
    }
}

impl From<OrganizationIn> for OrganizationChange {
    fn from(asked: OrganizationIn) -> Self {
        let limits = asked.limits.map(|Object(limits)| limits.into()).unwrap_or_default();
        Self { name: asked.name.0, uid: asked.uid.0, limits }
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
