//! What a breaker reports of its own state.

use super::{Breaker, Probes, Stage, calls::Counts};
use crate::{
    model::{BreakerFacts, BreakerState},
    time::Timestamp,
};

impl Breaker {
    /// Where it stands.
    pub fn facts(&self, now: Timestamp) -> BreakerFacts {
        let state = self.state(now);
        let counts = if state == BreakerState::Closed { self.calls.counts(now) } else { self.calls.last_counts() };
        let (open_until, force_open_until, force_close_until, is_forced) = match self.stage {
            _ if self.is_over(now) => (None, None, None, false),
            Stage::Open { until } => (Some(until), None, None, false),
            Stage::ForcedOpen { until } => (until, until, None, true),
            Stage::ForcedClosed { until, .. } => (None, None, until, true),
            Stage::Closed { .. } | Stage::HalfOpen(_) => (None, None, None, false),
        };
        let none = Probes::default();
        let probes = if let Stage::HalfOpen(probes) = &self.stage { probes } else { &none };
        BreakerFacts {
            state,
            failure_count_in_window: counts.failures,
            success_count_in_window: counts.successes,
            total_calls_in_window: counts.total(),
            error_percentage: error_percentage(counts),
            window_start: counts.since,
            state_transition_at: self.state_since(now),
            next_half_open_at: open_until,
            half_open_attempts: probes.begun(),
            half_open_successes: probes.successes,
            consecutive_half_open_failures: self.failed_recoveries,
            is_forced,
            force_open_until,
            force_close_until,
        }
    }
}

fn error_percentage(counts: Counts) -> f64 {
    if counts.total() == 0 { 0.0 } else { f64::from(counts.failures) * 100.0 / f64::from(counts.total()) }
}
