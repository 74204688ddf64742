//! What came through a source.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::SourceId,
    manage::{
        Fault,
        received::{self, ReceivedEvent, ReceivedStatus, provider_of},
        sources,
    },
    model::{Cursor, EventType, Page},
    ports::{ReceivedFilter, TimeRange},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::super::{
    Api,
    access::MayRead,
    error::{ApiError, ReadProblems},
    events::show_data,
    page::{List, RequestedPage},
    wire::{Named, Params, json, read, read_time},
};

/// An event that was received through a source.
#[derive(Serialize, ToSchema)]
pub struct ReceivedEventOut {
    #[schema(format = "uuid")]
    id: String,
    /// The source's name.
    source: String,
    event_type: String,
    /// The worst state of its deliveries. An event without deliveries is `completed`.
    #[schema(value_type = ReceivedStatusWord)]
    status: &'static str,
    /// The provider's user that it is about.
    #[schema(required = true)]
    external_user_id: Option<String>,
    /// Which profile that user is, where the source has a processor: the one that was connected first, if there are several. Null if nobody is connected.
    #[schema(required = true)]
    user_id: Option<String>,
    /// The event that it repeats.
    #[schema(format = "uuid", required = true)]
    duplicate_of: Option<String>,
    /// The number of deliveries created when it was received.
    deliveries: u32,
    /// The most attempts of one of its deliveries.
    attempt_count: u32,
    /// The most attempts that one of its deliveries may have; 0 if it has none.
    max_attempts: u32,
    #[schema(required = true)]
    last_error: Option<String>,
    #[schema(format = DateTime)]
    received_at: String,
    /// When the last of its deliveries ended, or when it was received if there are none; null while one is open.
    #[schema(format = DateTime, required = true)]
    processed_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    next_retry_at: Option<String>,
    /// What was received, byte for byte; a text if it is not JSON. Only with `payload=true`, and not after erasure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Box<RawValue>>,
    /// The same in base64, where it is neither JSON nor text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Byte)]
    payload_base64: Option<String>,
}

/// The processing status of an event that was received through a source.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "only the document uses it")]
pub enum ReceivedStatusWord {
    Pending,
    Failed,
    Completed,
    DeadLetter,
}

/// Which events of a source to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReceivedQuery {
    /// In this state. Pages may then have fewer rows than `limit`, and `next_cursor` still leads on.
    #[param(value_type = Option<ReceivedStatusWord>)]
    status: Option<String>,
    /// Of this type.
    event_type: Option<String>,
    /// About this user of the provider.
    external_user_id: Option<String>,
    /// `true` includes what was received. Pages then end early, after 2 MiB of it.
    #[param(value_type = Option<bool>)]
    payload: Option<String>,
    /// Received at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// Received before this time: RFC 3339 or a date.
    to: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor`.
    cursor: Option<String>,
}

/// A status that other queues have.
const PROCESSING: &str = "processing";

impl ReceivedQuery {
    fn read(&self, source: SourceId, faults: &mut Vec<Fault>) -> (ReceivedFilter, Option<ReceivedStatus>, bool) {
        let status = read(self.status.as_deref(), "status", faults, |text| {
            let names = || ReceivedStatus::ALL.map(ReceivedStatus::as_str).join(", ");
            ReceivedStatus::parse(text).ok_or_else(|| match text {
                PROCESSING => "cannot be searched: that an event is being processed is not stored. Until its attempt ends it is `pending` or `failed`; \
                               `in_flight` of `GET /v1/sources/{id}/stats` counts such events"
                    .to_owned(),
                _ => format!("must be one of {}", names()),
            })
        });
        let event_type = read(self.event_type.as_deref(), "event_type", faults, |text| {
            EventType::parse(text).ok_or_else(|| "must be 1 to 128 of the characters A-Z a-z 0-9 _ . : -".to_owned())
        });
        let accepted = TimeRange {
            from: read(self.from.as_deref(), "from", faults, read_time),
            to: read(self.to.as_deref(), "to", faults, read_time),
        };
        let with_payloads =
            read(self.payload.as_deref(), "payload", faults, |text| text.parse().map_err(|_| "must be true or false".to_owned()));
        (
            ReceivedFilter { source, event_type, external_user: self.external_user_id.clone(), accepted },
            status,
            with_payloads.unwrap_or(false),
        )
    }
}

/// A page of them.
pub type ReceivedEventList = List<ReceivedEventOut>;

/// Lists the events that were received through a source, newest first; without bodies, unless they are requested.
#[utoipa::path(
    get, path = "/v1/sources/{id}/events", tag = "sources", operation_id = "list_source_events",
    params(("id" = String, Path, description = "The source's id or name"), ReceivedQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of events", body = ReceivedEventList), ReadProblems),
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<ReceivedQuery>,
    Named(of): Named<SourceId>,
) -> Result<Response, ApiError> {
    let source = sources::find(&api.line, caller.organization, &of).await?;
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), None, &mut faults);
    let (filter, status, with_payloads) = query.read(source.id, &mut faults);
    let page = page.without_offset().filter(|page| !matches!(page.cursor, Cursor::NewerThan(_)));
    if page.is_none() && faults.is_empty() {
        faults.push(Fault::new("cursor", "of this list continues to older rows only: give a `next_cursor` of it"));
    }
    let Some(page) = page.filter(|_| faults.is_empty()) else { return Err(ApiError::bad_query(faults)) };
    let query = received::ReceivedQuery { filter: &filter, status, with_payloads, provider: provider_of(&source) };
    let found = received::list(&api.line, caller.organization, query, page).await?;
    let rows = found.rows.into_iter().map(|row| shown(row, source.name.to_string())).collect::<Result<_, _>>()?;
    Ok(json(StatusCode::OK, &List::from(Page { rows, next: found.next, prev: None })))
}

fn shown(ReceivedEvent { received, progress, profile, event }: ReceivedEvent, source: String) -> Result<ReceivedEventOut, ApiError> {
    let (payload, payload_base64) = event.as_ref().map(show_data).transpose()?.unwrap_or_default();
    Ok(ReceivedEventOut {
        id: received.event.id.to_string(),
        source,
        event_type: received.event.event_type.to_string(),
        status: progress.status.as_str(),
        external_user_id: received.external_user,
        user_id: profile.map(|profile| profile.as_str().to_owned()),
        duplicate_of: received.duplicate_of.map(|id| id.to_string()),
        deliveries: received.event.deliveries,
        attempt_count: progress.attempts,
        max_attempts: progress.max_attempts,
        last_error: progress.last_error,
        received_at: received.event.created_at.to_string(),
        processed_at: progress.processed_at.map(|at| at.to_string()),
        next_retry_at: progress.next_retry_at.map(|at| at.to_string()),
        payload,
        payload_base64,
    })
}
