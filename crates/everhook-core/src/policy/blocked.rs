//! Which times of a delivery a circuit breaker made it wait: the `circuit_blocked` notes among its attempts. Pure.
//!
//! Nothing is written while a breaker is open, however much waits for it: a note follows from when the breaker was open and when the delivery was
//! due. There is at most one for each time that it was open.

use std::time::Duration;

use crate::{
    model::{Attempt, Delivery, OpenPeriod, Stage},
    time::Timestamp,
};

/// A shorter wait is a turn that is being taken: a probe waits as long, and so does what comes due in the instant in which a breaker opens.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// A request that was not made because a breaker was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The number of the attempt that it would have been, and was later.
    pub attempt_number: u32,
    /// When its turn had come.
    pub scheduled_at: Timestamp,
    /// Since when the breaker kept it.
    pub at: Timestamp,
}

/// A time in which a delivery was due and nothing was sent.
struct Wait {
    attempt_number: u32,
    from: Timestamp,
    to: Timestamp,
}

/// What breakers kept of a delivery until now, oldest first. `attempts` and `periods` are in order.
pub fn blocked(delivery: &Delivery, attempts: &[Attempt], periods: &[OpenPeriod], now: Timestamp) -> Vec<Blocked> {
    let mut waits: Vec<Wait> = attempts.iter().map(before_attempt).collect();
    waits.extend(since_last_attempt(delivery, attempts, now));
    periods.iter().filter_map(|period| waits.iter().find_map(|wait| wait.within(period))).collect()
}

fn before_attempt(attempt: &Attempt) -> Wait {
    Wait { attempt_number: attempt.number, from: attempt.scheduled_at, to: attempt.picked_at }
}

/// The wait for an attempt that was not made yet, or never will be.
fn since_last_attempt(delivery: &Delivery, attempts: &[Attempt], now: Timestamp) -> Option<Wait> {
    let (from, to) = match delivery.stage {
        Stage::Waiting { due_at } => (due_at, now),
        Stage::Cancelled { at, .. } => (attempts.last().map_or(Some(delivery.created_at), |last| last.next_retry_at)?, at),
        // One that is held or parked waits for something else, not for the breaker.
        Stage::Held | Stage::Parked(_) | Stage::Delivered { .. } | Stage::Dead { .. } => return None,
    };
    Some(Wait { attempt_number: delivery.attempts + 1, from, to })
}

impl Wait {
    fn within(&self, period: &OpenPeriod) -> Option<Blocked> {
        let at = self.from.max(period.opened_at);
        let until = period.closed_at.map_or(self.to, |closed_at| closed_at.min(self.to));
        (until.since(at) >= WAIT_MIN).then_some(Blocked { attempt_number: self.attempt_number, scheduled_at: self.from, at })
    }
}

#[cfg(test)]
#[path = "blocked_tests.rs"]
mod tests;
