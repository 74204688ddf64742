//! Durations, rates and counts, as people write and read them.

use std::{fmt, time::Duration};

use jiff::{Span, SpanRelativeTo};

/// The longest outage that is simulated: past it every schedule has ended.
const DOWN_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The longest response time that is simulated: the longest timeout that an endpoint can have.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(60);

/// The highest rate that is simulated, a second.
const RATE_MAX: f64 = 100_000.0;

/// So many events in a second, minute or hour. Keeps the unit, to say it back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EventRate {
    count: f64,
    unit: char,
}

impl EventRate {
    pub(super) fn per_second(self) -> f64 {
        match self.unit {
            'h' => self.count / 3_600.0,
            'm' => self.count / 60.0,
            _ => self.count,
        }
    }
}

impl fmt::Display for EventRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.unit)
    }
}

pub(super) fn parse_rate(text: &str) -> Result<EventRate, String> {
    let expected = || "write a number and a unit of time, like 20/s, 600/m or 1000/h".to_owned();
    let (count, unit) = text.trim().split_once('/').ok_or_else(expected)?;
    let count: f64 = count.trim().parse().map_err(|_| expected())?;
    let unit = match unit.trim() {
        "s" => 's',
        "m" | "min" => 'm',
        "h" => 'h',
        _ => return Err(expected()),
    };
    let rate = EventRate { count, unit };
    if count > 0.0 && rate.per_second() <= RATE_MAX { Ok(rate) } else { Err("must be more than 0 and at most 100000/s".to_owned()) }
}

pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let span: Span = text.trim().parse().map_err(|_| "write a number and a unit, like 90s, 3h or 2d".to_owned())?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| "use units up to weeks".to_owned())?;
    let length = Duration::try_from(length).map_err(|_| "cannot be negative".to_owned())?;
    let is_right = length >= Duration::from_secs(1) && length <= DOWN_MAX;
    if is_right { Ok(length) } else { Err("must be from 1s to 30d".to_owned()) }
}

pub(super) fn parse_response_time(text: &str) -> Result<Duration, String> {
    let span: Span = text.trim().parse().map_err(|_| "write a number and a unit, like 50ms or 2s".to_owned())?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok().and_then(|length| Duration::try_from(length).ok());
    let is_right = |length: &Duration| (Duration::from_millis(1)..=RESPONSE_TIME_MAX).contains(length);
    length.filter(is_right).ok_or_else(|| "must be from 1ms to 60s".to_owned())
}

/// The two largest units that matter: `2d 3h`, `4h 5m`, `1m 5s`, `7s`, `0.4s`.
pub(super) fn words(length: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    if length > Duration::ZERO && length < Duration::from_secs(10) && length.subsec_millis() >= 50 {
        return format!("{:.1}s", length.as_secs_f64());
    }
    // What is not said is rounded, not cut off.
    let step = UNITS.iter().rev().map(|(secs, _)| *secs).rfind(|step| length.as_secs() >= step * 60).map_or(1, |step| step.min(3_600));
    let secs = (length.as_secs_f64() / step as f64).round() as u64 * step;
    let largest = UNITS.iter().position(|(unit, _)| secs >= *unit).unwrap_or(3);
    let mut words = Vec::new();
    let mut rest = secs;
    for (unit, name) in UNITS.into_iter().skip(largest).take(2) {
        if rest >= unit || (words.is_empty() && unit == 1) {
            words.push(format!("{}{name}", rest / unit));
        }
        rest %= unit;
    }
    words.join(" ")
}

/// Digits in groups of three.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A rate a second, with as many digits as mean something.
pub(super) fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => format!("{}/s", grouped(rate.round() as u64)),
        rate if rate >= 10.0 || rate == rate.trunc() => format!("{rate:.0}/s"),
        rate if rate >= 0.1 => format!("{rate:.1}/s"),
        rate => format!("{rate:.2}/s"),
    }
}
