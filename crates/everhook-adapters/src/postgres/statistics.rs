//! What happened at endpoints, in numbers: the port `Statistics`.
//!
//! Several nodes may add to one row: the rows are locked in the order of their keys, added to here and written back, all in one transaction.

use std::collections::BTreeMap;

use async_trait::async_trait;
use everhook_core::{
    ids::LaneId,
    model::{AttemptStatistics, EndpointActivity, FailureCategory, FailureCounts, Tally, minute_of},
    ports::{Statistics, StoreError},
    time::Timestamp,
};
use rustc_hash::FxHashMap;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::Outcome,
    rows::{Columns, Key, duration, micros},
    transaction::Tx,
};
use crate::encoding::durations;

const MAKE_ROLLUPS: &str = include_str!("queries/make_rollups.sql");
const LOCK_ROLLUPS: &str = include_str!("queries/lock_rollups.sql");
const KEEP_ROLLUP: &str = include_str!("queries/keep_rollup.sql");
const ROLLUPS: &str = include_str!("queries/rollups_of_endpoint.sql");
const MAKE_STANDINGS: &str = include_str!("queries/make_standings.sql");
const LOCK_STANDINGS: &str = include_str!("queries/lock_standings.sql");
const KEEP_STANDING: &str = include_str!("queries/keep_standing.sql");
const STANDING_OF_ENDPOINT: &str = include_str!("queries/standing_of_endpoint.sql");

const MINUTE_MICROS: i64 = 60_000_000;

#[async_trait]
impl Statistics for PostgresStore {
    async fn add(&self, tallies: Vec<Tally>) -> Result<(), StoreError> {
        let endpoints: Vec<_> = tallies.iter().map(|tally| tally.lane_id).collect();
        let lanes = self.lane_numbers(&endpoints).await?;
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        add_to_rollups(&tx, &lanes, &tallies).await?;
        add_to_standings(&tx, &lanes, &tallies).await?;
        Ok(tx.commit().await?)
    }

    async fn figures(&self, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Result<AttemptStatistics, StoreError> {
        // A minute that `to` lies in has begun before it.
        let end = minute_number(to) + i64::from(minute_of(to) < to);
        let rows = self.reader().await?.query(ROLLUPS, &[&lane_id.key(), &minute_number(from), &end]).await?;
        let mut all = AttemptStatistics::default();
        for row in &rows {
            all.merge(&figures_of_row(row)?);
        }
        Ok(all)
    }

    async fn standings(&self, endpoints: Vec<LaneId>) -> Result<Vec<EndpointActivity>, StoreError> {
        let keys: Vec<Uuid> = endpoints.iter().map(Key::key).collect();
        let rows = self.reader().await?.query(STANDING_OF_ENDPOINT, &[&keys]).await?;
        let found: FxHashMap<LaneId, _> = rows.iter().map(|row| Ok((row.id("id")?, standing_of_row(row)?))).collect::<Outcome<_>>()?;
        Ok(endpoints.iter().map(|lane_id| found.get(lane_id).copied().unwrap_or_default()).collect())
    }

    async fn forget_failures(&self, lane_id: LaneId) -> Result<(), StoreError> {
        let lane = self.lane_number(lane_id).await?;
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let mut standings = lock_standings(&tx, &[lane]).await?;
        standings.values_mut().for_each(EndpointActivity::forget_failures);
        keep_standings(&tx, &standings).await?;
        Ok(tx.commit().await?)
    }
}

/// The figures of endpoints' minutes, by lane and minute.
type Rollups = BTreeMap<(i64, i64), AttemptStatistics>;

async fn add_to_rollups(tx: &Tx<'_>, lanes: &[i64], tallies: &[Tally]) -> Outcome<()> {
    let mut added = Rollups::new();
    for (lane, tally) in lanes.iter().zip(tallies) {
        added.entry((*lane, minute_number(tally.minute))).or_default().merge(&tally.figures);
    }
    let (lanes, minutes): (Vec<i64>, Vec<i64>) = added.keys().copied().unzip();
    tx.execute(MAKE_ROLLUPS, &[&lanes, &minutes]).await?;
    for row in tx.query(LOCK_ROLLUPS, &[&lanes, &minutes]).await? {
        added.entry((row.value("lane")?, row.value("minute")?)).or_default().merge(&figures_of_row(&row)?);
    }
    keep_rollups(tx, &added).await
}

async fn keep_rollups(tx: &Tx<'_>, rollups: &Rollups) -> Outcome<()> {
    let (lanes, minutes): (Vec<i64>, Vec<i64>) = rollups.keys().copied().unzip();
    let column = |read: &dyn Fn(&AttemptStatistics) -> i64| rollups.values().map(read).collect::<Vec<i64>>();
    let instants = |read: fn(&AttemptStatistics) -> Option<Timestamp>| -> Vec<_> {
        rollups.values().map(|figures| read(figures).map(Timestamp::as_micros)).collect()
    };
    let successes = column(&|figures| number(figures.successes));
    // The statement names the categories in the order of the enum.
    let failures = FailureCategory::ALL.map(|category| column(&|figures| number(figures.failures[category])));
    let duration_sums = column(&|figures| micros(figures.duration_sum));
    let durations: Vec<_> = rollups.values().map(|figures| durations::pack(&figures.durations)).collect();
    let (success_at, failure_at) = (instants(|figures| figures.last_success_at), instants(|figures| figures.last_failure_at));
    let mut columns: Vec<&(dyn ToSql + Sync)> = vec![&lanes, &minutes, &successes];
    columns.extend(failures.iter().map(|counts| counts as &(dyn ToSql + Sync)));
    columns.extend([&duration_sums as &(dyn ToSql + Sync), &durations, &success_at, &failure_at]);
    tx.execute(KEEP_ROLLUP, &columns).await?;
    Ok(())
}

/// How endpoints do, by lane.
type Activities = BTreeMap<i64, EndpointActivity>;

async fn add_to_standings(tx: &Tx<'_>, lanes: &[i64], tallies: &[Tally]) -> Outcome<()> {
    let mut standings = lock_standings(tx, lanes).await?;
    for (lane, tally) in lanes.iter().zip(tallies) {
        standings.entry(*lane).or_default().add(tally);
    }
    keep_standings(tx, &standings).await
}

/// Reads how endpoints do, those of which nothing is known too, and keeps others from changing it.
async fn lock_standings(tx: &Tx<'_>, lanes: &[i64]) -> Outcome<Activities> {
    tx.execute(MAKE_STANDINGS, &[&lanes]).await?;
    let rows = tx.query(LOCK_STANDINGS, &[&lanes]).await?;
    rows.iter().map(|row| Ok((row.value("lane")?, standing_of_row(row)?))).collect()
}

async fn keep_standings(tx: &Tx<'_>, standings: &Activities) -> Outcome<()> {
    let lanes: Vec<i64> = standings.keys().copied().collect();
    let failures: Vec<i64> = standings.values().map(|standing| standing.consecutive_failures.into()).collect();
    let instants = |read: fn(&EndpointActivity) -> Option<Timestamp>| -> Vec<_> {
        standings.values().map(|standing| read(standing).map(Timestamp::as_micros)).collect()
    };
    let first_failures = instants(|standing| standing.first_failure_at);
    let last_failures = instants(|standing| standing.last_failure_at);
    let last_successes = instants(|standing| standing.last_success_at);
    tx.execute(KEEP_STANDING, &[&lanes, &failures, &first_failures, &last_failures, &last_successes]).await?;
    Ok(())
}

pub(super) const fn minute_number(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(MINUTE_MICROS)
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn figures_of_row(row: &Row) -> Outcome<AttemptStatistics> {
    let mut failures = FailureCounts::default();
    for category in FailureCategory::ALL {
        failures.add(category, row.number(category.as_str())?);
    }
    Ok(AttemptStatistics {
        successes: row.number("successes")?,
        failures,
        duration_sum: duration(row.value("duration_sum")?),
        durations: row.spelled("durations", durations::unpack)?,
        last_success_at: row.instant_opt("last_success_at")?,
        last_failure_at: row.instant_opt("last_failure_at")?,
    })
}

fn standing_of_row(row: &Row) -> Outcome<EndpointActivity> {
    Ok(EndpointActivity {
        consecutive_failures: row.number("consecutive_failures")?,
        first_failure_at: row.instant_opt("first_failure_at")?,
        last_failure_at: row.instant_opt("last_failure_at")?,
        last_success_at: row.instant_opt("last_success_at")?,
    })
}
