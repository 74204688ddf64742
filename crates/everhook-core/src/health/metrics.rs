//! What the mappings of all types have in common: spans of time, bounds of values, and how a metric is put together.

use std::{ops::RangeInclusive, time::Duration};

use crate::{
    model::health::{MetricDraft, MetricType},
    time::Timestamp,
};

/// Of anything that is counted within a span: more is not measured.
pub(super) const COUNT: RangeInclusive<f64> = 0.0..=1e9;
/// Of a length of time in seconds: a year. Activities of several days exist.
pub(super) const SECONDS: RangeInclusive<f64> = 0.0..=31_622_400.0;
/// Of a heart's beats in a minute. Zero means that none was measured.
pub(super) const BEATS: RangeInclusive<f64> = 1.0..=400.0;
/// Of scores and of parts of a hundred.
pub(super) const PERCENT: RangeInclusive<f64> = 0.0..=100.0;
/// The same where zero and less mean that nothing was measured: stress and oxygen saturation.
pub(super) const MEASURED_PERCENT: RangeInclusive<f64> = 1.0..=100.0;
/// Of oxygen uptake. Zero means that it is not known.
pub(super) const VO2MAX: RangeInclusive<f64> = 1.0..=150.0;
/// Of an age in years.
pub(super) const AGE: RangeInclusive<f64> = 1.0..=150.0;

const DAY: Duration = Duration::from_secs(86_400);

/// When something was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
}

impl Span {
    /// From 00:00:00 to 23:59:59 of the day that begins at `midnight`.
    pub(super) fn day(midnight: Timestamp) -> Self {
        Self { start: midnight, end: midnight + (DAY - Duration::from_secs(1)) }
    }

    /// The day in which an instant lies by a clock that is so many seconds ahead of UTC.
    pub(super) fn day_of(instant: Timestamp, offset_seconds: f64) -> Self {
        let local = if offset_seconds < 0.0 { instant - seconds(-offset_seconds) } else { instant + seconds(offset_seconds) };
        Self::day(local.next_multiple_of(DAY) - DAY)
    }

    /// So many seconds from `start` on.
    pub(super) fn lasting(start: Timestamp, for_seconds: f64) -> Self {
        Self { start, end: start + seconds(for_seconds) }
    }

    /// One instant.
    pub(super) fn instant(at: Timestamp) -> Self {
        Self { start: at, end: at }
    }

    /// A metric of this span, without anything beside its value.
    pub(super) fn metric(self, metric_type: MetricType, value: Option<f64>) -> MetricDraft {
        let Self { start, end } = self;
        MetricDraft { metric_type, sport: None, start, end, value, details: None, record_id: None, raw: None }
    }
}

/// A length of time. What is no length is none.
fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or_default()
}
