//! Delivering an application's events again: what its endpoints missed, or a whole span. Both are operations.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{ApplicationId, OrganizationId, Ref},
    manage::{
        Fault,
        operations::{self, Pace, ReplayInput},
    },
    model::{Author, OperationKind, Wanted},
    time::Timestamp,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Api,
    access::MayManage,
    body::JsonBody,
    error::{ApiError, ChangeProblems},
    operations::{Begun, PaceIn, RateIn, begun, read_endpoints, read_patterns},
    run_to_completion,
    wire::{Named, NoParams, Object, read, read_time},
};
use crate::api::words::PriorityWord;

/// The period to recover.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"since": "2026-11-01"}))]
pub struct RecoverIn {
    /// Events accepted at this time or later: RFC 3339 or a date.
    #[schema(required = true)]
    since: Option<String>,
    /// Events accepted before this time; until now if absent.
    until: Option<String>,
}

/// Recovers after an outage: resends each event to each endpoint that matches it now, if the newest delivery is dead or cancelled, or if
/// there is none although the endpoint existed.
#[utoipa::path(
    post, path = "/v1/applications/{id}/recover", tag = "operations", operation_id = "recover_application", request_body = RecoverIn,
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 202, description = "The operation has started", body = Begun), ChangeProblems),
)]
pub async fn recover(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
    JsonBody(asked): JsonBody<RecoverIn>,
) -> Result<Response, ApiError> {
    let application = find_application(&api, caller.organization, &of).await?;
    let mut faults = Vec::new();
    let from = required_time(asked.since.as_deref(), "since", &mut faults);
    let to = read(asked.until.as_deref(), "until", &mut faults, read_time);
    let Some(from) = from.filter(|_| faults.is_empty()) else { return Err(ApiError::invalid(faults)) };
    let input = ReplayInput { application, from, to, event_types: Vec::new(), endpoints: Vec::new(), wanted: Wanted::Missed };
    begin(api, caller.author(), OperationKind::Recover, input, Pace::default()).await
}

/// The events to replay.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"from": "2026-11-01", "to": "2026-11-02", "event_types": ["order.*"]}))]
pub struct ReplayIn {
    /// Accepted at this time or later: RFC 3339 or a date.
    #[schema(required = true)]
    from: Option<String>,
    /// Accepted before this time: RFC 3339 or a date.
    #[schema(required = true)]
    to: Option<String>,
    /// Of these types or prefixes, such as `order.*`.
    #[serde(default)]
    event_types: Vec<String>,
    /// To these endpoints, by id or uid, whatever their event types; to the matching endpoints if absent.
    #[serde(default, alias = "webhook_ids", alias = "subscription_ids")]
    endpoint_ids: Vec<String>,
    /// `any` (default), or `failed`: only if the newest delivery is dead or cancelled.
    #[schema(value_type = Option<super::words::ReplayStatus>)]
    status: Option<String>,
    /// Unlimited if absent.
    #[schema(value_type = Option<RateIn>)]
    rate_limit: Option<Object<RateIn>>,
    /// `high`, `normal` or `low`; `low` if absent, so that live events come first.
    #[schema(value_type = Option<PriorityWord>)]
    priority: Option<String>,
    /// When to start; now if absent.
    start_at: Option<String>,
}

/// Replays events of the application. Events with an open delivery to an endpoint are skipped for it.
#[utoipa::path(
    post, path = "/v1/applications/{id}/replay", tag = "operations", operation_id = "replay_application", request_body = ReplayIn,
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 202, description = "The operation has started", body = Begun), ChangeProblems),
)]
pub async fn replay(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
    JsonBody(asked): JsonBody<ReplayIn>,
) -> Result<Response, ApiError> {
    let application = find_application(&api, caller.organization, &of).await?;
    let mut faults = Vec::new();
    let from = required_time(asked.from.as_deref(), "from", &mut faults);
    let to = required_time(asked.to.as_deref(), "to", &mut faults);
    let event_types = read_patterns(&asked.event_types, "event_types", &mut faults);
    let endpoints = read_endpoints(&asked.endpoint_ids, "endpoint_ids", &mut faults);
    let wanted = read(asked.status.as_deref(), "status", &mut faults, |text| match text {
        "any" => Ok(Wanted::Any),
        "failed" => Ok(Wanted::Failed),
        _ => Err("must be `any` or `failed`".to_owned()),
    });
    let rate_limit = asked.rate_limit.as_ref().map(|Object(rate)| rate);
    let pace = PaceIn { rate_limit, priority: asked.priority.as_deref(), start_at: asked.start_at.as_deref() }.read(&mut faults);
    let Some(from) = from.filter(|_| faults.is_empty()) else { return Err(ApiError::invalid(faults)) };
    let input = ReplayInput { application, from, to, event_types, endpoints, wanted: wanted.unwrap_or(Wanted::Any) };
    begin(api, caller.author(), OperationKind::Replay, input, pace).await
}

async fn begin(api: Arc<Api>, by: Author, kind: OperationKind, input: ReplayInput, pace: Pace) -> Result<Response, ApiError> {
    let begin = async move { operations::replay(&api.line, &by, kind, input, pace).await };
    Ok(begun(run_to_completion(begin).await??))
}

/// Whether it exists comes first: a stranger's application is not found, whatever else is wrong with the request.
pub async fn find_application(api: &Api, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<ApplicationId, ApiError> {
    let found = api.line.ports.applications.application(organization, of).await?;
    found.map(|application| application.id).ok_or_else(|| ApiError::not_found("application"))
}

fn required_time(text: Option<&str>, field: &str, faults: &mut Vec<Fault>) -> Option<Timestamp> {
    if text.is_none() {
        faults.push(Fault::new(field, "is required"));
    }
    read(text, field, faults, read_time)
}
