//! An endpoint's breaker and rate limit, as clients write and see them.

use everhook_core::{
    manage::endpoints::{BreakerInput, RateInput, rule_name},
    model::{BreakerConfig, RateLimit, TripRule},
    time::millis,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request;
use crate::api::words::BreakerRule;

/// A rate limit.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimitIn {
    /// 1 to 1,000,000. Required.
    #[schema(value_type = u32, minimum = 1, maximum = 1_000_000)]
    requests_per_minute: Option<i64>,
    /// The number of requests that may start at once after a quiet period: 1 to 1,000,000; a hundredth of the rate, at least 1, if absent.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    burst: Option<i64>,
}

/// A rate limit.
#[derive(Serialize, ToSchema)]
pub struct RateLimitOut {
    requests_per_minute: u32,
    burst: u32,
}

/// Settings of a circuit breaker. Absent members are not changed; changing `rule` sets the defaults of the new rule.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakerIn {
    /// Whether failures can open it.
    enabled: Option<bool>,
    /// `window` or `consecutive`.
    #[schema(value_type = Option<BreakerRule>)]
    rule: Option<String>,
    /// Rule `window`: the percentage of failures that opens it: 1 to 100.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
    error_threshold_percentage: Option<i64>,
    /// Rule `window`: the minimum number of calls: 1 to 100,000.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100_000)]
    minimum_throughput: Option<i64>,
    /// Rule `window`: the length of the window: 1,000 to 3,600,000.
    #[schema(value_type = Option<u32>, minimum = 1_000, maximum = 3_600_000)]
    window_size_ms: Option<i64>,
    /// How long it stays open at first: 100 to 86,400,000.
    #[schema(value_type = Option<u32>, minimum = 100, maximum = 86_400_000)]
    sleep_window_ms: Option<i64>,
    /// The longest time that it stays open: at least `sleep_window_ms`, at most 86,400,000.
    #[schema(value_type = Option<u32>, minimum = 100, maximum = 86_400_000)]
    sleep_max_ms: Option<i64>,
    /// The number of concurrent probes: 1 to 100.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
    half_open_max_calls: Option<i64>,
    /// Rule `window`: the share of successful probes that closes it: 0.01 to 1.
    #[schema(minimum = 0.01, maximum = 1)]
    half_open_success_threshold: Option<f64>,
    /// Rule `consecutive`: the number of consecutive failures that opens it: 1 to 100,000.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100_000)]
    failure_threshold: Option<i64>,
    /// Rule `consecutive`: the number of successful probes that closes it: 1 to 100.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
    success_threshold: Option<i64>,
}

/// Settings of a circuit breaker. Only the members of its rule are included.
#[derive(Serialize, ToSchema)]
pub struct BreakerOut {
    enabled: bool,
    /// `window` or `consecutive`.
    #[schema(value_type = BreakerRule)]
    rule: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_threshold_percentage: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum_throughput: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_size_ms: Option<u64>,
    sleep_window_ms: u64,
    sleep_max_ms: u64,
    half_open_max_calls: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    half_open_success_threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_threshold: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success_threshold: Option<u32>,
}

impl From<RateLimitIn> for RateInput {
    fn from(limit: RateLimitIn) -> Self {
        Self { requests_per_minute: limit.requests_per_minute, burst: limit.burst }
    }
}

impl From<RateLimit> for RateLimitOut {
    fn from(limit: RateLimit) -> Self {
        Self { requests_per_minute: limit.requests.get(), burst: limit.burst.get() }
    }
}

impl From<BreakerIn> for BreakerInput {
    fn from(breaker: BreakerIn) -> Self {
        Self {
            enabled: breaker.enabled,
            rule: breaker.rule,
            sleep: breaker.sleep_window_ms.map(request::millis),
            sleep_max: breaker.sleep_max_ms.map(request::millis),
            half_open_max_calls: breaker.half_open_max_calls.map(count),
            error_threshold_percentage: breaker.error_threshold_percentage.map(count),
            minimum_throughput: breaker.minimum_throughput.map(count),
            window: breaker.window_size_ms.map(request::millis),
            half_open_success_threshold: breaker.half_open_success_threshold,
            failure_threshold: breaker.failure_threshold.map(count),
            success_threshold: breaker.success_threshold.map(count),
        }
    }
}

impl From<BreakerConfig> for BreakerOut {
    fn from(config: BreakerConfig) -> Self {
        let blank = Self {
            enabled: config.enabled,
            rule: rule_name(&config.rule),
            error_threshold_percentage: None,
            minimum_throughput: None,
            window_size_ms: None,
            sleep_window_ms: millis(config.sleep),
            sleep_max_ms: millis(config.sleep_max),
            half_open_max_calls: config.half_open_max_calls,
            half_open_success_threshold: None,
            failure_threshold: None,
            success_threshold: None,
        };
        match config.rule {
            TripRule::Window { error_threshold_percentage, minimum_throughput, window, half_open_success_threshold } => Self {
                error_threshold_percentage: Some(error_threshold_percentage),
                minimum_throughput: Some(minimum_throughput),
                window_size_ms: Some(millis(window)),
                half_open_success_threshold: Some(half_open_success_threshold),
                ..blank
            },
            TripRule::Consecutive { failure_threshold, success_threshold } => {
                Self { failure_threshold: Some(failure_threshold), success_threshold: Some(success_threshold), ..blank }
            }
        }
    }
}

/// A number that does not fit becomes the nearest that does, which every range refuses.
fn count(n: i64) -> u32 {
    u32::try_from(n.max(0)).unwrap_or(u32::MAX)
}
