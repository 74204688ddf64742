//! Step 4: what an attempt means, decided once and here: what is written, in one atomic write, and what its lane does from now on. The engine and the stores
//! apply it and decide nothing.
//!
//! Pure but for the clock and the dice it is handed. The engine gathers settlements and writes many at once.

use std::time::Duration;

use crate::{
    catalog::Destination,
    ids::{AuditEntryId, RevisionNumber},
    lifecycle::{self, SettlementFacts},
    line::{Line, alert, attempt::AttemptContext, callback::EndedJob, request::USER_AGENT},
    model::{
        Actor, Attempt, AttemptStatus, AuditAction, AuditEntry, DeathCause, DisabledReason, Endpoint, FailureCategory, InFlight,
        PhaseTimes, Report, Response, Sent, Stage,
    },
    policy::{
        audit::{self, Facts},
        breaker::CallOutcome,
        retry_after,
        verdict::{self, Failure, Verdict},
    },
    ports::{Disabling, Settlement},
    time::Timestamp,
};

/// An attempt whose request has ended.
pub struct EndedAttempt<'a> {
    /// Which delivery, and which attempt of it.
    pub flight: &'a InFlight,
    /// What it was made with.
    pub with: &'a AttemptContext,
    /// When the request was begun.
    pub executed_at: Timestamp,
    /// What shaped it, if there was one.
    pub revision: Option<RevisionNumber>,
}

/// Everything that follows from an attempt. That it is counted in the statistics follows from every one.
pub struct Outcome {
    /// What is written: the attempt, the delivery's stage, and what follows from these. Boxed, because it passes through many hands before the store's.
    pub settlement: Box<Settlement>,
    /// What its lane does.
    pub lane: LaneOutcome,
    /// The job that ended with it, if it was one.
    pub ended_job: Option<EndedJob>,
}

/// What an attempt means for its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOutcome {
    /// What the lane's circuit breaker counts.
    pub call: CallOutcome,
    /// Whether the lane waits, as the endpoint asked it to.
    pub hold: LaneHold,
    /// Nothing more is sent in the lane: the endpoint said that it is gone.
    pub closes: bool,
}

/// What an attempt changes about how long its lane waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneHold {
    /// Nothing.
    Unchanged,
    /// The lane does not wait any more.
    Lifted,
    /// The whole lane waits until then, so that its other deliveries do not spend their attempts on an endpoint that asked for patience.
    Until(Timestamp),
}

/// Decides what an attempt means.
pub fn settle(line: &Line, ended: &EndedAttempt<'_>, report: Report) -> Outcome {
    let EndedAttempt { flight, with, .. } = *ended;
    let destination = &with.destination;
    let now = line.ports.clock.now();
    // A mail server's certificate is the operator's to correct, and all mail waits for that: it is tried as often as the schedule says.
    let judged_as = if destination.endpoint().is_some() { flight.scheduled_number() } else { 1 };
    let verdict = verdict::judge(&report.sent, &with.schedule, judged_as);
    let stage = lifecycle::settle(
        &verdict,
        &SettlementFacts {
            schedule: &with.schedule,
            attempt_number: flight.scheduled_number(),
            endpoint: destination.state(),
            now,
            unit: line.ports.entropy.unit(),
        },
    );
    let is_gone = matches!(stage, Stage::Dead { cause: DeathCause::Gone, .. });
    let gone = destination.endpoint().filter(|_| is_gone);
    let ended_job = match destination {
        Destination::Capability(to) if stage.has_ended() => Some(EndedJob { organization: to.lane.organization, job: flight.due.event }),
        _ => None,
    };
    let settlement = Box::new(Settlement {
        delivery: flight.due.delivery,
        lane_id: flight.lane_id,
        replay_of: flight.due.replay_of,
        ordered: flight.due.order.is_some(),
        attempt: record(line, ended, verdict, &stage, report),
        target: destination.target().to_owned(),
        disables: gone.map(|endpoint| Box::new(disabling(line, endpoint, DisabledReason::Gone, now))),
        alerts: alert::after(line, flight, with, &stage, now),
        stage,
    });
    let lane = match destination {
        Destination::Capability(_) => lane_outcome_of_app(&settlement.attempt, now),
        // What one caller's server asks for does not hold up the others.
        Destination::Callback(_) => LaneOutcome { hold: LaneHold::Unchanged, ..lane_outcome(&settlement.attempt, false, now) },
        _ => lane_outcome(&settlement.attempt, settlement.disables.is_some(), now),
    };
    Outcome { settlement, lane, ended_job }
}

fn lane_outcome(attempt: &Attempt, is_gone: bool, now: Timestamp) -> LaneOutcome {
    let call = match attempt.failure_category {
        // One that parks its delivery has answered, too.
        None => CallOutcome::Success,
        // It only asks for patience.
        Some(FailureCategory::RateLimit) => CallOutcome::Ignored,
        Some(_) => CallOutcome::Failure,
    };
    let asked = attempt.response.as_ref().and_then(|response| retry_after::holds_until(response, now));
    let hold = match asked {
        Some(until) => LaneHold::Until(until),
        None if attempt.status == AttemptStatus::Success => LaneHold::Lifted,
        None => LaneHold::Unchanged,
    };
    LaneOutcome { call, hold, closes: is_gone }
}

/// An app that says itself that it cannot do something works.
fn lane_outcome_of_app(attempt: &Attempt, now: Timestamp) -> LaneOutcome {
    let outcome = lane_outcome(attempt, false, now);
    match attempt.failure_category {
        Some(FailureCategory::ClientError) => LaneOutcome { call: CallOutcome::Ignored, ..outcome },
        _ => outcome,
    }
}

/// Nobody asked for it but the endpoint, so that it is entered as Everhook's own change.
pub(crate) fn disabling(line: &Line, endpoint: &Endpoint, reason: DisabledReason, now: Timestamp) -> Disabling {
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
    let error = "Everhook failed during this request".to_owned();
    let sent = Sent::Failed { category: FailureCategory::Network, error, response: None };
    Report { sent, duration: Duration::ZERO, phases: PhaseTimes::default() }
}

fn record(line: &Line, ended: &EndedAttempt<'_>, verdict: Verdict, stage: &Stage, report: Report) -> Attempt {
    let EndedAttempt { flight, executed_at, revision, .. } = *ended;
    let (failure_category, error) = match verdict {
        Verdict::Accepted => (None, None),
        Verdict::Park(parking) => (None, Some(format!("waits for {}", parking.waits_for))),
        Verdict::Refused { failure: Failure { category, error }, .. } | Verdict::TryLater { failure: Failure { category, error }, .. } => {
            (Some(category), Some(error))
        }
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
            Stage::Waiting { due_at } => Some(*due_at),
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
        Sent::Failed { response, .. } | Sent::Refused { response, .. } | Sent::Parked { response, .. } => response,
        Sent::OutOfResources { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::{BreakerState, Cut, RetryAfter};

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn attempt(failure_category: Option<FailureCategory>, answer: Option<(u16, Option<u64>)>) -> Attempt {
        let response = |(status, retry_after): (u16, Option<u64>)| Response {
            status,
            headers: Vec::new(),
            body_sample: Bytes::new(),
            cut: Cut::default(),
            retry_after: retry_after.map(|secs| RetryAfter::Delay(Duration::from_secs(secs))),
        };
        Attempt {
            number: 1,
            status: if failure_category.is_none() { AttemptStatus::Success } else { AttemptStatus::Failed },
            failure_category,
            error: failure_category.map(|_| "it failed".to_owned()),
            response: answer.map(response),
            duration: Duration::ZERO,
            phases: PhaseTimes::default(),
            scheduled_at: NOW,
            picked_at: NOW,
            executed_at: NOW,
            next_retry_at: None,
            revision: None,
            node: "here".to_owned(),
            user_agent: USER_AGENT.into(),
            breaker: BreakerState::Closed,
        }
    }

    #[test]
    fn an_answer_tells_the_lane_what_its_breaker_counts_and_whether_it_waits() {
        use CallOutcome::{Failure, Ignored, Success};
        use FailureCategory::{ClientError, RateLimit, ServerError, Timeout};
        let until = |secs| LaneHold::Until(NOW + Duration::from_secs(secs));
        let cases = [
            (None, Some((204, None)), Success, LaneHold::Lifted),
            (None, Some((200, Some(60))), Success, LaneHold::Lifted),
            (Some(RateLimit), Some((429, None)), Ignored, LaneHold::Unchanged),
            (Some(RateLimit), Some((429, Some(60))), Ignored, until(60)),
            (Some(ServerError), Some((503, Some(60))), Failure, until(60)),
            (Some(ServerError), Some((503, Some(86_400))), Failure, until(300)),
            (Some(ServerError), Some((500, Some(60))), Failure, LaneHold::Unchanged),
            (Some(ClientError), Some((404, Some(60))), Failure, LaneHold::Unchanged),
            (Some(Timeout), None, Failure, LaneHold::Unchanged),
        ];
        for (category, answer, call, hold) in cases {
            let expected = LaneOutcome { call, hold, closes: false };
            assert_eq!(lane_outcome(&attempt(category, answer), false, NOW), expected, "{category:?} {answer:?}");
        }
        assert!(lane_outcome(&attempt(Some(ClientError), Some((410, None))), true, NOW).closes);
    }
}
