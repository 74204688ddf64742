//! How the time of one call is shared out: between the app, its retries and the fallback. Asked by `calls` before each request. Pure.

use std::time::Duration;

use crate::model::{CallBackoff, FallbackStep};

/// What is kept back for a fallback that asks nobody: reading a cache, drawing, writing the answer.
const RESERVE: Duration = Duration::from_millis(20);

/// The least that is worth a retry: less is over before most apps have read the request.
const RETRY_LEFT_MIN: Duration = Duration::from_millis(50);

/// The first delay before a retry. Somebody waits, so that it is short: it lets a process that restarts or a lock that is held pass.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The longest delay before a retry.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);

/// The shortest time that a caller may ask for. Less leaves nothing for the app.
pub const CALLER_TIMEOUT_MIN: Duration = Duration::from_millis(50);

/// How long a call may take: what the manifest says, or less if the caller asks for less.
pub fn call_timeout(manifest: Duration, caller: Option<Duration>) -> Duration {
    caller.map_or(manifest, |caller| caller.max(CALLER_TIMEOUT_MIN).min(manifest))
}

/// What is kept back for the fallback: what the slowest of its steps may take, but never more than half of the call.
pub fn reserve(timeout: Duration, fallback: &[FallbackStep]) -> Duration {
    let asked = |step: &FallbackStep| if let FallbackStep::Http { timeout, .. } = step { *timeout } else { Duration::ZERO };
    let http: Duration = fallback.iter().map(asked).sum();
    (http + RESERVE).min(timeout / 2)
}

/// Whether another request may be made with what is left for the app, once `delay` is over. `typical` is how long answers take, if that is known.
pub fn may_retry(left: Duration, delay: Duration, typical: Option<Duration>) -> bool {
    left.saturating_sub(delay) >= typical.unwrap_or_default().max(RETRY_LEFT_MIN)
}

/// How long to wait before the retry that follows `attempt` (1-based). `unit` is a random number from 0 to 1: the delay is 70 to 130 in a hundred.
pub fn retry_delay(backoff: CallBackoff, attempt: u32, unit: f64) -> Duration {
    let delay = match backoff {
        CallBackoff::Exponential => RETRY_DELAY.saturating_mul(1 << attempt.saturating_sub(1).min(10)),
        CallBackoff::Linear => RETRY_DELAY.saturating_mul(attempt),
        CallBackoff::Fixed => RETRY_DELAY,
    };
    delay.min(RETRY_DELAY_MAX).mul_f64(0.7 + 0.6 * unit.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_shorter_of_both_timeouts_holds_and_a_caller_cannot_ask_for_nothing() {
        let table = [(5_000, None, 5_000), (5_000, Some(200), 200), (5_000, Some(9_000), 5_000), (5_000, Some(0), 50), (20, Some(10), 20)];
        for (manifest, caller, expected) in table {
            assert_eq!(call_timeout(ms(manifest), caller.map(ms)), ms(expected), "{manifest} {caller:?}");
        }
    }

    #[test]
    fn the_fallback_keeps_its_time_and_the_app_at_least_half() {
        let http = |millis| FallbackStep::Http { url: String::new(), timeout: ms(millis) };
        let table: [(u64, Vec<FallbackStep>, u64); 5] = [
            (5_000, vec![], 20),
            (5_000, vec![FallbackStep::Cache, FallbackStep::Error], 20),
            (5_000, vec![FallbackStep::Cache, http(1_000)], 1_020),
            (5_000, vec![http(3_000), http(2_000)], 2_500),
            (30, vec![], 15),
        ];
        for (timeout, fallback, expected) in table {
            assert_eq!(reserve(ms(timeout), &fallback), ms(expected), "{timeout} {fallback:?}");
        }
    }

    #[test]
    fn a_retry_needs_what_an_answer_usually_takes() {
        let table = [
            (100, 50, None, true),
            (99, 50, None, false),
            (500, 50, Some(400), true),
            (440, 50, Some(400), false),
            (40, 0, Some(1), false),
        ];
        for (left, delay, typical, expected) in table {
            assert_eq!(may_retry(ms(left), ms(delay), typical.map(ms)), expected, "{left} {delay} {typical:?}");
        }
    }

    #[test]
    fn delays_grow_as_the_manifest_says_and_stay_short() {
        let of = |backoff, attempt| retry_delay(backoff, attempt, 0.5);
        assert_eq!([1, 2, 3, 4].map(|n| of(CallBackoff::Exponential, n)), [50, 100, 200, 400].map(ms));
        assert_eq!([1, 2, 3, 4].map(|n| of(CallBackoff::Linear, n)), [50, 100, 150, 200].map(ms));
        assert_eq!([1, 9].map(|n| of(CallBackoff::Fixed, n)), [50, 50].map(ms));
        assert_eq!(of(CallBackoff::Exponential, u32::MAX), ms(2_000));
        assert_eq!((retry_delay(CallBackoff::Fixed, 1, 0.0), retry_delay(CallBackoff::Fixed, 1, 1.0)), (ms(35), ms(65)));
    }
}
