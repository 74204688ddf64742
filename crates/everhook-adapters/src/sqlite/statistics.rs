//! What happened at endpoints, in numbers: the port `Statistics`.
//!
//! A minute's row is read, added to and written back inside one transaction, which alone writes.

use async_trait::async_trait;
use everhook_core::{
    ids::LaneId,
    model::{AttemptStatistics, EndpointActivity, FailureCategory, FailureCounts, Tally, minute_of},
    ports::{Statistics, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::{
    SqliteStore,
    fault::Outcome,
    rows::{Columns, Key, duration, micros},
    transaction::Tx,
};
use crate::encoding::durations;

const ROLLUP: &str = include_str!("queries/rollup_of_minute.sql");
const ROLLUPS: &str = include_str!("queries/rollups_of_endpoint.sql");
const KEEP_ROLLUP: &str = include_str!("queries/keep_rollup.sql");
const STANDING_OF_LANE: &str = include_str!("queries/standing_of_lane.sql");
const STANDING_OF_ENDPOINT: &str = include_str!("queries/standing_of_endpoint.sql");
const KEEP_STANDING: &str = include_str!("queries/keep_standing.sql");

const MINUTE_MICROS: i64 = 60_000_000;

#[async_trait]
impl Statistics for SqliteStore {
    async fn add(&self, tallies: Vec<Tally>) -> Result<(), StoreError> {
        self.write(tallies.len() * 2, move |tx| tallies.iter().try_for_each(|tally| add(tx, tally))).await
    }

    async fn figures(&self, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Result<AttemptStatistics, StoreError> {
        self.read_history(move |connection| figures(connection, lane_id, from, to)).await
    }

    async fn standings(&self, endpoints: Vec<LaneId>) -> Result<Vec<EndpointActivity>, StoreError> {
        let read = move |connection: &Connection| {
            let mut statement = connection.prepare_cached(STANDING_OF_ENDPOINT)?;
            let mut find = |lane_id: LaneId| Ok(statement.query_row([lane_id.key()], standing_of_row).optional()?.unwrap_or_default());
            endpoints.into_iter().map(&mut find).collect()
        };
        self.read_history(read).await
    }

    async fn forget_failures(&self, lane_id: LaneId) -> Result<(), StoreError> {
        let forget = move |tx: &mut Tx<'_>| {
            let lane = tx.lane_of(lane_id)?;
            change_standing(tx, lane, EndpointActivity::forget_failures)
        };
        self.write(1, forget).await
    }
}

fn add(tx: &mut Tx<'_>, tally: &Tally) -> Outcome<()> {
    let lane = tx.lane_of(tally.lane_id)?;
    let minute = minute_number(tally.minute);
    let mut figures = tx.prepare(ROLLUP)?.query_row([lane, minute], figures_of_row).optional()?.unwrap_or_default();
    figures.merge(&tally.figures);
    keep_rollup(tx, lane, minute, &figures)?;
    change_standing(tx, lane, |standing| standing.add(tally))
}

fn keep_rollup(tx: &Tx<'_>, lane: i64, minute: i64, figures: &AttemptStatistics) -> Outcome<()> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let failures = FailureCategory::ALL.map(|category| count(figures.failures[category]));
    let (successes, duration_sum, durations) =
        (count(figures.successes), micros(figures.duration_sum), durations::pack(&figures.durations));
    let (success_at, failure_at) = (figures.last_success_at.map(Timestamp::as_micros), figures.last_failure_at.map(Timestamp::as_micros));
    let mut columns: Vec<&dyn ToSql> = vec![&lane, &minute, &successes];
    // The table names the categories in the order of the enum.
    columns.extend(failures.iter().map(|count| count as &dyn ToSql));
    columns.extend([&duration_sum as &dyn ToSql, &durations, &success_at, &failure_at]);
    tx.prepare(KEEP_ROLLUP)?.execute(columns.as_slice())?;
    Ok(())
}

fn change_standing(tx: &Tx<'_>, lane: i64, change: impl FnOnce(&mut EndpointActivity)) -> Outcome<()> {
    let mut standing = tx.prepare(STANDING_OF_LANE)?.query_row([lane], standing_of_row).optional()?.unwrap_or_default();
    change(&mut standing);
    tx.prepare(KEEP_STANDING)?.execute(params![
        lane,
        standing.consecutive_failures,
        standing.first_failure_at.map(Timestamp::as_micros),
        standing.last_failure_at.map(Timestamp::as_micros),
        standing.last_success_at.map(Timestamp::as_micros),
    ])?;
    Ok(())
}

fn figures(connection: &Connection, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Outcome<AttemptStatistics> {
    let mut statement = connection.prepare_cached(ROLLUPS)?;
    // A minute that `to` lies in has begun before it.
    let end = minute_number(to) + i64::from(minute_of(to) < to);
    let rows = statement.query_map(params![lane_id.key(), minute_number(from), end], figures_of_row)?;
    let mut all = AttemptStatistics::default();
    for figures in rows {
        all.merge(&figures?);
    }
    Ok(all)
}

pub(super) const fn minute_number(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(MINUTE_MICROS)
}

fn figures_of_row(row: &Row<'_>) -> rusqlite::Result<AttemptStatistics> {
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
        last_success_at: row.instant_opt("last_success_at")?,
        last_failure_at: row.instant_opt("last_failure_at")?,
    })
}

fn standing_of_row(row: &Row<'_>) -> rusqlite::Result<EndpointActivity> {
    Ok(EndpointActivity {
        consecutive_failures: row.get("consecutive_failures")?,
        first_failure_at: row.instant_opt("first_failure_at")?,
        last_failure_at: row.instant_opt("last_failure_at")?,
        last_success_at: row.instant_opt("last_success_at")?,
    })
}
