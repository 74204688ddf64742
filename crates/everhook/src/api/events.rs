//! Events, looked back at: lists, one with its data, and its deliveries.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{EventId, OrganizationId},
    model::EventType,
    ports::{DeliveryFilter, EventFilter, EventSummary, TimeRange},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    access::MayRead,
    deliveries::{self, DeliveryOut},
    error::{ApiError, ReadProblems},
    page::{List, PageWish},
    wire::{Identified, NoParams, Params, json, read, read_time, shown_headers},
};

/// An event.
#[derive(Serialize, ToSchema)]
pub struct EventOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "uuid")]
    application_id: String,
    #[serde(rename = "type")]
    event_type: String,
    /// What was published, byte for byte; lists leave it out, and it is not there once it was erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    data: Option<Box<RawValue>>,
    /// What the publisher said about it; lists leave it out, and it goes with the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<BTreeMap<String, String>>,
    /// Added to every request about it; lists leave it out. Values are shown to keys that may manage, and as `***` to others.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<BTreeMap<String, String>>,
    priority: &'static str,
    #[schema(format = DateTime)]
    timestamp: String,
    idempotency_key: String,
    source: Option<String>,
    sequence_number: i64,
    /// How many deliveries it made when it was published.
    deliveries: u32,
    #[schema(format = DateTime)]
    created_at: String,
    /// When its data was erased; null if it was not.
    #[schema(format = DateTime)]
    erased_at: Option<String>,
}

impl From<EventSummary> for EventOut {
    fn from(event: EventSummary) -> Self {
        Self {
            id: event.id.to_string(),
            application_id: event.application.to_string(),
            event_type: event.event_type.as_str().to_owned(),
            data: None,
            labels: None,
            headers: None,
            priority: event.priority.as_str(),
            timestamp: event.timestamp.to_string(),
            idempotency_key: event.idempotency_key,
            source: event.source,
            sequence_number: event.sequence_number,
            deliveries: event.deliveries,
            created_at: event.created_at.to_string(),
            erased_at: event.erased_at.map(|at| at.to_string()),
        }
    }
}

/// Which events to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Of this application, by id or uid.
    application_id: Option<String>,
    /// Of this type.
    event_type: Option<String>,
    /// Accepted at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// Accepted before this time: RFC 3339 or a date.
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

/// Lists events, newest first, without their data.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "list_events", params(EventQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of events", body = List<EventOut>), ReadProblems),
)]
pub async fn list(State(api): State<Arc<Api>>, MayRead(caller): MayRead, Params(query): Params<EventQuery>) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = PageWish::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let event_type = read(query.event_type.as_deref(), "event_type", &mut faults, read_event_type);
    let from = read(query.from.as_deref(), "from", &mut faults, read_time);
    let to = read(query.to.as_deref(), "to", &mut faults, read_time);
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let application = api.filter_application(caller.organization, query.application_id.as_deref()).await?;
    let filter = EventFilter { application, event_type, accepted: TimeRange { from, to } };
    let page = page.fetch(|page| api.line.ports.history.events(caller.organization, filter.clone(), page)).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(EventOut::from))))
}

/// One event with its data; without `data`, `labels` and `headers` if that was erased.
#[utoipa::path(
    get, path = "/v1/events/{id}", tag = "events", operation_id = "get_event", params(("id" = String, Path, description = "The event's id")),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The event", body = EventOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Identified(id): Identified<EventId>,
) -> Result<Response, ApiError> {
    let found = api.line.ports.history.event(caller.organization, id).await?;
    let (summary, event) = found.ok_or_else(|| ApiError::not_found("event"))?;
    let Some(event) = event else { return Ok(json(StatusCode::OK, &EventOut::from(summary))) };
    let text = String::from_utf8_lossy(&event.data).into_owned();
    let data = RawValue::from_string(text).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, event.id = %id, "the data of an event is not JSON");
        ApiError::internal()
    })?;
    let headers = shown_headers(event.headers, caller.scopes).into_iter().collect();
    let out = EventOut { data: Some(data), labels: Some(event.labels), headers: Some(headers), ..EventOut::from(summary) };
    Ok(json(StatusCode::OK, &out))
}

/// The deliveries of one event, newest first.
#[utoipa::path(
    get, path = "/v1/events/{id}/deliveries", tag = "events", operation_id = "list_event_deliveries",
    params(("id" = String, Path, description = "The event's id"), deliveries::DeliveryQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of deliveries", body = List<DeliveryOut>), ReadProblems),
)]
pub async fn list_deliveries(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Identified(id): Identified<EventId>,
    Params(query): Params<deliveries::DeliveryQuery>,
) -> Result<Response, ApiError> {
    let event = find_id(&api, caller.organization, id).await?;
    deliveries::list_page(&api, caller.organization, query, DeliveryFilter { event: Some(event), ..DeliveryFilter::default() }).await
}

/// The event's own id, which an alias stands for.
async fn find_id(api: &Api, organization: OrganizationId, id: EventId) -> Result<EventId, ApiError> {
    let found = api.line.ports.history.event(organization, id).await?;
    found.map(|(summary, _)| summary.id).ok_or_else(|| ApiError::not_found("event"))
}

/// Reads an event type in a query.
pub fn read_event_type(text: &str) -> Result<EventType, String> {
    EventType::parse(text).ok_or_else(|| "must be 1 to 128 of the characters A-Z a-z 0-9 _ . : -".to_owned())
}
