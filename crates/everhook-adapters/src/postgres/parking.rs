//! Deliveries that wait for something outside: the port `ParkedDeliveries`, and what settling writes of them.
//!
//! Nobody else waits for a row that is parked, so that few locks are enough: the rows themselves. A delivery that is parked at the very moment of a release
//! is found by the second look at that release.

use std::collections::BTreeMap;

use async_trait::async_trait;
use everhook_core::{
    ids::{DeliveryId, OrganizationId, ScheduleVersion},
    lifecycle,
    model::{AfterExpiry, Due, Order, Stage, WaitsFor},
    ports::{Freed, FreedInLane, OrphanedLane, ParkedDeliveries, Release, Settlement, StoreError, Unparked},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    collisions::retry_on_conflict,
    fault::Outcome,
    making::ParkingColumns,
    ordering::{OrderKey, free_first, lock_lanes},
    pipeline::Pipeline,
    rows::{Columns, Key},
    transaction::Tx,
};
use crate::encoding::{
    releases::{RELEASES_AT_ONCE, forgotten_before, looks_again_at},
    spelling::stage_columns,
};

const PARK: &str = include_str!("queries/park.sql");
const PARKED_FOR: &str = include_str!("queries/parked_for.sql");
const PARKED_UNTIL: &str = include_str!("queries/parked_until.sql");
const UNPARK: &str = include_str!("queries/unpark.sql");
const PARK_MADE: &str = include_str!("queries/park_made.sql");
const HOLD_PARKED: &str = include_str!("queries/hold_parked.sql");
const LANES_TO_UNPARK: &str = include_str!("queries/lanes_to_unpark.sql");
const NOTE_RELEASE: &str = include_str!("queries/note_release.sql");
const NEXT_LOOK: &str = include_str!("queries/next_parked_look.sql");
const RELEASES: &str = include_str!("queries/releases_to_resume.sql");
const END_RELEASE: &str = include_str!("queries/end_release.sql");
const ORPHANED: &str = include_str!("queries/orphaned_lanes.sql");
const FORGET_RELEASES: &str = include_str!("queries/forget_releases.sql");

#[async_trait]
impl ParkedDeliveries for PostgresStore {
    async fn release(&self, release: Release) -> Result<Unparked, StoreError> {
        Ok(retry_on_conflict(|| self.release_parked(&release)).await?)
    }

    async fn next_look(&self) -> Result<Option<Timestamp>, StoreError> {
        let Some(row) = self.line_reader().await?.query_opt(NEXT_LOOK, &[]).await? else { return Ok(None) };
        let instants: [Option<i64>; 2] = [row.value("expires_at")?, row.value("look_at")?];
        Ok(instants.into_iter().flatten().min().map(Timestamp::from_micros))
    }

    async fn resume_releases(&self, at: Timestamp, limit: u32) -> Result<Unparked, StoreError> {
        Ok(retry_on_conflict(|| self.resume(at, limit)).await?)
    }

    async fn expire(&self, at: Timestamp, limit: u32) -> Result<Unparked, StoreError> {
        Ok(retry_on_conflict(|| self.expire_parked(at, limit)).await?)
    }

    async fn orphaned_lanes(&self, limit: u32) -> Result<Vec<OrphanedLane>, StoreError> {
        let rows = self.line_reader().await?.query(ORPHANED, &[&i64::from(limit)]).await?;
        let of_row = |row: &Row| {
            let (organization, application, lane_id) = (row.id("organization_id")?, row.id("application_id")?, row.id("id")?);
            Ok(OrphanedLane { organization, application, lane_id })
        };
        Ok(rows.iter().map(of_row).collect::<Outcome<_>>()?)
    }
}

impl PostgresStore {
    async fn release_parked(&self, release: &Release) -> Outcome<Unparked> {
        let Release { organization, ref waits_for, at, limit } = *release;
        let mut connection = self.pools.line().await?;
        let tx = Tx::begin(&mut connection).await?;
        let (looked_at, deliveries) = unpark_for(&tx, (organization, waits_for), at, limit).await?;
        let may_be_more = looked_at >= limit as usize;
        let look_at = looks_again_at(at, may_be_more).as_micros();
        tx.execute(NOTE_RELEASE, &[&organization.key(), &waits_for.as_str(), &at.as_micros(), &look_at]).await?;
        tx.commit().await?;
        Ok(Unparked { deliveries, may_be_more })
    }

    async fn resume(&self, at: Timestamp, limit: u32) -> Outcome<Unparked> {
        // Most looks find none, and begin no transaction.
        if self.line_reader().await?.query_opt(RELEASES, &[&at.as_micros(), &1_i64]).await?.is_none() {
            return Ok(Unparked::default());
        }
        let mut connection = self.pools.line().await?;
        let tx = Tx::begin(&mut connection).await?;
        let releases = tx.query(RELEASES, &[&at.as_micros(), &i64::from(RELEASES_AT_ONCE)]).await?;
        if releases.is_empty() {
            return Ok(Unparked::default());
        }
        let mut resumed = Unparked { deliveries: Vec::new(), may_be_more: releases.len() >= RELEASES_AT_ONCE as usize };
        let mut room = limit;
        for row in &releases {
            let (organization, waits_for) = (row.id("organization_id")?, row.spelled("waits_for", WaitsFor::parse)?);
            let (looked_at, unparked) = unpark_for(&tx, (organization, &waits_for), at, room).await?;
            let is_complete = looked_at < room as usize;
            room = room.saturating_sub(u32::try_from(looked_at).unwrap_or(u32::MAX));
            resumed.deliveries.extend(unparked);
            if !is_complete {
                resumed.may_be_more = true;
                break;
            }
            tx.execute(END_RELEASE, &[&organization.key(), &waits_for.as_str()]).await?;
        }
        tx.execute(FORGET_RELEASES, &[&forgotten_before(at).as_micros(), &i64::from(RELEASES_AT_ONCE)]).await?;
        tx.commit().await?;
        Ok(resumed)
    }

    async fn expire_parked(&self, at: Timestamp, limit: u32) -> Outcome<Unparked> {
        if self.line_reader().await?.query_opt(PARKED_UNTIL, &[&at.as_micros(), &1_i64]).await?.is_none() {
            return Ok(Unparked::default());
        }
        let mut connection = self.pools.line().await?;
        let tx = Tx::begin(&mut connection).await?;
        let parked = tx.query(PARKED_UNTIL, &[&at.as_micros(), &i64::from(limit)]).await?;
        if parked.is_empty() {
            return Ok(Unparked::default());
        }
        let deliveries = unpark(&tx, &parked, at).await?;
        tx.commit().await?;
        Ok(Unparked { may_be_more: parked.len() >= limit as usize, deliveries })
    }
}

/// Parks the deliveries of those settlements that say so. They were settled in this transaction.
pub(super) async fn park<'s>(tx: &Tx<'_>, settlements: impl Iterator<Item = (&'s Settlement, i64)>) -> Outcome<()> {
    let (mut lanes, mut ids, mut waits, mut begun) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut expire_at, mut expire_into) = (Vec::new(), Vec::new());
    for (settlement, lane) in settlements {
        let Stage::Parked(parking) = &settlement.stage else { continue };
        lanes.push(lane);
        ids.push(settlement.delivery.key());
        waits.push(parking.waits_for.as_str());
        expire_at.push(parking.expiry.map(|expiry| expiry.at.as_micros()));
        expire_into.push(parking.expiry.map(|expiry| expiry.then.as_str()));
        begun.push(settlement.attempt.executed_at.as_micros());
    }
    if !ids.is_empty() {
        tx.execute(PARK, &[&lanes, &ids, &waits, &expire_at, &expire_into, &begun]).await?;
    }
    Ok(())
}

/// Parks those of the deliveries just made that wait for something which has not come, and says which. Most groups have none.
pub(super) async fn park_made(pipeline: &Pipeline, to_park: &ParkingColumns<'_>) -> Outcome<Vec<DeliveryId>> {
    if to_park.is_empty() {
        return Ok(Vec::new());
    }
    let statement = pipeline.prepare(PARK_MADE).await?;
    let parked = pipeline.query(&statement, &to_park.parameters()).await?;
    parked.iter().map(|row| row.id("id")).collect()
}

async fn unpark_for(
    tx: &Tx<'_>,
    (organization, waits_for): (OrganizationId, &WaitsFor),
    at: Timestamp,
    limit: u32,
) -> Outcome<(usize, Vec<FreedInLane>)> {
    let limit = i64::from(limit);
    // Lanes come before their deliveries, as wherever both are taken: nobody waits in a circle.
    let lanes = tx.query(LANES_TO_UNPARK, &[&organization.key(), &waits_for.as_str(), &limit]).await?;
    if !lanes.is_empty() {
        lock_lanes(tx, &lanes.iter().map(|row| row.value("lane")).collect::<Outcome<Vec<i64>>>()?).await?;
    }
    let parked = tx.query(PARKED_FOR, &[&organization.key(), &waits_for.as_str(), &limit]).await?;
    Ok((parked.len(), unpark(tx, &parked, at).await?))
}

/// A delivery that is parked, as it stands in its lane.
struct Parked {
    key: OrderKey,
    one: FreedInLane,
}

/// Ends the parking of these deliveries, and says which of them wait now. One that was made parked and has an order is held first, and freed if it is the
/// first of its key.
async fn unpark(tx: &Tx<'_>, parked: &[Row], at: Timestamp) -> Outcome<Vec<FreedInLane>> {
    let of_row = |row: &Row| {
        let key = row.value::<Option<String>>("order_key")?.unwrap_or_default();
        Ok(Parked { key: OrderKey { lane: row.value("lane")?, key }, one: parked_of_row(row, at)? })
    };
    let parked = parked.iter().map(of_row).collect::<Outcome<Vec<_>>>()?;
    let may_be_behind = |parked: &Parked| parked.one.freed.due.attempts == 0 && parked.one.freed.due.order.is_some();
    let (ordered, first): (Vec<_>, Vec<_>) = parked.into_iter().partition(may_be_behind);
    if !first.is_empty() {
        let (lanes, ids) = places(&first);
        let expired: Vec<Option<&str>> = first.iter().map(|parked| parked.one.freed.due.expired.map(AfterExpiry::as_str)).collect();
        tx.execute(UNPARK, &[&lanes, &ids, &expired, &stage_columns(&lifecycle::unparked(false, at)).due_at]).await?;
    }
    let freed = if ordered.is_empty() { Vec::new() } else { hold_and_free(tx, &ordered, at).await? };
    Ok(first.into_iter().map(|parked| parked.one).chain(freed).collect())
}

/// Holds deliveries that were made parked, and frees the first of each of their keys.
async fn hold_and_free(tx: &Tx<'_>, parked: &[Parked], at: Timestamp) -> Outcome<Vec<FreedInLane>> {
    let (lanes, ids) = places(parked);
    // Also those in which something was parked since the lanes were looked for.
    lock_lanes(tx, &lanes).await?;
    tx.execute(HOLD_PARKED, &[&lanes, &ids]).await?;
    let of_key: BTreeMap<&OrderKey, &FreedInLane> = parked.iter().map(|parked| (&parked.key, &parked.one)).collect();
    let keys: Vec<_> = of_key.keys().map(|key| ((*key).clone(), at)).collect();
    let freed = free_first(tx, &keys).await?;
    let in_lane = |(key, freed): (OrderKey, Freed)| {
        let one = of_key.get(&key)?;
        Some(FreedInLane { application: one.application, lane_id: one.lane_id, freed })
    };
    Ok(freed.into_iter().filter_map(in_lane).collect())
}

fn places(parked: &[Parked]) -> (Vec<i64>, Vec<Uuid>) {
    parked.iter().map(|parked| (parked.key.lane, parked.one.freed.due.delivery.key())).unzip()
}

fn parked_of_row(row: &Row, at: Timestamp) -> Outcome<FreedInLane> {
    let due = Due {
        delivery: row.id("id")?,
        event: row.id("event_id")?,
        loaded: None,
        retry_schedule: ScheduleVersion(row.value("retry_schedule")?),
        attempts: row.number("attempts")?,
        parkings: row.number_opt("parkings")?.unwrap_or(0),
        expired: row.expired()?,
        due_at: at,
        replay_of: row.id_opt("replay_of")?,
        order: row.value::<Option<&str>>("order_key")?.map(Order::of_key),
    };
    Ok(FreedInLane {
        application: row.id("application_id")?,
        lane_id: row.id("endpoint_id")?,
        freed: Freed { priority: row.priority("priority")?, due },
    })
}
