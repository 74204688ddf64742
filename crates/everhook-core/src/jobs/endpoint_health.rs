//! Watches endpoints that fail for days: warns their owners, disables them, and reports when they work again.
//!
//! Started by the supervisor. Where nodes share a store, the node whose duty it is checks endpoints; recoveries are reported by the node that sees them. It
//! remembers nothing: what is due follows from what the store keeps, and the store records each report once, whoever makes it.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;

use crate::{
    ids::Ref,
    line::{
        Line,
        alert::{self, HealthStory},
        settle::disabling,
    },
    model::{Cursor, Delivery, DisabledReason, Duty, Endpoint, HealthRecord, HealthReportKind, PageRequest, Stage},
    policy::endpoint_health::HealthPhase,
    ports::{DeliveryFilter, DeliveryStatus, FailingEndpoint, FailingRequest, HealthReport, StoreError},
    time::Timestamp,
};

/// How often is looked for endpoints that work again although nobody rang: another node may have died before it reported them.
const LOOK_INTERVAL: Duration = Duration::from_secs(3_600);

/// How long a node whose duty it is not waits before it looks whether it has become so, and how late a check may be because of that: the node that had the
/// duty may have died in the check. Nothing is reported twice.
const DUTY_INTERVAL: Duration = Duration::from_secs(60);
const LATE_MAX: Duration = Duration::from_secs(600);

/// How long before a check that failed is made again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How many endpoints are read at once.
const PAGE: u32 = 500;

/// How many of an endpoint's newest deliveries are looked at for its last error and its next attempt.
const DELIVERIES_READ: u32 = 10;

/// A check of all endpoints.
#[derive(Clone, Copy)]
struct Check {
    /// When the schedule wants it.
    scheduled_at: Timestamp,
    /// When it is made: later, if it failed or the duty was another node's.
    at: Timestamp,
}

/// Checks endpoints, for ever. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    let clock = line.ports.clock.clone();
    let mut check = next_check(&line, clock.now());
    let mut look_at = clock.now() + LOOK_INTERVAL;
    let mut may_have_unpublished = false;
    loop {
        tokio::select! {
            () = clock.sleep_until(check.map_or(look_at, |check| check.at.min(look_at))) => {}
            () = line.recoveries_bell.notified() => {}
        }
        let now = clock.now();
        let due = check.filter(|check| check.at <= now);
        match without_panic(look(&line, due, may_have_unpublished, now)).await {
            Ok(()) => {
                (look_at, may_have_unpublished) = (now + LOOK_INTERVAL, false);
                check = due.map_or(check, |due| after_check(&line, due, now));
            }
            Err(error) => {
                line.log_delay("checking the health of endpoints", &error);
                // Something may have been reported before it failed.
                (look_at, may_have_unpublished) = (now + RETRY_DELAY, true);
                check = due.map_or(check, |due| Some(Check { at: look_at, ..due }));
            }
        }
    }
}

/// A panic is logged, and what was looked at waits for the next time.
async fn without_panic(look: impl Future<Output = Result<(), StoreError>>) -> Result<(), StoreError> {
    AssertUnwindSafe(look).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("panic while checking the health of endpoints; the next check is made as scheduled");
        Ok(())
    })
}

fn next_check(line: &Line, after: Timestamp) -> Option<Check> {
    let settings = &line.endpoint_health;
    let scheduled_at = if settings.phase == HealthPhase::Off { None } else { settings.schedule.next_after(after) };
    scheduled_at.map(|at| Check { scheduled_at: at, at })
}

fn after_check(line: &Line, due: Check, now: Timestamp) -> Option<Check> {
    if line.held_lease.does(Duty::EndpointHealth) || now.since(due.scheduled_at) > LATE_MAX {
        next_check(line, now)
    } else {
        Some(Check { at: now + DUTY_INTERVAL, ..due })
    }
}

async fn look(line: &Line, due: Option<Check>, may_have_unpublished: bool, now: Timestamp) -> Result<(), StoreError> {
    let mut is_reported = report_recoveries(line, now).await?;
    if let Some(due) = due.filter(|_| line.held_lease.does(Duty::EndpointHealth)) {
        // As of the instant of the schedule, so that the milliseconds by which each check is late do not add a day to the time that a warning left.
        let at = if now.since(due.scheduled_at) < DUTY_INTERVAL { due.scheduled_at } else { now };
        is_reported |= check(line, at).await?;
    }
    // Otherwise they would wait for the next settlement.
    if is_reported || may_have_unpublished { alert::publish_pending(line).await } else { Ok(()) }
}

/// Reports which endpoints work again. Says whether there were any.
async fn report_recoveries(line: &Line, now: Timestamp) -> Result<bool, StoreError> {
    let mut is_any = false;
    loop {
        let recovered = line.ports.endpoint_health.recovered_endpoints(PAGE).await?;
        let is_full = recovered.len() == PAGE as usize;
        let mut is_reported = false;
        for found in recovered {
            is_reported |= report(line, found, HealthReportKind::Recovered, now).await?;
        }
        is_any |= is_reported;
        // What was reported is not listed again. Where nothing was, the next page would be the same.
        if !is_full || !is_reported {
            return Ok(is_any);
        }
    }
}

/// What a check did, or would have done.
#[derive(Default)]
struct Checked {
    warnings: u64,
    disablings: u64,
}

/// Looks at every endpoint that fails for so long that something may be due. Says whether something was reported.
async fn check(line: &Line, now: Timestamp) -> Result<bool, StoreError> {
    let settings = &line.endpoint_health;
    let mut checked = Checked::default();
    let mut after = None;
    while line.held_lease.does(Duty::EndpointHealth) {
        let (since, warned_since) = (now - settings.warning_after, now - settings.disable_after);
        let found = line.ports.endpoint_health.failing_endpoints(FailingRequest { since, warned_since, after, limit: PAGE }).await?;
        let is_last = found.len() < PAGE as usize;
        after = found.last().and_then(|last| Some((last.activity.clock.failing_since?, last.endpoint))).or(after);
        for found in found {
            let Some(due) = settings.due(&found.activity.clock, now) else { continue };
            let is_done = !settings.does(due) || report(line, found, due, now).await?;
            match due {
                HealthReportKind::Warned => checked.warnings += u64::from(is_done),
                _ => checked.disablings += u64::from(is_done),
            }
        }
        if is_last {
            break;
        }
    }
    let is_any = checked.warnings + checked.disablings > 0;
    if is_any {
        let Checked { warnings, disablings } = checked;
        let phase = settings.phase;
        tracing::info!(
            warnings,
            disablings,
            ?phase,
            "checked endpoints that fail for days: {warnings} to be warned of, {disablings} to be disabled"
        );
    }
    Ok(is_any)
}

/// Reports something about an endpoint; `false` if it was reported already, or is not true any more.
async fn report(line: &Line, found: FailingEndpoint, kind: HealthReportKind, now: Timestamp) -> Result<bool, StoreError> {
    let FailingEndpoint { endpoint, organization, activity } = found;
    let Some(endpoint) = line.ports.endpoints.endpoint(organization, &Ref::Id(endpoint)).await? else { return Ok(false) };
    // The names that people read are taken from there.
    line.catalog.application(endpoint.application).await?;
    let (last_error, next_attempt_at) = match kind {
        HealthReportKind::Recovered => (None, None),
        _ => last_deliveries(line, &endpoint).await?,
    };
    let record = HealthRecord { kind, at: now, failing_since: activity.clock.failing_since, failures: activity.consecutive_failures };
    let story = HealthStory { endpoint: &endpoint, record, activity, last_error, next_attempt_at };
    let report = HealthReport {
        endpoint: endpoint.id,
        application: endpoint.application,
        seen: activity.clock,
        record,
        alert: alert::of_health(line, &story),
        disables: (kind == HealthReportKind::Disabled).then(|| disabling(line, &endpoint, DisabledReason::Failing, now)),
    };
    let is_reported = line.ports.endpoint_health.report_health(report).await?;
    if is_reported && kind == HealthReportKind::Disabled {
        line.catalog.forget(endpoint.application);
        line.wake_up.changed(endpoint.application, endpoint.id.into());
    }
    Ok(is_reported)
}

/// Why an endpoint's last attempt failed, and when the next is, as far as its newest deliveries show it. Where none of them was attempted yet, because a
/// breaker is open or many wait, those that wait for another attempt are looked at.
async fn last_deliveries(line: &Line, endpoint: &Endpoint) -> Result<(Option<String>, Option<Timestamp>), StoreError> {
    let newest = newest_deliveries(line, endpoint, None).await?;
    let attempted = match newest.iter().any(|delivery| delivery.last_error.is_some()) {
        true => Vec::new(),
        false => newest_deliveries(line, endpoint, Some(DeliveryStatus::WaitingAfterFailure)).await?,
    };
    let due_at = |stage: &Stage| match stage {
        Stage::Waiting { due_at } => Some(*due_at),
        _ => None,
    };
    let next_attempt_at = newest.iter().chain(&attempted).filter_map(|delivery| due_at(&delivery.stage)).min();
    Ok((newest.into_iter().chain(attempted).find_map(|delivery| delivery.last_error), next_attempt_at))
}

async fn newest_deliveries(line: &Line, endpoint: &Endpoint, status: Option<DeliveryStatus>) -> Result<Vec<Delivery>, StoreError> {
    let filter = DeliveryFilter { endpoint: Some(endpoint.id), status, ..DeliveryFilter::default() };
    let page = PageRequest { limit: DELIVERIES_READ, cursor: Cursor::Newest };
    Ok(line.ports.history.deliveries(endpoint.organization, filter, page).await?.rows)
}
