//! The life of a delivery. This is the only code that turns one stage into another.
//!
//! ```text
//!            ┌────────── failed, and the schedule goes on ──────────┐
//!            ▼                                                      │
//!   made ─► Waiting ─────────────── attempted ─────────────────────┤
//!    │       ▲   │                                                  ├─► Delivered   a 2xx in time
//!    │       │ the one before it ended                              ├─► Dead        out of attempts, or given up at once
//!    ├────► Held │                                                  │
//!    │       │   │                  ┌── something must come first ──┤
//!    │       │   │                  ▼                               │
//!    │       │   │ ◄── it came ── Parked ◄── made so ──┐            │
//!    └───────┼───┼─────────────────────────────────────┘            │
//!            │   │     or the time for that is over                 │
//!            └───┴──────────────────┴───────────────────────────────┴─► Cancelled   its endpoint was disabled or deleted, its event was
//!                                                                                   erased, or a person cancelled it
//! ```
//!
//! A parked delivery has not ended: in an ordered lane those behind it stay held (decision 0044). One that was made parked may itself be behind another:
//! once what it waits for has come, it is held until that one has ended (decision 0047). Where its time is over without what it waited for, the
//! attempt that follows makes no request, and fails or gives it up, as the parking said.
//!
//! Dead and cancelled are ends for the delivery, not for its event: bringing one back makes a new delivery.

use crate::{
    model::{AttemptStatus, CancelCause, EndpointState, RetrySchedule, Stage},
    policy::{
        retry::{self, Retry},
        verdict::Verdict,
    },
    time::Timestamp,
};

/// What holds when an attempt is settled.
#[derive(Clone, Copy, Debug)]
pub struct SettlementFacts<'a> {
    /// The schedule version that the delivery was made with.
    pub schedule: &'a RetrySchedule,
    /// Which attempt it was, from 1, as the schedule counts: those that parked the delivery are left out.
    pub attempt_number: u32,
    /// Whether the endpoint still gets events.
    pub endpoint: EndpointState,
    /// The present.
    pub now: Timestamp,
    /// A random number from 0 to 1, for jitter.
    pub unit: f64,
}

/// Where a new delivery stands. `is_behind` says whether one of its order is open before it. One that is made parked stands there only for a moment: stores
/// park it in the same write, unless what it waits for came meanwhile.
pub const fn made(is_behind: bool, at: Timestamp) -> Stage {
    if is_behind { Stage::Held } else { Stage::Waiting { due_at: at } }
}

/// Where a held delivery stands once nothing is before it.
pub const fn freed(at: Timestamp) -> Stage {
    Stage::Waiting { due_at: at }
}

/// Where a parked delivery stands once what it waited for is there, or the time for that is over. `is_behind` says whether one of its order is open before
/// it, as only before one that was made parked.
pub const fn unparked(is_behind: bool, at: Timestamp) -> Stage {
    if is_behind { Stage::Held } else { Stage::Waiting { due_at: at } }
}

/// Where a delivery stands whose next attempt is brought forward; `None` if there is nothing to bring forward: it is due, held, parked, or has ended.
pub fn brought_forward(stage: &Stage, at: Timestamp) -> Option<Stage> {
    matches!(stage, Stage::Waiting { due_at } if *due_at > at).then_some(Stage::Waiting { due_at: at })
}

/// Where a delivery stands that a person cancels; `None` if it has ended.
pub const fn cancelled_by_person(stage: &Stage, at: Timestamp) -> Option<Stage> {
    if stage.has_ended() { None } else { Some(Stage::Cancelled { at, cause: CancelCause::ByPerson }) }
}

/// Where a delivery stands after an attempt.
pub fn settle(verdict: &Verdict, circumstances: &SettlementFacts<'_>) -> Stage {
    let at = circumstances.now;
    match verdict {
        Verdict::Accepted => Stage::Delivered { at },
        Verdict::Refused { refusal, .. } => Stage::Dead { at, cause: *refusal },
        Verdict::Park(parking) => match cancellation(circumstances.endpoint) {
            Some(cause) => Stage::Cancelled { at, cause },
            None => Stage::Parked(parking.clone()),
        },
        Verdict::TryLater { failure, retry_after } => {
            if let Some(cause) = cancellation(circumstances.endpoint) {
                return Stage::Cancelled { at, cause };
            }
            let retry = Retry {
                attempt_number: circumstances.attempt_number,
                category: failure.category,
                retry_after: *retry_after,
                now: at,
                unit: circumstances.unit,
            };
            match retry::next_due(circumstances.schedule, retry) {
                Some(due_at) => Stage::Waiting { due_at },
                None => Stage::Dead { at, cause: crate::model::DeathCause::RetriesExhausted },
            }
        }
    }
}

/// Why the deliveries that wait for an endpoint in this state are cancelled; `None` if they are not.
pub const fn cancellation(endpoint: EndpointState) -> Option<CancelCause> {
    match endpoint {
        EndpointState::Enabled => None,
        EndpointState::Disabled { .. } => Some(CancelCause::EndpointDisabled),
        EndpointState::Deleted { .. } => Some(CancelCause::DestinationDeleted),
    }
}

/// How the attempt that led to a stage is shown.
pub const fn attempt_status(after: &Stage) -> AttemptStatus {
    match after {
        Stage::Delivered { .. } => AttemptStatus::Success,
        Stage::Waiting { .. } | Stage::Held => AttemptStatus::Failed,
        Stage::Parked(_) => AttemptStatus::Parked,
        Stage::Dead { .. } | Stage::Cancelled { .. } => AttemptStatus::Exhausted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{DeathCause, DisabledReason, FailureCategory, Parking, WaitsFor},
        policy::{presets, verdict::Failure},
    };

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);

    fn try_later() -> Verdict {
        let failure = Failure { category: FailureCategory::ServerError, error: "the endpoint answered 503".to_owned() };
        Verdict::TryLater { failure, retry_after: None }
    }

    fn parking() -> Parking {
        Parking { waits_for: WaitsFor::parse("connection:strava:4711").expect("a name"), expiry: None }
    }

    fn refused(refusal: DeathCause) -> Verdict {
        let failure = Failure { category: FailureCategory::ClientError, error: "the endpoint answered 410".to_owned() };
        Verdict::Refused { refusal, failure }
    }

    #[test]
    fn a_new_delivery_waits_unless_something_is_before_it() {
        assert_eq!((made(false, NOW), made(true, NOW)), (Stage::Waiting { due_at: NOW }, Stage::Held));
        assert_eq!((unparked(false, NOW), unparked(true, NOW)), (Stage::Waiting { due_at: NOW }, Stage::Held));
    }

    #[test]
    fn a_person_changes_only_what_has_not_ended() {
        let (at, later) = (NOW, NOW + std::time::Duration::from_secs(60));
        let cancelled = Some(Stage::Cancelled { at, cause: CancelCause::ByPerson });
        // stage → brought forward, cancelled
        let table = [
            (Stage::Waiting { due_at: later }, Some(Stage::Waiting { due_at: at }), cancelled.clone()),
            (Stage::Waiting { due_at: at }, None, cancelled.clone()),
            (Stage::Held, None, cancelled.clone()),
            (Stage::Parked(parking()), None, cancelled),
            (Stage::Delivered { at }, None, None),
            (Stage::Dead { at, cause: DeathCause::Gone }, None, None),
            (Stage::Cancelled { at, cause: CancelCause::Erased }, None, None),
        ];
        for (stage, forward, cancelled) in table {
            assert_eq!((brought_forward(&stage, at), cancelled_by_person(&stage, at)), (forward, cancelled), "{stage:?}");
        }
    }

    #[test]
    fn every_verdict_leads_to_one_stage() {
        let at = NOW;
        let disabled = EndpointState::Disabled { at: NOW, reason: DisabledReason::ByOwner };
        let deleted = EndpointState::Deleted { at: NOW };
        let five_seconds_later = NOW + std::time::Duration::from_secs(5);
        // verdict, attempt, endpoint → stage
        let table = [
            (Verdict::Accepted, 1, EndpointState::Enabled, Stage::Delivered { at }),
            (Verdict::Accepted, 8, EndpointState::Enabled, Stage::Delivered { at }),
            (Verdict::Accepted, 1, disabled, Stage::Delivered { at }),
            (try_later(), 1, EndpointState::Enabled, Stage::Waiting { due_at: five_seconds_later }),
            (try_later(), 8, EndpointState::Enabled, Stage::Dead { at, cause: DeathCause::RetriesExhausted }),
            (try_later(), 1, disabled, Stage::Cancelled { at, cause: CancelCause::EndpointDisabled }),
            (try_later(), 8, deleted, Stage::Cancelled { at, cause: CancelCause::DestinationDeleted }),
            (refused(DeathCause::Gone), 1, EndpointState::Enabled, Stage::Dead { at, cause: DeathCause::Gone }),
            (Verdict::Park(parking()), 8, EndpointState::Enabled, Stage::Parked(parking())),
            (Verdict::Park(parking()), 1, disabled, Stage::Cancelled { at, cause: CancelCause::EndpointDisabled }),
            (refused(DeathCause::GivenUp), 1, disabled, Stage::Dead { at, cause: DeathCause::GivenUp }),
        ];
        let schedule = presets::standard();
        for (verdict, attempt_number, endpoint, expected) in table {
            let circumstances = SettlementFacts { schedule: &schedule, attempt_number, endpoint, now: NOW, unit: 0.5 };
            assert_eq!(settle(&verdict, &circumstances), expected, "{verdict:?}, attempt {attempt_number}, {endpoint:?}");
        }
    }
}
