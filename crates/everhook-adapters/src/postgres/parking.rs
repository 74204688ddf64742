//! Deliveries that wait for something outside: the port `ParkedDeliveries`, and what settling writes of them.
//!
//! Nobody else waits for a row that is parked, so that few locks are enough: the rows themselves. A delivery that is parked at the very moment of a release
//! is found by the second look at that release.

use async_trait::async_trait;
use everhook_core::{
    ids::{OrganizationId, ScheduleVersion},
    lifecycle,
    model::{AfterExpiry, Due, Order, Stage, WaitsFor},
    ports::{Freed, FreedInLane, ParkedDeliveries, Release, Settlement, StoreError, Unparked},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    collisions::retry_on_conflict,
    fault::Outcome,
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
const NOTE_RELEASE: &str = include_str!("queries/note_release.sql");
const NEXT_LOOK: &str = include_str!("queries/next_parked_look.sql");
const RELEASES: &str = include_str!("queries/releases_to_resume.sql");
const END_RELEASE: &str = include_str!("queries/end_release.sql");
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
}

impl PostgresStore {
    async fn release_parked(&self, release: &Release) -> Outcome<Unparked> {
        let Release { organization, ref waits_for, at, limit } = *release;
        let mut connection = self.pools.line().await?;
        let tx = Tx::begin(&mut connection).await?;
        let deliveries = unpark_for(&tx, (organization, waits_for), at, limit).await?;
        let may_be_more = deliveries.len() >= limit as usize;
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
        for row in &releases {
            let (organization, waits_for) = (row.id("organization_id")?, row.spelled("waits_for", WaitsFor::parse)?);
            let room = limit.saturating_sub(u32::try_from(resumed.deliveries.len()).unwrap_or(u32::MAX));
            let unparked = unpark_for(&tx, (organization, &waits_for), at, room).await?;
            let is_complete = unparked.len() < room as usize;
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
        Ok(Unparked { may_be_more: deliveries.len() >= limit as usize, deliveries })
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

async fn unpark_for(
    tx: &Tx<'_>,
    (organization, waits_for): (OrganizationId, &WaitsFor),
    at: Timestamp,
    limit: u32,
) -> Outcome<Vec<FreedInLane>> {
    let parked = tx.query(PARKED_FOR, &[&organization.key(), &waits_for.as_str(), &i64::from(limit)]).await?;
    unpark(tx, &parked, at).await
}

async fn unpark(tx: &Tx<'_>, parked: &[Row], at: Timestamp) -> Outcome<Vec<FreedInLane>> {
    if parked.is_empty() {
        return Ok(Vec::new());
    }
    let lanes = parked.iter().map(|row| row.value("lane")).collect::<Outcome<Vec<i64>>>()?;
    let unparked = parked.iter().map(|row| parked_of_row(row, at)).collect::<Outcome<Vec<_>>>()?;
    let ids: Vec<Uuid> = unparked.iter().map(|one| one.freed.due.delivery.key()).collect();
    let expired: Vec<Option<&str>> = unparked.iter().map(|one| one.freed.due.expired.map(AfterExpiry::as_str)).collect();
    tx.execute(UNPARK, &[&lanes, &ids, &expired, &stage_columns(&lifecycle::unparked(at)).due_at]).await?;
    Ok(unparked)
}

fn parked_of_row(row: &Row, at: Timestamp) -> Outcome<FreedInLane> {
    let due = Due {
        delivery: row.id("id")?,
        event: row.id("event_id")?,
        loaded: None,
        retry_schedule: ScheduleVersion(row.value("retry_schedule")?),
        attempts: row.number("attempts")?,
        parkings: row.number("parkings")?,
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
