//! What happened at endpoints and sources, in numbers: the port `Statistics`.
//!
//! Several nodes may add to one row: the rows are locked in the order of their keys, added to here and written back, all in one transaction.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use everhook_core::{
    ids::{LaneId, SourceId},
    model::{AttemptStatistics, BreakdownTally, ClockReset, EndpointActivity, FailingClock, FailingRule, SourceTally, Tally},
    ports::{Alert, Statistics, StoreError},
    time::Timestamp,
};
use rustc_hash::FxHashMap;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::Outcome,
    outbox, rollups,
    rows::{Columns, Key},
    source_rollups,
    transaction::Tx,
};
use crate::encoding::rollup_span::minute_number;

const SCOPES: &str = include_str!("queries/scopes_of_lanes.sql");
const INSERT_SCOPES: &str = include_str!("queries/insert_scope_lanes.sql");
const INSERT_ACTIVITIES: &str = include_str!("queries/insert_activities.sql");
const LOCK_ACTIVITIES: &str = include_str!("queries/lock_activities.sql");
const WRITE_ACTIVITY: &str = include_str!("queries/write_activity.sql");
const ACTIVITY_OF_ENDPOINT: &str = include_str!("queries/activity_of_endpoint.sql");

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

    async fn add_breakdowns(&self, tallies: Vec<BreakdownTally>) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        rollups::add_breakdowns(&tx, &tallies).await?;
        Ok(tx.commit().await?)
    }

    async fn attempt_statistics(&self, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Result<AttemptStatistics, StoreError> {
        Ok(rollups::read(&self.reader().await?, lane_id, from, to).await?)
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

/// Adds tallies to the rollups of their lanes, and to those of the applications and organizations of these.
async fn add_to_rollups(tx: &Tx<'_>, lanes: &[i64], tallies: &[Tally]) -> Outcome<()> {
    let scopes = scopes_of(tx, lanes).await?;
    let mut added = rollups::Added::new();
    for (lane, tally) in lanes.iter().zip(tallies) {
        let minute = minute_number(tally.minute);
        for lane in [*lane].into_iter().chain(scopes.get(lane).copied().into_iter().flatten()) {
            added.entry((lane, minute)).or_default().merge(&tally.statistics);
        }
    }
    rollups::add_all(tx, &added).await
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
