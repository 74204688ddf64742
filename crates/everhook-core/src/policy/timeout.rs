//! How long one attempt may take. Asked by the attempt flow before each request.

use std::time::Duration;

/// What an attempt may take where neither the endpoint nor its schedule says anything.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);

/// The most that growth may stretch a timeout, so that a late attempt cannot hold a connection for minutes.
const GROWTH_MAX: f64 = 3.0;

/// How long attempt `attempt_number` (from 1) may take, from its start to the end of the answer.
///
/// The endpoint's own timeout wins over the schedule's. Growth only ever lengthens: a factor below 1 counts as 1.
pub fn attempt_timeout(endpoint: Option<Duration>, schedule: Option<Duration>, growth_factor: f64, attempt_number: u32) -> Duration {
    let first = endpoint.or(schedule).unwrap_or(DEFAULT_TIMEOUT);
    let exponent = i32::try_from(attempt_number.saturating_sub(1)).unwrap_or(i32::MAX);
    let growth = growth_factor.max(1.0).powi(exponent).min(GROWTH_MAX);
    Duration::try_from_secs_f64(first.as_secs_f64() * growth).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_the_endpoints_or_the_schedules_or_15_s_and_grows_at_most_threefold() {
        let secs = |s| Some(Duration::from_secs(s));
        #[rustfmt::skip]
        let cases = [
            // endpoint, schedule, growth, attempt → milliseconds
            (None,    None,    1.0, 1, 15_000),
            (None,    secs(5), 1.0, 1, 5_000),
            (secs(7), secs(5), 1.0, 1, 7_000),
            (secs(7), None,    1.0, 100, 7_000),
            (secs(4), None,    1.5, 1, 4_000),
            (secs(4), None,    1.5, 2, 6_000),
            (secs(4), None,    1.5, 3, 9_000),
            (secs(4), None,    1.5, 4, 12_000),
            (secs(4), None,    1.5, u32::MAX, 12_000),
            (secs(4), None,    10.0, 2, 12_000),
            (secs(4), None,    0.5, 9, 4_000),
            (secs(4), None,    f64::NAN, 9, 4_000),
            (secs(4), None,    2.0, 0, 4_000),
        ];
        for (endpoint, schedule, growth, attempt, millis) in cases {
            let timeout = attempt_timeout(endpoint, schedule, growth, attempt);
            assert_eq!(timeout, Duration::from_millis(millis), "{endpoint:?} {schedule:?} × {growth} at {attempt}");
        }
    }

    #[test]
    fn the_longest_timeout_does_not_overflow() {
        assert_eq!(attempt_timeout(Some(Duration::MAX), None, 2.0, 2), Duration::MAX);
    }
}
