//! Instants, as the whole product counts them: microseconds since the Unix epoch, UTC.

use std::{fmt, time::Duration};

/// A point in time. Small, ordered, and the same number in memory and in every store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// Later than every instant that occurs.
    pub const FAR_FUTURE: Self = Self(i64::MAX);

    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From whole seconds since the epoch.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down: what signatures carry.
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// This instant rounded down to a whole second.
    pub const fn floor_to_second(self) -> Self {
        Self::from_secs(self.as_secs())
    }

    /// The time that passed since `earlier`; zero if it lies in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Reads RFC 3339, with any offset.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let parsed: jiff::Timestamp = text.parse().ok()?;
        Some(Self(parsed.as_microsecond()))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, delay: Duration) -> Self {
        let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, delay: Duration) -> Self {
        let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }
}

/// RFC 3339 in UTC, with as many digits of the second as are needed.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => instant.fmt(f),
            Err(_) => f.write_str("never"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_written_and_read_as_rfc_3339() {
        let instant = Timestamp::from_micros(1_649_367_553_000_250);
        assert_eq!(instant.to_string(), "2022-04-07T21:39:13.00025Z");
        assert_eq!(Timestamp::parse_rfc3339("2022-04-07T23:39:13.00025+02:00"), Some(instant));
        assert_eq!(Timestamp::parse_rfc3339("yesterday"), None);
    }

    #[test]
    fn time_never_overflows() {
        assert_eq!(Timestamp::FAR_FUTURE + Duration::MAX, Timestamp::FAR_FUTURE);
        assert_eq!(Timestamp::EPOCH.since(Timestamp::FAR_FUTURE), Duration::ZERO);
    }
}
