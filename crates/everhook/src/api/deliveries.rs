//! Deliveries and their attempts, looked back at.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{DeliveryId, EndpointId, OrganizationId, Ref},
    manage::{
        Fault,
        finding::{self, FoundDeliveries},
    },
    model::{Delivery, FailureCategory, LaneKind, Page, Stage},
    policy::blocked::blocked,
    ports::{DeliveryFilter, DeliveryStatus, StoreError, TimeRange},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    access::{Caller, MayRead},
    attempts::{AttemptOut, with_notes},
    error::{ApiError, ReadProblems},
    events::read_event_type,
    page::{List, RequestedPage, read_count},
    uids::Uids,
    wire::{Identified, Named, NoParams, Params, json, read, read_time},
};
use crate::api::words::{DeliveryStatusFilter, DeliveryStatusWord, DestinationKindWord, EndReason, FailureCategoryWord, PriorityWord};

/// How many periods of an open breaker are read for one delivery. A schedule lasts days, and a breaker that opens more often flaps.
const OPEN_PERIODS_MAX: u32 = 200;

/// One event for one endpoint.
#[derive(Serialize, ToSchema)]
pub struct DeliveryOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "uuid")]
    event_id: String,
    event_type: String,
    /// The endpoint, if it goes to one.
    #[schema(format = "uuid", required = true)]
    endpoint_id: Option<String>,
    #[schema(required = true)]
    endpoint_uid: Option<String>,
    destination: DestinationOut,
    #[schema(format = "uuid")]
    application_id: String,
    #[schema(required = true)]
    application_uid: Option<String>,
    /// `waiting`, `held`, `parked`, `delivered`, `dead` or `cancelled`.
    #[schema(value_type = DeliveryStatusWord)]
    status: &'static str,
    /// What a parked delivery waits for. Not included otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    /// Until when a parked delivery waits at most. Not included if it has no such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    parked_until: Option<String>,
    /// Why it is dead or cancelled: `retries_exhausted`, `given_up`, `gone`, `tls_failed`, `endpoint_disabled`, `destination_deleted`, `erased` or `by_person`.
    #[schema(value_type = Option<EndReason>, required = true)]
    reason: Option<&'static str>,
    #[schema(value_type = PriorityWord)]
    priority: &'static str,
    attempt_count: u32,
    max_attempts: u32,
    #[schema(format = DateTime, required = true)]
    next_attempt_at: Option<String>,
    #[schema(value_type = Option<FailureCategoryWord>, required = true)]
    failure_category: Option<&'static str>,
    #[schema(required = true)]
    last_error: Option<String>,
    /// The delivery that this one resends.
    #[schema(format = "uuid", required = true)]
    replay_of: Option<String>,
    /// The operation that created it.
    #[schema(format = "uuid", required = true)]
    operation_id: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime, required = true)]
    ended_at: Option<String>,
    /// All attempts, oldest first, with a note for each time that the circuit breaker prevented one. Not included in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptOut>>,
}

/// Where a delivery goes.
#[derive(Serialize, ToSchema)]
pub struct DestinationOut {
    /// `endpoint`, or `channel` for a notification.
    #[schema(value_type = DestinationKindWord)]
    kind: &'static str,
    #[schema(format = "uuid")]
    id: String,
}

impl DeliveryOut {
    async fn new(api: &Api, delivery: Delivery, uids: &Uids) -> Result<Self, StoreError> {
        let schedule = api.line.catalog.schedule(delivery.organization, delivery.retry_schedule).await?;
        let (next_attempt_at, ended_at, reason) = match delivery.stage {
            Stage::Waiting { due_at } => (Some(due_at), None, None),
            Stage::Held | Stage::Parked(_) => (None, None, None),
            Stage::Delivered { at } => (None, Some(at), None),
            Stage::Dead { at, cause } => (None, Some(at), Some(cause.as_str())),
            Stage::Cancelled { at, cause } => (None, Some(at), Some(cause.as_str())),
        };
        let endpoint = (delivery.kind == LaneKind::Endpoint).then(|| delivery.lane_id.endpoint());
        let (waits_for, parked_until) = match &delivery.stage {
            Stage::Parked(parking) => (Some(parking.waits_for.to_string()), parking.expiry.map(|expiry| expiry.at)),
            _ => (None, None),
        };
        Ok(Self {
            id: delivery.id.to_string(),
            event_id: delivery.event.to_string(),
            event_type: delivery.event_type.as_str().to_owned(),
            endpoint_id: endpoint.as_ref().map(ToString::to_string),
            endpoint_uid: endpoint.and_then(|endpoint| uids.endpoint(endpoint)),
            destination: DestinationOut { kind: delivery.kind.as_str(), id: delivery.lane_id.to_string() },
            application_id: delivery.application.to_string(),
            application_uid: uids.application(delivery.application),
            status: delivery.stage.as_str(),
            waits_for,
            parked_until: parked_until.map(|at| at.to_string()),
            reason,
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
    /// For this endpoint, by id or uid.
    endpoint_id: Option<String>,
    /// Whose last attempt was answered so: a status (`503`) or a class (`5xx`). They are searched for within a limit of work: the response then has
    /// `searched_until` and `search_complete`.
    http_status: Option<String>,
    /// `waiting`, `held` (behind another of its order), `pending` (either), `parked` (until something outside has come), `failed` (waiting after a failed attempt), `delivered` (`success`, `completed`), `dead` (`exhausted`,
    /// `dead_letter`) or `cancelled`.
    #[param(value_type = Option<DeliveryStatusFilter>)]
    status: Option<String>,
    /// Of this type.
    event_type: Option<String>,
    /// By failure category of the last attempt: `timeout`, `server_error`, `client_error`, `network`, `dns`, `tls`, `rate_limit`,
    /// `payload_too_large`, `redirect` or `blocked_address`.
    #[param(value_type = Option<FailureCategoryWord>)]
    category: Option<String>,
    /// Made at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// Made before this time: RFC 3339 or a date.
    to: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
    /// `true` counts all rows, up to 1,000.
    #[param(value_type = Option<bool>)]
    count: Option<String>,
}

/// A page of them.
pub type DeliveryList = List<DeliveryOut>;

/// Lists deliveries, newest first. Attempts are not included.
#[utoipa::path(
    get, path = "/v1/deliveries", tag = "deliveries", operation_id = "list_deliveries", params(DeliveryQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of deliveries", body = DeliveryList), ReadProblems),
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<DeliveryQuery>,
) -> Result<Response, ApiError> {
    list_page(&api, &caller, query, DeliveryFilter::default()).await
}

/// Lists the deliveries of an endpoint, newest first. A deleted endpoint is found by its id.
#[utoipa::path(
    get, path = "/{id}/deliveries", tag = "endpoints", operation_id = "list_endpoint_deliveries",
    params(("id" = String, Path, description = "The endpoint's id or uid"), DeliveryQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of deliveries", body = DeliveryList), ReadProblems),
)]
pub async fn list_endpoint_deliveries(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Named(of): Named<EndpointId>,
    Params(query): Params<DeliveryQuery>,
) -> Result<Response, ApiError> {
    let endpoint = api.find_endpoint(&caller, &of).await?;
    list_page(&api, &caller, query, DeliveryFilter { endpoint: Some(endpoint), ..DeliveryFilter::default() }).await
}

/// Returns a delivery with its attempts. An entry with the status `circuit_blocked` means that the circuit breaker delayed an attempt; it
/// does not count as an attempt.
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
    show(&api, caller.organization, id).await
}

/// One delivery with its attempts.
pub async fn show(api: &Api, organization: OrganizationId, id: DeliveryId) -> Result<Response, ApiError> {
    let found = api.line.ports.history.delivery(organization, id).await?;
    let (delivery, attempts) = found.ok_or_else(|| ApiError::not_found("delivery"))?;
    let breakers = &api.line.ports.breakers;
    let periods = breakers.open_periods(delivery.lane_id, delivery.created_at, OPEN_PERIODS_MAX).await?;
    let notes = blocked(&delivery, &attempts, &periods, api.line.ports.clock.now());
    let uids = Uids::of_deliveries(api, organization, std::slice::from_ref(&delivery)).await?;
    let out = DeliveryOut { attempts: Some(with_notes(attempts, notes)), ..DeliveryOut::new(api, delivery, &uids).await? };
    Ok(json(StatusCode::OK, &out))
}

/// Lists the deliveries that a query asks for, within those that `filter` already names.
pub async fn list_page(api: &Api, caller: &Caller, query: DeliveryQuery, mut filter: DeliveryFilter) -> Result<Response, ApiError> {
    let organization = caller.organization;
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    filter.status = read(query.status.as_deref(), "status", &mut faults, read_status);
    filter.event_type = read(query.event_type.as_deref(), "event_type", &mut faults, read_event_type);
    filter.category = read(query.category.as_deref(), "category", &mut faults, read_category);
    filter.http_status = read(query.http_status.as_deref(), "http_status", &mut faults, read_http_status);
    let count = read(query.count.as_deref(), "count", &mut faults, read_count);
    if filter.endpoint.is_some() && query.endpoint_id.is_some() {
        faults.push(Fault::new("endpoint_id", "is named by the path already"));
    }
    let from = read(query.from.as_deref(), "from", &mut faults, read_time);
    let to = read(query.to.as_deref(), "to", &mut faults, read_time);
    if filter.http_status.is_some() {
        faults.extend(page.faults_of_search(count == Some(true)));
    }
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    filter.made = TimeRange { from, to };
    if let Some(name) = query.endpoint_id.as_deref() {
        let of = Ref::parse(name).ok_or_else(|| ApiError::not_found("endpoint"))?;
        filter.endpoint = Some(api.find_endpoint(caller, &of).await?);
    }
    filter.application = api.filter_application(caller, query.application_id.as_deref()).await?;
    if let Some(page) = page.without_offset().filter(|_| filter.http_status.is_some()) {
        let _turn = api.searches.turn(organization).await;
        let FoundDeliveries { rows, next, searched_until } = finding::find_deliveries(&api.line, organization, &filter, page).await?;
        let (searched_until, search_complete) = (searched_until.map(|at| at.to_string()), Some(next.is_none()));
        let list = List::from(Page { rows: shown(api, organization, rows).await?, next, prev: None });
        return Ok(json(StatusCode::OK, &List { searched_until, search_complete, ..list }));
    }
    let found = page.fetch(|page| api.line.ports.history.deliveries(organization, filter.clone(), page)).await?;
    let Page { rows, next, prev } = found;
    let list = List::from(Page { rows: shown(api, organization, rows).await?, next, prev });
    let is_counted = count == Some(true);
    let list = if is_counted { list.counted(|page| api.line.ports.history.deliveries(organization, filter, page)).await? } else { list };
    Ok(json(StatusCode::OK, &list))
}

async fn shown(api: &Api, organization: OrganizationId, rows: Vec<Delivery>) -> Result<Vec<DeliveryOut>, ApiError> {
    let (mut out, uids) = (Vec::with_capacity(rows.len()), Uids::of_deliveries(api, organization, &rows).await?);
    for delivery in rows {
        out.push(DeliveryOut::new(api, delivery, &uids).await?);
    }
    Ok(out)
}

/// Reads the category of a failure in a query.
pub fn read_category(text: &str) -> Result<FailureCategory, String> {
    let names = || FailureCategory::ALL.map(FailureCategory::as_str).join(", ");
    FailureCategory::parse(text).ok_or_else(|| format!("must be one of {}", names()))
}

/// Reads a status, or a class of them.
fn read_http_status(text: &str) -> Result<(u16, u16), String> {
    let class = text.strip_suffix("xx").filter(|class| class.len() == 1).and_then(|class| class.parse::<u16>().ok());
    let range = match class {
        Some(class) => Some((class * 100, class * 100 + 99)),
        None => text.parse().ok().map(|status| (status, status)),
    };
    range
        .filter(|(first, last)| (100..=599).contains(first) && *last <= 599)
        .ok_or_else(|| "must be a status such as `503`, or a class such as `5xx`".to_owned())
}

/// Every word that `status` understands: ours, and those that users know from elsewhere.
pub const STATUS_WORDS: [&str; 12] = [
    "waiting",
    "held",
    "parked",
    "pending",
    "failed",
    "delivered",
    "success",
    "completed",
    "dead",
    "exhausted",
    "dead_letter",
    "cancelled",
];

/// Our words for statuses, and those that users know from elsewhere.
pub fn read_status(text: &str) -> Result<DeliveryStatus, String> {
    match text {
        "waiting" => Ok(DeliveryStatus::Waiting),
        "held" => Ok(DeliveryStatus::Held),
        "parked" => Ok(DeliveryStatus::Parked),
        "pending" => Ok(DeliveryStatus::Pending),
        "failed" => Ok(DeliveryStatus::WaitingAfterFailure),
        "delivered" | "success" | "completed" => Ok(DeliveryStatus::Delivered),
        "dead" | "exhausted" | "dead_letter" => Ok(DeliveryStatus::Dead),
        "cancelled" => Ok(DeliveryStatus::Cancelled),
        // Known to the owner of the lane for the milliseconds of an attempt: decision 0078.
        "processing" | "in_flight" => {
            Err("cannot be searched: that an attempt is under way is not stored. Until it ends, the delivery is `waiting`; \
                                           `in_flight` of `GET /v1/endpoints/{id}/health` counts the attempts under way"
                .to_owned())
        }
        _ => Err(format!("must be one of {}", STATUS_WORDS.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_status_is_answered_with_every_word_that_is_understood() {
        assert!(STATUS_WORDS.iter().all(|word| read_status(word).is_ok()));
        let reason = read_status("bogus").unwrap_err();
        assert_eq!(reason, format!("must be one of {}", STATUS_WORDS.join(", ")));
        assert!(reason.contains("held"));
        for word in ["processing", "in_flight"] {
            let reason = read_status(word).unwrap_err();
            assert!(reason.contains("`waiting`") && reason.contains("/health"), "{reason}");
        }
    }
}
