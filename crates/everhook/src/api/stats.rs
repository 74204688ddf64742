//! Statistics of an organization, or of a part of it: an application, a capability, an endpoint, a source, a retry schedule or an event type.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{LaneId, Ref},
    manage::{Fault, Noun, Refusal, schedules, sources},
    model::{Breakdown, CapabilityName, EventType, ScheduleName},
    ports::ScheduleRef,
};
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    access::{Caller, MayRead},
    endpoints::{StatsOut, StatsQuery, longest_range},
    error::{ApiError, ProblemKind, ReadProblems},
    wire::{Params, json},
    words::StatsWindow,
};

/// The period of the statistics, and what they are of.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScopedStatsQuery {
    /// The last hour, day or week: `1h`, `24h` (default) or `7d`.
    #[param(value_type = Option<StatsWindow>)]
    window: Option<String>,
    /// From the minute of this time on: RFC 3339 or a date. Cannot be combined with `window`.
    from: Option<String>,
    /// Until this time; now if absent. At most as much later than `from` as statistics are kept, 90 days by default.
    to: Option<String>,
    /// Of this application, by id or uid; of all that the key reaches if absent.
    application_id: Option<String>,
    /// Of the calls of this capability. Requires `application_id`, unless the key is limited to one application.
    capability: Option<String>,
    /// Of the attempts of this endpoint, by id or uid. This and the parameters below cannot be combined with each other or with the two above.
    endpoint_id: Option<String>,
    /// Of the attempts to deliver events that came in at this source, by id or name: to its processor and to endpoints.
    source: Option<String>,
    /// Of the attempts of deliveries with this retry schedule, by id or name; presets too. They are counted under the name that the schedule had when the
    /// delivery was created, whatever was changed since.
    retry_schedule_id: Option<String>,
    /// Of the attempts to deliver events of this type to endpoints and processors. 50 types of an organization are counted separately.
    event_type: Option<String>,
}

/// Returns statistics of attempts and calls, at a resolution of one minute: of the organization, or of one part of it.
/// They are updated once a second. The time that it takes does not depend on the number of attempts.
#[utoipa::path(
    get, path = "/v1/stats", tag = "stats", operation_id = "get_stats", params(ScopedStatsQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "The statistics", body = StatsOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<ScopedStatsQuery>,
) -> Result<Response, ApiError> {
    let scope = scope(&api, &caller, &query).await?;
    let period = StatsQuery::new(query.window, query.from, query.to);
    let (from, to) = period.range(api.line.ports.clock.now(), longest_range(api.line.retention.rollups))?;
    let statistics = api.line.ports.statistics.attempt_statistics(scope.lane, from, to).await?;
    let other_total = match scope.others {
        Some(others) => Some(api.line.ports.statistics.attempt_statistics(others, from, to).await?.total()),
        None => None,
    };
    Ok(json(StatusCode::OK, &StatsOut::from(&statistics).beside(other_total)))
}

/// What statistics are of.
struct Scope {
    /// Under which id they are kept.
    lane: LaneId,
    /// Under which id those of the same kind are kept that are not told apart, if there may be such.
    others: Option<LaneId>,
}

impl Scope {
    fn of(lane: impl Into<LaneId>) -> Self {
        Self { lane: lane.into(), others: None }
    }

    fn part(caller: &Caller, part: &Breakdown) -> Self {
        let kind = part.kind();
        Self { lane: part.lane(caller.organization), others: kind.told_apart_max().map(|_| kind.others(caller.organization)) }
    }
}

/// What the statistics are of.
async fn scope(api: &Api, caller: &Caller, query: &ScopedStatsQuery) -> Result<Scope, ApiError> {
    let alone = [
        ("endpoint_id", &query.endpoint_id),
        ("source", &query.source),
        ("retry_schedule_id", &query.retry_schedule_id),
        ("event_type", &query.event_type),
    ];
    let named: Vec<(&str, &str)> = alone.into_iter().filter_map(|(field, value)| Some((field, value.as_deref()?))).collect();
    match named[..] {
        [] => scope_of_application(api, caller, query).await,
        [(field, name)] if query.application_id.is_none() && query.capability.is_none() => match field {
            "endpoint_id" => {
                let of = Ref::parse(name).ok_or_else(|| ApiError::not_found("endpoint"))?;
                Ok(Scope::of(api.find_endpoint(caller, &of).await?))
            }
            "source" => scope_of_source(api, caller, name).await,
            "retry_schedule_id" => scope_of_schedule(api, caller, name).await,
            _ => scope_of_event_type(caller, name),
        },
        [(field, _), ..] => {
            let reason = "cannot be combined with another parameter that says what the statistics are of";
            Err(ApiError::bad_query(vec![Fault::new(field, reason)]))
        }
    }
}

async fn scope_of_application(api: &Api, caller: &Caller, query: &ScopedStatsQuery) -> Result<Scope, ApiError> {
    let application = api.filter_application(caller, query.application_id.as_deref()).await?;
    match (application, &query.capability) {
        (Some(application), Some(name)) => {
            let name = CapabilityName::parse(name).ok_or_else(|| ApiError::not_found("capability"))?;
            Ok(Scope::of(name.lane(application)))
        }
        (Some(application), None) => Ok(Scope::of(application)),
        (None, Some(_)) => Err(ApiError::bad_query(vec![Fault::new("application_id", "is required with `capability`")])),
        (None, None) => Ok(Scope::of(caller.organization)),
    }
}

async fn scope_of_source(api: &Api, caller: &Caller, name: &str) -> Result<Scope, ApiError> {
    let of = Ref::parse(name).ok_or_else(|| ApiError::not_found("source"))?;
    let source = sources::find(&api.line, caller.organization, &of).await?;
    if !caller.reaches(source.application) {
        return Err(ApiError::not_found("source"));
    }
    Ok(Scope::part(caller, &Breakdown::Source(source.id)))
}

async fn scope_of_schedule(api: &Api, caller: &Caller, name: &str) -> Result<Scope, ApiError> {
    refuse_keys_of_one_application(caller)?;
    let found = match schedules::find(&api.line, caller.organization, &ScheduleRef::parse(name)).await {
        Ok(found) => found.policy().name.clone(),
        // Endpoints may have a schedule of their own, which nobody made and named.
        Err(Refusal::NotFound(Noun::RetrySchedule)) if schedules::is_name_of_unnamed(name) => ScheduleName(name.to_owned()),
        Err(refusal) => return Err(refusal.into()),
    };
    Ok(Scope::part(caller, &Breakdown::RetrySchedule(found)))
}

fn scope_of_event_type(caller: &Caller, name: &str) -> Result<Scope, ApiError> {
    refuse_keys_of_one_application(caller)?;
    let event_type =
        EventType::parse(name).ok_or_else(|| ApiError::bad_query(vec![Fault::new("event_type", "is not the name of an event type")]))?;
    Ok(Scope::part(caller, &Breakdown::EventType(event_type)))
}

/// Event types and retry schedules are counted over all applications.
fn refuse_keys_of_one_application(caller: &Caller) -> Result<(), ApiError> {
    if caller.application.is_none() {
        return Ok(());
    }
    let words = "this key is limited to one application, and these statistics are of the whole organization";
    Err(ApiError::new(ProblemKind::KeyLimitedToApplication, words))
}
