//! Events, looked back at: lists, one with its data, and its deliveries.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use everhook_core::{
    envelope::{self, Shown},
    ids::{EventId, OrganizationId},
    manage::{
        Fault,
        finding::{self, EventSearch, FoundEvents},
    },
    model::{Event, EventType, EventTypePattern, Page},
    policy::labels::{self, Labels},
    ports::{DeliveryFilter, EventSummary, TimeRange},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    access::MayRead,
    deliveries,
    error::{ApiError, ReadProblems},
    page::{List, RequestedPage, read_count},
    uids::Uids,
    wire::{Identified, NoParams, Params, WithLabels, json, read, read_time, shown_headers},
};
use crate::api::words::PriorityWord;

/// An event.
#[derive(Serialize, ToSchema)]
pub struct EventOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "uuid")]
    application_id: String,
    #[schema(required = true)]
    application_uid: Option<String>,
    #[serde(rename = "type")]
    event_type: String,
    /// What the data is, where that is not `application/json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "text/xml")]
    content_type: Option<String>,
    /// The published data, byte for byte; a text if it is not JSON. Not included in lists or after erasure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    data: Option<Box<RawValue>>,
    /// The data in base64, instead of `data`, where it is neither JSON nor text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Byte)]
    data_base64: Option<String>,
    /// The labels of the event. Not included in lists or after erasure.
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<BTreeMap<String, String>>,
    /// Headers of every request for this event. Not included in lists. Values are shown to keys with the scope `manage`; others see `***`.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<BTreeMap<String, String>>,
    /// What it is about, for endpoints with `ordering: per_key`. Not included in lists or after erasure, nor if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<String>,
    /// The provider's user that it is about, if a provider sent it. Not included in lists or after erasure.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_user_id: Option<String>,
    /// The event that it repeats, if a provider sent it again. Not included in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    duplicate_of: Option<String>,
    /// The headers of the provider's request that its source keeps. Not included in lists or after erasure. Values are shown to keys with the scope `manage`; others see `***`.
    #[serde(skip_serializing_if = "Option::is_none")]
    received_headers: Option<BTreeMap<String, String>>,
    #[schema(value_type = PriorityWord)]
    priority: &'static str,
    #[schema(format = DateTime)]
    timestamp: String,
    idempotency_key: String,
    #[schema(required = true)]
    source: Option<String>,
    sequence_number: i64,
    /// The number of deliveries created when it was published.
    deliveries: u32,
    #[schema(format = DateTime)]
    created_at: String,
    /// When its data was erased; null if it was not erased.
    #[schema(format = DateTime, required = true)]
    erased_at: Option<String>,
}

impl EventOut {
    fn new(event: EventSummary, application_uid: Option<String>) -> Self {
        Self {
            application_uid,
            id: event.id.to_string(),
            application_id: event.application.to_string(),
            event_type: event.event_type.as_str().to_owned(),
            content_type: event.content_type.kept().map(ToOwned::to_owned),
            data: None,
            data_base64: None,
            labels: None,
            headers: None,
            ordering_key: None,
            external_user_id: None,
            duplicate_of: None,
            received_headers: None,
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
    /// Of this type, or of a family such as `order.*`.
    event_type: Option<String>,
    /// With this idempotency key.
    idempotency_key: Option<String>,
    /// With this text in their data, as it was published: 1 to 256 characters, upper and lower case as written.
    q: Option<String>,
    /// Accepted at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// Accepted before this time: RFC 3339 or a date.
    to: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
    /// `true` counts all rows, up to 1,000; not where rows are searched for one by one.
    #[param(value_type = Option<bool>)]
    count: Option<String>,
}

/// A page of events.
pub type EventList = List<EventOut>;

/// The longest text that is searched for, in characters.
const SEARCH_CHARS_MAX: usize = 256;

/// Lists events, newest first. Their data is not included. `label.<name>=<value>` filters by label. Labels, text, families of types and old
/// idempotency keys are searched for within a limit of work: the response then has `searched_until` and `search_complete`.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "list_events", params(EventQuery, ("label.{name}" = Option<String>, Query, description = "With this label; several must all fit")), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of events", body = EventList), ReadProblems),
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    WithLabels(query, labels): WithLabels<EventQuery>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let count = read(query.count.as_deref(), "count", &mut faults, read_count) == Some(true);
    let mut search = query.read(labels, &mut faults);
    let is_plain = search.is_plain();
    if !is_plain {
        faults.extend(page.faults_of_search(count));
    }
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let organization = caller.organization;
    search.application = api.filter_application(&caller, query.application_id.as_deref()).await?;
    if let Some(page) = page.without_offset().filter(|_| !is_plain) {
        let _turn = api.searches.turn(organization).await;
        let FoundEvents { rows, next, searched_until } = finding::find_events(&api.line, organization, search, page).await?;
        let (searched_until, search_complete) = (searched_until.map(|at| at.to_string()), Some(next.is_none()));
        let list = List::from(Page { rows: shown(&api, organization, rows).await?, next, prev: None });
        return Ok(json(StatusCode::OK, &List { searched_until, search_complete, ..list }));
    }
    let filter = search.filter();
    let Page { rows, next, prev } = page.fetch(|page| api.line.ports.history.events(organization, filter.clone(), page)).await?;
    let list = List::from(Page { rows: shown(&api, organization, rows).await?, next, prev });
    let list = if count { list.counted(|page| api.line.ports.history.events(organization, filter, page)).await? } else { list };
    Ok(json(StatusCode::OK, &list))
}

async fn shown(api: &Api, organization: OrganizationId, rows: Vec<EventSummary>) -> Result<Vec<EventOut>, ApiError> {
    let uids = Uids::of_events(api, organization, &rows).await?;
    let out = |event: EventSummary| {
        let uid = uids.application(event.application);
        EventOut::new(event, uid)
    };
    Ok(rows.into_iter().map(out).collect())
}

impl EventQuery {
    /// What is searched for, but for the application; what is wrong is added to the faults.
    fn read(&self, wanted: Labels, faults: &mut Vec<Fault>) -> EventSearch {
        let event_type = read(self.event_type.as_deref(), "event_type", faults, |text| {
            EventTypePattern::parse(text).ok_or_else(|| "must be an event type, or a family such as `order.*`".to_owned())
        });
        let from = read(self.from.as_deref(), "from", faults, read_time);
        let to = read(self.to.as_deref(), "to", faults, read_time);
        let text = read(self.q.as_deref(), "q", faults, |text| match text.chars().count() {
            1..=SEARCH_CHARS_MAX => Ok(text.to_owned()),
            _ => Err(format!("must be 1 to {SEARCH_CHARS_MAX} characters")),
        });
        if let Err(reason) = labels::check(&wanted) {
            faults.push(Fault::new("label", reason));
        }
        EventSearch {
            application: None,
            event_type,
            accepted: TimeRange { from, to },
            idempotency_key: self.idempotency_key.clone(),
            labels: wanted,
            text,
        }
    }
}

/// Returns an event with its data. Erased events have no `data`, `labels`, `headers` and `ordering_key`.
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
    let uids = Uids::of_events(&api, caller.organization, std::slice::from_ref(&summary)).await?;
    let uid = uids.application(summary.application);
    let Some(event) = event else { return Ok(json(StatusCode::OK, &EventOut::new(summary, uid))) };
    let (data, data_base64) = show_data(&event)?;
    let headers = shown_headers(event.headers, caller.scopes).into_iter().collect();
    let ordering_key = event.ordering_key.map(|key| key.to_string());
    let (labels, headers) = (Some(event.labels), Some(headers));
    let out = EventOut { data, data_base64, labels, headers, ordering_key, ..EventOut::new(summary, uid) };
    let out = match event.received {
        Some(received) => EventOut {
            external_user_id: received.external_user,
            duplicate_of: received.duplicate_of.map(|id| id.to_string()),
            received_headers: Some(shown_headers(received.headers, caller.scopes).into_iter().collect()),
            ..out
        },
        None => out,
    };
    Ok(json(StatusCode::OK, &out))
}

/// An event's data as it is shown: JSON, its own or a text, or else base64.
///
/// # Errors
/// [`ApiError`] if it is kept as JSON and is none.
pub fn show_data(event: &Event) -> Result<(Option<Box<RawValue>>, Option<String>), ApiError> {
    let json = match envelope::shown(event) {
        Shown::Json(data) => RawValue::from_string(String::from_utf8_lossy(data).into_owned()),
        Shown::Text(text) => serde_json::value::to_raw_value(text),
        Shown::Bytes(bytes) => return Ok((None, Some(BASE64_STANDARD.encode(bytes)))),
    };
    json.map(|json| (Some(json), None)).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, event.id = %event.id, "the data of an event is not JSON");
        ApiError::internal()
    })
}

/// Lists the deliveries of an event, newest first.
#[utoipa::path(
    get, path = "/v1/events/{id}/deliveries", tag = "events", operation_id = "list_event_deliveries",
    params(("id" = String, Path, description = "The event's id"), deliveries::DeliveryQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of deliveries", body = deliveries::DeliveryList), ReadProblems),
)]
pub async fn list_deliveries(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Identified(id): Identified<EventId>,
    Params(query): Params<deliveries::DeliveryQuery>,
) -> Result<Response, ApiError> {
    let event = find_id(&api, caller.organization, id).await?;
    deliveries::list_page(&api, &caller, query, DeliveryFilter { event: Some(event), ..DeliveryFilter::default() }).await
}

/// The event's own id, to which an alias resolves.
async fn find_id(api: &Api, organization: OrganizationId, id: EventId) -> Result<EventId, ApiError> {
    let found = api.line.ports.history.event(organization, id).await?;
    found.map(|(summary, _)| summary.id).ok_or_else(|| ApiError::not_found("event"))
}

/// Reads an event type in a query.
pub fn read_event_type(text: &str) -> Result<EventType, String> {
    EventType::parse(text).ok_or_else(|| "must be 1 to 128 of the characters A-Z a-z 0-9 _ . : -".to_owned())
}
