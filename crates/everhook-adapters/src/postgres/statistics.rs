//! What happened at endpoints and sources, in numbers: the port `Statistics`.
//!
//! Several nodes may add to one row: the rows are locked in the order of their keys, added to here and written back, all in one transaction.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use everhook_core::{
    ids::{LaneId, SourceId},
    model::{
        AttemptStatistics, ClockReset, EndpointActivity, FailingClock, FailingRule, FailureCategory, FailureCounts, SourceTally, Tally,
        minute_of,
    },
    ports::{Alert, Statistics, StoreError},
    time::Timestamp,
};
use rustc_hash::FxHashMap;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::Outcome,
    outbox,
    rows::{Columns, Key, duration, micros},
    source_rollups,
    transaction::Tx,
};
use crate::encoding::{answers, durations};

const MAKE_ROLLUPS: &str = include_str!("queries/make_rollups.sql");
const LOCK_ROLLUPS: &str = include_str!("queries/lock_rollups.sql");
const KEEP_ROLLUP: &str = include_str!("queries/keep_rollup.sql");
const SCOPES: &str = include_str!("queries/scopes_of_lanes.sql");
const INSERT_SCOPES: &str = include_str!("queries/insert_scope_lanes.sql");
const ROLLUPS: &str = include_str!("queries/rollups_of_endpoint.sql");
const INSERT_ACTIVITIES: &str = include_str!("queries/insert_activities.sql");
const LOCK_ACTIVITIES: &str = include_str!("queries/lock_activities.sql");
const WRITE_ACTIVITY: &str = include_str!("queries/write_activity.sql");
const ACTIVITY_OF_ENDPOINT: &str = include_str!("queries/activity_of_endpoint.sql");

const MINUTE_MICROS: i64 = 60_000_000;

#[async_trait]
impl Statistics for PostgresStore {
    async fn add(&self, tallies: Vec<Tally>, rule: FailingRule) -> Result<(), StoreError> {
        let lanes = self.lanes_of(&tallies).await?;
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        add_all(&tx, &lanes, &tallies, &rule).await?;
        Ok(tx.commit().await?)
    }

    async fn add_calls(&self, tallies: Vec<Tally>, alerts: Vec<Alert>) -> Result<(), StoreError> {
        let lanes = self.lanes_of(&tallies).await?;
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        add_all(&tx, &lanes, &tallies, &FailingRule::default()).await?;
        outbox::keep(&tx, &alerts).await?;
        Ok(tx.commit().await?)
    }

    async fn attempt_statistics(&self, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Result<AttemptStatistics, StoreError> {
        let rows = self.reader().await?.query(ROLLUPS, &[&lane_id.key(), &minute_number(from), &end_minute(to)]).await?;
        let mut all = AttemptStatistics::default();
        for row in &rows {
            all.merge(&statistics_of_row(row)?);
        }
        Ok(all)
    }

    async fn activities(&self, endpoints: Vec<LaneId>) -> Result<Vec<EndpointActivity>, StoreError> {
        let keys: Vec<Uuid> = endpoints.iter().map(Key::key).collect();
        let rows = self.reader().await?.query(ACTIVITY_OF_ENDPOINT, &[&keys]).await?;
        let found: FxHashMap<LaneId, _> = rows.iter().map(|row| Ok((row.id("id")?, activity_of_row(row)?))).collect::<Outcome<_>>()?;
        Ok(endpoints.iter().map(|lane_id| found.get(lane_id).copied().unwrap_or_default()).collect())
    }

    async fn forget_failures(&self, lane_id: LaneId, why: ClockReset) -> Result<(), StoreError> {
        let lane = self.lane_number(lane_id).await?;
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let mut activities = lock_activities(&tx, &[lane]).await?;
        activities.values_mut().for_each(|activity| activity.forget_failures(why));
        write_activities(&tx, &activities).await?;
        Ok(tx.commit().await?)
    }

    async fn add_source_tallies(&self, tallies: Vec<SourceTally>) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        source_rollups::add(&tx, &tallies).await?;
        Ok(tx.commit().await?)
    }

    async fn source_statistics(
        &self,
        source: SourceId,
        from: Timestamp,
        to: Timestamp,
        step: Duration,
    ) -> Result<Vec<SourceTally>, StoreError> {
        Ok(source_rollups::read(&self.reader().await?, source, (from, to), step).await?)
    }
}

impl PostgresStore {
    /// The numbers of the lanes of tallies, in their order.
    async fn lanes_of(&self, tallies: &[Tally]) -> Outcome<Vec<i64>> {
        let lanes: Vec<_> = tallies.iter().map(|tally| tally.lane_id).collect();
        self.lane_numbers(&lanes).await
    }
}

async fn add_all(tx: &Tx<'_>, lanes: &[i64], tallies: &[Tally], rule: &FailingRule) -> Outcome<()> {
    if tallies.is_empty() {
        return Ok(());
    }
    add_to_rollups(tx, lanes, tallies).await?;
    add_to_activities(tx, lanes, tallies, rule).await
}

/// The statistics of endpoints' minutes, by lane and minute.
type Rollups = BTreeMap<(i64, i64), AttemptStatistics>;

/// Adds tallies to the rollups of their lanes, and to those of the applications and organizations of these.
async fn add_to_rollups(tx: &Tx<'_>, lanes: &[i64], tallies: &[Tally]) -> Outcome<()> {
    let scopes = scopes_of(tx, lanes).await?;
    let mut added = Rollups::new();
    for (lane, tally) in lanes.iter().zip(tallies) {
        let minute = minute_number(tally.minute);
        for lane in [*lane].into_iter().chain(scopes.get(lane).copied().into_iter().flatten()) {
            added.entry((lane, minute)).or_default().merge(&tally.statistics);
        }
    }
    let (lanes, minutes): (Vec<i64>, Vec<i64>) = added.keys().copied().unzip();
    tx.execute(MAKE_ROLLUPS, &[&lanes, &minutes]).await?;
    for row in tx.query(LOCK_ROLLUPS, &[&lanes, &minutes]).await? {
        added.entry((row.value("lane")?, row.value("minute")?)).or_default().merge(&statistics_of_row(&row)?);
    }
    keep_rollups(tx, &added).await
}

/// The numbers under which the applications and the organizations of lanes are counted, made if nothing was counted yet.
async fn scopes_of(tx: &Tx<'_>, lanes: &[i64]) -> Outcome<FxHashMap<i64, [i64; 2]>> {
    let mut rows = tx.query(SCOPES, &[&lanes]).await?;
    let scope = |row: &Row, column: &str| row.value::<Option<i64>>(column);
    let is_new = |row: &Row| Ok(scope(row, "application_lane")?.is_none() || scope(row, "organization_lane")?.is_none());
    if rows.iter().map(is_new).collect::<Outcome<Vec<bool>>>()?.contains(&true) {
        tx.execute(INSERT_SCOPES, &[&lanes]).await?;
        rows = tx.query(SCOPES, &[&lanes]).await?;
    }
    rows.iter().map(|row| Ok((row.value("lane")?, [row.value("application_lane")?, row.value("organization_lane")?]))).collect()
}

async fn keep_rollups(tx: &Tx<'_>, rollups: &Rollups) -> Outcome<()> {
    let (lanes, minutes): (Vec<i64>, Vec<i64>) = rollups.keys().copied().unzip();
    let column = |read: &dyn Fn(&AttemptStatistics) -> i64| rollups.values().map(read).collect::<Vec<i64>>();
    let instants = |read: fn(&AttemptStatistics) -> Option<Timestamp>| -> Vec<_> {
        rollups.values().map(|statistics| read(statistics).map(Timestamp::as_micros)).collect()
    };
    let successes = column(&|statistics| number(statistics.successes));
    // The statement names the categories in the order of the enum.
    let failures = FailureCategory::ALL.map(|category| column(&|statistics| number(statistics.failures[category])));
    let duration_sums = column(&|statistics| micros(statistics.duration_sum));
    let durations: Vec<_> = rollups.values().map(|statistics| durations::pack(&statistics.durations)).collect();
    let (success_at, failure_at) = (instants(|statistics| statistics.last_success_at), instants(|statistics| statistics.last_failure_at));
    let mut columns: Vec<&(dyn ToSql + Sync)> = vec![&lanes, &minutes, &successes];
    columns.extend(failures.iter().map(|counts| counts as &(dyn ToSql + Sync)));
    let answers: Vec<_> = rollups.values().map(|statistics| answers::pack(&statistics.answers)).collect();
    columns.extend([&duration_sums as &(dyn ToSql + Sync), &durations, &success_at, &failure_at, &answers]);
    tx.execute(KEEP_ROLLUP, &columns).await?;
    Ok(())
}

/// How endpoints do, by lane.
pub(super) type Activities = BTreeMap<i64, EndpointActivity>;

async fn add_to_activities(tx: &Tx<'_>, lanes: &[i64], tallies: &[Tally], rule: &FailingRule) -> Outcome<()> {
    let mut activities = lock_activities(tx, lanes).await?;
    for (lane, tally) in lanes.iter().zip(tallies) {
        activities.entry(*lane).or_default().add(tally, rule);
    }
    write_activities(tx, &activities).await
}

/// Reads how endpoints do, those of which nothing is known too, and keeps others from changing it.
pub(super) async fn lock_activities(tx: &Tx<'_>, lanes: &[i64]) -> Outcome<Activities> {
    tx.execute(INSERT_ACTIVITIES, &[&lanes]).await?;
    let rows = tx.query(LOCK_ACTIVITIES, &[&lanes]).await?;
    rows.iter().map(|row| Ok((row.value("lane")?, activity_of_row(row)?))).collect()
}

pub(super) async fn write_activities(tx: &Tx<'_>, activities: &Activities) -> Outcome<()> {
    let lanes: Vec<i64> = activities.keys().copied().collect();
    let failures: Vec<i64> = activities.values().map(|activity| activity.consecutive_failures.into()).collect();
    let instants = |read: fn(&EndpointActivity) -> Option<Timestamp>| -> Vec<_> {
        activities.values().map(|activity| read(activity).map(Timestamp::as_micros)).collect()
    };
    let first_failures = instants(|activity| activity.first_failure_at);
    let last_failures = instants(|activity| activity.last_failure_at);
    let last_successes = instants(|activity| activity.last_success_at);
    let observed: Vec<i64> = activities.values().map(|activity| activity.clock.observed.into()).collect();
    let owes_recovery: Vec<bool> = activities.values().map(|activity| activity.clock.owes_recovery).collect();
    let [observed_from, last_counted, previous_counted, failing_since, warned_at, recovered_at] = [
        instants(|activity| activity.clock.observed_from),
        instants(|activity| activity.clock.last_counted_at),
        instants(|activity| activity.clock.previous_counted_at),
        instants(|activity| activity.clock.failing_since),
        instants(|activity| activity.clock.warned_at),
        instants(|activity| activity.clock.recovered_at),
    ];
    let mut columns: Vec<&(dyn ToSql + Sync)> = vec![&lanes, &failures, &first_failures, &last_failures, &last_successes];
    columns.extend([&observed_from as &(dyn ToSql + Sync), &observed, &last_counted, &previous_counted, &failing_since, &warned_at]);
    columns.extend([&owes_recovery as &(dyn ToSql + Sync), &recovered_at]);
    tx.execute(WRITE_ACTIVITY, &columns).await?;
    Ok(())
}

pub(super) const fn minute_number(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(MINUTE_MICROS)
}

/// The minute before which minutes begin that have something of the time before `to`.
pub(super) fn end_minute(to: Timestamp) -> i64 {
    minute_number(to) + i64::from(minute_of(to) < to)
}

pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn statistics_of_row(row: &Row) -> Outcome<AttemptStatistics> {
    let mut failures = FailureCounts::default();
    for category in FailureCategory::ALL {
        failures.add(category, row.number(category.as_str())?);
    }
    Ok(AttemptStatistics {
        successes: row.number("successes")?,
        failures,
        duration_sum: duration(row.value("duration_sum")?),
        durations: row.spelled("durations", durations::unpack)?,
        answers: row.spelled("answers", answers::unpack)?,
        last_success_at: row.instant_opt("last_success_at")?,
        last_failure_at: row.instant_opt("last_failure_at")?,
    })
}

pub(super) fn activity_of_row(row: &Row) -> Outcome<EndpointActivity> {
    Ok(EndpointActivity {
        consecutive_failures: row.number("consecutive_failures")?,
        first_failure_at: row.instant_opt("first_failure_at")?,
        last_failure_at: row.instant_opt("last_failure_at")?,
        last_success_at: row.instant_opt("last_success_at")?,
        clock: FailingClock {
            observed_from: row.instant_opt("observed_from")?,
            observed: row.number("observed")?,
            last_counted_at: row.instant_opt("last_counted_at")?,
            previous_counted_at: row.instant_opt("previous_counted_at")?,
            failing_since: row.instant_opt("failing_since")?,
            warned_at: row.instant_opt("warned_at")?,
            owes_recovery: row.value("owes_recovery")?,
            recovered_at: row.instant_opt("recovered_at")?,
        },
    })
}
