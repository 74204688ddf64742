//! Endpoint health, as clients see it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::EndpointId,
    manage::{
        Fault,
        endpoints::{self, Health},
    },
    model::{AnswerCount, AttemptStatistics, DeliveryCounts, DeliveryEnd, FailureCategory, HealthRecord},
    policy::breaker::BreakerFacts,
    ports::WaitingBacklog,
    time::Timestamp,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::{
    Api,
    access::MayRead,
    error::{ApiError, ReadProblems},
    wire::{Named, NoParams, Params, json, read, read_time},
};
use crate::api::words::{BreakerStateWord, HealthReportWord, HealthStatus, StatsWindow};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A month can always be asked for, and sources are added up over no more: they have a row for each minute.
pub const MONTH: Duration = Duration::from_secs(31 * 24 * 3_600);

/// The longest time that statistics are added up over where they are kept for ever: its 3,653 days are read in a fraction of a second.
const RANGE_MAX: Duration = Duration::from_secs(3_653 * 24 * 3_600);

/// The health of an endpoint.
#[derive(Serialize, ToSchema)]
pub struct HealthOut {
    /// `healthy`, `failing` (its breaker is not closed, or its last three attempts failed), `warned` (it fails for days, and its owner was warned),
    /// `paused` or `disabled`.
    #[schema(value_type = HealthStatus)]
    status: &'static str,
    /// Since when it fails for good: several attempts failed over half a day, and none has succeeded. By this time it is warned of and disabled.
    #[schema(format = DateTime, required = true)]
    failing_since: Option<String>,
    /// The time after which the next check warns its owner.
    #[schema(format = DateTime, required = true)]
    warning_at: Option<String>,
    /// The time after which the next check disables it.
    #[schema(format = DateTime, required = true)]
    disable_at: Option<String>,
    /// The time of the first failure since the last success.
    #[schema(format = DateTime, required = true)]
    first_failure_at: Option<String>,
    /// The number of failed attempts since the last success.
    consecutive_failures: u32,
    #[schema(format = DateTime, required = true)]
    last_success_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    last_failure_at: Option<String>,
    /// The number of requests in progress.
    in_flight: u32,
    /// The end of a `Retry-After` of the endpoint.
    #[schema(format = DateTime, required = true)]
    held_until: Option<String>,
    /// What waits for the endpoint, is held behind another delivery of its order, or is parked.
    backlog: BacklogOut,
    circuit_breaker: BreakerStateOut,
    /// Statistics of the last 24 hours.
    stats: StatsOut,
    /// Failures of the last 24 hours by category. Categories without failures are omitted.
    error_distribution: BTreeMap<&'static str, u64>,
    /// The last 20 reports about its health, newest first.
    history: Vec<HealthRecordOut>,
}

/// A report about the health of an endpoint.
#[derive(Serialize, ToSchema)]
pub struct HealthRecordOut {
    /// `warned`, `disabled` or `recovered`.
    #[schema(value_type = HealthReportWord)]
    kind: &'static str,
    /// When it was reported.
    #[schema(format = DateTime)]
    at: String,
    /// Since when the endpoint was failing.
    #[schema(format = DateTime, required = true)]
    failing_since: Option<String>,
    /// The number of failed attempts since the last success.
    failure_count: u32,
}

/// What waits for an endpoint.
#[derive(Serialize, ToSchema)]
pub struct BacklogOut {
    /// How many deliveries, at most 1,000.
    count: u32,
    /// How many of those that were counted are parked until something outside has come.
    parked: u32,
    /// Whether there are more than `count`.
    count_is_capped: bool,
    /// When the oldest of those that were counted was created; null if there is none.
    #[schema(format = DateTime, required = true)]
    oldest_created_at: Option<String>,
}

/// The state of a circuit breaker.
#[derive(Serialize, ToSchema)]
pub struct BreakerStateOut {
    /// `closed`, `open` or `half_open`.
    #[schema(value_type = BreakerStateWord)]
    state: &'static str,
    /// The number of calls. While it is not closed, the counts that opened it are shown.
    failure_count_in_window: u32,
    success_count_in_window: u32,
    total_calls_in_window: u32,
    /// From 0 to 100.
    error_percentage: f64,
    /// The time of the first call that counts.
    #[schema(format = DateTime, required = true)]
    window_start: Option<String>,
    /// When it entered its state.
    #[schema(format = DateTime)]
    state_transition_at: String,
    /// When it permits probes, if it is open and not forced open indefinitely.
    #[schema(format = DateTime, required = true)]
    next_half_open_at: Option<String>,
    /// The number of probes since it became half-open.
    half_open_attempts: u32,
    half_open_successes: u32,
    /// The number of failed recoveries since it was last closed.
    consecutive_half_open_failures: u32,
    /// Whether it is currently forced open or closed.
    forced: bool,
    /// When the forced open state ends; null if it is not forced open, or forced until reset.
    #[schema(format = DateTime, required = true)]
    force_open_until: Option<String>,
    /// When the forced closed state ends; null if it is not forced closed, or forced until reset.
    #[schema(format = DateTime, required = true)]
    force_close_until: Option<String>,
    /// Whether Redis is configured and unavailable. The counts of a breaker are then lost when its lane moves to another node.
    redis_fallback_mode: bool,
}

/// Statistics of attempts in a period.
#[derive(Serialize, ToSchema)]
pub struct StatsOut {
    /// The number of attempts.
    total: u64,
    success: u64,
    /// The number of failed attempts, including timeouts.
    failure: u64,
    timeout: u64,
    /// The mean duration in milliseconds; null if there were no attempts.
    #[schema(required = true)]
    avg_ms: Option<f64>,
    /// The median duration in milliseconds, from a histogram: it can be off by a few percent.
    #[schema(required = true)]
    p50_ms: Option<f64>,
    #[schema(required = true)]
    p95_ms: Option<f64>,
    #[schema(required = true)]
    p99_ms: Option<f64>,
    /// From 0 to 100; null if there were no attempts.
    #[schema(required = true)]
    success_rate: Option<f64>,
    #[schema(format = DateTime, required = true)]
    last_success_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    last_failure_at: Option<String>,
    /// What calls were answered with; absent if nothing was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    answers: Option<AnswersOut>,
    /// The deliveries that ended with one of the attempts; absent if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    deliveries: Option<DeliveriesOut>,
    /// With `event_type` or `retry_schedule_id`: the number of attempts of all event types or schedules that are not counted separately, because the
    /// organization has more than 50 or 300 of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    other_total: Option<u64>,
}

/// Deliveries by the attempt that ended them.
#[derive(Serialize, ToSchema)]
pub struct DeliveriesOut {
    /// The number of deliveries that succeeded or became dead letters.
    total: u64,
    /// Those that succeeded with their first attempt.
    first_attempt: u32,
    second_attempt: u32,
    /// Those that succeeded with their third attempt or a later one.
    later_attempt: u32,
    /// Those whose last attempt failed.
    dead: u32,
    /// The share of `first_attempt` in `total`, from 0 to 100.
    first_attempt_rate: f64,
    second_attempt_rate: f64,
    later_attempt_rate: f64,
    dead_rate: f64,
}

/// What calls were answered with, by the `source` of their answers. They can be more than the requests: equal calls share one.
#[derive(Serialize, ToSchema)]
pub struct AnswersOut {
    /// The number of calls.
    total: u64,
    app: u32,
    cache: u32,
    default: u32,
    queued: u32,
    pending: u32,
    /// The number of calls without an answer.
    error: u32,
    /// The number of calls that the fallback answered because the app's answer could not be used. They are also counted under their source.
    fallback: u32,
    /// The number of calls that were let through without the app: answered by a `default` step of the fallback. They are also counted under `default`
    /// and `fallback`.
    failed_open: u32,
    /// The number of answers of the app that came after the deadline of their callers.
    late: u32,
    /// The number of calls in shadow mode in which the app answered the same as the fallback.
    shadow_same: u32,
    /// The number of calls in shadow mode in which it did not.
    shadow_different: u32,
}

/// The period of the statistics.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatsQuery {
    /// The last hour, day or week: `1h`, `24h` (default) or `7d`.
    #[param(value_type = Option<StatsWindow>)]
    window: Option<String>,
    /// From the minute of this time on: RFC 3339 or a date. Cannot be combined with `window`.
    from: Option<String>,
    /// Until this time; now if absent. At most as much later than `from` as statistics are kept, 90 days by default; of a source, at most 31 days.
    to: Option<String>,
}

/// Returns the health of an endpoint. Statistics are updated once a second.
#[utoipa::path(
    get, path = "/{id}/health", tag = "endpoints", operation_id = "get_endpoint_health",
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["read"])),
    responses((status = 200, description = "Health of the endpoint", body = HealthOut), ReadProblems),
)]
pub async fn health(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Named(of): Named<EndpointId>,
) -> Result<Response, ApiError> {
    let health = endpoints::health(&api.line, caller.organization, &of).await?;
    Ok(json(StatusCode::OK, &HealthOut::new(health, api.line.ports.breaker_windows.are_away())))
}

/// Returns statistics of an endpoint's attempts, at a resolution of one minute. They are updated once a second. A deleted endpoint is found
/// by its id.
#[utoipa::path(
    get, path = "/{id}/stats", tag = "endpoints", operation_id = "get_endpoint_stats",
    params(("id" = String, Path, description = "The endpoint's id or uid"), StatsQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "Statistics of the endpoint", body = StatsOut), ReadProblems),
)]
pub async fn stats(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Named(of): Named<EndpointId>,
    Params(query): Params<StatsQuery>,
) -> Result<Response, ApiError> {
    let endpoint = api.find_endpoint(&caller, &of).await?;
    let (from, to) = query.range(api.line.ports.clock.now(), longest_range(api.line.retention.rollups))?;
    let statistics = api.line.ports.statistics.attempt_statistics(endpoint.into(), from, to).await?;
    Ok(json(StatusCode::OK, &StatsOut::from(&statistics)))
}

/// The longest time that may be asked for: as much as is kept.
pub fn longest_range(kept_for: Option<Duration>) -> Duration {
    kept_for.unwrap_or(RANGE_MAX).clamp(MONTH, RANGE_MAX)
}

impl StatsQuery {
    /// Of these parameters.
    pub const fn new(window: Option<String>, from: Option<String>, to: Option<String>) -> Self {
        Self { window, from, to }
    }

    /// From when until when, which is not longer than given.
    pub fn range(&self, now: Timestamp, longest: Duration) -> Result<(Timestamp, Timestamp), ApiError> {
        let mut faults = Vec::new();
        let length = read(self.window.as_deref(), "window", &mut faults, |text| match text {
            _ if self.from.is_some() || self.to.is_some() => Err("cannot be combined with `from` and `to`".to_owned()),
            "1h" => Ok(HOUR),
            "24h" => Ok(DAY),
            "7d" => Ok(7 * DAY),
            _ => Err("must be 1h, 24h or 7d".to_owned()),
        });
        let from = read(self.from.as_deref(), "from", &mut faults, read_time);
        let to = read(self.to.as_deref(), "to", &mut faults, read_time);
        let end = to.unwrap_or(now);
        if to.is_some() && self.from.is_none() {
            faults.push(Fault::new("from", "is required with `to`"));
        }
        if from.is_some_and(|from| from >= end) {
            faults.push(Fault::new("to", "must be later than `from`"));
        }
        if from.is_some_and(|from| end.since(from) > longest) {
            let days = longest.as_secs() / DAY.as_secs();
            faults.push(Fault::new("to", format!("must be at most {days} days later than `from`")));
        }
        let from = from.unwrap_or_else(|| end - length.unwrap_or(DAY));
        if faults.is_empty() { Ok((from, end)) } else { Err(ApiError::bad_query(faults)) }
    }
}

impl HealthOut {
    fn new(health: Health, is_redis_away: bool) -> Self {
        let activity = &health.activity;
        Self {
            status: health.status.as_str(),
            failing_since: text(activity.clock.failing_since),
            warning_at: text(health.warning_at),
            disable_at: text(health.disable_at),
            first_failure_at: text(activity.first_failure_at),
            consecutive_failures: activity.consecutive_failures,
            last_success_at: text(activity.last_success_at),
            last_failure_at: text(activity.last_failure_at),
            in_flight: health.in_flight,
            held_until: text(health.held_until),
            backlog: BacklogOut::new(health.backlog, health.backlog_is_capped),
            circuit_breaker: BreakerStateOut::new(health.breaker, is_redis_away),
            stats: StatsOut::from(&health.statistics),
            error_distribution: health.statistics.failures.occurred().map(|(category, count)| (category.as_str(), count)).collect(),
            history: health.history.into_iter().map(HealthRecordOut::from).collect(),
        }
    }
}

impl From<HealthRecord> for HealthRecordOut {
    fn from(record: HealthRecord) -> Self {
        Self {
            kind: record.kind.as_str(),
            at: record.at.to_string(),
            failing_since: text(record.failing_since),
            failure_count: record.failures,
        }
    }
}

impl BacklogOut {
    /// What waits, and whether there is more.
    pub fn new(backlog: WaitingBacklog, is_capped: bool) -> Self {
        Self { count: backlog.count, parked: backlog.parked, count_is_capped: is_capped, oldest_created_at: text(backlog.oldest_at) }
    }
}

impl BreakerStateOut {
    /// The state of a breaker, and whether Redis is away.
    pub fn new(facts: BreakerFacts, is_redis_away: bool) -> Self {
        Self {
            state: facts.state.as_str(),
            failure_count_in_window: facts.failure_count_in_window,
            success_count_in_window: facts.success_count_in_window,
            total_calls_in_window: facts.total_calls_in_window,
            error_percentage: rounded(facts.error_percentage),
            window_start: text(facts.window_start),
            state_transition_at: facts.state_transition_at.to_string(),
            next_half_open_at: text(facts.next_half_open_at),
            half_open_attempts: facts.half_open_attempts,
            half_open_successes: facts.half_open_successes,
            consecutive_half_open_failures: facts.consecutive_half_open_failures,
            forced: facts.is_forced,
            force_open_until: text(facts.force_open_until),
            force_close_until: text(facts.force_close_until),
            redis_fallback_mode: is_redis_away,
        }
    }
}

impl From<&AttemptStatistics> for StatsOut {
    fn from(statistics: &AttemptStatistics) -> Self {
        let quantile = |share| statistics.durations.quantile(share).map(millis);
        Self {
            total: statistics.total(),
            success: statistics.successes,
            failure: statistics.failures.total(),
            timeout: statistics.failures[FailureCategory::Timeout],
            avg_ms: statistics.mean_duration().map(millis),
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            success_rate: statistics.success_rate().map(rounded),
            last_success_at: text(statistics.last_success_at),
            last_failure_at: text(statistics.last_failure_at),
            answers: AnswersOut::of(statistics),
            deliveries: DeliveriesOut::of(&statistics.deliveries),
            other_total: None,
        }
    }
}

impl StatsOut {
    /// Beside so many attempts of what is not counted separately.
    pub fn beside(self, other_total: Option<u64>) -> Self {
        Self { other_total, ..self }
    }
}

impl DeliveriesOut {
    fn of(deliveries: &DeliveryCounts) -> Option<Self> {
        let rate = |end| deliveries.rate(end).map(rounded);
        Some(Self {
            total: deliveries.total(),
            first_attempt: deliveries[DeliveryEnd::FirstAttempt],
            second_attempt: deliveries[DeliveryEnd::SecondAttempt],
            later_attempt: deliveries[DeliveryEnd::LaterAttempt],
            dead: deliveries[DeliveryEnd::Dead],
            first_attempt_rate: rate(DeliveryEnd::FirstAttempt)?,
            second_attempt_rate: rate(DeliveryEnd::SecondAttempt)?,
            later_attempt_rate: rate(DeliveryEnd::LaterAttempt)?,
            dead_rate: rate(DeliveryEnd::Dead)?,
        })
    }
}

impl AnswersOut {
    fn of(statistics: &AttemptStatistics) -> Option<Self> {
        let answers = &statistics.answers;
        (answers.calls() > 0).then(|| Self {
            total: answers.calls(),
            app: answers[AnswerCount::App],
            cache: answers[AnswerCount::Cache],
            default: answers[AnswerCount::Default],
            queued: answers[AnswerCount::Queued],
            pending: answers[AnswerCount::Pending],
            error: answers[AnswerCount::Error],
            fallback: answers[AnswerCount::Fallback],
            failed_open: answers[AnswerCount::FailedOpen],
            late: answers[AnswerCount::Late],
            shadow_same: answers[AnswerCount::ShadowSame],
            shadow_different: answers[AnswerCount::ShadowDifferent],
        })
    }
}

fn text(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.to_string())
}

pub fn millis(length: Duration) -> f64 {
    rounded(length.as_secs_f64() * 1_000.0)
}

/// Rounded to two decimals, which is precise enough to read.
pub fn rounded(n: f64) -> f64 {
    (n * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_window_or_two_ends() {
        let now = Timestamp::parse_rfc3339("2026-11-15T12:00:00Z").unwrap();
        let query = |window: Option<&str>, from: Option<&str>, to: Option<&str>| StatsQuery {
            window: window.map(str::to_owned),
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
        };
        let table = [
            (query(None, None, None), Some("2026-11-14T12:00:00Z 2026-11-15T12:00:00Z")),
            (query(Some("1h"), None, None), Some("2026-11-15T11:00:00Z 2026-11-15T12:00:00Z")),
            (query(Some("24h"), None, None), Some("2026-11-14T12:00:00Z 2026-11-15T12:00:00Z")),
            (query(Some("7d"), None, None), Some("2026-11-08T12:00:00Z 2026-11-15T12:00:00Z")),
            (query(Some("2h"), None, None), None),
            (query(None, Some("2026-11-15"), None), Some("2026-11-15T00:00:00Z 2026-11-15T12:00:00Z")),
            (query(None, Some("2026-11-01"), Some("2026-11-02")), Some("2026-11-01T00:00:00Z 2026-11-02T00:00:00Z")),
            (query(None, None, Some("2026-11-02")), None),
            (query(None, Some("2026-11-02"), Some("2026-11-02")), None),
            (query(None, Some("2026-09-01"), Some("2026-10-03")), None),
            (query(Some("1h"), Some("2026-11-15"), None), None),
            (query(None, Some("today"), None), None),
        ];
        for (query, expected) in table {
            let range = query.range(now, MONTH).ok().map(|(from, to)| format!("{from} {to}"));
            assert_eq!(range.as_deref(), expected, "{:?} {:?} {:?}", query.window, query.from, query.to);
        }
    }

    #[test]
    fn as_much_can_be_asked_for_as_is_kept_and_a_month_in_any_case() {
        let days = |count: u64| DAY * u32::try_from(count).unwrap();
        for (kept_for, longest) in
            [(Some(days(90)), days(90)), (Some(days(7)), days(31)), (Some(days(36_500)), days(3_653)), (None, days(3_653))]
        {
            assert_eq!(longest_range(kept_for), longest, "{kept_for:?}");
        }
    }
}
