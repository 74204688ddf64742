//! Asking Garmin to push data of the past again: what may be asked for, in which pieces, and what the answers mean.

use std::time::Duration;

use super::garmin;
use crate::time::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest span that may be asked for at once: the product's bound. How far back Garmin goes, it says itself.
pub const SPAN_MAX: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The longest piece that Garmin takes, unless it is set otherwise.
pub const CHUNK_DEFAULT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Garmin's types that can be asked for again, as its paths spell them. Data without a metric arrives as events.
const TYPES: &[&str] = &[
    "activities",
    "activityDetails",
    "bloodPressures",
    "bodyComps",
    "dailies",
    "epochs",
    "healthSnapshot",
    "hrv",
    "mct",
    "moveiq",
    "pulseOx",
    "respiration",
    "skinTemp",
    "sleeps",
    "stressDetails",
    "userMetrics",
];
/// Other names of these.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("bloodPressure", "bloodPressures"),
    ("allDayRespiration", "respiration"),
    ("moveIQActivities", "moveiq"),
    ("menstrualCycleTracking", "mct"),
];

/// A type of data that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackfillType(&'static str);

impl BackfillType {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        TYPES.iter().copied().map(Self)
    }

    /// Those that become metrics: what is asked for where nobody says more.
    pub fn with_metrics() -> impl Iterator<Item = Self> {
        Self::all().filter(|data| garmin::type_of(data.0).is_some())
    }

    /// Reads a name, in any spelling that is in use.
    pub fn parse(name: &str) -> Option<Self> {
        let other = OTHER_NAMES.iter().find(|(other, _)| garmin::is_spelling_of(name, other)).map(|(_, known)| *known);
        let known = || garmin::type_of(name).map(super::GarminType::as_str);
        let spelled = other.or_else(known).unwrap_or(name);
        TYPES.iter().find(|known| garmin::is_spelling_of(spelled, known)).copied().map(Self)
    }

    /// As Garmin's path spells it.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// A piece of a span: whole seconds, the end is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackfillChunk {
    /// When it begins.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
}

/// Cuts a span into pieces of at most `chunk`, oldest first. What is longer than [`SPAN_MAX`] must have been refused before; nothing beyond it is cut.
pub fn chunks(start: Timestamp, end: Timestamp, chunk: Duration) -> Vec<BackfillChunk> {
    let (chunk, end) = (chunk.max(DAY), end.min(start + SPAN_MAX));
    let mut chunks = Vec::new();
    let mut at = start;
    while at < end {
        let next = (at + chunk).min(end);
        chunks.push(BackfillChunk { start: at, end: next });
        at = next;
    }
    chunks
}

/// What Garmin answered to one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackfillAnswer {
    /// The data will be pushed.
    Accepted,
    /// It was asked for before: nothing will be pushed.
    DoneBefore,
    /// The user did not allow data of the past. No other piece will be answered otherwise.
    NoHistoryPermission,
    /// It is older than Garmin gives, or the token does not hold any more.
    RefusedByProvider,
}

impl BackfillAnswer {
    /// What a status means; `None` if it says nothing about the piece: it may be asked again.
    pub const fn of(status: u16) -> Option<Self> {
        match status {
            200..=299 => Some(Self::Accepted),
            409 => Some(Self::DoneBefore),
            403 => Some(Self::NoHistoryPermission),
            400 | 401 => Some(Self::RefusedByProvider),
            _ => None,
        }
    }

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::DoneBefore => "done_before",
            Self::NoHistoryPermission => "no_history_permission",
            Self::RefusedByProvider => "refused_by_provider",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_cut_into_pieces_without_gap_or_overlap() {
        let days = |from: i64, to: i64| BackfillChunk { start: day(from), end: day(to) };
        for (from, to, chunk_days, expected) in [
            (0, 90, 30, vec![days(0, 30), days(30, 60), days(60, 90)]),
            (0, 31, 30, vec![days(0, 30), days(30, 31)]),
            (0, 30, 30, vec![days(0, 30)]),
            (0, 90, 90, vec![days(0, 90)]),
            (5, 5, 30, vec![]),
            (6, 5, 30, vec![]),
            // Never more than the bound, whatever is asked for.
            (0, 10_000, 45, vec![days(0, 45), days(45, 90)]),
        ] {
            assert_eq!(chunks(day(from), day(to), DAY * chunk_days), expected, "{from} to {to} by {chunk_days}");
        }
        // A piece of no length would be asked for without end.
        assert_eq!(chunks(day(0), day(90), Duration::ZERO).len(), 90);
    }

    fn day(number: i64) -> Timestamp {
        Timestamp::from_secs(1_700_000_000 + number * 86_400)
    }

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
            assert_eq!(BackfillType::parse(name).map(BackfillType::as_str), Some(path), "{name}");
        }
        for name in ["", "deregistrations", "manuallyUpdatedActivities", "../user"] {
            assert_eq!(BackfillType::parse(name), None, "{name}");
        }
        let with_metrics: Vec<&str> = BackfillType::with_metrics().map(BackfillType::as_str).collect();
        assert_eq!(with_metrics, ["activities", "dailies", "sleeps", "stressDetails", "userMetrics"]);
    }

    #[test]
    fn every_status_means_something() {
        for (status, expected) in [
            (202, Some(BackfillAnswer::Accepted)),
            (200, Some(BackfillAnswer::Accepted)),
            (409, Some(BackfillAnswer::DoneBefore)),
            (403, Some(BackfillAnswer::NoHistoryPermission)),
            (400, Some(BackfillAnswer::RefusedByProvider)),
            (401, Some(BackfillAnswer::RefusedByProvider)),
            (429, None),
            (500, None),
            (302, None),
        ] {
            assert_eq!(BackfillAnswer::of(status), expected, "{status}");
        }
    }
}
