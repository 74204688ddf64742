//! A breaker's configuration as JSON. Lengths of time are microseconds.

use std::sync::LazyLock;

use everhook_core::model::{BreakerConfig, TripRule};
use serde::{Deserialize, Serialize};

use super::{duration, micros};

/// What most endpoints have: it need not be parsed for each of a hundred thousand.
static OF_ENDPOINTS: LazyLock<String> = LazyLock::new(|| write(&BreakerConfig::window()));

#[derive(Serialize, Deserialize)]
struct ConfigJson {
    enabled: bool,
    rule: RuleJson,
    sleep: i64,
    sleep_max: i64,
    half_open_max_calls: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RuleJson {
    Window { error_threshold_percentage: u32, minimum_throughput: u32, window: i64, half_open_success_threshold: f64 },
    Consecutive { failure_threshold: u32, success_threshold: u32 },
}

/// Writes a configuration.
pub(crate) fn write(config: &BreakerConfig) -> String {
    let rule = match config.rule {
        TripRule::Window { error_threshold_percentage, minimum_throughput, window, half_open_success_threshold } => {
            RuleJson::Window { error_threshold_percentage, minimum_throughput, window: micros(window), half_open_success_threshold }
        }
        TripRule::Consecutive { failure_threshold, success_threshold } => RuleJson::Consecutive { failure_threshold, success_threshold },
    };
    let json = ConfigJson {
        enabled: config.enabled,
        rule,
        sleep: micros(config.sleep),
        sleep_max: micros(config.sleep_max),
        half_open_max_calls: config.half_open_max_calls,
    };
    serde_json::to_string(&json).expect("numbers and names are JSON")
}

/// Reads a configuration; `None` if it was not written here.
pub(crate) fn read(json: &str) -> Option<BreakerConfig> {
    if json == *OF_ENDPOINTS {
        return Some(BreakerConfig::window());
    }
    let json: ConfigJson = serde_json::from_str(json).ok()?;
    let rule = match json.rule {
        RuleJson::Window { error_threshold_percentage, minimum_throughput, window, half_open_success_threshold } => {
            TripRule::Window { error_threshold_percentage, minimum_throughput, window: duration(window), half_open_success_threshold }
        }
        RuleJson::Consecutive { failure_threshold, success_threshold } => TripRule::Consecutive { failure_threshold, success_threshold },
    };
    Some(BreakerConfig {
        enabled: json.enabled,
        rule,
        sleep: duration(json.sleep),
        sleep_max: duration(json.sleep_max),
        half_open_max_calls: json.half_open_max_calls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let off = BreakerConfig { enabled: false, ..BreakerConfig::window() };
        for config in [BreakerConfig::window(), BreakerConfig::consecutive(), off] {
            assert_eq!(read(&write(&config)), Some(config));
        }
        assert_eq!(read("{}"), None);
    }
}
