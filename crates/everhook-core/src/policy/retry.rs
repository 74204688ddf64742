//! When to try again. Asked by `lifecycle.rs` after each failure that is worth another attempt.
//!
//! Pure: the random number comes in as a fact, so that the same facts always give the same instant.

use std::time::Duration;

use crate::{
    model::{Backoff, FailureCategory, Jitter, RetryAfter, RetrySchedule, Strategy},
    policy::retry_after,
    time::Timestamp,
};

/// The shortest delay a schedule may name, and what a list with no delays in it means: never a retry without a pause.
pub const DELAY_MIN: Duration = Duration::from_secs(1);

/// The longest delay a schedule may name.
pub const DELAY_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What is known when an attempt has failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// The attempt that just failed, from 1.
    pub attempt_number: u32,
    /// Why it failed.
    pub category: FailureCategory,
    /// What the endpoint asked for, where that is honored.
    pub retry_after: Option<RetryAfter>,
    /// When it failed.
    pub now: Timestamp,
    /// A random number from 0 to 1, for jitter.
    pub unit: f64,
}

/// The instant of the next attempt; `None` if the schedule has no further one.
///
/// Jitter comes first and the category's minimum after it, so that jitter cannot undercut the minimum. A `Retry-After` stands in for the
/// minimum: the endpoint knows better than our guess, also when it asks for less.
pub fn next_due(schedule: &RetrySchedule, retry: Retry) -> Option<Timestamp> {
    if retry.attempt_number >= schedule.max_attempts {
        return None;
    }
    let delay = jittered(nominal_delay(schedule, retry.attempt_number), schedule.jitter, retry.unit);
    let at_least = match retry.retry_after {
        Some(asked) => retry_after::wait(asked, retry.now),
        None => category_minimum(retry.category),
    };
    Some(retry.now + delay.max(at_least))
}

/// The delay that the schedule names after attempt `attempt_number` (from 1) failed, before jitter and minimum.
pub fn nominal_delay(schedule: &RetrySchedule, attempt_number: u32) -> Duration {
    let failures_before = attempt_number.saturating_sub(1);
    match &schedule.strategy {
        Strategy::Exponential(Backoff::Growing { base, multiplier, max }) => grown(*base, *multiplier, *max, failures_before),
        Strategy::Linear(Backoff::Growing { base, max, .. }) => (*base).min(*max),
        Strategy::Exponential(Backoff::Intervals(delays)) | Strategy::Linear(Backoff::Intervals(delays)) | Strategy::Custom(delays) => {
            listed(delays, failures_before)
        }
    }
}

fn listed(delays: &[Duration], index: u32) -> Duration {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    delays.get(index).or(delays.last()).copied().unwrap_or(DELAY_MIN)
}

fn grown(base: Duration, multiplier: f64, max: Duration, exponent: u32) -> Duration {
    let factor = multiplier.powi(i32::try_from(exponent).unwrap_or(i32::MAX));
    // What is too large for a `Duration`, infinity included, is past `max` as well.
    Duration::try_from_secs_f64(base.as_secs_f64() * factor).unwrap_or(max).min(max)
}

fn jittered(delay: Duration, jitter: Jitter, unit: f64) -> Duration {
    match jitter {
        Jitter::Share(share) => scaled(delay, 1.0 + share * (2.0 * unit - 1.0)),
        Jitter::Later(by_up_to) => delay.saturating_add(scaled(by_up_to, unit)),
    }
}

/// Keeps the length where the factor makes no sense, so that no schedule can panic a worker.
fn scaled(length: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(length.as_secs_f64() * factor).unwrap_or(length)
}

/// How soon a retry can make sense at all, by what went wrong.
const fn category_minimum(category: FailureCategory) -> Duration {
    match category {
        FailureCategory::RateLimit => Duration::from_secs(60),
        FailureCategory::Dns => Duration::from_secs(5),
        FailureCategory::Timeout => Duration::from_secs(2),
        FailureCategory::ServerError
        | FailureCategory::ClientError
        | FailureCategory::Network
        | FailureCategory::Tls
        | FailureCategory::PayloadTooLarge
        | FailureCategory::Redirect
        | FailureCategory::BlockedAddress => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests;
