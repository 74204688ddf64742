//! Metrics: what was measured, in one row each.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;

use super::{ProfileId, Provider, RecordId};
use crate::{
    ids::{HealthMetricId, OrganizationId},
    time::Timestamp,
};

/// How much of what the provider sent is kept beside a metric, in bytes. What is larger stays with the received event alone.
pub const RAW_BYTES_MAX: usize = 256 * 1024;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricType {
    /// A night's sleep, in seconds asleep.
    Sleep,
    /// Oxygen saturation while asleep, in percent.
    Spo2,
    /// A day's stress, from 1 to 100.
    Stress,
    /// Oxygen uptake.
    Vo2max,
    /// A day's steps.
    Steps,
    /// A day's resting heart rate.
    RestingHr,
    /// A day's active energy.
    Calories,
    /// A day's distance.
    Distance,
    /// A workout, in seconds.
    Activity,
}

impl MetricType {
    /// All types.
    pub const ALL: [Self; 9] =
        [Self::Sleep, Self::Spo2, Self::Stress, Self::Vo2max, Self::Steps, Self::RestingHr, Self::Calories, Self::Distance, Self::Activity];

    /// Its name on every wire and in every store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Spo2 => "spo2",
            Self::Stress => "stress",
            Self::Vo2max => "vo2max",
            Self::Steps => "steps",
            Self::RestingHr => "resting_hr",
            Self::Calories => "calories",
            Self::Distance => "distance",
            Self::Activity => "activity",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.as_str() == name)
    }

    /// What its value counts.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Sleep | Self::Activity => Unit::Seconds,
            Self::Spo2 => Unit::Percent,
            Self::Stress => Unit::Score,
            Self::Vo2max => Unit::MillilitersPerKilogramMinute,
            Self::Steps => Unit::Steps,
            Self::RestingHr => Unit::BeatsPerMinute,
            Self::Calories => Unit::Kilocalories,
            Self::Distance => Unit::Meters,
        }
    }
}

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Parts of a hundred.
    Percent,
    /// A score up to 100.
    Score,
    /// Of oxygen uptake.
    MillilitersPerKilogramMinute,
    /// Steps.
    Steps,
    /// Of a heart.
    BeatsPerMinute,
    /// Of energy.
    Kilocalories,
    /// Meters.
    Meters,
}

impl Unit {
    /// Its name on every wire and in every store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Percent => "percent",
            Self::Score => "score",
            Self::MillilitersPerKilogramMinute => "ml/kg/min",
            Self::Steps => "steps",
            Self::BeatsPerMinute => "bpm",
            Self::Kilocalories => "kcal",
            Self::Meters => "meters",
        }
    }
}

/// What oxygen uptake was measured at. A record may have both, as two metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vo2maxSport {
    /// Running, or anything that is not said.
    Running,
    /// Cycling.
    Cycling,
}

/// A metric as the mapping makes it, for any profile.
///
/// A row is found by profile, provider, metric type and `record_id` first, else by the dedupe hash: the same draft twice changes nothing, and a corrected one
/// updates the row, its span and its hash included.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricDraft {
    /// What was measured.
    pub metric_type: MetricType,
    /// At what, of oxygen uptake alone.
    pub sport: Option<Vo2maxSport>,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; not before `start`.
    pub end: Timestamp,
    /// The value, which is finite and counts `metric_type.unit()`; `None` if nothing was measured.
    pub value: Option<f64>,
    /// What else was measured: a JSON object, or `None` where the type has no more.
    pub details: Option<String>,
    /// The provider's id of the record. That of cycling oxygen uptake ends in `#cycling`, because the record holds the one of running, too.
    pub record_id: Option<RecordId>,
    /// What the provider sent, JSON of at most [`RAW_BYTES_MAX`] bytes. It is personal data: stores seal it.
    pub raw: Option<Bytes>,
}

impl MetricDraft {
    /// What makes two metrics of one profile the same where no record id says so.
    pub fn dedupe_hash(&self, profile: &ProfileId, provider: Provider) -> DedupeHash {
        let metric = match (self.metric_type, self.sport) {
            (MetricType::Vo2max, Some(Vo2maxSport::Cycling)) => "vo2max:cycling",
            (metric, _) => metric.as_str(),
        };
        let (provider, start, end) = (provider.as_str(), self.start, self.end);
        let text = format!("{profile}|{provider}|{metric}|{start}|{end}");
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
        DedupeHash(hash)
    }
}

/// SHA-256 of a profile, a provider, a metric type and a span. Shown as lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DedupeHash(pub [u8; 32]);

impl fmt::Display for DedupeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A metric of a profile, as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its identity.
    pub id: HealthMetricId,
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// Whose it is.
    pub profile: ProfileId,
    /// Who measured.
    pub provider: Provider,
    /// What was measured.
    pub measured: MetricDraft,
    /// What finds it without a record id.
    pub dedupe_hash: DedupeHash,
    /// When it was first written.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(metric_type: MetricType, sport: Option<Vo2maxSport>) -> MetricDraft {
        let (start, end) = (Timestamp::from_secs(1_452_470_400), Timestamp::from_secs(1_452_556_799));
        MetricDraft { metric_type, sport, start, end, value: Some(1.0), details: None, record_id: None, raw: None }
    }

    /// The hashes were made with `printf '%s' TEXT | sha256sum`.
    #[test]
    fn the_dedupe_hash_is_of_the_documented_text() {
        let profile = ProfileId::parse("8c1f").expect("it is good");
        for (metric_type, sport, provider, expected) in [
            // 8c1f|garmin|steps|2016-01-11T00:00:00Z|2016-01-11T23:59:59Z
            (MetricType::Steps, None, Provider::Garmin, "8daf3f5738b570de2a0f6a305538b65b0eca793c621356ba44a2c2b70fac29b9"),
            // 8c1f|strava|activity|2016-01-11T00:00:00Z|2016-01-11T23:59:59Z
            (MetricType::Activity, None, Provider::Strava, "cfaf2555baf1c767b98d6032f9e4c271404faf264a9e738bacf116d8fff0fad1"),
            // 8c1f|garmin|vo2max|2016-01-11T00:00:00Z|2016-01-11T23:59:59Z
            (
                MetricType::Vo2max,
                Some(Vo2maxSport::Running),
                Provider::Garmin,
                "ebe2638471245bd8869a3f721c72746c9ca4395b730cc7e2aaa63f088651e4ca",
            ),
            // 8c1f|garmin|vo2max:cycling|2016-01-11T00:00:00Z|2016-01-11T23:59:59Z
            (
                MetricType::Vo2max,
                Some(Vo2maxSport::Cycling),
                Provider::Garmin,
                "7e2af016aaac7fa016ad0d9c1e22af955c1bbd8dc80ee55f90aeee2723c5638a",
            ),
        ] {
            assert_eq!(draft(metric_type, sport).dedupe_hash(&profile, provider).to_string(), expected);
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for metric in MetricType::ALL {
            assert_eq!(MetricType::parse(metric.as_str()), Some(metric));
        }
        for provider in Provider::ALL {
            assert_eq!(Provider::parse(provider.as_str()), Some(provider));
        }
        assert_eq!(MetricType::parse("heart"), None);
    }
}
