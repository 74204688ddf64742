//! Dead letters in bulk: retried or discarded by an operation, or only counted.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{EndpointId, OperationId, OrganizationId, Ref},
    manage::{Fault, operations},
    model::{DeadLetterSelection, FailureCategory},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    access::{Caller, MayManage, MayRead},
    body::JsonBody,
    error::{ApiError, ChangeProblems, ReadProblems},
    operations::{Begun, OperationOut, PaceIn, RateIn, begun, read_each, read_endpoints, read_patterns},
    run_to_completion,
    wire::{Identified, NoParams, Object, json, read, read_time},
};
use crate::api::words::PriorityWord;

/// Selects dead letters with the status `dead` that match all given conditions.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterFilterIn {
    /// Of this application, by id or uid; of all that the key reaches if absent.
    application_id: Option<String>,
    /// For these endpoints, by id or uid.
    #[serde(default, alias = "webhook_ids", alias = "subscription_ids")]
    endpoint_ids: Vec<String>,
    /// Of these types or prefixes, such as `order.*`.
    #[serde(default)]
    event_types: Vec<String>,
    /// By failure category of the last attempt.
    #[serde(default)]
    failure_categories: Vec<String>,
    /// That first died at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// That first died before this time: RFC 3339 or a date.
    to: Option<String>,
}

/// The dead letters to retry.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"filter": {"event_types": ["order.*"], "failure_categories": ["timeout"]}, "rate_limit": {"requests_per_second": 10}}))]
pub struct DeadLetterRetryIn {
    /// `{}` for all.
    #[schema(value_type = DeadLetterFilterIn, required = true)]
    filter: Option<Object<DeadLetterFilterIn>>,
    /// Unlimited if absent.
    #[schema(value_type = Option<RateIn>)]
    rate_limit: Option<Object<RateIn>>,
    /// `high`, `normal` or `low`; `low` if absent, so that live events come first.
    #[schema(value_type = Option<PriorityWord>)]
    priority: Option<String>,
    /// When to start; now if absent.
    start_at: Option<String>,
    /// Only count them.
    #[serde(default)]
    dry_run: bool,
}

/// The dead letters to discard.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"filter": {"event_types": ["order.*"]}}))]
pub struct DeadLetterDiscardIn {
    /// `{}` for all.
    #[schema(value_type = DeadLetterFilterIn, required = true)]
    filter: Option<Object<DeadLetterFilterIn>>,
    /// Only count them.
    #[serde(default)]
    dry_run: bool,
}

/// The number of dead letters or events that an operation would select.
#[derive(Serialize, ToSchema)]
pub struct Counted {
    /// The number.
    pub total: u64,
}

/// Retries dead letters in bulk, as an operation. With `dry_run` they are only counted.
#[utoipa::path(
    post, path = "/retry-batch", tag = "dead letters", operation_id = "retry_dead_letters", request_body = DeadLetterRetryIn,
    security(("api_key" = ["manage"])),
    responses(
        (status = 200, description = "The number of selected items", body = Counted),
        (status = 202, description = "The operation has started", body = Begun),
        ChangeProblems,
    ),
)]
pub async fn retry(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<DeadLetterRetryIn>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let rate_limit = asked.rate_limit.as_ref().map(|Object(rate)| rate);
    let pace = PaceIn { rate_limit, priority: asked.priority.as_deref(), start_at: asked.start_at.as_deref() }.read(&mut faults);
    let selection = read_filter(&api, &caller, asked.filter, faults).await?;
    if asked.dry_run {
        return count(&api, caller.organization, &selection).await;
    }
    let begin = async move { operations::retry_dead_letters(&api.line, &caller.author(), selection, pace).await };
    Ok(begun(run_to_completion(begin).await??))
}

/// Discards dead letters in bulk, as an operation. They stay in history. With `dry_run` they are only counted.
#[utoipa::path(
    post, path = "/discard-batch", tag = "dead letters", operation_id = "discard_dead_letters", request_body = DeadLetterDiscardIn,
    security(("api_key" = ["manage"])),
    responses(
        (status = 200, description = "The number of selected items", body = Counted),
        (status = 202, description = "The operation has started", body = Begun),
        ChangeProblems,
    ),
)]
pub async fn discard(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<DeadLetterDiscardIn>,
) -> Result<Response, ApiError> {
    let selection = read_filter(&api, &caller, asked.filter, Vec::new()).await?;
    if asked.dry_run {
        return count(&api, caller.organization, &selection).await;
    }
    let begin = async move { operations::discard_dead_letters(&api.line, &caller.author(), selection).await };
    Ok(begun(run_to_completion(begin).await??))
}

/// Same as `GET /v1/operations/{id}`.
#[utoipa::path(
    get, path = "/batch-operations/{id}", tag = "dead letters", operation_id = "get_dead_letter_operation",
    params(("id" = String, Path, description = "The operation's id")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The operation", body = OperationOut), ReadProblems),
)]
pub async fn get(api: State<Arc<Api>>, caller: MayRead, query: NoParams, id: Identified<OperationId>) -> Result<Response, ApiError> {
    super::operations::get(api, caller, query, id).await
}

/// Same as `DELETE /v1/operations/{id}`.
#[utoipa::path(
    delete, path = "/batch-operations/{id}", tag = "dead letters", operation_id = "cancel_dead_letter_operation",
    params(("id" = String, Path, description = "The operation's id")), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Cancelled"), ChangeProblems),
)]
pub async fn cancel(api: State<Arc<Api>>, caller: MayManage, query: NoParams, id: Identified<OperationId>) -> Result<StatusCode, ApiError> {
    super::operations::cancel(api, caller, query, id).await
}

async fn count(api: &Api, organization: OrganizationId, selection: &DeadLetterSelection) -> Result<Response, ApiError> {
    let total = operations::count_dead_letters(&api.line, organization, selection).await?;
    Ok(json(StatusCode::OK, &Counted { total }))
}

/// Reads the filter. It must be given, if only as `{}`: leaving a field out must not discard everything.
async fn read_filter(
    api: &Api,
    caller: &Caller,
    filter: Option<Object<DeadLetterFilterIn>>,
    mut faults: Vec<Fault>,
) -> Result<DeadLetterSelection, ApiError> {
    let Some(Object(filter)) = filter else {
        faults.push(Fault::new("filter", "is required; `{}` selects all"));
        return Err(ApiError::invalid(faults));
    };
    let named = read_endpoints(&filter.endpoint_ids, "filter.endpoint_ids", &mut faults);
    let names = FailureCategory::ALL.map(FailureCategory::as_str).join(", ");
    let must_be = format!("must be one of {names}");
    let categories = read_each(&filter.failure_categories, "filter.failure_categories", &mut faults, &must_be, FailureCategory::parse);
    let mut selection = DeadLetterSelection {
        application: None,
        endpoints: Vec::new(),
        event_types: read_patterns(&filter.event_types, "filter.event_types", &mut faults),
        categories,
        from: read(filter.from.as_deref(), "filter.from", &mut faults, read_time),
        to: read(filter.to.as_deref(), "filter.to", &mut faults, read_time),
    };
    selection.endpoints = find_endpoints(api, caller, &named, &mut faults).await?;
    selection.application = caller.application_in_body(api, filter.application_id.as_deref(), &mut faults).await?;
    if faults.is_empty() { Ok(selection) } else { Err(ApiError::invalid(faults)) }
}

/// Deleted ones too, by their ids: their dead letters can still be discarded.
async fn find_endpoints(
    api: &Api,
    caller: &Caller,
    named: &[Ref<EndpointId>],
    faults: &mut Vec<Fault>,
) -> Result<Vec<EndpointId>, ApiError> {
    let mut endpoints = Vec::with_capacity(named.len());
    for (index, of) in named.iter().enumerate() {
        match api.line.ports.endpoints.endpoint(caller.organization, of).await? {
            Some(endpoint) if caller.reaches(endpoint.application) => endpoints.push(endpoint.id),
            _ => faults.push(Fault::new(format!("filter.endpoint_ids[{index}]"), "is not an endpoint of this organization")),
        }
    }
    Ok(endpoints)
}
