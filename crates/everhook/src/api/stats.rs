//! Statistics of an organization, an application, an endpoint or a capability.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{LaneId, Ref},
    manage::Fault,
    model::CapabilityName,
};
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    access::{Caller, MayRead},
    endpoints::{StatsOut, StatsQuery},
    error::{ApiError, ReadProblems},
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
    /// Until this time, at most 31 days later; now if absent.
    to: Option<String>,
    /// Of this application, by id or uid; of all that the key reaches if absent.
    application_id: Option<String>,
    /// Of the calls of this capability. Requires `application_id`, unless the key is limited to one application.
    capability: Option<String>,
    /// Of the attempts of this endpoint, by id or uid. Cannot be combined with `application_id` and `capability`.
    endpoint_id: Option<String>,
}

/// Returns statistics of attempts and calls, at a resolution of one minute: of the organization, or of one application, endpoint or capability.
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
    let (from, to) = period.range(api.line.ports.clock.now())?;
    let statistics = api.line.ports.statistics.attempt_statistics(scope, from, to).await?;
    Ok(json(StatusCode::OK, &StatsOut::from(&statistics)))
}

/// What the statistics are of.
async fn scope(api: &Api, caller: &Caller, query: &ScopedStatsQuery) -> Result<LaneId, ApiError> {
    if let Some(name) = &query.endpoint_id {
        if query.application_id.is_some() || query.capability.is_some() {
            let reason = "cannot be combined with `application_id` and `capability`";
            return Err(ApiError::bad_query(vec![Fault::new("endpoint_id", reason)]));
        }
        let of = Ref::parse(name).ok_or_else(|| ApiError::not_found("endpoint"))?;
        return Ok(api.find_endpoint(caller, &of).await?.into());
    }
    let application = api.filter_application(caller, query.application_id.as_deref()).await?;
    match (application, &query.capability) {
        (Some(application), Some(name)) => {
            let name = CapabilityName::parse(name).ok_or_else(|| ApiError::not_found("capability"))?;
            Ok(name.lane(application))
        }
        (Some(application), None) => Ok(application.into()),
        (None, Some(_)) => Err(ApiError::bad_query(vec![Fault::new("application_id", "is required with `capability`")])),
        (None, None) => Ok(caller.organization.into()),
    }
}
