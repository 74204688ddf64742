//! Retry schedules: the built-in presets, to be looked at.

use axum::{
    extract::{Path, rejection::PathRejection},
    response::Response,
};
use everhook_core::{
    model::{Backoff, Jitter, RetrySchedule, Strategy},
    policy::presets,
};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    access::MayRead,
    error::{ApiError, ReadProblems},
    page::List,
    wire::{NoParams, json},
};

/// When failed deliveries are tried again, how often, and when to stop at once.
#[derive(Serialize, ToSchema)]
pub struct ScheduleOut {
    name: String,
    /// Presets are built in and read-only.
    preset: bool,
    /// `exponential`, `linear` or `custom`.
    strategy: &'static str,
    /// The delays between attempts in seconds, used as written; past the end the last one repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    intervals: Option<Vec<f64>>,
    /// The rule that makes the delays.
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<GrowthOut>,
    /// How many attempts at most, the first included.
    max_attempts: u32,
    /// How far a delay may be moved, as a share of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<f64>,
    /// How much later a delay may become.
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ms: Option<u64>,
    /// HTTP statuses that end a delivery at once.
    give_up_on: Vec<u16>,
    /// How long one attempt may take, where the endpoint does not say.
    timeout_ms: Option<u64>,
}

/// `base × multiplierⁿ`, at most `max`.
#[derive(Serialize, ToSchema)]
pub struct GrowthOut {
    base_ms: u64,
    multiplier: f64,
    max_ms: u64,
}

impl From<RetrySchedule> for ScheduleOut {
    fn from(schedule: RetrySchedule) -> Self {
        let (strategy, backoff) = match schedule.strategy {
            Strategy::Exponential(backoff) => ("exponential", backoff),
            Strategy::Linear(backoff) => ("linear", backoff),
            Strategy::Custom(intervals) => ("custom", Backoff::Intervals(intervals)),
        };
        let (intervals, growth) = match backoff {
            Backoff::Intervals(intervals) => (Some(intervals.iter().map(std::time::Duration::as_secs_f64).collect()), None),
            Backoff::Growing { base, multiplier, max } => {
                (None, Some(GrowthOut { base_ms: millis(base), multiplier, max_ms: millis(max) }))
            }
        };
        let (jitter, jitter_ms) = match schedule.jitter {
            Jitter::Share(share) => (Some(share), None),
            Jitter::Later(most) => (None, Some(millis(most))),
        };
        Self {
            preset: presets::NAMES.contains(&schedule.name.0.as_str()),
            name: schedule.name.0,
            strategy,
            intervals,
            growth,
            max_attempts: schedule.max_attempts,
            jitter,
            jitter_ms,
            give_up_on: schedule.give_up_on,
            timeout_ms: schedule.timeout.map(millis),
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Lists the built-in retry schedules.
#[utoipa::path(
    get, path = "/v1/retry-schedules", tag = "retry schedules", operation_id = "list_retry_schedules", security(("api_key" = ["read"])),
    responses((status = 200, description = "All retry schedules", body = List<ScheduleOut>), ReadProblems),
)]
pub async fn list(_caller: MayRead, _query: NoParams) -> Response {
    let data = presets::NAMES.into_iter().filter_map(presets::preset).map(ScheduleOut::from).collect();
    json(StatusCode::OK, &List { data, next_cursor: None, prev_cursor: None })
}

/// One retry schedule, by name.
#[utoipa::path(
    get, path = "/v1/retry-schedules/{name}", tag = "retry schedules", operation_id = "get_retry_schedule",
    params(("name" = String, Path, description = "The schedule's name")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The retry schedule", body = ScheduleOut), ReadProblems),
)]
pub async fn get(_caller: MayRead, _query: NoParams, name: Result<Path<String>, PathRejection>) -> Result<Response, ApiError> {
    let found = name.ok().and_then(|Path(name)| presets::preset(&name));
    let schedule = found.ok_or_else(|| ApiError::not_found("retry schedule"))?;
    Ok(json(StatusCode::OK, &ScheduleOut::from(schedule)))
}
