//! Reading `Retry-After`. The transport parses the header of an answer; retries and lanes ask how long that means to wait.

use std::time::Duration;

use jiff::{
    fmt::{rfc2822, strtime},
    tz::TimeZone,
};

use crate::{
    model::{Response, RetryAfter},
    time::Timestamp,
};

/// The longest wait that an endpoint may ask for: a wrong date must not park a delivery for years.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest that one answer may hold a whole endpoint: its other deliveries did not ask to wait for a day.
pub const HOLD_MAX: Duration = Duration::from_secs(5 * 60);

/// The two obsolete spellings of a date that RFC 9110 asks every recipient to read.
const RFC_850: &str = "%A, %d-%b-%y %H:%M:%S GMT";
const ASCTIME: &str = "%a %b %e %H:%M:%S %Y";

/// Reads the header's value: whole seconds, or an HTTP date in any of its three spellings.
///
/// A number too large to count is read as the largest. `None` means that the endpoint asked for nothing we understand.
pub fn parse(value: &str) -> Option<RetryAfter> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(RetryAfter::Delay(Duration::from_secs(value.parse().unwrap_or(u64::MAX))));
    }
    parse_date(value).map(|instant| RetryAfter::At(Timestamp::from_micros(instant.as_microsecond())))
}

/// How long from `now` the endpoint asked us to wait, at most [`RETRY_AFTER_MAX`]; zero for a date that has passed.
pub fn wait(asked: RetryAfter, now: Timestamp) -> Duration {
    let wanted = match asked {
        RetryAfter::Delay(delay) => delay,
        RetryAfter::At(instant) => instant.since(now),
    };
    wanted.min(RETRY_AFTER_MAX)
}

/// What an answer asked for, if its status is one for which that counts.
pub fn asked(response: &Response) -> Option<RetryAfter> {
    response.retry_after.filter(|_| matches!(response.status, 429 | 503))
}

/// Until when an answer holds every delivery of its endpoint, not only its own. The next 2xx lifts it.
pub fn holds_until(response: &Response, now: Timestamp) -> Option<Timestamp> {
    asked(response).map(|asked| now + wait(asked, now).min(HOLD_MAX))
}

fn parse_date(value: &str) -> Option<jiff::Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(value).ok().or_else(|| parse_utc(RFC_850, value)).or_else(|| parse_utc(ASCTIME, value))
}

fn parse_utc(format: &str, value: &str) -> Option<jiff::Timestamp> {
    let written = strtime::parse(format, value).ok()?.to_datetime().ok()?;
    Some(written.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date() {
        let delay = |secs| Some(RetryAfter::Delay(Duration::from_secs(secs)));
        let at = Some(RetryAfter::At(Timestamp::from_secs(784_111_777)));
        let cases = [
            ("0", delay(0)),
            ("120", delay(120)),
            (" 120 ", delay(120)),
            ("99999999999999999999999", delay(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", at),
            ("Sunday, 06-Nov-94 08:49:37 GMT", at),
            ("Sun Nov  6 08:49:37 1994", at),
            ("", None),
            ("-5", None),
            ("+5", None),
            ("1.5", None),
            ("120 s", None),
            ("soon", None),
            ("Sun, 31 Feb 1994 08:49:37 GMT", None),
            ("1994-11-06T08:49:37Z", None),
        ];
        for (value, expected) in cases {
            assert_eq!(parse(value), expected, "`{value}`");
        }
    }

    #[test]
    fn the_wait_is_never_negative_and_at_most_a_day() {
        let now = Timestamp::from_secs(1_000_000);
        let cases = [
            (RetryAfter::Delay(Duration::from_secs(7)), 7),
            (RetryAfter::Delay(Duration::MAX), 86_400),
            (RetryAfter::At(now + Duration::from_secs(7)), 7),
            (RetryAfter::At(now - Duration::from_secs(7)), 0),
            (RetryAfter::At(Timestamp::FAR_FUTURE), 86_400),
        ];
        for (asked, secs) in cases {
            assert_eq!(wait(asked, now), Duration::from_secs(secs), "{asked:?}");
        }
    }
}
