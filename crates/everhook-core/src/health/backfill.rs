//! Asking Garmin to push data of the past again: how types are spelled, and what the answers mean.

use super::garmin;
use crate::model::health::{BackfillType, ChunkOutcome};

/// Other names of types.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("bloodPressure", "bloodPressures"),
    ("allDayRespiration", "respiration"),
    ("moveIQActivities", "moveiq"),
    ("menstrualCycleTracking", "mct"),
];

/// The types that become metrics: what is asked for where nobody says more.
pub fn types_with_metrics() -> Vec<BackfillType> {
    BackfillType::ALL.into_iter().filter(|data| garmin::type_of(data.as_str()).is_some()).collect()
}

/// Reads the name of a type, in any spelling that is in use.
pub fn read_type(name: &str) -> Option<BackfillType> {
    let other = OTHER_NAMES.iter().find(|(other, _)| garmin::is_spelling_of(name, other)).map(|(_, known)| *known);
    let known = || garmin::type_of(name).map(super::GarminType::as_str);
    let spelled = other.or_else(known).unwrap_or(name);
    BackfillType::ALL.into_iter().find(|known| garmin::is_spelling_of(spelled, known.as_str()))
}

/// What a status means for a piece; `None` if it says nothing about it: it may be asked for again.
pub const fn outcome_of(status: u16) -> Option<ChunkOutcome> {
    match status {
        200..=299 => Some(ChunkOutcome::Accepted),
        409 => Some(ChunkOutcome::DoneBefore),
        403 => Some(ChunkOutcome::NoHistoryPermission),
        400 | 401 => Some(ChunkOutcome::RefusedByProvider),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_in_every_spelling() {
        for (name, path) in [
            ("sleeps", "sleeps"),
            ("sleep", "sleeps"),
            ("stress_details", "stressDetails"),
            ("pulseox", "pulseOx"),
            ("moveIQ", "moveiq"),
            ("moveIQActivities", "moveiq"),
            ("allDayRespiration", "respiration"),
            ("bloodPressure", "bloodPressures"),
        ] {
            assert_eq!(read_type(name).map(BackfillType::as_str), Some(path), "{name}");
        }
        for name in ["", "deregistrations", "manuallyUpdatedActivities", "../user"] {
            assert_eq!(read_type(name), None, "{name}");
        }
        let with_metrics: Vec<&str> = types_with_metrics().into_iter().map(BackfillType::as_str).collect();
        assert_eq!(with_metrics, ["activities", "dailies", "sleeps", "stressDetails", "userMetrics"]);
    }

    #[test]
    fn every_status_means_something() {
        for (status, expected) in [
            (202, Some(ChunkOutcome::Accepted)),
            (200, Some(ChunkOutcome::Accepted)),
            (409, Some(ChunkOutcome::DoneBefore)),
            (403, Some(ChunkOutcome::NoHistoryPermission)),
            (400, Some(ChunkOutcome::RefusedByProvider)),
            (401, Some(ChunkOutcome::RefusedByProvider)),
            (429, None),
            (500, None),
            (302, None),
        ] {
            assert_eq!(outcome_of(status), expected, "{status}");
        }
    }
}
