//! What happened at endpoints and sources, in numbers: the port `Statistics`.
//!
//! What is kept is read, added to and written back inside one transaction, which alone writes.

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, LaneId, OrganizationId, SourceId},
    model::{AttemptStatistics, BreakdownTally, ClockReset, EndpointActivity, FailingClock, FailingRule, SourceTally, Tally},
    ports::{Alert, Statistics, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustc_hash::FxHashMap;

use super::{
    SqliteStore,
    fault::Outcome,
    outbox, rollups,
    rows::{Columns, Key},
    source_rollups,
    transaction::Tx,
};
use crate::encoding::rollup_span::minute_number;

const SCOPES: &str = include_str!("queries/scopes_of_lanes.sql");
const INSERT_SCOPE: &str = include_str!("queries/insert_scope_lanes.sql");
const ACTIVITY_OF_LANE: &str = include_str!("queries/activity_of_lane.sql");
const ACTIVITY_OF_ENDPOINT: &str = include_str!("queries/activity_of_endpoint.sql");
const WRITE_ACTIVITY: &str = include_str!("queries/write_activity.sql");

#[async_trait]
impl Statistics for SqliteStore {
    async fn add(&self, tallies: Vec<Tally>, rule: FailingRule) -> Result<(), StoreError> {
        self.write(tallies.len() * 2, move |tx| add_all(tx, &tallies, &rule)).await
    }

    async fn add_calls(&self, tallies: Vec<Tally>, alerts: Vec<Alert>) -> Result<(), StoreError> {
        self.write(tallies.len() * 2 + alerts.len(), move |tx| {
            add_all(tx, &tallies, &FailingRule::default())?;
            alerts.iter().try_for_each(|alert| outbox::keep(tx, alert))
        })
        .await
    }

    async fn add_breakdowns(&self, tallies: Vec<BreakdownTally>) -> Result<(), StoreError> {
        self.write(tallies.len(), move |tx| rollups::add_breakdowns(tx, &tallies)).await
    }

    async fn attempt_statistics(&self, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Result<AttemptStatistics, StoreError> {
        self.read_history(move |connection| rollups::read(connection, lane_id, from, to)).await
    }

    async fn activities(&self, endpoints: Vec<LaneId>) -> Result<Vec<EndpointActivity>, StoreError> {
        let read = move |connection: &Connection| {
            let mut statement = connection.prepare_cached(ACTIVITY_OF_ENDPOINT)?;
            let mut find = |lane_id: LaneId| Ok(statement.query_row([lane_id.key()], activity_of_row).optional()?.unwrap_or_default());
            endpoints.into_iter().map(&mut find).collect()
        };
        self.read_history(read).await
    }

    async fn forget_failures(&self, lane_id: LaneId, why: ClockReset) -> Result<(), StoreError> {
        let forget = move |tx: &mut Tx<'_>| {
            let lane = tx.lane_of(lane_id)?;
            change_activity(tx, lane, |activity| activity.forget_failures(why))
        };
        self.write(1, forget).await
    }

    async fn add_source_tallies(&self, tallies: Vec<SourceTally>) -> Result<(), StoreError> {
        self.write(tallies.len(), move |tx| tallies.iter().try_for_each(|tally| source_rollups::add(tx, tally))).await
    }

    async fn source_statistics(
        &self,
        source: SourceId,
        from: Timestamp,
        to: Timestamp,
        step: Duration,
    ) -> Result<Vec<SourceTally>, StoreError> {
        self.read_history(move |connection| source_rollups::read(connection, source, (from, to), step)).await
    }
}

/// Adds tallies to the rollups of their lanes, and to those of the applications and organizations of these.
fn add_all(tx: &mut Tx<'_>, tallies: &[Tally], rule: &FailingRule) -> Outcome<()> {
    let mut scopes = FxHashMap::default();
    // What belongs together is added up first: many endpoints have few applications.
    let mut added = rollups::Added::new();
    for tally in tallies {
        let (lane, minute) = (tx.lane_of(tally.lane_id)?, minute_number(tally.minute));
        change_activity(tx, lane, |activity| activity.add(tally, rule))?;
        let [application, organization] = match scopes.get(&lane) {
            Some(known) => *known,
            None => *scopes.entry(lane).or_insert(scopes_of(tx, lane)?),
        };
        for lane in [lane, application, organization] {
            added.entry((lane, minute)).or_default().merge(&tally.statistics);
        }
    }
    rollups::add_all(tx, &added)
}

/// The numbers under which the application and the organization of a lane are counted, made if nothing was counted yet.
fn scopes_of(tx: &Tx<'_>, lane: i64) -> Outcome<[i64; 2]> {
    let read = |row: &Row<'_>| {
        let ids = (row.id::<ApplicationId>("application_id")?, row.id::<OrganizationId>("organization_id")?);
        Ok((ids, row.get::<_, Option<i64>>("application_lane")?, row.get::<_, Option<i64>>("organization_lane")?))
    };
    let ((application, organization), application_lane, organization_lane) = tx.prepare(SCOPES)?.query_row([lane], read)?;
    let make = |id: &[u8; 16], kind: &str| -> Outcome<i64> { Ok(tx.prepare(INSERT_SCOPE)?.insert(params![id, kind, organization.key()])?) };
    let application_lane = match application_lane {
        Some(lane) => lane,
        None => make(application.key(), "application")?,
    };
    let organization_lane = match organization_lane {
        Some(lane) => lane,
        None => make(organization.key(), "organization")?,
    };
    Ok([application_lane, organization_lane])
}

fn change_activity(tx: &Tx<'_>, lane: i64, change: impl FnOnce(&mut EndpointActivity)) -> Outcome<()> {
    let mut activity = activity_of_lane(tx, lane)?;
    change(&mut activity);
    write_activity(tx, lane, &activity)
}

/// The activity of an endpoint, read by whoever changes it.
pub(super) fn activity_of_lane(tx: &Tx<'_>, lane: i64) -> Outcome<EndpointActivity> {
    Ok(tx.prepare(ACTIVITY_OF_LANE)?.query_row([lane], activity_of_row).optional()?.unwrap_or_default())
}

pub(super) fn write_activity(tx: &Tx<'_>, lane: i64, activity: &EndpointActivity) -> Outcome<()> {
    let clock = &activity.clock;
    tx.prepare(WRITE_ACTIVITY)?.execute(params![
        lane,
        activity.consecutive_failures,
        activity.first_failure_at.map(Timestamp::as_micros),
        activity.last_failure_at.map(Timestamp::as_micros),
        activity.last_success_at.map(Timestamp::as_micros),
        clock.observed_from.map(Timestamp::as_micros),
        clock.observed,
        clock.last_counted_at.map(Timestamp::as_micros),
        clock.previous_counted_at.map(Timestamp::as_micros),
        clock.failing_since.map(Timestamp::as_micros),
        clock.warned_at.map(Timestamp::as_micros),
        clock.owes_recovery,
        clock.recovered_at.map(Timestamp::as_micros),
    ])?;
    Ok(())
}

pub(super) fn activity_of_row(row: &Row<'_>) -> rusqlite::Result<EndpointActivity> {
    Ok(EndpointActivity {
        consecutive_failures: row.get("consecutive_failures")?,
        first_failure_at: row.instant_opt("first_failure_at")?,
        last_failure_at: row.instant_opt("last_failure_at")?,
        last_success_at: row.instant_opt("last_success_at")?,
        clock: FailingClock {
            observed_from: row.instant_opt("observed_from")?,
            observed: row.get("observed")?,
            last_counted_at: row.instant_opt("last_counted_at")?,
            previous_counted_at: row.instant_opt("previous_counted_at")?,
            failing_since: row.instant_opt("failing_since")?,
            warned_at: row.instant_opt("warned_at")?,
            owes_recovery: row.get("owes_recovery")?,
            recovered_at: row.instant_opt("recovered_at")?,
        },
    })
}
