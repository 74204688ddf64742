//! Deliveries that wait for something outside: the port `ParkedDeliveries`, and what settling writes of them.

use async_trait::async_trait;
use everhook_core::{
    ids::{OrganizationId, ScheduleVersion},
    lifecycle,
    model::{AfterExpiry, Due, Order, Stage, WaitsFor},
    ports::{Freed, FreedInLane, OrphanedLane, ParkedDeliveries, Release, Settlement, StoreError, Unparked},
    time::Timestamp,
};
use rusqlite::{Row, ToSql, params};

use super::{
    SqliteStore,
    fault::Outcome,
    ordering,
    rows::{Columns, Key},
    spelling::{read_priority, stage_columns},
    transaction::Tx,
};
use crate::encoding::releases::{RELEASES_AT_ONCE, forgotten_before, looks_again_at};

const PARK: &str = include_str!("queries/park.sql");
const PARKED_FOR: &str = include_str!("queries/parked_for.sql");
const PARKED_UNTIL: &str = include_str!("queries/parked_until.sql");
const UNPARK: &str = include_str!("queries/unpark.sql");
const HOLD_PARKED: &str = include_str!("queries/hold_parked.sql");
const NOTE_RELEASE: &str = include_str!("queries/note_release.sql");
const NEXT_LOOK: &str = include_str!("queries/next_parked_look.sql");
const RELEASES: &str = include_str!("queries/releases_to_resume.sql");
const END_RELEASE: &str = include_str!("queries/end_release.sql");
const ORPHANED: &str = include_str!("queries/orphaned_lanes.sql");
const FORGET_RELEASES: &str = include_str!("queries/forget_releases.sql");

#[async_trait]
impl ParkedDeliveries for SqliteStore {
    async fn release(&self, release: Release) -> Result<Unparked, StoreError> {
        self.write(release.limit as usize, move |tx| {
            let Release { organization, ref waits_for, at, limit } = release;
            let (looked_at, deliveries) = unpark(tx, PARKED_FOR, params![organization.key(), waits_for.as_str(), limit], at)?;
            let may_be_more = looked_at >= limit as usize;
            let look_at = looks_again_at(at, may_be_more);
            tx.prepare(NOTE_RELEASE)?.execute(params![organization.key(), waits_for.as_str(), at.as_micros(), look_at.as_micros()])?;
            Ok(Unparked { deliveries, may_be_more })
        })
        .await
    }

    async fn next_look(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(|connection| {
            let of_row = |row: &Row<'_>| Ok([row.get("expires_at")?, row.get("look_at")?]);
            let instants: [Option<i64>; 2] = connection.prepare_cached(NEXT_LOOK)?.query_row([], of_row)?;
            Ok(instants.into_iter().flatten().min().map(Timestamp::from_micros))
        })
        .await
    }

    async fn resume_releases(&self, at: Timestamp, limit: u32) -> Result<Unparked, StoreError> {
        // Most looks find none, and take no turn with the writer.
        let releases = self.read(move |connection| {
            let of_row = |row: &Row<'_>| Ok((row.id("organization_id")?, row.spelled("waits_for", |text: String| WaitsFor::parse(&text))?));
            let mut statement = connection.prepare_cached(RELEASES)?;
            Ok(statement.query_map(params![at.as_micros(), RELEASES_AT_ONCE], of_row)?.collect::<Result<Vec<_>, _>>()?)
        });
        let releases: Vec<(OrganizationId, WaitsFor)> = releases.await?;
        if releases.is_empty() {
            return Ok(Unparked::default());
        }
        self.write(releases.len() + limit as usize, move |tx| resume(tx, &releases, at, limit)).await
    }

    async fn expire(&self, at: Timestamp, limit: u32) -> Result<Unparked, StoreError> {
        let any = self.read(move |connection| {
            let mut statement = connection.prepare_cached(PARKED_UNTIL)?;
            Ok(statement.exists(params![at.as_micros(), 1])?)
        });
        if !any.await? {
            return Ok(Unparked::default());
        }
        self.write(limit as usize, move |tx| {
            let (looked_at, deliveries) = unpark(tx, PARKED_UNTIL, params![at.as_micros(), limit], at)?;
            let may_be_more = looked_at >= limit as usize;
            Ok(Unparked { deliveries, may_be_more })
        })
        .await
    }

    async fn orphaned_lanes(&self, limit: u32) -> Result<Vec<OrphanedLane>, StoreError> {
        self.read(move |connection| {
            let of_row = |row: &Row<'_>| {
                let (organization, application, lane_id) = (row.id("organization_id")?, row.id("application_id")?, row.id("id")?);
                Ok(OrphanedLane { organization, application, lane_id })
            };
            Ok(connection.prepare_cached(ORPHANED)?.query_map([limit], of_row)?.collect::<Result<_, _>>()?)
        })
        .await
    }
}

/// Parks the delivery of a settlement that says so.
pub(super) fn park(tx: &Tx<'_>, settlement: &Settlement) -> Outcome<()> {
    let Stage::Parked(parking) = &settlement.stage else { return Ok(()) };
    tx.prepare(PARK)?.execute(params![
        settlement.delivery.key(),
        parking.waits_for.as_str(),
        parking.expiry.map(|expiry| expiry.at.as_micros()),
        parking.expiry.map(|expiry| expiry.then.as_str()),
        settlement.attempt.executed_at.as_micros(),
    ])?;
    Ok(())
}

fn resume(tx: &Tx<'_>, releases: &[(OrganizationId, WaitsFor)], at: Timestamp, limit: u32) -> Outcome<Unparked> {
    let mut resumed = Unparked { deliveries: Vec::new(), may_be_more: releases.len() >= RELEASES_AT_ONCE as usize };
    let mut room = limit;
    for (organization, waits_for) in releases {
        let (looked_at, unparked) = unpark(tx, PARKED_FOR, params![organization.key(), waits_for.as_str(), room], at)?;
        let is_complete = looked_at < room as usize;
        room = room.saturating_sub(u32::try_from(looked_at).unwrap_or(u32::MAX));
        resumed.deliveries.extend(unparked);
        if !is_complete {
            resumed.may_be_more = true;
            break;
        }
        tx.prepare(END_RELEASE)?.execute(params![organization.key(), waits_for.as_str()])?;
    }
    tx.prepare(FORGET_RELEASES)?.execute(params![forgotten_before(at).as_micros(), RELEASES_AT_ONCE])?;
    Ok(resumed)
}

/// Ends the parking of these deliveries: says how many they are, and which of them wait now. One that was made parked and has an order is held first, and
/// freed if it is the first of its key.
fn unpark(tx: &Tx<'_>, which: &'static str, parameters: &[&dyn ToSql], at: Timestamp) -> Outcome<(usize, Vec<FreedInLane>)> {
    let due_at = stage_columns(&lifecycle::unparked(false, at)).due_at;
    let parked = tx.prepare(which)?.query_map(parameters, |row| parked_of_row(row, at))?.collect::<Result<Vec<_>, _>>()?;
    let (looked_at, mut waiting) = (parked.len(), Vec::with_capacity(parked.len()));
    for one in parked {
        let due = &one.freed.due;
        if due.attempts > 0 || due.order.is_none() {
            tx.prepare(UNPARK)?.execute(params![due.delivery.key(), due_at, due.expired.map(AfterExpiry::as_str)])?;
            waiting.push(one);
            continue;
        }
        tx.prepare(HOLD_PARKED)?.execute([due.delivery.key()])?;
        let freed = ordering::free_next(tx, due.delivery, at)?;
        waiting.extend(freed.map(|freed| FreedInLane { freed, ..one }));
    }
    Ok((looked_at, waiting))
}

fn parked_of_row(row: &Row<'_>, at: Timestamp) -> rusqlite::Result<FreedInLane> {
    let due = Due {
        delivery: row.id("id")?,
        event: row.id("event_id")?,
        loaded: None,
        retry_schedule: ScheduleVersion(row.get("retry_schedule")?),
        attempts: row.get("attempts")?,
        parkings: row.get::<_, Option<u32>>("parkings")?.unwrap_or(0),
        expired: row.expired()?,
        due_at: at,
        replay_of: row.id_opt("replay_of")?,
        order: row.get_ref("order_key")?.as_str_or_null()?.map(Order::of_key),
    };
    let freed = Freed { priority: row.spelled("priority", read_priority)?, due };
    Ok(FreedInLane { application: row.id("application_id")?, lane_id: row.id("endpoint_id")?, freed })
}
