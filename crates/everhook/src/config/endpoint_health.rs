//! How endpoints that fail for days are treated.

use std::{ops::RangeInclusive, time::Duration};

use everhook_core::{
    model::FailingRule,
    policy::{
        cron::CronSchedule,
        endpoint_health::{EndpointHealthSettings, HealthPhase},
    },
};

use super::{
    check::{Reader, in_range},
    units,
};

/// Shorter than a second is between two checks; longer than a year is never.
const WAIT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(365 * 86_400);

/// Failures may follow each other at once.
const SPREAD: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(365 * 86_400);

/// How many failures an endpoint must have, at the most: more than a schedule has attempts for one event.
const FAILURES: RangeInclusive<u32> = 1..=1_000;

/// Reads the settings; `None` if one could not be read, and then its fault is among the others.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<EndpointHealthSettings> {
    let phase = reader.needed("disable_failing_endpoints", parse_phase);
    let warning_after = reader.needed("endpoint_warning_after", |text| in_range(units::parse_duration(text)?, WAIT));
    let disable_after = reader.needed("endpoint_disable_after", |text| in_range(units::parse_duration(text)?, WAIT));
    let window = reader.needed("endpoint_failing_window", |text| in_range(units::parse_duration(text)?, WAIT));
    let spread = reader.needed("endpoint_failing_spread", |text| in_range(units::parse_duration(text)?, SPREAD));
    let failures_min = reader.needed("endpoint_failing_min", parse_failures);
    let schedule = reader.needed("health_check_cron", CronSchedule::parse);
    let (warning_after, disable_after) = (warning_after?, disable_after?);
    if warning_after >= disable_after {
        reader.faults.push("endpoint_warning_after: must be shorter than endpoint_disable_after".to_owned());
    }
    let (window, spread) = (window?, spread?);
    if spread > window {
        reader.faults.push("endpoint_failing_spread: must not be longer than endpoint_failing_window".to_owned());
    }
    let rule = FailingRule { window, spread, failures_min: failures_min? };
    Some(EndpointHealthSettings { phase: phase?, rule, warning_after, disable_after, schedule: schedule? })
}

fn parse_phase(text: &str) -> Result<HealthPhase, String> {
    match text.trim() {
        "true" | "1" => Ok(HealthPhase::Disable),
        "warn" => Ok(HealthPhase::Warn),
        "observe" => Ok(HealthPhase::Observe),
        "false" | "0" => Ok(HealthPhase::Off),
        _ => Err("must be true, warn, observe or false".to_owned()),
    }
}

fn parse_failures(text: &str) -> Result<u32, String> {
    let failures = text.trim().parse().map_err(|_| "must be a number".to_owned())?;
    if FAILURES.contains(&failures) { Ok(failures) } else { Err(format!("must be from {} to {}", FAILURES.start(), FAILURES.end())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_have_the_words_that_the_documents_use() {
        let table =
            [("true", HealthPhase::Disable), ("warn", HealthPhase::Warn), ("observe", HealthPhase::Observe), ("false", HealthPhase::Off)];
        for (word, expected) in table {
            assert_eq!(parse_phase(word), Ok(expected), "{word}");
        }
        assert!(parse_phase("maybe").is_err());
    }

    #[test]
    fn a_number_of_failures_is_bounded() {
        assert_eq!(parse_failures("3"), Ok(3));
        for bad in ["", "0", "-1", "1001", "three"] {
            assert!(parse_failures(bad).is_err(), "{bad}");
        }
    }
}
