//! Retry schedules: an organization's own, beside the presets. Also below the organization that they belong to.

mod wire;

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Path, State},
    response::Response,
};
use everhook_core::{
    ids::OrganizationId,
    manage::schedules::{self, Known},
    model::Author,
    ports::ScheduleRef,
};
use http::{StatusCode, request::Parts};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

pub use self::wire::{EndpointScheduleIn, EndpointScheduleOut, NewScheduleIn, ScheduleConfigOut, ScheduleIn, ScheduleOut};
use super::{
    Api,
    access::{MayManage, MayRead},
    body::JsonBody,
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, PageQuery},
    run_to_completion,
    wire::{Named, NoParams, Params, json},
};

/// The name of a schedule in a path: its id or its name.
pub struct NamedSchedule(ScheduleRef);

impl FromRequestParts<Arc<Api>> for NamedSchedule {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, api).await {
            Ok(Path(segment)) => Ok(Self(ScheduleRef::parse(&segment))),
            Err(_) => Err(ApiError::not_found("retry schedule")),
        }
    }
}

/// What the endpoints of a deleted schedule use instead.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeletionQuery {
    /// The schedule that its endpoints use instead: `default`, or the id or name of another. Without it, a schedule in use is not deleted.
    reassign: Option<String>,
}

/// The endpoints to assign a schedule to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"endpoint_ids": ["shop"]}))]
pub struct AssignmentIn {
    /// 1 to 1,000 endpoints, by id or uid.
    endpoint_ids: Vec<String>,
}

/// The result of the assignment.
#[derive(Serialize, ToSchema)]
pub struct AssignmentOut {
    /// The number of endpoints that were assigned the schedule.
    assigned: usize,
}

/// Creates a retry schedule in your organization.
#[utoipa::path(
    post, path = "/v1/retry-schedules", tag = "retry schedules", operation_id = "create_retry_schedule", request_body = NewScheduleIn,
    security(("api_key" = ["manage"])),
    responses((status = 201, description = "Created", body = ScheduleOut), ChangeProblems),
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<ScheduleIn>,
) -> Result<Response, ApiError> {
    make(api, caller.author(), asked).await
}

/// Creates a retry schedule in an organization.
#[utoipa::path(
    post, path = "/v1/organizations/{id}/retry-schedules", tag = "retry schedules", operation_id = "create_retry_schedule_of_organization",
    request_body = NewScheduleIn, params(("id" = String, Path, description = "The organization's id or uid")),
    security(("api_key" = ["manage"])),
    responses((status = 201, description = "Created", body = ScheduleOut), ChangeProblems),
)]
pub async fn create_in_organization(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<OrganizationId>,
    JsonBody(asked): JsonBody<ScheduleIn>,
) -> Result<Response, ApiError> {
    let organization = api.organization_of(&caller, &of).await?;
    make(api, caller.author().within(organization), asked).await
}

/// A page of them.
pub type RetryScheduleList = List<ScheduleOut>;

/// Lists the retry schedules of your organization, newest first, and then the presets.
#[utoipa::path(
    get, path = "/v1/retry-schedules", tag = "retry schedules", operation_id = "list_retry_schedules", params(PageQuery),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of retry schedules", body = RetryScheduleList), ReadProblems),
)]
pub async fn list(State(api): State<Arc<Api>>, MayRead(caller): MayRead, Params(query): Params<PageQuery>) -> Result<Response, ApiError> {
    list_page(&api, caller.organization, &query).await
}

/// Lists an organization's retry schedules, newest first, and then the presets.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/retry-schedules", tag = "retry schedules", operation_id = "list_retry_schedules_of_organization",
    params(("id" = String, Path, description = "The organization's id or uid"), PageQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of retry schedules", body = RetryScheduleList), ReadProblems),
)]
pub async fn list_of_organization(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Named(of): Named<OrganizationId>,
    Params(query): Params<PageQuery>,
) -> Result<Response, ApiError> {
    let organization = api.organization_of(&caller, &of).await?;
    list_page(&api, organization, &query).await
}

/// Returns a retry schedule.
#[utoipa::path(
    get, path = "/v1/retry-schedules/{id}", tag = "retry schedules", operation_id = "get_retry_schedule",
    params(("id" = String, Path, description = "The schedule's id or name")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The retry schedule", body = ScheduleOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    NamedSchedule(of): NamedSchedule,
) -> Result<Response, ApiError> {
    let found = schedules::find(&api.line, caller.organization, &of).await?;
    Ok(json(StatusCode::OK, &ScheduleOut::from(found)))
}

/// Updates the fields that are sent, for new deliveries. Existing deliveries keep the previous version.
#[utoipa::path(
    method(put, patch), path = "/v1/retry-schedules/{id}", tag = "retry schedules", operation_id = "change_retry_schedule", request_body = ScheduleIn,
    params(("id" = String, Path, description = "The schedule's id or name")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Changed", body = ScheduleOut), ChangeProblems),
)]
pub async fn change(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    NamedSchedule(of): NamedSchedule,
    JsonBody(asked): JsonBody<ScheduleIn>,
) -> Result<Response, ApiError> {
    let change = async move { schedules::change(&api.line, &caller.author(), &of, asked.into()).await };
    let changed = run_to_completion(change).await??;
    Ok(json(StatusCode::OK, &ScheduleOut::from(Known::Own(changed))))
}

/// Deletes a retry schedule. Existing deliveries keep it.
#[utoipa::path(
    delete, path = "/v1/retry-schedules/{id}", tag = "retry schedules", operation_id = "delete_retry_schedule",
    params(("id" = String, Path, description = "The schedule's id or name"), DeletionQuery), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Deleted"), ChangeProblems),
)]
pub async fn delete(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    NamedSchedule(of): NamedSchedule,
    Params(query): Params<DeletionQuery>,
) -> Result<StatusCode, ApiError> {
    let delete = async move { schedules::delete(&api.line, &caller.author(), &of, query.reassign.as_deref()).await };
    run_to_completion(delete).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Assigns a retry schedule to several endpoints, for new deliveries.
#[utoipa::path(
    post, path = "/v1/retry-schedules/{id}/assign", tag = "retry schedules", operation_id = "assign_retry_schedule",
    request_body = AssignmentIn, params(("id" = String, Path, description = "The schedule's id or name")),
    security(("api_key" = ["manage"])),
    responses((status = 200, description = "Assigned", body = AssignmentOut), ChangeProblems),
)]
pub async fn assign(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    NamedSchedule(of): NamedSchedule,
    JsonBody(asked): JsonBody<AssignmentIn>,
) -> Result<Response, ApiError> {
    let assign = async move { schedules::assign(&api.line, &caller.author(), &of, asked.endpoint_ids).await };
    let assigned = run_to_completion(assign).await??;
    Ok(json(StatusCode::OK, &AssignmentOut { assigned }))
}

async fn make(api: Arc<Api>, by: Author, asked: ScheduleIn) -> Result<Response, ApiError> {
    let made = run_to_completion(async move { schedules::create(&api.line, &by, asked.into()).await }).await??;
    Ok(json(StatusCode::CREATED, &ScheduleOut::from(Known::Own(made))))
}

async fn list_page(api: &Api, organization: OrganizationId, query: &PageQuery) -> Result<Response, ApiError> {
    let page = query.read()?.fetch(|page| schedules::list(&api.line, organization, page)).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(ScheduleOut::from))))
}
