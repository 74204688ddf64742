//! How long things are kept: each a length of time, or `never` for what is never removed.

use std::{ops::RangeInclusive, time::Duration};

use everhook_core::model::RetentionPeriods;

use super::{
    check::{Reader, in_range},
    units,
};

/// What is written for what never goes.
const NEVER: &str = "never";

/// A century is for ever: who means that says `never`.
const PERIOD: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(100 * 365 * 86_400);

/// How often is looked: more often than each second would be all that is done, less often than each day would leave much for one time.
const INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

/// Reads the periods; `None` if one could not be read, and then its fault is among the others.
pub(super) fn periods(reader: &mut Reader<'_>) -> Option<RetentionPeriods> {
    let events = reader.needed("retention_events", parse);
    let attempts = reader.optional("retention_attempts", parse);
    let is_attempts_set = reader.is_set("retention_attempts");
    let dead_letters = reader.needed("retention_dead_letters", parse);
    let rollups = reader.needed("retention_rollups", parse);
    let health = reader.needed("retention_health", parse);
    let operations = reader.needed("retention_operations", parse);
    let audit_log = reader.needed("retention_audit_log", parse);
    let interval = reader.needed("retention_interval", |text| in_range(units::parse_duration(text)?, INTERVAL));
    let events = events?;
    let attempts = if is_attempts_set { attempts? } else { events };
    if is_longer(attempts, events) {
        reader.faults.push("retention_attempts: must not be longer than retention_events".to_owned());
    }
    Some(RetentionPeriods {
        events,
        attempts,
        dead_letters: dead_letters?,
        rollups: rollups?,
        health: health?,
        operations: operations?,
        audit_log: audit_log?,
        interval: interval?,
    })
}

fn parse(text: &str) -> Result<Option<Duration>, String> {
    if text.trim() == NEVER {
        return Ok(None);
    }
    let period = units::parse_duration(text).map_err(|reason| format!("{reason}, or `{NEVER}`"))?;
    in_range(period, PERIOD).map(Some)
}

/// Writes a period as it is read.
pub(super) fn show(period: Option<Duration>) -> String {
    period.map_or_else(|| NEVER.to_owned(), units::show_duration)
}

fn is_longer(period: Option<Duration>, than: Option<Duration>) -> bool {
    match (period, than) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(period), Some(than)) => period > than,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_length_of_time_or_never() {
        let days = |count: u64| Some(Duration::from_secs(count * 86_400));
        for (text, expected) in [("90d", days(90)), ("1w", days(7)), ("never", None), ("3s", Some(Duration::from_secs(3)))] {
            assert_eq!(parse(text), Ok(expected), "{text}");
            assert_eq!(show(expected), text);
        }
        for bad in ["", "off", "90", "0s", "101000w"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_is_longer_than_never() {
        let (short, long) = (Some(Duration::from_secs(1)), Some(Duration::from_secs(2)));
        let table =
            [(short, long, false), (long, short, true), (long, long, false), (None, long, true), (long, None, false), (None, None, false)];
        for (period, than, expected) in table {
            assert_eq!(is_longer(period, than), expected, "{period:?} {than:?}");
        }
    }
}
