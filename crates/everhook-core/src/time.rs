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

    /// The first instant after this one that lies a whole number of steps after the epoch.
    pub fn next_multiple_of(self, step: Duration) -> Self {
        let micros = i64::try_from(step.as_micros()).unwrap_or(i64::MAX).max(1);
        Self((self.0.div_euclid(micros) + 1).saturating_mul(micros))
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

/// A length of time in whole milliseconds, as wires, logs and the audit log count it.
pub fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// RFC 3339 in UTC, with as many digits of the second as are needed.
///
/// Written by hand for the years that occur, because each request holds two of them.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = Written::of(*self) {
            return f.write_str(written.as_str());
        }
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => instant.fmt(f),
            Err(_) => f.write_str("never"),
        }
    }
}

/// An instant as text, on the stack.
struct Written {
    text: [u8; Self::BYTES_MAX],
    length: usize,
}

impl Written {
    const BYTES_MAX: usize = "2022-04-07T21:39:13.000250Z".len();
    /// The last second that the time library knows: what is later is written as it says.
    const SECONDS_END: u64 = 253_402_207_200;

    /// The text of an instant from 1970 until then.
    fn of(instant: Timestamp) -> Option<Self> {
        let micros = u64::try_from(instant.0).ok()?;
        let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
        if seconds >= Self::SECONDS_END {
            return None;
        }
        let (year, month, day) = civil(seconds / 86_400);
        let of_day = seconds % 86_400;
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        digits(&mut text[0..4], year);
        digits(&mut text[5..7], month);
        digits(&mut text[8..10], day);
        digits(&mut text[11..13], of_day / 3_600);
        digits(&mut text[14..16], of_day / 60 % 60);
        digits(&mut text[17..19], of_day % 60);
        digits(&mut text[20..26], fraction);
        let mut length = if fraction == 0 { 19 } else { 26 };
        while fraction != 0 && text[length - 1] == b'0' {
            length -= 1;
        }
        text[length] = b'Z';
        Some(Self { text, length: length + 1 })
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.length]).expect("digits and signs are text")
    }
}

/// Year, month and day of a day since the epoch, in the proleptic Gregorian calendar: counted in eras of 400 years that begin in March, so that the
/// day which may be missing is the last of a year.
const fn civil(day_since_epoch: u64) -> (u64, u64, u64) {
    const DAYS_FROM_ERA_TO_EPOCH: u64 = 719_468;
    const DAYS_OF_ERA: u64 = 146_097;
    let days = day_since_epoch + DAYS_FROM_ERA_TO_EPOCH;
    let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day_of_month)
}

/// Writes a number with leading zeros.
fn digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
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
    fn every_day_is_written_as_the_time_library_writes_it() {
        const DAY_MICROS: i64 = 86_400_000_000;
        let by_library = |micros| jiff::Timestamp::from_microsecond(micros).map_or("never".to_owned(), |instant| instant.to_string());
        let mut instants: Vec<i64> = vec![-1, -62_135_596_800_000_000, 253_402_207_200_000_000, 253_402_300_799_999_999, i64::MAX];
        // Every day of a cycle of leap years, at another time each, with more and fewer digits behind the second.
        for (day, unit) in (0..146_097).zip([1, 10, 1_000, 1_000_000].into_iter().cycle()) {
            instants.push(day * DAY_MICROS + day * 29_511_013 % DAY_MICROS / unit * unit);
        }
        for micros in instants {
            assert_eq!(Timestamp::from_micros(micros).to_string(), by_library(micros));
        }
    }

    #[test]
    fn moments_that_are_shared_lie_whole_steps_apart() {
        let step = Duration::from_millis(20);
        for (instant, next) in [(0, 20_000), (1, 20_000), (19_999, 20_000), (20_000, 40_000), (-1, 0)] {
            assert_eq!(Timestamp::from_micros(instant).next_multiple_of(step), Timestamp::from_micros(next), "{instant}");
        }
    }

    #[test]
    fn time_never_overflows() {
        assert_eq!(Timestamp::FAR_FUTURE + Duration::MAX, Timestamp::FAR_FUTURE);
        assert_eq!(Timestamp::EPOCH.since(Timestamp::FAR_FUTURE), Duration::ZERO);
    }
}
