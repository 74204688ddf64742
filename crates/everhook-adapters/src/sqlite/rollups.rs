//! What happened in lanes, by the minute, the hour and the day: the part of the port `Statistics` that is about rollups.
//!
//! A minute's row is added to as long as the minute lasts. When the next one of its lane begins, the hour and the day count it, in the same write: so that
//! each second costs one row, and hours and days are exact after a crash.

use std::collections::BTreeMap;

use everhook_core::{
    ids::LaneId,
    model::{AttemptStatistics, BreakdownTally, FailureCategory, FailureCounts},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::{
    fault::Outcome,
    rows::{Columns, Key, duration, micros},
    transaction::Tx,
};
use crate::encoding::{answers, deliveries, durations, rollup_span};

const ROLLUP: &str = include_str!("queries/rollup_of_minute.sql");
const ROLLUPS: &str = include_str!("queries/rollups_of_endpoint.sql");
const UNFOLDED: &str = include_str!("queries/unfolded_rollups.sql");
const MARK_FOLDED: &str = include_str!("queries/mark_folded_rollups.sql");
const KEEP_ROLLUP: &str = include_str!("queries/keep_rollup.sql");
const LANE: &str = include_str!("queries/lane_of_endpoint.sql");
const BREAKDOWNS: &str = include_str!("queries/breakdowns_of_organization.sql");
const INSERT_BREAKDOWN: &str = include_str!("queries/insert_breakdown_lane.sql");

/// What is to be added, by lane and minute: in the order of time, so that a minute is folded when the next one comes.
pub(super) type Added = BTreeMap<(i64, i64), AttemptStatistics>;

/// Adds to the minutes of lanes.
pub(super) fn add_all(tx: &Tx<'_>, added: &Added) -> Outcome<()> {
    added.iter().try_for_each(|((lane, minute), statistics)| add(tx, *lane, *minute, statistics))
}

/// Adds what happened in parts of organizations.
pub(super) fn add_breakdowns(tx: &Tx<'_>, tallies: &[BreakdownTally]) -> Outcome<()> {
    let mut added = Added::new();
    for tally in tallies {
        let lane = lane_of_breakdown(tx, tally)?;
        added.entry((lane, rollup_span::minute_number(tally.minute))).or_default().merge(&tally.statistics);
    }
    add_all(tx, &added)
}

/// What happened in a lane, from one instant until before another, in whole minutes.
pub(super) fn read(connection: &Connection, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Outcome<AttemptStatistics> {
    let mut statement = connection.prepare_cached(ROLLUPS)?;
    let [first, first_hour, first_day, end_of_days, end_of_hours, end] = rollup_span::cuts(from, to);
    let parameters = params![lane_id.key(), first, first_hour, first_day, end_of_days, end_of_hours, end];
    let mut all = AttemptStatistics::default();
    for statistics in statement.query_map(parameters, statistics_of_row)? {
        all.merge(&statistics?);
    }
    Ok(all)
}

fn add(tx: &Tx<'_>, lane: i64, minute: i64, more: &AttemptStatistics) -> Outcome<()> {
    let Some((mut statistics, is_folded)) = rollup(tx, lane, rollup_span::MINUTE, minute)? else {
        fold_before(tx, lane, minute)?;
        return keep(tx, lane, rollup_span::MINUTE, minute, more);
    };
    statistics.merge(more);
    keep(tx, lane, rollup_span::MINUTE, minute, &statistics)?;
    if is_folded { fold(tx, lane, minute, more) } else { Ok(()) }
}

/// Has hours and days count the minutes of a lane before one that has just begun. There is one as a rule.
fn fold_before(tx: &Tx<'_>, lane: i64, minute: i64) -> Outcome<()> {
    let of_row = |row: &Row<'_>| Ok((row.get::<_, i64>("minute")?, statistics_of_row(row)?));
    let unfolded = tx.prepare(UNFOLDED)?.query_map([lane, minute], of_row)?.collect::<Result<Vec<_>, _>>()?;
    if unfolded.is_empty() {
        return Ok(());
    }
    unfolded.iter().try_for_each(|(minute, statistics)| fold(tx, lane, *minute, statistics))?;
    tx.prepare(MARK_FOLDED)?.execute([lane, minute])?;
    Ok(())
}

/// Adds to the hour and the day of a minute.
fn fold(tx: &Tx<'_>, lane: i64, minute: i64, more: &AttemptStatistics) -> Outcome<()> {
    for span in rollup_span::LONGER {
        let start = rollup_span::start(minute, span);
        let (mut statistics, _) = rollup(tx, lane, span, start)?.unwrap_or_default();
        statistics.merge(more);
        keep(tx, lane, span, start, &statistics)?;
    }
    Ok(())
}

/// A row, and whether longer ones have counted it.
fn rollup(tx: &Tx<'_>, lane: i64, span: i64, minute: i64) -> Outcome<Option<(AttemptStatistics, bool)>> {
    let of_row = |row: &Row<'_>| Ok((statistics_of_row(row)?, row.get("folded")?));
    Ok(tx.prepare(ROLLUP)?.query_row([lane, span, minute], of_row).optional()?)
}

fn keep(tx: &Tx<'_>, lane: i64, span: i64, minute: i64, statistics: &AttemptStatistics) -> Outcome<()> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let failures = FailureCategory::ALL.map(|category| count(statistics.failures[category]));
    let (successes, duration_sum, durations) =
        (count(statistics.successes), micros(statistics.duration_sum), durations::pack(&statistics.durations));
    let (success_at, failure_at) =
        (statistics.last_success_at.map(Timestamp::as_micros), statistics.last_failure_at.map(Timestamp::as_micros));
    let mut columns: Vec<&dyn ToSql> = vec![&lane, &span, &minute, &successes];
    // The table names the categories in the order of the enum.
    columns.extend(failures.iter().map(|count| count as &dyn ToSql));
    let (answers, deliveries) = (answers::pack(&statistics.answers), deliveries::pack(&statistics.deliveries));
    columns.extend([&duration_sum as &dyn ToSql, &durations, &success_at, &failure_at, &answers, &deliveries]);
    tx.prepare(KEEP_ROLLUP)?.execute(columns.as_slice())?;
    Ok(())
}

/// The number under which a part of an organization is counted, made if there is room for it: else that of all other parts of its kind.
fn lane_of_breakdown(tx: &Tx<'_>, tally: &BreakdownTally) -> Outcome<i64> {
    let (kind, organization) = (tally.of.kind(), tally.organization);
    let known =
        |lane_id: LaneId| -> Outcome<Option<i64>> { Ok(tx.prepare(LANE)?.query_row([lane_id.key()], |row| row.get(0)).optional()?) };
    let make = |lane_id: LaneId| -> Outcome<i64> {
        Ok(tx.prepare(INSERT_BREAKDOWN)?.insert(params![lane_id.key(), kind.as_str(), organization.key()])?)
    };
    let lane_id = tally.of.lane(organization);
    if let Some(lane) = known(lane_id)? {
        return Ok(lane);
    }
    let Some(told_apart_max) = kind.told_apart_max() else { return make(lane_id) };
    let limits = params![organization.key(), kind.as_str(), told_apart_max];
    let parts: u32 = tx.prepare(BREAKDOWNS)?.query_row(limits, |row| row.get("parts"))?;
    if parts < told_apart_max {
        return make(lane_id);
    }
    let others = kind.others(organization);
    match known(others)? {
        Some(lane) => Ok(lane),
        None => make(others),
    }
}

pub(super) fn statistics_of_row(row: &Row<'_>) -> rusqlite::Result<AttemptStatistics> {
    let count = |column: &str| row.spelled(column, |count: i64| u64::try_from(count).ok());
    let mut failures = FailureCounts::default();
    for category in FailureCategory::ALL {
        failures.add(category, count(category.as_str())?);
    }
    Ok(AttemptStatistics {
        successes: count("successes")?,
        failures,
        duration_sum: row.get("duration_sum").map(duration)?,
        durations: row.spelled("durations", |packed: Vec<u8>| durations::unpack(&packed))?,
        answers: row.spelled("answers", |packed: Vec<u8>| answers::unpack(&packed))?,
        deliveries: row.spelled("deliveries", |packed: Vec<u8>| deliveries::unpack(&packed))?,
        last_success_at: row.instant_opt("last_success_at")?,
        last_failure_at: row.instant_opt("last_failure_at")?,
    })
}
