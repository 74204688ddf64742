//! What somebody wants of an endpoint's breaker, rate limit and order, and the rules for it. Pure.

use std::{num::NonZeroU32, time::Duration};

use crate::{
    manage::Fault,
    model::{BreakerConfig, OrderingMode, RateLimit, TripRule},
};

/// The fastest that a rate limit may allow, a minute, and the largest burst: past it none is needed.
const REQUESTS_MAX: i64 = 1_000_000;

/// What is asked of a breaker, member by member. What is absent stays, or is the default of the rule that is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BreakerInput {
    /// Whether failures may open it.
    pub enabled: Option<bool>,
    /// `window` or `consecutive`.
    pub rule: Option<String>,
    /// How long it stays open at first.
    pub sleep: Option<Duration>,
    /// The longest that it stays open.
    pub sleep_max: Option<Duration>,
    /// How many probes may be under way at once.
    pub half_open_max_calls: Option<u32>,
    /// Of the rule `window`: the share of failures that opens it.
    pub error_threshold_percentage: Option<u32>,
    /// Of the rule `window`: the fewest calls that say something.
    pub minimum_throughput: Option<u32>,
    /// Of the rule `window`: how far back calls count.
    pub window: Option<Duration>,
    /// Of the rule `window`: the share of successes that closes it.
    pub half_open_success_threshold: Option<f64>,
    /// Of the rule `consecutive`: how many failures in a row open it.
    pub failure_threshold: Option<u32>,
    /// Of the rule `consecutive`: how many successes close it.
    pub success_threshold: Option<u32>,
}

impl BreakerInput {
    /// The breaker that is asked for, where there is this one. Another rule brings its own defaults with it.
    ///
    /// # Errors
    /// Every member that is out of its range, or belongs to the other rule.
    pub(super) fn on(&self, current: BreakerConfig) -> Result<BreakerConfig, Vec<Fault>> {
        let mut config = self.base(current)?;
        let strangers = self.set_rule(&mut config.rule);
        set(&mut config.enabled, self.enabled);
        set(&mut config.sleep, self.sleep);
        set(&mut config.sleep_max, self.sleep_max);
        set(&mut config.half_open_max_calls, self.half_open_max_calls);
        let name = rule_name(&config.rule);
        let stranger = |member| fault(member, format!("belongs to the other rule: this circuit breaker uses `{name}`"));
        let mut faults: Vec<Fault> = strangers.into_iter().map(stranger).collect();
        faults.extend(config.faults().iter().map(|wrong| fault(wrong.field, format!("must be {}", wrong.expected))));
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }

    /// What stays where nothing is said.
    fn base(&self, current: BreakerConfig) -> Result<BreakerConfig, Vec<Fault>> {
        let defaults = match self.rule.as_deref() {
            None => return Ok(current),
            Some("window") => BreakerConfig::window(),
            Some("consecutive") => BreakerConfig::consecutive(),
            Some(_) => return Err(vec![fault("rule", "must be `window` or `consecutive`")]),
        };
        let is_same = rule_name(&defaults.rule) == rule_name(&current.rule);
        Ok(if is_same { current } else { BreakerConfig { enabled: current.enabled, ..defaults } })
    }

    /// Sets the rule's numbers, and says which members are given that belong to the other one.
    fn set_rule(&self, rule: &mut TripRule) -> Vec<&'static str> {
        let of_window = [
            ("error_threshold_percentage", self.error_threshold_percentage.is_some()),
            ("minimum_throughput", self.minimum_throughput.is_some()),
            ("window_size_ms", self.window.is_some()),
            ("half_open_success_threshold", self.half_open_success_threshold.is_some()),
        ];
        let of_consecutive =
            [("failure_threshold", self.failure_threshold.is_some()), ("success_threshold", self.success_threshold.is_some())];
        match rule {
            TripRule::Window { error_threshold_percentage, minimum_throughput, window, half_open_success_threshold } => {
                set(error_threshold_percentage, self.error_threshold_percentage);
                set(minimum_throughput, self.minimum_throughput);
                set(window, self.window);
                set(half_open_success_threshold, self.half_open_success_threshold);
                given(&of_consecutive)
            }
            TripRule::Consecutive { failure_threshold, success_threshold } => {
                set(failure_threshold, self.failure_threshold);
                set(success_threshold, self.success_threshold);
                given(&of_window)
            }
        }
    }
}

/// The name of a breaker's rule on every wire.
pub const fn rule_name(rule: &TripRule) -> &'static str {
    match rule {
        TripRule::Window { .. } => "window",
        TripRule::Consecutive { .. } => "consecutive",
    }
}

fn set<T>(field: &mut T, input: Option<T>) {
    if let Some(value) = input {
        *field = value;
    }
}

fn given(members: &[(&'static str, bool)]) -> Vec<&'static str> {
    members.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect()
}

fn fault(member: &str, reason: impl Into<String>) -> Fault {
    Fault::new(format!("circuit_breaker.{member}"), reason)
}

/// What is asked of a rate limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateInput {
    /// How many may start a minute.
    pub requests_per_minute: Option<i64>,
    /// How many of them at once after a quiet time.
    pub burst: Option<i64>,
}

impl RateInput {
    /// The limit that is asked for; what is wrong with it is added to the faults.
    pub(super) fn check(self, faults: &mut Vec<Fault>) -> Option<RateLimit> {
        if self.requests_per_minute.is_none() {
            faults.push(Fault::new("rate_limit.requests_per_minute", "is required"));
        }
        let requests = read_rate("rate_limit.requests_per_minute", self.requests_per_minute, REQUESTS_MAX, faults);
        let burst = read_rate("rate_limit.burst", self.burst, REQUESTS_MAX, faults);
        Some(RateLimit::per_minute(requests?, burst))
    }
}

/// Reads a number of requests that is at least 1; what is wrong with it is added to the faults.
pub(super) fn read_rate(field: &str, asked: Option<i64>, max: i64, faults: &mut Vec<Fault>) -> Option<NonZeroU32> {
    let asked = asked?;
    let read = u32::try_from(asked).ok().and_then(NonZeroU32::new).filter(|_| asked <= max);
    if read.is_none() {
        faults.push(Fault::new(field, format!("must be 1 to {max}")));
    }
    read
}

pub(super) fn read_ordering(name: &str) -> Result<OrderingMode, String> {
    OrderingMode::parse(name).ok_or_else(|| "must be `none`, `per_event_type`, `per_key` or `strict`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<T>(checked: Result<T, Vec<Fault>>) -> Vec<String> {
        checked.err().unwrap_or_default().into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn what_is_not_asked_for_stays() {
        let nothing = BreakerInput::default;
        let tuned = BreakerConfig { enabled: false, sleep: Duration::from_secs(7), ..BreakerConfig::window() };
        assert_eq!(nothing().on(tuned), Ok(tuned));
        let asked = BreakerInput { rule: Some("window".into()), minimum_throughput: Some(9), ..nothing() };
        let TripRule::Window { minimum_throughput, error_threshold_percentage, .. } = asked.on(tuned).unwrap().rule else {
            panic!("it is a window")
        };
        assert_eq!((minimum_throughput, error_threshold_percentage), (9, 60));
        assert_eq!(asked.on(tuned).unwrap().sleep, tuned.sleep);
    }

    #[test]
    fn another_rule_brings_its_own_numbers() {
        let tuned = BreakerConfig { enabled: false, sleep: Duration::from_secs(7), ..BreakerConfig::window() };
        let asked = BreakerInput { rule: Some("consecutive".into()), failure_threshold: Some(2), ..BreakerInput::default() };
        let rule = TripRule::Consecutive { failure_threshold: 2, success_threshold: 3 };
        assert_eq!(asked.on(tuned), Ok(BreakerConfig { enabled: false, rule, ..BreakerConfig::consecutive() }));
    }

    #[test]
    fn every_member_that_is_wrong_is_named() {
        let nothing = BreakerInput::default;
        let window = BreakerConfig::window();
        #[rustfmt::skip]
        let table: Vec<(BreakerInput, &[&str])> = vec![
            (nothing(), &[]),
            (BreakerInput { rule: Some("always".into()), ..nothing() }, &["circuit_breaker.rule"]),
            (BreakerInput { failure_threshold: Some(5), ..nothing() }, &["circuit_breaker.failure_threshold"]),
            (BreakerInput { rule: Some("consecutive".into()), window: Some(Duration::from_secs(9)), ..nothing() }, &["circuit_breaker.window_size_ms"]),
            (BreakerInput { error_threshold_percentage: Some(101), half_open_max_calls: Some(0), ..nothing() },
             &["circuit_breaker.error_threshold_percentage", "circuit_breaker.half_open_max_calls"]),
            (BreakerInput { sleep: Some(Duration::from_secs(3_600)), ..nothing() }, &["circuit_breaker.sleep_max_ms"]),
        ];
        for (asked, expected) in table {
            assert_eq!(fields(asked.on(window)), expected, "{asked:?}");
        }
    }

    #[test]
    fn a_rate_has_its_bounds() {
        let input = |requests_per_minute, burst| RateInput { requests_per_minute, burst };
        #[rustfmt::skip]
        let table: [(RateInput, &[&str]); 7] = [
            (input(Some(1), None), &[]),
            (input(Some(1_000_000), Some(1_000_000)), &[]),
            (input(None, None), &["rate_limit.requests_per_minute"]),
            (input(None, Some(5)), &["rate_limit.requests_per_minute"]),
            (input(Some(0), Some(0)), &["rate_limit.requests_per_minute", "rate_limit.burst"]),
            (input(Some(1_000_001), None), &["rate_limit.requests_per_minute"]),
            (input(Some(10), Some(-1)), &["rate_limit.burst"]),
        ];
        for (asked, expected) in table {
            let mut faults = Vec::new();
            let limit = asked.check(&mut faults);
            let fields: Vec<_> = faults.into_iter().map(|fault| fault.field).collect();
            assert_eq!(fields, expected, "{asked:?}");
            assert!(limit.is_some() || !fields.is_empty());
        }
    }
}
