//! Single values as providers write them: numbers and ids as text, instants in three ways, days.

use jiff::{
    civil::{Date, DateTime},
    tz::Offset,
};

use crate::time::Timestamp;

/// The longest number or id that is read, in characters: 64 bits have 20 digits.
const NUMBER_CHARS_MAX: usize = 40;
/// The longest text that is kept of a value, in characters. Names of sports are shorter.
const TEXT_CHARS_MAX: usize = 64;
/// The longest text that is read at all, in bytes.
const TEXT_BYTES_MAX: usize = 4 * 1024;
/// From here on a number is milliseconds since the epoch, not seconds: as seconds it would lie three thousand years ahead.
const MILLIS_FROM: f64 = 1e11;
/// The year 2100. What claims to be later was not measured.
const SECONDS_END: f64 = 4_102_444_800.0;

/// A finite number, or a text that is one.
pub(super) fn number(raw: &str) -> Option<f64> {
    let text = Text::read(raw).map_or_else(|| raw.to_owned(), |text| text.0.trim().to_owned());
    let is_spelled = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'));
    let number: f64 = Some(text).filter(|text| text.len() <= NUMBER_CHARS_MAX && is_spelled(text))?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// A text, or a whole number with all its digits.
pub(super) fn id(raw: &str) -> Option<String> {
    if let Some(text) = Text::read(raw) {
        return Some(text.0).filter(|text| !text.is_empty());
    }
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    let is_whole = (1..=NUMBER_CHARS_MAX).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| raw.to_owned())
}

/// Seconds or milliseconds since the epoch, RFC 3339, or date and time without an offset, which are in UTC.
pub(super) fn instant(raw: &str) -> Option<Timestamp> {
    if let Some(number) = number(raw) {
        return from_seconds(if number >= MILLIS_FROM { number / 1e3 } else { number });
    }
    let text = Text::read(raw)?.0;
    let from_date_time =
        |text: &str| Some(text.parse::<DateTime>().ok()?.to_zoned(Offset::UTC.to_time_zone()).ok()?.timestamp().as_microsecond());
    let micros = Timestamp::parse_rfc3339(&text).map(Timestamp::as_micros).or_else(|| from_date_time(&text))?;
    in_bounds(Timestamp::from_micros(micros))
}

/// The day of `YYYY-MM-DD`, with or without a time behind it, as midnight in UTC.
pub(super) fn day(raw: &str) -> Option<Timestamp> {
    let text = Text::read(raw)?.0;
    let date: Date = text.get(..10)?.parse().ok()?;
    let is_alone = matches!(text.as_bytes().get(10), None | Some(b'T' | b' '));
    let midnight = date.to_zoned(Offset::UTC.to_time_zone()).ok()?.timestamp();
    in_bounds(Timestamp::from_micros(midnight.as_microsecond())).filter(|_| is_alone)
}

/// Whether a value says no: `false`, or the text of it.
pub(super) fn is_false(raw: &str) -> bool {
    raw == "false" || Text::read(raw).is_some_and(|text| text.0.eq_ignore_ascii_case("false"))
}

/// A text of up to so many bytes, with all its characters.
pub(super) fn long_text(raw: &str, bytes_max: usize) -> Option<String> {
    // A character takes six bytes at most when it is written as an escape.
    let is_text = raw.starts_with('"') && raw.len() <= bytes_max.saturating_mul(6) + 2;
    let text: String = is_text.then(|| serde_json::from_str(raw).ok()).flatten()?;
    (text.len() <= bytes_max).then_some(text)
}

/// A text that is not too long to be looked at.
pub(super) struct Text(pub(super) String);

impl Text {
    pub(super) fn read(raw: &str) -> Option<Self> {
        let is_text = raw.starts_with('"') && raw.len() <= TEXT_BYTES_MAX;
        is_text.then(|| serde_json::from_str(raw).ok()).flatten().map(Self)
    }

    /// What is kept of it: no control characters, which some columns cannot hold, and not more than a name has.
    pub(super) fn shortened(self) -> String {
        self.0.chars().filter(|character| !character.is_control()).take(TEXT_CHARS_MAX).collect()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the seconds are within bounds")]
fn from_seconds(seconds: f64) -> Option<Timestamp> {
    (0.0..SECONDS_END).contains(&seconds).then(|| Timestamp::from_micros((seconds * 1e6).round() as i64))
}

fn in_bounds(instant: Timestamp) -> Option<Timestamp> {
    #[expect(clippy::cast_precision_loss, reason = "seconds of dates have fewer digits than a float holds")]
    let seconds = instant.as_secs() as f64;
    (0.0..SECONDS_END).contains(&seconds).then_some(instant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_text_and_are_finite() {
        let long = "1".repeat(NUMBER_CHARS_MAX + 1);
        for (raw, expected) in [
            ("43", Some(43.0)),
            ("-1", Some(-1.0)),
            ("2.5e2", Some(250.0)),
            (r#""43""#, Some(43.0)),
            (r#"" 43.5 ""#, Some(43.5)),
            ("1e400", None),
            (r#""NaN""#, None),
            (r#""inf""#, None),
            (r#""""#, None),
            ("true", None),
            ("[1]", None),
            (long.as_str(), None),
        ] {
            assert_eq!(number(raw), expected, "{raw}");
        }
    }

    #[test]
    fn ids_keep_every_digit() {
        for (raw, expected) in [
            ("9876543210123456789", Some("9876543210123456789")),
            ("18446744073709551615", Some("18446744073709551615")),
            ("-5", Some("-5")),
            (r#""9876543210123456789""#, Some("9876543210123456789")),
            (r#""EXAMPLE 567890""#, Some("EXAMPLE 567890")),
            (r#""""#, None),
            ("1.5", None),
            ("1e3", None),
            ("{}", None),
        ] {
            assert_eq!(id(raw).as_deref(), expected, "{raw}");
        }
    }

    #[test]
    fn instants_are_read_in_every_spelling() {
        let expected = Some(Timestamp::from_secs(1_452_419_581));
        for raw in [
            "1452419581",
            r#""1452419581""#,
            "1452419581000",
            r#""2016-01-10T09:53:01Z""#,
            r#""2016-01-10T11:53:01+02:00""#,
            r#""2016-01-10T09:53:01.0""#,
            r#""2016-01-10 09:53:01""#,
        ] {
            assert_eq!(instant(raw), expected, "{raw}");
        }
        for raw in [
            "-1",
            "4102444800",
            "1e300",
            "99999999999999999",
            r#""2100-01-01T00:00:00Z""#,
            r#""-009999-01-01T00:00:00Z""#,
            r#""now""#,
            "{}",
        ] {
            assert_eq!(instant(raw), None, "{raw}");
        }
    }

    #[test]
    fn a_day_begins_at_midnight() {
        let expected = Some(Timestamp::from_secs(1_452_470_400));
        for raw in [r#""2016-01-11""#, r#""2016-01-11T07:00:00""#, r#""2016-01-11 00:00:00.0""#] {
            assert_eq!(day(raw), expected, "{raw}");
        }
        for raw in
            [r#""2016-02-30""#, r#""2016-1-1""#, r#""2016-01-111""#, r#""1969-12-31""#, r#""9999-01-01""#, r#""é016-01-11""#, "20160111"]
        {
            assert_eq!(day(raw), None, "{raw}");
        }
    }
}
