//! Endpoint health: its status, its breaker, and its statistics.

use std::time::Duration;

use super::{breaker::restored, find};
use crate::{
    ids::{EndpointId, OrganizationId, Ref},
    line::Line,
    manage::Refusal,
    model::{ApplicationKind, AttemptStatistics, BreakerState, Endpoint, EndpointActivity, EndpointState, HealthRecord},
    policy::breaker::BreakerFacts,
    ports::{LaneReport, StoreError, WaitingBacklog},
    time::Timestamp,
};

/// How far back the statistics of an endpoint's health go.
const STATISTICS_FOR: Duration = Duration::from_secs(24 * 3_600);

/// How many waiting deliveries are counted: reading as many takes a millisecond or two.
pub const BACKLOG_COUNT_MAX: u32 = 1_000;

/// From how many failures in a row on an endpoint counts as failing. One or two happen to any.
const FAILING_FROM: u32 = 3;

/// The health of an endpoint.
#[derive(Clone, Debug)]
pub struct Health {
    /// In one word.
    pub status: HealthStatus,
    /// Since its last success.
    pub activity: EndpointActivity,
    /// The state of its breaker.
    pub breaker: BreakerFacts,
    /// What happened in the last 24 hours.
    pub statistics: AttemptStatistics,
    /// How many requests are under way.
    pub in_flight: u32,
    /// Until when it asked to be left alone.
    pub held_until: Option<Timestamp>,
    /// What waits for it, counted up to [`BACKLOG_COUNT_MAX`].
    pub backlog: WaitingBacklog,
    /// Whether more wait than were counted.
    pub backlog_is_capped: bool,
    /// When its owner is warned if it continues to fail; `None` if it does not fail for long, or nobody is warned.
    pub warning_at: Option<Timestamp>,
    /// When it is disabled then.
    pub disable_at: Option<Timestamp>,
    /// What was reported about it, the newest first.
    pub history: Vec<HealthRecord>,
}

/// The health of an endpoint in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthStatus {
    /// It gets events, and takes them.
    Healthy,
    /// Its breaker is not closed, or its last three attempts failed.
    Failing,
    /// It fails for days, and its owner was warned.
    Warned,
    /// Nothing is sent to it, and its deliveries wait.
    Paused,
    /// It gets no events.
    Disabled,
}

impl HealthStatus {
    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Failing => "failing",
            Self::Warned => "warned",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
        }
    }
}

/// Reads the health of an endpoint.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such endpoint.
pub async fn health(line: &Line, organization: OrganizationId, of: &Ref<EndpointId>) -> Result<Health, Refusal> {
    let endpoint = find(line, organization, of).await?;
    let now = line.ports.clock.now();
    let activity = activity(line, endpoint.id).await?;
    // What ended in this very instant counts too.
    let end = now + Duration::from_micros(1);
    let statistics = line.ports.statistics.attempt_statistics(endpoint.id.into(), now - STATISTICS_FOR, end).await?;
    let LaneReport { breaker, in_flight, held_until } = lane(line, &endpoint, now).await?;
    let mut backlog = line.ports.delivery_control.waiting_backlog(endpoint.id.into(), BACKLOG_COUNT_MAX + 1).await?;
    let is_capped = backlog.count > BACKLOG_COUNT_MAX;
    backlog.count = backlog.count.min(BACKLOG_COUNT_MAX);
    backlog.parked = backlog.parked.min(backlog.count);
    let status = status(&endpoint, &activity, breaker.state);
    let (warning_at, disable_at) = deadlines(line, &endpoint, &activity).await?;
    let history = line.ports.endpoint_health.health_history(endpoint.id).await?;
    Ok(Health {
        status,
        activity,
        breaker,
        statistics,
        in_flight,
        held_until,
        backlog,
        backlog_is_capped: is_capped,
        warning_at,
        disable_at,
        history,
    })
}

/// The state of an endpoint's lane: as its owner knows it, or as the store keeps it where that has nothing of it in memory.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub(in crate::manage) async fn lane(line: &Line, endpoint: &Endpoint, now: Timestamp) -> Result<LaneReport, StoreError> {
    if let Some(report) = line.lanes.report(endpoint.id.into()).await {
        return Ok(report);
    }
    let row = line.ports.breakers.breaker(endpoint.id.into()).await?;
    Ok(LaneReport { breaker: restored(endpoint, row.as_ref(), now).facts(now), in_flight: 0, held_until: None })
}

/// The activity of an endpoint since its last success.
///
/// # Errors
/// [`Refusal::Store`] if the store cannot be read.
pub async fn activity(line: &Line, endpoint: EndpointId) -> Result<EndpointActivity, Refusal> {
    let found = line.ports.statistics.activities(vec![endpoint.into()]).await?;
    Ok(found.into_iter().next().unwrap_or_default())
}

/// When something is done about an endpoint that fails: nothing while it gets no requests, and nothing ever if its failures cannot be reported to it.
async fn deadlines(
    line: &Line,
    endpoint: &Endpoint,
    activity: &EndpointActivity,
) -> Result<(Option<Timestamp>, Option<Timestamp>), StoreError> {
    if endpoint.state != EndpointState::Enabled || endpoint.paused_at.is_some() || activity.clock.failing_since.is_none() {
        return Ok((None, None));
    }
    let view = line.catalog.application(endpoint.application).await?;
    let is_checked = view.is_some_and(|view| view.application.kind != ApplicationKind::Operational);
    Ok(if is_checked { line.endpoint_health.deadlines(&activity.clock) } else { (None, None) })
}

/// What a person decided comes before what requests show.
fn status(endpoint: &Endpoint, activity: &EndpointActivity, breaker: BreakerState) -> HealthStatus {
    if endpoint.state != EndpointState::Enabled {
        HealthStatus::Disabled
    } else if endpoint.paused_at.is_some() {
        HealthStatus::Paused
    } else if activity.clock.warned_at.is_some() {
        HealthStatus::Warned
    } else if breaker != BreakerState::Closed || activity.consecutive_failures >= FAILING_FROM {
        HealthStatus::Failing
    } else {
        HealthStatus::Healthy
    }
}
