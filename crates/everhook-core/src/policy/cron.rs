//! When something is to be done again, as cron writes it. Pure; all times are UTC.
//!
//! Five fields (minute, hour, day of month, month, day of week), or six with the second before them. Each is `*`, a number, a range `a-b`, a step `*/n`
//! or `a-b/n`, or a list of these. Days of the week are 0 to 7, and both ends are Sunday. If both kinds of days are restricted, either suffices.

use crate::time::Timestamp;

/// How far ahead is looked: leap days that are skipped at a century are eight years apart.
const DAYS_AHEAD_MAX: u32 = 366 * 9;

const DAY_SECS: i64 = 86_400;

/// Instants that come again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronSchedule {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether a day must fulfill both fields of days: one of them is `*`.
    is_every_day: bool,
}

impl CronSchedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let (second, rest) = match fields.as_slice() {
            rest if rest.len() == 5 => ("0", rest),
            [second, rest @ ..] if rest.len() == 5 => (*second, rest),
            _ => return Err("needs five fields (minute hour day month weekday), or six with the second before them".to_owned()),
        };
        let weekdays = field(rest[4], 0, 7)?;
        let schedule = Self {
            seconds: field(second, 0, 59)?,
            minutes: field(rest[0], 0, 59)?,
            hours: field(rest[1], 0, 23)?,
            days: field(rest[2], 1, 31)?,
            months: field(rest[3], 1, 12)?,
            // Seven is Sunday, as zero is.
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            is_every_day: rest[2].starts_with('*') || rest[4].starts_with('*'),
        };
        schedule.next_after(Timestamp::EPOCH).map(|_| schedule).ok_or_else(|| "names a day that does not exist".to_owned())
    }

    /// The first instant after the one given.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let from = after.as_micros().div_euclid(1_000_000) + 1;
        let (day, second) = (from.div_euclid(DAY_SECS), from.rem_euclid(DAY_SECS));
        let mut earliest = second;
        for day in day..=day + i64::from(DAYS_AHEAD_MAX) {
            if self.has_day(day)
                && let Some(second) = self.second_of_day(earliest)
            {
                return Some(Timestamp::from_secs(day * DAY_SECS + second));
            }
            earliest = 0;
        }
        None
    }

    fn has_day(&self, day: i64) -> bool {
        let (month, day_of_month) = month_and_day(day);
        // The first of January 1970 was a Thursday.
        let weekday = (day + 4).rem_euclid(7);
        let (by_month, by_week) = (has(self.days, day_of_month), has(self.weekdays, weekday));
        let is_right = if self.is_every_day { by_month && by_week } else { by_month || by_week };
        has(self.months, month) && is_right
    }

    fn second_of_day(&self, earliest: i64) -> Option<i64> {
        let (from_hour, from_minute, from_second) = (earliest / 3_600, earliest / 60 % 60, earliest % 60);
        for hour in (from_hour..24).filter(|hour| has(self.hours, *hour)) {
            let from_minute = if hour == from_hour { from_minute } else { 0 };
            for minute in (from_minute..60).filter(|minute| has(self.minutes, *minute)) {
                let is_first = hour == from_hour && minute == earliest / 60 % 60;
                let from_second = if is_first { from_second } else { 0 };
                if let Some(second) = (from_second..60).find(|second| has(self.seconds, *second)) {
                    return Some(hour * 3_600 + minute * 60 + second);
                }
            }
        }
        None
    }
}

fn has(set: u64, value: i64) -> bool {
    set >> value & 1 == 1
}

/// Reads a field as the set of its values.
fn field(text: &str, first: u32, last: u32) -> Result<u64, String> {
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| (1..=last).contains(step))),
            None => (part, Some(1)),
        };
        let number = |text: &str| text.parse().ok().filter(|number| (first..=last).contains(number));
        let ends = match range.split_once('-') {
            _ if range == "*" => Some((first, last)),
            Some((from, to)) => number(from).zip(number(to)),
            // A step needs a range: `5/10` means something else to every cron.
            None if part.contains('/') => None,
            None => number(range).map(|number| (number, number)),
        };
        match (ends, step) {
            (Some((from, to)), Some(step)) if from <= to => {
                (from..=to).step_by(step as usize).for_each(|value: u32| set |= 1_u64 << value);
            }
            _ => return Err(format!("`{part}` is not a number from {first} to {last}, a range, or a step such as `*/5`")),
        }
    }
    Ok(set)
}

/// The month and the day of the month of a day since 1970.
fn month_and_day(day: i64) -> (i64, i64) {
    // Years that begin in March have their leap day at the end, and 400 of them always take the same number of days.
    let of_era = (day + 719_468).rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    (if month < 10 { month + 3 } else { month - 9 }, of_year - (153 * month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let after = Timestamp::parse_rfc3339(after).unwrap();
        CronSchedule::parse(schedule).unwrap().next_after(after).unwrap().to_string()
    }

    #[test]
    fn the_next_instant_is_the_first_that_the_schedule_names() {
        let table = [
            ("0 8 * * *", "2026-01-02T07:59:59Z", "2026-01-02T08:00:00Z"),
            ("0 8 * * *", "2026-01-02T08:00:00Z", "2026-01-03T08:00:00Z"),
            ("0 8 * * *", "2026-12-31T08:00:00Z", "2027-01-01T08:00:00Z"),
            ("* * * * * *", "2026-01-02T23:59:59Z", "2026-01-03T00:00:00Z"),
            ("*/15 * * * *", "2026-01-02T08:50:00Z", "2026-01-02T09:00:00Z"),
            ("30 10,20-22/2 * * *", "2026-01-02T10:30:00Z", "2026-01-02T20:30:00Z"),
            ("0 0 * * 1-5", "2026-01-02T12:00:00Z", "2026-01-05T00:00:00Z"),
            ("0 0 * * 7", "2026-01-02T12:00:00Z", "2026-01-04T00:00:00Z"),
            ("0 0 13 * 5", "2026-01-02T12:00:00Z", "2026-01-09T00:00:00Z"),
            ("0 0 29 2 *", "2026-01-02T12:00:00Z", "2028-02-29T00:00:00Z"),
        ];
        for (schedule, after, expected) in table {
            assert_eq!(next(schedule, after), expected, "{schedule} after {after}");
        }
    }

    #[test]
    fn a_schedule_that_never_comes_or_cannot_be_read_is_refused() {
        for bad in [
            "",
            "0 8 * *",
            "60 8 * * *",
            "0 24 * * *",
            "0 8 0 * *",
            "0 8 * 13 *",
            "0 8 * * 8",
            "0 0 31 2 *",
            "5/2 * * * *",
            "9-5 * * * *",
            "a * * * *",
            "*/0 * * * *",
            "0 0 0 0 0 0 0",
        ] {
            assert!(CronSchedule::parse(bad).is_err(), "{bad}");
        }
    }
}
