//! How time is cut for rollups: into minutes, hours and days, counted in minutes from the epoch.

use everhook_core::{model::minute_of, time::Timestamp};

/// A rollup of one minute.
pub(crate) const MINUTE: i64 = 1;
/// A rollup of an hour.
pub(crate) const HOUR: i64 = 60;
/// A rollup of a day.
pub(crate) const DAY: i64 = 1_440;

/// The rollups that a minute is folded into.
pub(crate) const LONGER: [i64; 2] = [HOUR, DAY];

const MINUTE_MICROS: i64 = 60_000_000;

/// The minute that holds an instant.
pub(crate) const fn minute_number(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(MINUTE_MICROS)
}

/// The minute before which minutes begin that have something of the time before `to`.
pub(crate) fn end_minute(to: Timestamp) -> i64 {
    minute_number(to) + i64::from(minute_of(to) < to)
}

/// The first minute of the hour or day that holds a minute.
pub(crate) const fn start(minute: i64, span: i64) -> i64 {
    minute - minute.rem_euclid(span)
}

/// Where a time in whole minutes is cut, to be read from as few rollups as can be: between the six are its first minutes, its first hours, its days, its last
/// hours and its last minutes, each of which may be none.
pub(crate) fn cuts(from: Timestamp, to: Timestamp) -> [i64; 6] {
    let (first, end) = (minute_number(from), end_minute(to));
    let (first_hour, end_of_hours) = (start(first + HOUR - 1, HOUR), start(end, HOUR));
    if first_hour >= end_of_hours {
        return [first, end, end, end, end, end];
    }
    let (first_day, end_of_days) = (start(first_hour + DAY - 1, DAY), start(end_of_hours, DAY));
    if first_day >= end_of_days {
        return [first, first_hour, end_of_hours, end_of_hours, end_of_hours, end];
    }
    [first, first_hour, first_day, end_of_days, end_of_hours, end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_secs(minute * 60)
    }

    /// The rollups that a time is read from: their first minutes and spans.
    fn read(from: Timestamp, to: Timestamp) -> Vec<(i64, i64)> {
        let cuts = cuts(from, to);
        let spans = [MINUTE, HOUR, DAY, HOUR, MINUTE];
        let stretches = cuts.windows(2).zip(spans);
        stretches.flat_map(|(cut, span)| (cut[0]..cut[1]).step_by(usize::try_from(span).unwrap()).map(move |first| (first, span))).collect()
    }

    #[test]
    fn a_time_is_cut_without_gap_or_overlap_into_few_rollups() {
        let edges = [-1_441, -1_440, -61, -1, 0, 1, 59, 60, 61, 119, 1_380, 1_439, 1_440, 1_441, 2_879, 2_880, 4_321, 10_080, 11_519];
        for (from, to) in edges.into_iter().flat_map(|from| edges.map(|to| (from, to))).filter(|(from, to)| from <= to) {
            let rollups = read(at(from), at(to));
            let mut next = from;
            for (first, span) in &rollups {
                assert_eq!((*first, first.rem_euclid(*span)), (next, 0), "{from} {to}: {rollups:?}");
                next += span;
            }
            assert_eq!(next, to, "{rollups:?}");
            assert!(rollups.len() <= 118 + 46 + usize::try_from((to - from) / DAY).unwrap(), "{from} {to} are {} rollups", rollups.len());
        }
    }

    #[test]
    fn minutes_that_are_only_touched_count() {
        let second = std::time::Duration::from_secs(1);
        assert_eq!(cuts(at(59) + second, at(121) + second), [59, 60, 120, 120, 120, 122]);
        assert_eq!(cuts(at(5), at(3)), [5, 3, 3, 3, 3, 3], "nothing, which no rollup is in");
    }
}
