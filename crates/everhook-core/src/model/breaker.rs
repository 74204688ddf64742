//! The settings of a circuit breaker, and what of its state outlives the process. `policy::breaker` decides; the API and the stores spell these.

use std::{ops::RangeInclusive, time::Duration};

use crate::time::Timestamp;

/// The lengths that the sliding window may have: shorter sees too few calls, longer blames an endpoint for what is past.
const WINDOW_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60 * 60);
/// The lengths that a sleep may have. A day is the most that an endpoint that is back may go unnoticed.
const SLEEP_RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(24 * 60 * 60);
/// How many calls or failures may be asked for before the breaker opens.
const CALLS_RANGE: RangeInclusive<u32> = 1..=100_000;
/// How many probes may be asked for: each of them is an event that an ailing endpoint may fail.
const PROBES_RANGE: RangeInclusive<u32> = 1..=100;

/// When an endpoint (or a capability) is left alone, and how it is tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerConfig {
    /// Whether failures may open it. One that is switched off still obeys when it is forced open.
    pub enabled: bool,
    /// What opens it and what closes it.
    pub rule: TripRule,
    /// How long it stays open at first.
    pub sleep: Duration,
    /// The longest that doubling makes it stay open.
    pub sleep_max: Duration,
    /// How many probes may be under way at once while it is half-open. Under [`TripRule::Window`], so many decide.
    pub half_open_max_calls: u32,
}

/// What opens a breaker and what closes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TripRule {
    /// Opens on a share of failures in a sliding window, closes on a share of successful probes.
    Window {
        /// Opens from so many failures in a hundred calls.
        error_threshold_percentage: u32,
        /// Fewer calls than this in the window say nothing.
        minimum_throughput: u32,
        /// How far back calls count.
        window: Duration,
        /// Closes from this share of successful probes: `0.6` is three of five.
        half_open_success_threshold: f64,
    },
    /// Opens on failures in a row, closes on so many probes without a failure among them.
    Consecutive {
        /// How many in a row open it.
        failure_threshold: u32,
        /// How many successful probes close it.
        success_threshold: u32,
    },
}

impl BreakerConfig {
    /// What endpoints get: 60 % of at least 20 calls in 60 s open it for 30 s, doubling up to 15 min; 3 of 5 probes close it.
    pub const fn window() -> Self {
        Self {
            enabled: true,
            rule: TripRule::Window {
                error_threshold_percentage: 60,
                minimum_throughput: 20,
                window: Duration::from_secs(60),
                half_open_success_threshold: 0.6,
            },
            sleep: Duration::from_secs(30),
            sleep_max: Duration::from_secs(15 * 60),
            half_open_max_calls: 5,
        }
    }

    /// What capabilities get: 5 failures in a row open it, for 60 s each time; 3 successes close it.
    ///
    /// The sleep does not double: somebody waits for each call, and an app that is back should be noticed within the minute.
    pub const fn consecutive() -> Self {
        Self {
            enabled: true,
            rule: TripRule::Consecutive { failure_threshold: 5, success_threshold: 3 },
            sleep: Duration::from_secs(60),
            sleep_max: Duration::from_secs(60),
            half_open_max_calls: 5,
        }
    }

    /// Every field that is out of its range; empty if all is well.
    pub fn faults(&self) -> Vec<BreakerFault> {
        let mut faults = Vec::new();
        let mut check = |is_right: bool, field, expected| {
            if !is_right {
                faults.push(BreakerFault { field, expected });
            }
        };
        match self.rule {
            TripRule::Window { error_threshold_percentage, minimum_throughput, window, half_open_success_threshold } => {
                check((1..=100).contains(&error_threshold_percentage), "error_threshold_percentage", "1 to 100");
                check(CALLS_RANGE.contains(&minimum_throughput), "minimum_throughput", "1 to 100000");
                check(WINDOW_RANGE.contains(&window), "window_size_ms", "1000 (1 s) to 3600000 (1 h)");
                check((0.01..=1.0).contains(&half_open_success_threshold), "half_open_success_threshold", "0.01 to 1");
            }
            TripRule::Consecutive { failure_threshold, success_threshold } => {
                check(CALLS_RANGE.contains(&failure_threshold), "failure_threshold", "1 to 100000");
                check(PROBES_RANGE.contains(&success_threshold), "success_threshold", "1 to 100");
            }
        }
        check(SLEEP_RANGE.contains(&self.sleep), "sleep_window_ms", "100 to 86400000 (1 day)");
        check(SLEEP_RANGE.contains(&self.sleep_max), "sleep_max_ms", "100 to 86400000 (1 day)");
        check(self.sleep <= self.sleep_max, "sleep_max_ms", "at least `sleep_window_ms`");
        check(PROBES_RANGE.contains(&self.half_open_max_calls), "half_open_max_calls", "1 to 100");
        faults
    }
}

/// What one number of a breaker should have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` must be {expected}")]
pub struct BreakerFault {
    /// The field, as users spell it.
    pub field: &'static str,
    /// What would be right.
    pub expected: &'static str,
}

/// Whether a breaker lets requests through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// All of them.
    Closed,
    /// None.
    Open,
    /// A few probes, which decide.
    HalfOpen,
}

impl BreakerState {
    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Closed, Self::Open, Self::HalfOpen].into_iter().find(|state| state.as_str() == name)
    }
}

/// What of a breaker outlives the process. Counts do not: what happened before a restart says little about now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptBreaker {
    /// Its state.
    pub stage: KeptStage,
    /// Since when.
    pub since: Timestamp,
    /// How many recoveries failed since it was last closed: the next sleep depends on it.
    pub failed_recoveries: u32,
}

/// The state of a breaker, as it is kept. An instant that has passed meanwhile is fine: [`KeptStage::Open`] is then half-open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptStage {
    /// Everything flows.
    Closed,
    /// Everything flows, and failures are ignored until then; without an instant, until it is reset.
    ForcedClosed {
        /// When failures count again.
        until: Option<Timestamp>,
    },
    /// Nothing flows until then.
    Open {
        /// When it is half-open.
        until: Timestamp,
    },
    /// The same because somebody said so; without an instant, until it is reset.
    ForcedOpen {
        /// When it is half-open.
        until: Option<Timestamp>,
    },
    /// Probes flow. Those that were under way are forgotten.
    HalfOpen,
}

/// What a closed breaker has counted, as it is handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWindow {
    /// When that was so.
    pub at: Timestamp,
    /// How long the slices are that calls are counted in; zero if failures are counted in a row.
    pub slice: Duration,
    /// What was counted, oldest first.
    pub slices: Vec<KeptSlice>,
}

/// Calls that were counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSlice {
    /// Which slice, counted from the epoch.
    pub number: i64,
    /// The first of the calls.
    pub since: Timestamp,
    /// How many succeeded.
    pub successes: u32,
    /// How many failed.
    pub failures: u32,
}

/// A time in which a breaker let nothing through but probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPeriod {
    /// Since when.
    pub opened_at: Timestamp,
    /// Until when; `None` if it still does.
    pub closed_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: Duration = Duration::from_secs(1);

    #[test]
    fn the_defaults_are_in_their_ranges() {
        assert_eq!(BreakerConfig::window().faults(), []);
        assert_eq!(BreakerConfig::consecutive().faults(), []);
    }

    #[test]
    fn every_number_has_its_range_and_is_named_as_on_the_wire() {
        let config = BreakerConfig::window;
        let window = |error_threshold_percentage, minimum_throughput, secs, half_open_success_threshold| BreakerConfig {
            rule: TripRule::Window { error_threshold_percentage, minimum_throughput, window: SEC * secs, half_open_success_threshold },
            ..config()
        };
        let row = |failure_threshold, success_threshold| BreakerConfig {
            rule: TripRule::Consecutive { failure_threshold, success_threshold },
            ..config()
        };
        #[rustfmt::skip]
        let cases: Vec<(BreakerConfig, &[&str])> = vec![
            (window(1, 1, 1, 0.01),          &[]),
            (window(100, 100_000, 3_600, 1.0), &[]),
            (window(0, 20, 60, 0.6),         &["error_threshold_percentage"]),
            (window(101, 20, 60, 0.6),       &["error_threshold_percentage"]),
            (window(60, 0, 60, 0.6),         &["minimum_throughput"]),
            (window(60, 20, 0, 0.6),         &["window_size_ms"]),
            (window(60, 20, 3_601, 0.6),     &["window_size_ms"]),
            (window(60, 20, 60, 0.0),        &["half_open_success_threshold"]),
            (window(60, 20, 60, 1.1),        &["half_open_success_threshold"]),
            (window(60, 20, 60, f64::NAN),   &["half_open_success_threshold"]),
            (row(1, 1),                      &[]),
            (row(0, 101),                    &["failure_threshold", "success_threshold"]),
            (BreakerConfig { sleep: Duration::ZERO, ..config() },        &["sleep_window_ms"]),
            (BreakerConfig { sleep: 901 * SEC, ..config() },             &["sleep_max_ms"]),
            (BreakerConfig { sleep_max: 86_401 * SEC, ..config() },      &["sleep_max_ms"]),
            (BreakerConfig { half_open_max_calls: 0, ..config() },       &["half_open_max_calls"]),
            (BreakerConfig { half_open_max_calls: 101, ..window(0, 0, 0, 0.0) },
             &["error_threshold_percentage", "minimum_throughput", "window_size_ms", "half_open_success_threshold", "half_open_max_calls"]),
        ];
        for (config, expected) in cases {
            let fields: Vec<_> = config.faults().into_iter().map(|fault| fault.field).collect();
            assert_eq!(fields, expected, "{config:?}");
        }
    }

    #[test]
    fn a_state_is_written_and_read_by_its_name() {
        for state in [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen] {
            assert_eq!(BreakerState::parse(state.as_str()), Some(state));
        }
        assert_eq!(BreakerState::parse("half-open"), None);
    }
}
