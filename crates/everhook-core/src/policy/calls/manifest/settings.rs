//! The parts of a capability that say how it is called: retries, breaker, hedging, cache.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    fields::{Faults, Fields},
    url_of,
};
use crate::model::{BreakerConfig, CacheAges, CallBackoff, Canary, Hedge, HedgeDelay, JOB_TOKENS_MAX, SlowCallRule, TripRule};

/// How many requests one call, or one job, may make, and how many if it is retried and does not say.
const ATTEMPTS_MAX: u32 = 10;
const ATTEMPTS_DEFAULT: u32 = 3;
const _: () = assert!(ATTEMPTS_MAX as usize <= JOB_TOKENS_MAX, "the token of each request of a job is good until the job has ended");
/// How many in a hundred requests hedging may add.
const HEDGE_BUDGET_DEFAULT: u32 = 5;
const HEDGE_BUDGET_MAX: u32 = 50;
/// When a second request may be made at the earliest and the latest.
const HEDGE_AFTER: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(60));
/// How long answers may be kept in each of their ages.
const AGE: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(7 * 86_400));
/// How many in a hundred calls may go to a canary: with more, there is nothing to compare it with.
const CANARY_PERCENT: RangeInclusive<u32> = 1..=50;
/// How long a breaker stays open at the least, and at the most: each time that one opens is written, and reported.
const SLEEP: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(86_400));
/// An answer is slow from this share of the timeout on, unless the manifest says.
const SLOW_SHARE: f64 = 0.8;

/// `retry` of a capability whose caller waits: how many requests a call may make, and how the delay between them grows.
pub(super) fn read_retry(fields: &mut Fields<'_>, faults: &mut Faults) -> (u32, CallBackoff) {
    // `max_attempts` alone asks for retries as well.
    read_attempts(fields, |attempts| attempts.is_some(), ATTEMPTS_DEFAULT, faults)
}

/// `retry` of an `async` capability: how many requests a job may make. Jobs are retried unless the manifest says that they are not.
pub(super) fn read_job_retry(fields: &mut Fields<'_>, attempts_default: u32, faults: &mut Faults) -> (u32, CallBackoff) {
    read_attempts(fields, |_| true, attempts_default, faults)
}

fn read_attempts(
    fields: &mut Fields<'_>,
    default: fn(Option<u32>) -> bool,
    attempts_default: u32,
    faults: &mut Faults,
) -> (u32, CallBackoff) {
    let attempts_of = |is_enabled, attempts: Option<u32>| if is_enabled { attempts.unwrap_or(attempts_default) } else { 1 };
    let Some(mut retry) = fields.object("retry", faults) else { return (attempts_of(default(None), None), CallBackoff::Exponential) };
    let is_enabled = retry.flag("enabled", faults);
    let attempts = retry.number("max_attempts", 1..=ATTEMPTS_MAX, faults);
    let backoff = match retry.text("backoff", faults).as_deref() {
        None | Some("exponential") => CallBackoff::Exponential,
        Some("linear") => CallBackoff::Linear,
        Some("fixed" | "constant") => CallBackoff::Fixed,
        Some(_) => {
            faults.add(retry.path_of("backoff"), "must be `exponential`, `linear` or `fixed`");
            CallBackoff::Exponential
        }
    };
    retry.end(faults);
    (attempts_of(is_enabled.unwrap_or(default(attempts)), attempts), backoff)
}

/// `circuit_breaker`: when the app is left alone, also because its answers are slow.
pub(super) fn read_breaker(
    fields: &mut Fields<'_>,
    default: &BreakerConfig,
    timeout: Duration,
    faults: &mut Faults,
) -> (BreakerConfig, Option<SlowCallRule>) {
    let Some(mut asked) = fields.object("circuit_breaker", faults) else { return (*default, None) };
    let mut config = *default;
    config.enabled = asked.flag("enabled", faults).unwrap_or(config.enabled);
    config.rule = match asked.text("rule", faults).as_deref() {
        None => config.rule,
        Some("consecutive") => match config.rule {
            rule @ TripRule::Consecutive { .. } => rule,
            TripRule::Window { .. } => BreakerConfig::consecutive().rule,
        },
        Some("window") => BreakerConfig::window().rule,
        Some(_) => {
            faults.add(asked.path_of("rule"), "must be `consecutive` or `window`");
            config.rule
        }
    };
    read_rule(&mut asked, &mut config.rule, faults);
    if let Some(sleep) = asked.duration("sleep_window_ms", faults) {
        asked.in_range("sleep_window_ms", sleep, SLEEP, faults);
        config.sleep = sleep;
        config.sleep_max = config.sleep_max.max(sleep);
    }
    config.sleep_max = asked.duration("sleep_max_ms", faults).unwrap_or(config.sleep_max);
    config.half_open_max_calls = asked.number("half_open_max_calls", 1..=100, faults).unwrap_or(config.half_open_max_calls);
    let slow_calls = read_slow_calls(&mut asked, timeout, faults);
    for fault in config.faults() {
        if !asked.has_fault(fault.field, faults) {
            faults.add(asked.path_of(fault.field), format!("must be {}", fault.expected));
        }
    }
    asked.end(faults);
    (config, slow_calls)
}

fn read_rule(asked: &mut Fields<'_>, rule: &mut TripRule, faults: &mut Faults) {
    match rule {
        TripRule::Consecutive { failure_threshold, success_threshold } => {
            *failure_threshold = asked.number("failure_threshold", 1..=100_000, faults).unwrap_or(*failure_threshold);
            *success_threshold = asked.number("success_threshold", 1..=100, faults).unwrap_or(*success_threshold);
        }
        TripRule::Window { error_threshold_percentage, minimum_throughput, window, half_open_success_threshold } => {
            *error_threshold_percentage =
                asked.number("error_threshold_percentage", 1..=100, faults).unwrap_or(*error_threshold_percentage);
            *minimum_throughput = asked.number("minimum_throughput", 1..=100_000, faults).unwrap_or(*minimum_throughput);
            *window = asked.duration("window_size_ms", faults).unwrap_or(*window);
            *half_open_success_threshold = asked.share("half_open_success_threshold", faults).unwrap_or(*half_open_success_threshold);
        }
    }
}

fn read_slow_calls(asked: &mut Fields<'_>, timeout: Duration, faults: &mut Faults) -> Option<SlowCallRule> {
    let mut slow = asked.object("slow_calls", faults)?;
    let slower_than = slow.duration("slower_than", faults).unwrap_or_else(|| timeout.mul_f64(SLOW_SHARE));
    slow.in_range("slower_than", slower_than, (Duration::from_millis(1), timeout), faults);
    let percentage = slow.number("percentage", 1..=99, faults).unwrap_or(50);
    let calls_min = slow.number("minimum_calls", 1..=1_000, faults).unwrap_or(20);
    slow.end(faults);
    Some(SlowCallRule { slower_than, percentage, calls_min })
}

/// `hedge`: when a second request is made. Only where asking twice does no harm.
pub(super) fn read_hedge(fields: &mut Fields<'_>, idempotent: bool, faults: &mut Faults) -> Option<Hedge> {
    let mut asked = fields.object("hedge", faults)?;
    if !idempotent {
        faults.add(fields.path_of("hedge"), "needs `idempotent: true`: the app may be asked the same twice");
    }
    let after = match asked.take("after") {
        None => HedgeDelay::P95,
        Some(text) if text.as_str() == Some("p95") => HedgeDelay::P95,
        Some(millis) => match millis.as_u64().map(Duration::from_millis).filter(|after| (HEDGE_AFTER.0..=HEDGE_AFTER.1).contains(after)) {
            Some(after) => HedgeDelay::Fixed(after),
            None => {
                faults.add(asked.path_of("after"), "must be `p95` or 1 to 60000 milliseconds");
                HedgeDelay::P95
            }
        },
    };
    asked.number("max", 1..=1, faults);
    let budget_percent = asked.number("budget_percent", 1..=HEDGE_BUDGET_MAX, faults).unwrap_or(HEDGE_BUDGET_DEFAULT);
    asked.end(faults);
    Some(Hedge { after, budget_percent })
}

/// `cache`: how long answers are good for; or what the step `cache` of the fallback says, which is the short form.
pub(super) fn read_cache(fields: &mut Fields<'_>, of_step: Option<CacheAges>, faults: &mut Faults) -> CacheAges {
    let Some(mut asked) = fields.object("cache", faults) else { return of_step.unwrap_or_default() };
    let mut age = |name: &str| {
        let age = asked.duration(name, faults).unwrap_or_default();
        asked.in_range(name, age, AGE, faults);
        age
    };
    let ages =
        CacheAges { fresh: age("fresh"), stale_while_revalidate: age("stale_while_revalidate"), stale_if_error: age("stale_if_error") };
    asked.end(faults);
    match of_step {
        // A step without a time of its own is only a place in the order; answers are then kept for errors as long as the step would keep them.
        Some(of_step) if ages.stale_if_error.is_zero() => CacheAges { stale_if_error: of_step.stale_if_error, ..ages },
        _ => ages,
    }
}

/// `canary`: another version of the app. What Everhook itself added when it withdrew one is read as well.
pub(super) fn read_canary(
    fields: &mut Fields<'_>,
    path: Option<&str>,
    check_url: &dyn Fn(&str) -> Result<(), String>,
    faults: &mut Faults,
) -> Option<Canary> {
    let mut asked = fields.object("canary", faults)?;
    let base_url = asked.text("base_url", faults);
    let percent = asked.number("percent", CANARY_PERCENT, faults);
    let is_withdrawn = asked.text("withdrawn_at", faults).is_some();
    asked.text("withdrawn_because", faults);
    for (name, is_there) in [("base_url", base_url.is_some()), ("percent", percent.is_some())] {
        if !is_there && !asked.has_fault(name, faults) {
            faults.add(asked.path_of(name), "is required");
        }
    }
    if let Some(base_url) = &base_url {
        let wrong = if base_url.contains(['?', '#']) || !base_url.starts_with("http") {
            Err("must be an `https://` URL without a query or a fragment: the path is appended to it".to_owned())
        } else {
            check_url(base_url).and_then(|()| check_url(&url_of(base_url, path.unwrap_or_default())))
        };
        if let Err(reason) = wrong {
            faults.add(asked.path_of("base_url"), reason);
        }
    }
    asked.end(faults);
    Some(Canary { base_url: base_url?, percent: percent?, is_withdrawn })
}
