//! Organizations: for admins.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::OrganizationId,
    manage::organizations::{self, OrganizationChange},
    model::Organization,
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
    wire::{Field, Named, NoParams, Params, json},
};

/// A tenant.
#[derive(Serialize, ToSchema)]
pub struct OrganizationOut {
    #[schema(format = "uuid")]
    id: String,
    uid: Option<String>,
    name: String,
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<Organization> for OrganizationOut {
    fn from(organization: Organization) -> Self {
        Self {
            id: organization.id.to_string(),
            uid: organization.uid.map(|uid| uid.to_string()),
            name: organization.name,
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
}

impl From<OrganizationIn> for OrganizationChange {
    fn from(asked: OrganizationIn) -> Self {
        Self { name: asked.name.0, uid: asked.uid.0 }
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
