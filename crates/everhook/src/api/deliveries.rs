//! Deliveries and their attempts, looked back at.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{DeliveryId, EndpointId, OrganizationId},
    model::{Delivery, FailureCategory, Page, Stage},
    policy::blocked::blocked,
    ports::{DeliveryFilter, DeliveryStatus, StoreError, TimeRange},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    access::MayRead,
    attempts::{AttemptOut, with_notes},
    error::{ApiError, ReadProblems},
    events::read_event_type,
    page::{List, PageWish},
    wire::{Identified, Named, NoParams, Params, json, read, read_time},
};

/// How many times that a breaker was open are looked at for one delivery. A schedule lasts days, and a breaker that opens more often flaps.
const OPEN_PERIODS_MAX: u32 = 200;

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
    /// `waiting`, `held`, `delivered`, `dead` or `cancelled`.
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
    /// The operation that made it.
    #[schema(format = "uuid")]
    operation_id: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    /// Every attempt, oldest first, and a note for each time that the circuit breaker kept one from being made; lists leave them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptOut>>,
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
            operation_id: delivery.operation.map(|id| id.to_string()),
            created_at: delivery.created_at.to_string(),
            ended_at: ended_at.map(|at| at.to_string()),
            attempts: None,
        })
    }
}

/// Which deliveries to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeliveryQuery {
    /// Of this application, by id or uid.
    application_id: Option<String>,
    /// `waiting`, `held` (behind another of its order), `pending` (either), `failed` (waiting after a failed attempt), `delivered` (`success`, `completed`), `dead` (`exhausted`,
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

/// One delivery with its attempts. A note with the status `circuit_blocked` tells that the circuit breaker kept an attempt waiting; it is not counted.
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
    let breakers = &api.line.ports.breakers;
    let periods = breakers.open_periods(delivery.endpoint, delivery.created_at, OPEN_PERIODS_MAX).await?;
    let notes = blocked(&delivery, &attempts, &periods, api.line.ports.clock.now());
    let out = DeliveryOut { attempts: Some(with_notes(attempts, notes)), ..DeliveryOut::new(&api, delivery).await? };
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
