//! Dead letters: reading, retrying and discarding deliveries that failed for good.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{DeliveryId, EndpointId, OrganizationId, Ref},
    line::recall::recall,
    manage::dead_letters,
    model::{DeadLetter, DeadLetterStatus, LaneKind, RetentionPeriods},
    ports::{DeadLetterFilter, TimeRange},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{MayManage, MayRead},
    batches,
    body::{NoFields, OptionalJsonBody},
    deliveries::read_category,
    error::{ApiError, ChangeProblems, ReadProblems, RetryProblems},
    events::read_event_type,
    page::{List, RequestedPage},
    run_to_completion,
    uids::Uids,
    wire::{Identified, NoParams, Params, json, read, read_time},
};
use crate::api::words::{DeadLetterReason, DeadLetterStatusFilter, DeadLetterStatusWord, DestinationKindWord, FailureCategoryWord};

/// Other names of the routes of operations, which clients of other platforms look for beside those that begin one.
pub fn aliases() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default().routes(routes!(batches::get, batches::cancel))
}

/// The routes, without their prefix.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default()
        .routes(routes!(list))
        .routes(routes!(get, discard))
        .routes(routes!(retry))
        .routes(routes!(batches::retry))
        .routes(routes!(batches::discard))
}

/// An event that could not be delivered to an endpoint.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterOut {
    /// The first dead delivery's id.
    #[schema(format = "uuid")]
    id: String,
    /// The kind of destination: `endpoint`, `processor`, `capability` or `channel`.
    #[schema(value_type = DestinationKindWord)]
    kind: &'static str,
    /// `dead`, `retrying`, `resolved` or `discarded`.
    #[schema(value_type = DeadLetterStatusWord)]
    status: &'static str,
    /// The newest delivery of this event to this endpoint.
    #[schema(format = "uuid")]
    delivery_id: String,
    #[schema(format = "uuid")]
    event_id: String,
    event_type: String,
    #[schema(format = "uuid")]
    endpoint_id: String,
    #[schema(required = true)]
    endpoint_uid: Option<String>,
    #[schema(format = "uuid")]
    application_id: String,
    #[schema(required = true)]
    application_uid: Option<String>,
    /// Why it failed for good: `retries_exhausted`, `given_up`, `gone` or `tls_failed`.
    #[schema(value_type = DeadLetterReason)]
    reason: &'static str,
    #[schema(value_type = FailureCategoryWord)]
    failure_category: &'static str,
    /// Whether a retry can succeed without a change at the endpoint.
    recoverable: bool,
    last_error: String,
    /// The number of recorded attempts, over all its deliveries.
    attempt_count: u32,
    /// The number of its deliveries that died.
    failures: u32,
    /// What the destination was when it last failed: a URL, an address or a name.
    target: String,
    /// The same, if the destination is an endpoint; null otherwise.
    #[schema(required = true)]
    url: Option<String>,
    #[schema(format = DateTime)]
    first_failure_at: String,
    #[schema(format = DateTime)]
    last_failure_at: String,
    #[schema(format = DateTime, required = true)]
    requeued_at: Option<String>,
    /// When it is removed, with its delivery and attempts; null while it is being retried, or if dead letters are kept forever.
    #[schema(format = DateTime, required = true)]
    expires_at: Option<String>,
}

impl DeadLetterOut {
    async fn of(api: &Api, organization: OrganizationId, letter: DeadLetter) -> Result<Self, ApiError> {
        let uids = Uids::of_dead_letters(api, organization, std::slice::from_ref(&letter)).await?;
        Ok(Self::new(letter, &api.line.retention, &uids))
    }

    fn new(letter: DeadLetter, kept: &RetentionPeriods, uids: &Uids) -> Self {
        Self {
            endpoint_uid: uids.endpoint(letter.lane_id.endpoint()),
            application_uid: uids.application(letter.application),
            expires_at: kept.dead_letter_expires_at(letter.status, letter.last_failure_at).map(|at| at.to_string()),
            id: letter.id.to_string(),
            kind: letter.kind.as_str(),
            status: letter.status.as_str(),
            delivery_id: letter.last_delivery.to_string(),
            event_id: letter.event.to_string(),
            event_type: letter.event_type.as_str().to_owned(),
            endpoint_id: letter.lane_id.to_string(),
            application_id: letter.application.to_string(),
            reason: letter.cause.as_str(),
            failure_category: letter.failure_category.as_str(),
            recoverable: letter.recoverable(),
            attempt_count: letter.attempts,
            failures: letter.failures,
            first_failure_at: letter.first_failure_at.to_string(),
            last_failure_at: letter.last_failure_at.to_string(),
            requeued_at: letter.requeued_at.map(|at| at.to_string()),
            last_error: letter.last_error,
            url: (letter.kind == LaneKind::Endpoint).then(|| letter.target.clone()),
            target: letter.target,
        }
    }
}

/// Which dead letters to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeadLetterQuery {
    /// Of this application, by id or uid.
    application_id: Option<String>,
    /// For this endpoint, by id or uid.
    #[serde(alias = "webhook_id")]
    endpoint_id: Option<String>,
    /// Of this kind of destination: `endpoint`, `processor`, `capability` or `channel`.
    #[param(value_type = Option<DestinationKindWord>)]
    kind: Option<String>,
    /// Of this type.
    event_type: Option<String>,
    /// `dead` (if absent), `retrying`, `resolved` or `discarded`; `any` for all.
    #[param(value_type = Option<DeadLetterStatusFilter>)]
    status: Option<String>,
    /// By failure category of the last attempt.
    #[param(value_type = Option<FailureCategoryWord>)]
    category: Option<String>,
    /// That first died at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// That first died before this time: RFC 3339 or a date.
    to: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
}

/// A page of them.
pub type DeadLetterList = List<DeadLetterOut>;

/// Lists dead letters, newest first. By default those with the status `dead`.
#[utoipa::path(
    get, path = "", tag = "dead letters", operation_id = "list_dead_letters", params(DeadLetterQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of dead letters", body = DeadLetterList), ReadProblems),
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<DeadLetterQuery>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let endpoint = read(query.endpoint_id.as_deref(), "endpoint_id", &mut faults, read_endpoint);
    let kind = read(query.kind.as_deref(), "kind", &mut faults, read_kind);
    let event_type = read(query.event_type.as_deref(), "event_type", &mut faults, read_event_type);
    let status = read(query.status.as_deref().or(Some("dead")), "status", &mut faults, read_status).flatten();
    let category = read(query.category.as_deref(), "category", &mut faults, read_category);
    let from = read(query.from.as_deref(), "from", &mut faults, read_time);
    let to = read(query.to.as_deref(), "to", &mut faults, read_time);
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let application = api.filter_application(&caller, query.application_id.as_deref()).await?;
    let endpoint = match endpoint {
        Some(of) => Some(api.find_endpoint(&caller, &of).await?),
        None => None,
    };
    let filter = DeadLetterFilter { application, endpoint, kind, event_type, status, category, died: TimeRange { from, to } };
    let page = page.fetch(|page| api.line.ports.history.dead_letters(caller.organization, filter.clone(), page)).await?;
    let uids = Uids::of_dead_letters(&api, caller.organization, &page.rows).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(|letter| DeadLetterOut::new(letter, &api.line.retention, &uids)))))
}

/// Returns a dead letter.
#[utoipa::path(
    get, path = "/{id}", tag = "dead letters", operation_id = "get_dead_letter", params(("id" = String, Path, description = "The dead letter's id")),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The dead letter", body = DeadLetterOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Identified(id): Identified<DeliveryId>,
) -> Result<Response, ApiError> {
    let found = api.line.ports.history.dead_letter(caller.organization, id).await?;
    let letter = found.ok_or_else(|| ApiError::not_found("dead letter"))?;
    Ok(json(StatusCode::OK, &DeadLetterOut::of(&api, caller.organization, letter).await?))
}

/// A dead letter that is being retried.
#[derive(Serialize, ToSchema)]
pub struct RetryReceipt {
    /// The new delivery.
    #[schema(format = "uuid")]
    delivery_id: String,
    dead_letter: DeadLetterOut,
}

/// Retries a dead letter: creates a new delivery with fresh attempts, and the endpoint's current URL, secret and schedule.
#[utoipa::path(
    post, path = "/{id}/retry", tag = "dead letters", operation_id = "retry_dead_letter", params(("id" = String, Path, description = "The dead letter's id")),
    security(("api_key" = ["manage"])),
    responses((status = 202, description = "The dead letter is being retried", body = RetryReceipt), RetryProblems),
)]
pub async fn retry(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(id): Identified<DeliveryId>,
    _body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    let retry = async move {
        let (letter, delivery) = recall(&api.line, caller.organization, id).await?;
        let dead_letter = DeadLetterOut::of(&api, caller.organization, letter).await?;
        Ok::<_, ApiError>(RetryReceipt { delivery_id: delivery.to_string(), dead_letter })
    };
    let receipt = run_to_completion(retry).await??;
    Ok(json(StatusCode::ACCEPTED, &receipt))
}

/// Confirms that a dead letter is being retried.
#[derive(Serialize, ToSchema)]
pub struct Requeued {
    requeued: bool,
}

/// Same as `POST /v1/dlq/{id}/retry`, with the path and response that other platforms use.
#[utoipa::path(
    post, path = "/api/v1/admin/dlq/{id}/retry", tag = "dead letters", operation_id = "requeue_dead_letter", params(("id" = String, Path, description = "The dead letter's id")),
    security(("api_key" = ["manage"])),
    responses((status = 202, description = "The dead letter is being retried", body = Requeued), RetryProblems),
)]
pub async fn requeue(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(id): Identified<DeliveryId>,
    _body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    run_to_completion(async move { recall(&api.line, caller.organization, id).await }).await??;
    Ok(json(StatusCode::ACCEPTED, &Requeued { requeued: true }))
}

/// Discards a dead letter. It stays in history as `discarded`.
#[utoipa::path(
    delete, path = "/{id}", tag = "dead letters", operation_id = "discard_dead_letter", params(("id" = String, Path, description = "The dead letter's id")),
    security(("api_key" = ["manage"])),
    responses((status = 204, description = "Discarded"), ChangeProblems),
)]
pub async fn discard(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(id): Identified<DeliveryId>,
) -> Result<StatusCode, ApiError> {
    run_to_completion(async move { dead_letters::discard(&api.line, &caller.author(), id).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

fn read_endpoint(text: &str) -> Result<Ref<EndpointId>, String> {
    Ref::parse(text).ok_or_else(|| "must be an endpoint's id or uid".to_owned())
}

fn read_kind(text: &str) -> Result<LaneKind, String> {
    LaneKind::parse(text).ok_or_else(|| format!("must be one of {}", LaneKind::ALL.map(LaneKind::as_str).join(", ")))
}

fn read_status(text: &str) -> Result<Option<DeadLetterStatus>, String> {
    if text == "any" {
        return Ok(None);
    }
    DeadLetterStatus::parse(text).map(Some).ok_or_else(|| "must be one of dead, retrying, resolved, discarded, any".to_owned())
}
