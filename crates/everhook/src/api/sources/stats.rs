//! How a source does, as clients see it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::SourceId,
    manage::sources::{self, SourceReport},
    model::{EventCounts, LatencyHistogram, SourceStatistics, SourceTally},
    time::Timestamp,
};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::{
    Api,
    access::MayRead,
    endpoints::{BacklogOut, MONTH, StatsQuery, millis, rounded},
    error::{ApiError, ReadProblems},
    wire::{Named, Params, json},
};

/// Statistics of a source in a period.
#[derive(Serialize, ToSchema)]
pub struct SourceStatsOut {
    #[schema(format = DateTime)]
    from: String,
    #[schema(format = DateTime)]
    to: String,
    /// The number of accepted requests. A request may carry many events.
    accepted: u64,
    /// The number of rejected requests.
    rejected: u64,
    /// Rejected requests by reason, such as `bad_signature`.
    rejected_by_reason: BTreeMap<String, u64>,
    /// The number of handshakes that were answered.
    handshakes: u64,
    /// Received events per minute, on average over the period.
    received_per_minute: f64,
    /// Events of all types.
    events: EventCountsOut,
    /// The same by event type, for the first 50 types of the period.
    events_by_type: BTreeMap<String, EventCountsOut>,
    /// Events of other types.
    other_events: EventCountsOut,
    /// The time from the receipt of an event to the end of a successful delivery of it, without replays.
    latency: LatencyOut,
    /// What waits for the source's processor; null if it has none.
    #[schema(required = true)]
    backlog: Option<BacklogOut>,
    /// How many events the processor is handling now; null if the source has none, or another node handles its events.
    #[schema(required = true)]
    in_flight: Option<u32>,
    /// The length of a step of `series`, in seconds.
    step_seconds: u64,
    /// The same step by step, the oldest first. Steps without requests and attempts are omitted.
    series: Vec<SourceStepOut>,
}

/// Events by processing status.
#[derive(Serialize, ToSchema)]
pub struct EventCountsOut {
    /// Events that were received, duplicates included.
    received: u64,
    /// Successful deliveries: to the processor or to an endpoint.
    completed: u64,
    /// Failed attempts, including the last ones of dead deliveries.
    failed_attempts: u64,
    /// Deliveries that became dead letters.
    dead: u64,
    /// The share of attempts that failed, from 0 to 100; null if there were none.
    #[schema(required = true)]
    failure_rate: Option<f64>,
}

/// Latencies in milliseconds. Percentiles are from a histogram: they can be off by a few percent. Null if nothing was completed.
#[derive(Serialize, ToSchema)]
pub struct LatencyOut {
    #[schema(required = true)]
    avg_ms: Option<f64>,
    #[schema(required = true)]
    p50_ms: Option<f64>,
    #[schema(required = true)]
    p95_ms: Option<f64>,
    #[schema(required = true)]
    p99_ms: Option<f64>,
}

/// One step of a series.
#[derive(Serialize, ToSchema)]
pub struct SourceStepOut {
    /// The start of the step.
    #[schema(format = DateTime)]
    at: String,
    accepted: u64,
    rejected: u64,
    handshakes: u64,
    received: u64,
    completed: u64,
    failed_attempts: u64,
    dead: u64,
    #[schema(required = true)]
    p95_ms: Option<f64>,
}

/// Returns statistics of a source, at a resolution of one minute: requests, events, latency from receipt to completion, and what waits. They are updated
/// once a second.
#[utoipa::path(
    get, path = "/v1/sources/{id}/stats", tag = "sources", operation_id = "get_source_stats",
    params(("id" = String, Path, description = "The source's id or name"), StatsQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "Statistics of the source", body = SourceStatsOut), ReadProblems),
)]
pub async fn stats(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Named(of): Named<SourceId>,
    Params(query): Params<StatsQuery>,
) -> Result<Response, ApiError> {
    let source = sources::find(&api.line, caller.organization, &of).await?;
    let (from, to) = query.range(api.line.ports.clock.now(), MONTH)?;
    let report = sources::statistics(&api.line, &source, from, to).await?;
    Ok(json(StatusCode::OK, &SourceStatsOut::new(report, from, to)))
}

impl SourceStatsOut {
    fn new(SourceReport { all, step, series, backlog, in_flight }: SourceReport, from: Timestamp, to: Timestamp) -> Self {
        let events = all.all_events();
        let minutes = (to.since(from).as_secs_f64() / 60.0).max(1.0);
        Self {
            from: from.to_string(),
            to: to.to_string(),
            accepted: all.accepted,
            rejected: all.rejections(),
            handshakes: all.handshakes,
            received_per_minute: rounded(events.received as f64 / minutes),
            events: events.into(),
            events_by_type: all.events.iter().map(|(name, counts)| (name.clone(), (*counts).into())).collect(),
            other_events: all.other_events.into(),
            latency: LatencyOut::new(&all),
            rejected_by_reason: all.rejected,
            backlog: backlog.map(|(backlog, is_capped)| BacklogOut::new(backlog, is_capped)),
            in_flight,
            step_seconds: step.as_secs(),
            series: series.iter().map(SourceStepOut::from).collect(),
        }
    }
}

impl From<EventCounts> for EventCountsOut {
    fn from(counts: EventCounts) -> Self {
        let EventCounts { received, completed, failed, dead } = counts;
        Self { received, completed, failed_attempts: failed, dead, failure_rate: counts.failure_rate().map(rounded) }
    }
}

impl LatencyOut {
    fn new(statistics: &SourceStatistics) -> Self {
        let of = |share| quantile(&statistics.latencies, share);
        Self { avg_ms: statistics.mean_latency().map(millis), p50_ms: of(0.5), p95_ms: of(0.95), p99_ms: of(0.99) }
    }
}

impl From<&SourceTally> for SourceStepOut {
    fn from(SourceTally { minute, statistics, .. }: &SourceTally) -> Self {
        let events = statistics.all_events();
        Self {
            at: minute.to_string(),
            accepted: statistics.accepted,
            rejected: statistics.rejections(),
            handshakes: statistics.handshakes,
            received: events.received,
            completed: events.completed,
            failed_attempts: events.failed,
            dead: events.dead,
            p95_ms: quantile(&statistics.latencies, 0.95),
        }
    }
}

fn quantile(latencies: &LatencyHistogram, share: f64) -> Option<f64> {
    latencies.quantile(share).map(millis)
}
