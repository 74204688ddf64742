//! Deliveries and their attempts, looked back at.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, EndpointId, OrganizationId},
    model::{Attempt, Delivery, FailureCategory, Page, Stage},
    ports::{DeliveryFilter, DeliveryStatus, StoreError, TimeRange},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    access::MayRead,
    error::{ApiError, ReadProblems},
    events::read_event_type,
    page::{List, PageWish},
    wire::{Identified, Named, NoParams, Params, json, read, read_time},
};

/// One event for one endpoint.
#[derive(Serialize, ToSchema)]
pub struct DeliveryOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "uuid")]
    event_id: String,
    event_type: String,
    #[schema(format = "uuid")]
    endpoint_id: String,
    #[schema(format = "uuid")]
    application_id: String,
    /// `waiting`, `delivered`, `dead` or `cancelled`.
    status: &'static str,
    priority: &'static str,
    attempt_count: u32,
    max_attempts: u32,
    #[schema(format = DateTime)]
    next_attempt_at: Option<String>,
    failure_category: Option<&'static str>,
    last_error: Option<String>,
    /// The delivery that this one does again.
    #[schema(format = "uuid")]
    replay_of: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    /// Every attempt, oldest first; lists leave them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptOut>>,
}

/// One request of a delivery.
#[derive(Serialize, ToSchema)]
pub struct AttemptOut {
    attempt_number: u32,
    /// `success`, `failed`, or `exhausted` for the last one.
    status: &'static str,
    http_status_code: Option<u16>,
    failure_category: Option<&'static str>,
    error_message: Option<String>,
    duration_ms: u64,
    dns_ms: Option<u64>,
    connect_ms: Option<u64>,
    tls_ms: Option<u64>,
    first_byte_ms: Option<u64>,
    /// The answer's headers; those that came several times joined by a comma.
    response_headers: Option<BTreeMap<String, String>>,
    /// The beginning of the answer's body.
    response_body_sample: Option<String>,
    #[schema(format = DateTime)]
    scheduled_at: String,
    #[schema(format = DateTime)]
    picked_at: String,
    #[schema(format = DateTime)]
    executed_at: String,
    #[schema(format = DateTime)]
    next_retry_at: Option<String>,
    node: String,
}

impl DeliveryOut {
    async fn new(api: &Api, delivery: Delivery) -> Result<Self, StoreError> {
        let schedule = api.line.catalog.schedule(delivery.retry_schedule).await?;
        let (status, next_attempt_at, ended_at) = match delivery.stage {
            Stage::Waiting { due_at } => ("waiting", Some(due_at), None),
            Stage::Held => ("held", None, None),
            Stage::Delivered { at } => ("delivered", None, Some(at)),
            Stage::Dead { at, .. } => ("dead", None, Some(at)),
            Stage::Cancelled { at, .. } => ("cancelled", None, Some(at)),
        };
        Ok(Self {
            id: delivery.id.to_string(),
            event_id: delivery.event.to_string(),
            event_type: delivery.event_type.as_str().to_owned(),
            endpoint_id: delivery.endpoint.to_string(),
            application_id: delivery.application.to_string(),
            status,
            priority: delivery.priority.as_str(),
            attempt_count: delivery.attempts,
            max_attempts: schedule.max_attempts,
            next_attempt_at: next_attempt_at.map(|at| at.to_string()),
            failure_category: delivery.failure_category.map(FailureCategory::as_str),
            last_error: delivery.last_error,
            replay_of: delivery.replay_of.map(|id| id.to_string()),
            created_at: delivery.created_at.to_string(),
            ended_at: ended_at.map(|at| at.to_string()),
            attempts: None,
        })
    }
}

impl From<Attempt> for AttemptOut {
    fn from(attempt: Attempt) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let millis = |duration: Duration| u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        Self {
            attempt_number: attempt.number,
            status: attempt.status.as_str(),
            http_status_code: attempt.response.as_ref().map(|response| response.status),
            failure_category: attempt.failure_category.map(FailureCategory::as_str),
            error_message: attempt.error,
            duration_ms: millis(attempt.duration),
            dns_ms: attempt.phases.dns.map(millis),
            connect_ms: attempt.phases.connect.map(millis),
            tls_ms: attempt.phases.tls.map(millis),
            first_byte_ms: attempt.phases.first_byte.map(millis),
            response_headers: attempt.response.as_ref().map(|response| join_headers(&response.headers)),
            response_body_sample: attempt.response.as_ref().map(|response| text(&response.body_sample)),
            scheduled_at: attempt.scheduled_at.to_string(),
            picked_at: attempt.picked_at.to_string(),
            executed_at: attempt.executed_at.to_string(),
            next_retry_at: attempt.next_retry_at.map(|at| at.to_string()),
            node: attempt.node,
        }
    }
}

fn join_headers(headers: &[(String, Bytes)]) -> BTreeMap<String, String> {
    let mut joined = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let all = joined.entry(name.clone()).or_default();
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(&String::from_utf8_lossy(value));
    }
    joined
}

/// Which deliveries to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeliveryQuery {
    /// Of this application, by id or uid.
    application_id: Option<String>,
    /// `waiting` (`pending`), `failed` (waiting after a failed attempt), `delivered` (`success`, `completed`), `dead` (`exhausted`,
    /// `dead_letter`) or `cancelled`.
    status: Option<String>,
    /// Of this type.
    event_type: Option<String>,
    /// Whose last attempt failed so: `timeout`, `server_error`, `client_error`, `network`, `dns`, `tls`, `rate_limit`,
    /// `payload_too_large`, `redirect` or `blocked_address`.
    category: Option<String>,
    /// Made at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// Made before this time: RFC 3339 or a date.
    to: Option<String>,
    /// How many rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// Where the page stands: from `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// How many rows to skip from the newest: 0 to 10,000, not beside `cursor`, which is faster.
    #[param(value_type = Option<u32>)]
    offset: Option<String>,
}

/// Lists deliveries, newest first, without their attempts.
#[utoipa::path(
    get, path = "/v1/deliveries", tag = "deliveries", operation_id = "list_deliveries", params(DeliveryQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of deliveries", body = List<DeliveryOut>), ReadProblems),
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<DeliveryQuery>,
) -> Result<Response, ApiError> {
    list_page(&api, caller.organization, query, DeliveryFilter::default()).await
}

/// Lists the deliveries of one endpoint, newest first; a deleted one's too, by its id.
#[utoipa::path(
    get, path = "/{id}/deliveries", tag = "endpoints", operation_id = "list_endpoint_deliveries",
    params(("id" = String, Path, description = "The endpoint's id or uid"), DeliveryQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of deliveries", body = List<DeliveryOut>), ReadProblems),
)]
pub async fn list_endpoint_deliveries(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Named(of): Named<EndpointId>,
    Params(query): Params<DeliveryQuery>,
) -> Result<Response, ApiError> {
    let endpoint = api.find_endpoint(caller.organization, &of).await?;
    list_page(&api, caller.organization, query, DeliveryFilter { endpoint: Some(endpoint), ..DeliveryFilter::default() }).await
}

/// One delivery with its attempts.
#[utoipa::path(
    get, path = "/v1/deliveries/{id}", tag = "deliveries", operation_id = "get_delivery", params(("id" = String, Path, description = "The delivery's id")),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The delivery", body = DeliveryOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Identified(id): Identified<DeliveryId>,
) -> Result<Response, ApiError> {
    let found = api.line.ports.history.delivery(caller.organization, id).await?;
    let (delivery, attempts) = found.ok_or_else(|| ApiError::not_found("delivery"))?;
    let attempts = attempts.into_iter().map(AttemptOut::from).collect();
    let out = DeliveryOut { attempts: Some(attempts), ..DeliveryOut::new(&api, delivery).await? };
    Ok(json(StatusCode::OK, &out))
}

/// Lists the deliveries that a query asks for, within those that `filter` already names.
pub async fn list_page(
    api: &Api,
    organization: OrganizationId,
    query: DeliveryQuery,
    mut filter: DeliveryFilter,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = PageWish::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    filter.status = read(query.status.as_deref(), "status", &mut faults, read_status);
    filter.event_type = read(query.event_type.as_deref(), "event_type", &mut faults, read_event_type);
    filter.category = read(query.category.as_deref(), "category", &mut faults, read_category);
    let from = read(query.from.as_deref(), "from", &mut faults, read_time);
    let to = read(query.to.as_deref(), "to", &mut faults, read_time);
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    filter.made = TimeRange { from, to };
    filter.application = api.filter_application(organization, query.application_id.as_deref()).await?;
    let found = page.fetch(|page| api.line.ports.history.deliveries(organization, filter.clone(), page)).await?;
    let Page { rows, next, prev } = found;
    let mut out = Vec::with_capacity(rows.len());
    for delivery in rows {
        out.push(DeliveryOut::new(api, delivery).await?);
    }
    Ok(json(StatusCode::OK, &List::from(Page { rows: out, next, prev })))
}

/// Reads the category of a failure in a query.
pub fn read_category(text: &str) -> Result<FailureCategory, String> {
    let names = || FailureCategory::ALL.map(FailureCategory::as_str).join(", ");
    FailureCategory::parse(text).ok_or_else(|| format!("must be one of {}", names()))
}

/// Our words for statuses, and those that users know from elsewhere.
fn read_status(text: &str) -> Result<DeliveryStatus, String> {
    match text {
        "waiting" => Ok(DeliveryStatus::Waiting),
        "held" => Ok(DeliveryStatus::Held),
        "pending" => Ok(DeliveryStatus::Pending),
        "failed" => Ok(DeliveryStatus::WaitingAfterFailure),
        "delivered" | "success" | "completed" => Ok(DeliveryStatus::Delivered),
        "dead" | "exhausted" | "dead_letter" => Ok(DeliveryStatus::Dead),
        "cancelled" => Ok(DeliveryStatus::Cancelled),
        _ => {
            Err("must be one of waiting, pending, failed, delivered, success, completed, dead, exhausted, dead_letter, cancelled"
                .to_owned())
        }
    }
}
