//! What happened in one lane. The lane keeps them, so that its owner counts without a look.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use crate::{
    metrics::Counter,
    model::{BreakerState, KeptBreaker, KeptStage},
    time::Timestamp,
};

/// Where a breaker stands, as a number.
const CLOSED: u8 = 0;
const OPEN: u8 = 1;
const HALF_OPEN: u8 = 2;

/// The counts of one lane.
#[derive(Debug, Default)]
pub struct LaneCounts {
    /// Attempts that failed.
    pub failures: Counter,
    /// How often a limit on its rate held something up, or its endpoint answered 429.
    pub rate_limit_hits: Counter,
    /// Deliveries that were sent later because its breaker was open when they were due.
    pub circuit_blocked: Counter,
    breaker: AtomicU8,
    /// When an open breaker is half-open, in microseconds.
    open_until: AtomicI64,
}

impl LaneCounts {
    /// The lane's breaker stands so.
    pub fn set_breaker(&self, kept: &KeptBreaker) {
        let (stage, until) = match kept.stage {
            KeptStage::Closed | KeptStage::ForcedClosed { .. } => (CLOSED, None),
            KeptStage::Open { until } => (OPEN, Some(until)),
            KeptStage::ForcedOpen { until } => (OPEN, until),
            KeptStage::HalfOpen => (HALF_OPEN, None),
        };
        self.open_until.store(until.map_or(i64::MAX, Timestamp::as_micros), Ordering::Relaxed);
        self.breaker.store(stage, Ordering::Relaxed);
    }

    /// How the lane's breaker stands.
    pub fn breaker(&self, now: Timestamp) -> BreakerState {
        match self.breaker.load(Ordering::Relaxed) {
            OPEN if self.open_until.load(Ordering::Relaxed) > now.as_micros() => BreakerState::Open,
            OPEN | HALF_OPEN => BreakerState::HalfOpen,
            _ => BreakerState::Closed,
        }
    }
}
