//! Step 4: what an attempt means for its delivery, as one value that is written in one atomic write.
//!
//! Pure but for the clock and the dice it is handed. The engine gathers settlements and writes many at once.

use std::time::Duration;

use crate::{
    flow::{Line, alert, attempt::Equipment, request::USER_AGENT},
    ids::{AuditEntryId, RevisionNumber},
    lifecycle::{self, Circumstances},
    model::{
        Actor, Attempt, AuditAction, AuditEntry, DeathCause, DisabledReason, Endpoint, FailureCategory, InFlight, PhaseTimes, Report,
        Response, Sent, Stage,
    },
    policy::{
        audit::{self, Facts},
        verdict::{self, Failure, Verdict},
    },
    ports::{Disabling, Settlement},
    time::Timestamp,
};

/// An attempt whose request has ended.
pub struct Ended<'a> {
    /// Which delivery, and which attempt of it.
    pub flight: &'a InFlight,
    /// What it was made with.
    pub with: &'a Equipment,
    /// When the request was begun.
    pub executed_at: Timestamp,
    /// What shaped it, if there was one.
    pub revision: Option<RevisionNumber>,
}

/// Decides what an attempt means.
pub fn settle(line: &Line, ended: &Ended<'_>, report: Report) -> Settlement {
    let Ended { flight, with, .. } = *ended;
    let endpoint = &with.destination.endpoint;
    let now = line.ports.clock.now();
    let verdict = verdict::judge(&report.sent, &with.schedule, flight.attempt_number());
    let stage = lifecycle::settle(
        &verdict,
        &Circumstances {
            schedule: &with.schedule,
            attempt_number: flight.attempt_number(),
            endpoint: endpoint.state,
            now,
            unit: line.ports.entropy.unit(),
        },
    );
    let is_gone = matches!(stage, Stage::Dead { cause: DeathCause::Gone, .. });
    Settlement {
        delivery: flight.due.delivery,
        endpoint: flight.endpoint,
        replay_of: flight.due.replay_of,
        ordered: flight.due.order.is_some(),
        attempt: record(line, ended, verdict, stage, report),
        stage,
        url: endpoint.target.written.clone(),
        disables: is_gone.then(|| Box::new(disabling(line, endpoint, now))),
        alerts: alert::after(line, flight, with, stage, now),
    }
}

/// Nobody asked for it but the endpoint, so that it is entered as Everhook's own change.
fn disabling(line: &Line, endpoint: &Endpoint, now: Timestamp) -> Disabling {
    let reason = DisabledReason::Gone;
    let enabled = |is: bool| Facts::default().plain("enabled", is);
    let entry = AuditEntry {
        id: AuditEntryId::from_uuid(line.ports.entropy.uuid(now)),
        organization: endpoint.organization,
        at: now,
        actor: Actor::Server,
        action: AuditAction::EndpointDisable,
        resource: *endpoint.id.as_uuid(),
        note: audit::changed(&enabled(true), &enabled(false).plain("disabled_reason", reason.as_str())),
    };
    Disabling { reason, entry }
}

/// A panic of ours is a failed attempt, so that an event that trips us up cannot circle for ever.
pub fn panic_report() -> Report {
    let error = "Everhook failed while making this request".to_owned();
    let sent = Sent::Failed { category: FailureCategory::Network, error, response: None };
    Report { sent, duration: Duration::ZERO, phases: PhaseTimes::default() }
}

fn record(line: &Line, ended: &Ended<'_>, verdict: Verdict, stage: Stage, report: Report) -> Attempt {
    let Ended { flight, executed_at, revision, .. } = *ended;
    let failure = match verdict {
        Verdict::Accepted => None,
        Verdict::Refused { failure, .. } | Verdict::TryLater { failure, .. } => Some(failure),
    };
    let (failure_category, error) = match failure {
        None => (None, None),
        Some(Failure { category, error }) => (Some(category), Some(error)),
    };
    Attempt {
        number: flight.attempt_number(),
        status: lifecycle::attempt_status(stage),
        failure_category,
        error,
        response: response(report.sent),
        duration: report.duration,
        phases: report.phases,
        scheduled_at: flight.due.due_at,
        picked_at: flight.picked_at,
        executed_at,
        next_retry_at: match stage {
            Stage::Waiting { due_at } => Some(due_at),
            _ => None,
        },
        revision,
        node: line.node.clone(),
        user_agent: USER_AGENT.into(),
        breaker: flight.breaker,
    }
}

fn response(sent: Sent) -> Option<Response> {
    match sent {
        Sent::Answered(response) => Some(response),
        Sent::Failed { response, .. } => response,
        Sent::OutOfResources { .. } => None,
    }
}
