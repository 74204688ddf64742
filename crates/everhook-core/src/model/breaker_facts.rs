//! What a breaker reports: what just changed, and its state. `policy::breaker` decides it; ports carry it.

use crate::{model::BreakerState, time::Timestamp};

/// A change to be made durable, and perhaps reported to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a transition is to be made durable"]
pub struct BreakerTransition {
    /// What it was.
    pub from: BreakerState,
    /// What it is.
    pub to: BreakerState,
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub cause: BreakerCause,
}

impl BreakerTransition {
    /// Whether `circuit.opened` is published. A recovery that failed is not: the owner knows, and it could come every minute.
    pub fn opens(&self) -> bool {
        self.from == BreakerState::Closed && self.to == BreakerState::Open
    }

    /// Whether `circuit.closed` is published.
    pub fn closes(&self) -> bool {
        self.from != BreakerState::Closed && self.to == BreakerState::Closed
    }
}

/// Why a breaker changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerCause {
    /// Calls failed as its rule says.
    TooManyFailures,
    /// Calls were slow as the rule for slow calls says.
    TooManySlowCalls,
    /// The app failed its health checks.
    FailedHealthChecks,
    /// Too few probes succeeded.
    RecoveryFailed,
    /// Enough probes succeeded.
    Recovered,
    /// Somebody reset it.
    Reset,
    /// Somebody forced it open.
    ForcedOpen,
    /// Somebody forced it closed.
    ForcedClosed,
    /// Somebody switched it off.
    SwitchedOff,
}

impl BreakerCause {
    /// All causes.
    pub const ALL: [Self; 9] = [
        Self::TooManyFailures,
        Self::TooManySlowCalls,
        Self::FailedHealthChecks,
        Self::RecoveryFailed,
        Self::Recovered,
        Self::Reset,
        Self::ForcedOpen,
        Self::ForcedClosed,
        Self::SwitchedOff,
    ];
    /// Whether calls have shown it.
    pub const fn is_by_calls(self) -> bool {
        matches!(self, Self::TooManyFailures | Self::TooManySlowCalls | Self::RecoveryFailed)
    }

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooManyFailures => "too_many_failures",
            Self::TooManySlowCalls => "too_many_slow_calls",
            Self::FailedHealthChecks => "failed_health_checks",
            Self::RecoveryFailed => "recovery_failed",
            Self::Recovered => "recovered",
            Self::Reset => "reset",
            Self::ForcedOpen => "forced_open",
            Self::ForcedClosed => "forced_closed",
            Self::SwitchedOff => "switched_off",
        }
    }
}

/// The state of a breaker, as an endpoint's health shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerFacts {
    /// Whether requests flow.
    pub state: BreakerState,
    /// Failures that count; while it is not closed, those that counted when it opened. Under `consecutive`, those in a row.
    pub failure_count_in_window: u32,
    /// Successes that count. Under `consecutive`, none ever does.
    pub success_count_in_window: u32,
    /// Both together.
    pub total_calls_in_window: u32,
    /// The share of failures, from 0 to 100; 0 if nothing counts.
    pub error_percentage: f64,
    /// The first call that counts; `None` if none does.
    pub window_start: Option<Timestamp>,
    /// Since when it is in its state.
    pub state_transition_at: Timestamp,
    /// When it lets probes through, if it is open and not for good.
    pub next_half_open_at: Option<Timestamp>,
    /// Probes that were let through since it is half-open.
    pub half_open_attempts: u32,
    /// Those of them that succeeded.
    pub half_open_successes: u32,
    /// Recoveries that failed since it was last closed.
    pub consecutive_half_open_failures: u32,
    /// Whether somebody forced it open or closed, and that is not over.
    pub is_forced: bool,
    /// When being forced open ends; `None` if it is not, or until it is reset.
    pub force_open_until: Option<Timestamp>,
    /// When being forced closed ends; `None` if it is not, or until it is reset.
    pub force_close_until: Option<Timestamp>,
}

/// The state of the nodes that have calls of a capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VoteCount {
    /// How many have calls.
    pub callers: u32,
    /// How many of them have a breaker that opened because the app's answers were no good,
    pub with_answers: u32,
    /// and how many because there were none in time.
    pub without_answers: u32,
}
