//! Erasing the data of events: of one at once; of an application, or by a label, as an operation.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{ApplicationId, EventId},
    manage::{
        Fault,
        erasing::{self, ErasureInput},
    },
};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Api,
    access::{Caller, MayManage},
    batches::Counted,
    body::{JsonBody, OptionalJsonBody},
    error::{ApiError, ChangeProblems},
    operations::{Begun, begun},
    replays::find_application,
    run_to_completion,
    wire::{Identified, Named, NoParams, Object, json, read, read_time},
};

/// Erases an event's data, labels and headers, and the stored responses of endpoints. Waiting deliveries are cancelled with the cause
/// `erased`, and its dead letters are discarded. The event is kept, with `erased_at`, and so is its idempotency key: publishing it again
/// does not restore the data. Erasing again has no effect.
#[utoipa::path(
    delete, path = "/v1/events/{id}/data", tag = "events", operation_id = "erase_event", params(("id" = String, Path, description = "The event's id")),
    security(("api_key" = ["manage"])),
    responses((status = 204, description = "The data was erased"), ChangeProblems),
)]
pub async fn erase_event(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(event): Identified<EventId>,
) -> Result<StatusCode, ApiError> {
    run_to_completion(async move { erasing::erase_event(&api.line, &caller.author(), event).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// A label that events have.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelIn {
    /// Its name.
    #[schema(required = true)]
    key: Option<String>,
    /// Its value.
    #[schema(required = true)]
    value: Option<String>,
}

/// The events to erase: those that match all given conditions.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"label": {"key": "customer", "value": "c-4711"}}))]
pub struct EraseByLabelIn {
    /// With this label. The operation and the audit log keep it.
    #[schema(value_type = LabelIn, required = true)]
    label: Option<Object<LabelIn>>,
    /// Of this application, by id or uid; of all if absent.
    application_id: Option<String>,
    /// Accepted at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// Accepted before this time: RFC 3339 or a date; until now if absent.
    to: Option<String>,
    /// Only count them.
    #[serde(default)]
    dry_run: bool,
}

/// Erases the data of all events that have a label and were accepted until now, as an operation. With `dry_run` the events are only
/// counted.
#[utoipa::path(
    post, path = "/v1/events/erase", tag = "events", operation_id = "erase_events", request_body = EraseByLabelIn,
    security(("api_key" = ["manage"])),
    responses(
        (status = 200, description = "The number of selected items", body = Counted),
        (status = 202, description = "The operation has started", body = Begun),
        ChangeProblems,
    ),
)]
pub async fn erase_by_label(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<EraseByLabelIn>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let label = asked.label.map(|Object(label)| {
        let mut required = |text: Option<String>, field| {
            if text.is_none() {
                faults.push(Fault::new(field, "is required"));
            }
            text.unwrap_or_default()
        };
        (required(label.key, "label.key"), required(label.value, "label.value"))
    });
    if label.is_none() {
        faults.push(Fault::new("label", "is required"));
    }
    let mut input = ErasureInput {
        application: None,
        label,
        from: read(asked.from.as_deref(), "from", &mut faults, read_time),
        to: read(asked.to.as_deref(), "to", &mut faults, read_time),
    };
    input.application = caller.application_in_body(&api, asked.application_id.as_deref(), &mut faults).await?;
    if !faults.is_empty() {
        return Err(ApiError::invalid(faults));
    }
    count_or_begin(api, caller, input, asked.dry_run).await
}

/// The events of an application to erase.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"to": "2026-11-01"}))]
pub struct EraseApplicationIn {
    /// Accepted at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// Accepted before this time: RFC 3339 or a date; until now if absent.
    to: Option<String>,
    /// Only count them.
    #[serde(default)]
    dry_run: bool,
}

/// Erases the data of the application's events that were accepted until now, or in a period, as an operation. With `dry_run` the events are
/// only counted. The application and its endpoints are kept.
#[utoipa::path(
    post, path = "/v1/applications/{id}/erase", tag = "operations", operation_id = "erase_application", request_body = Option<EraseApplicationIn>,
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["manage"])),
    responses(
        (status = 200, description = "The number of selected items", body = Counted),
        (status = 202, description = "The operation has started", body = Begun),
        ChangeProblems,
    ),
)]
pub async fn erase_application(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
    OptionalJsonBody(asked): OptionalJsonBody<EraseApplicationIn>,
) -> Result<Response, ApiError> {
    let application = Some(find_application(&api, caller.organization, &of).await?);
    let mut faults = Vec::new();
    let from = read(asked.from.as_deref(), "from", &mut faults, read_time);
    let to = read(asked.to.as_deref(), "to", &mut faults, read_time);
    if !faults.is_empty() {
        return Err(ApiError::invalid(faults));
    }
    count_or_begin(api, caller, ErasureInput { application, label: None, from, to }, asked.dry_run).await
}

async fn count_or_begin(api: Arc<Api>, caller: Caller, input: ErasureInput, is_dry: bool) -> Result<Response, ApiError> {
    if is_dry {
        let total = erasing::count_events(&api.line, caller.organization, input).await?;
        return Ok(json(StatusCode::OK, &Counted { total }));
    }
    let begin = async move { erasing::erase_events(&api.line, &caller.author(), input).await };
    Ok(begun(run_to_completion(begin).await??))
}
