//! The retry schedules that organizations named. What one means is a version in `schedules`, which is never changed.

use everhook_core::{
    ids::{ApplicationId, OrganizationId, ScheduleId, ScheduleVersion},
    model::OrganizationSchedule,
    ports::{Created, MoveEndpoints, Moved, ScheduleDeleted, ScheduleRef, Updated},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        fault::Outcome,
        reader::Reader,
        rows::{Columns, Key},
        transaction::Tx,
    },
    can_be_kept, versions,
};
use crate::encoding::schedule_json;

const INSERT: &str = include_str!("../queries/insert_retry_schedule.sql");
const UPDATE: &str = include_str!("../queries/update_retry_schedule.sql");
const DELETE: &str = include_str!("../queries/delete_retry_schedule.sql");
const COUNT: &str = include_str!("../queries/count_retry_schedules.sql");
const BY_ID: &str = include_str!("../queries/retry_schedule_by_id.sql");
const BY_NAME: &str = include_str!("../queries/retry_schedule_by_name.sql");
const OF_ORGANIZATION: &str = include_str!("../queries/retry_schedules_of_organization.sql");
const COUNT_ENDPOINTS: &str = include_str!("../queries/count_endpoints_of_schedule.sql");
const VERSIONS: &str = include_str!("../queries/schedule_versions.sql");
const ENDPOINTS_OF: &str = include_str!("../queries/endpoints_of_schedule.sql");
const MOVE_ENDPOINTS: &str = include_str!("../queries/move_endpoints_of_schedule.sql");

pub(super) async fn create(tx: &Tx<'_>, schedule: &OrganizationSchedule, count_max: u32) -> Outcome<Created> {
    if name_is_taken(tx, schedule).await? {
        return Ok(Created::NameTaken);
    }
    let count: i64 = tx.query_one(COUNT, &[&schedule.organization.key()]).await?.value("count")?;
    if count >= i64::from(count_max) {
        return Ok(Created::TooMany);
    }
    tx.execute(
        INSERT,
        &[
            &schedule.id.key(),
            &schedule.organization.key(),
            &schedule.policy.name.0,
            &schedule.version.0,
            &schedule.created_at.as_micros(),
            &schedule.updated_at.as_micros(),
        ],
    )
    .await?;
    Ok(Created::Created)
}

pub(super) async fn find(reader: &Reader, organization: OrganizationId, of: &ScheduleRef) -> Outcome<Option<OrganizationSchedule>> {
    let found = match of {
        ScheduleRef::Id(id) => reader.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?,
        ScheduleRef::Name(name) if can_be_kept(name) => reader.query_opt(BY_NAME, &[&organization.key(), name]).await?,
        ScheduleRef::Name(_) => None,
    };
    found.as_ref().map(of_row).transpose()
}

pub(super) async fn list(reader: &Reader, organization: OrganizationId) -> Outcome<Vec<OrganizationSchedule>> {
    reader.query(OF_ORGANIZATION, &[&organization.key()]).await?.iter().map(of_row).collect()
}

pub(super) async fn update(tx: &Tx<'_>, schedule: &OrganizationSchedule, read_at: Timestamp) -> Outcome<Updated> {
    if name_is_taken(tx, schedule).await? {
        return Ok(Updated::NameTaken);
    }
    let changed = tx
        .execute(
            UPDATE,
            &[
                &schedule.id.key(),
                &schedule.organization.key(),
                &schedule.policy.name.0,
                &schedule.version.0,
                &schedule.updated_at.as_micros(),
                &read_at.as_micros(),
            ],
        )
        .await?;
    if changed == 0 {
        return Ok(Updated::Changed);
    }
    versions::definitions_changed(tx, schedule.organization).await?;
    Ok(Updated::Updated)
}

pub(super) async fn delete(tx: &Tx<'_>, organization: OrganizationId, id: ScheduleId) -> Outcome<ScheduleDeleted> {
    if !exists(tx, organization, id).await? {
        return Ok(ScheduleDeleted::NotFound);
    }
    let endpoints: u32 = tx.query_one(COUNT_ENDPOINTS, &[&id.key()]).await?.number("count")?;
    if endpoints > 0 {
        return Ok(ScheduleDeleted::InUse(endpoints));
    }
    tx.execute(DELETE, &[&organization.key(), &id.key()]).await?;
    Ok(ScheduleDeleted::Deleted)
}

/// Chooses the endpoints first and writes them last: the counters of their applications are locked before any row of an endpoint.
pub(super) async fn move_endpoints(tx: &Tx<'_>, request: &MoveEndpoints) -> Outcome<Moved> {
    if let Some(to) = request.to
        && !exists(tx, request.organization, to).await?
    {
        return Ok(Moved::NoSuchSchedule);
    }
    let chosen = tx.query(ENDPOINTS_OF, &[&request.organization.key(), &request.from.key(), &i64::from(request.limit)]).await?;
    let endpoints = chosen.iter().map(|row| row.id("id")).collect::<Outcome<Vec<Uuid>>>()?;
    let applications = chosen.iter().map(|row| row.id("application_id")).collect::<Outcome<Vec<ApplicationId>>>()?;
    versions::endpoints_change(tx, request.organization, &applications).await?;
    let to = request.to.as_ref().map(ScheduleId::key);
    let moved = tx.execute(MOVE_ENDPOINTS, &[&endpoints, &to, &request.version.0, &request.now.as_micros()]).await?;
    Ok(Moved::Moved(u32::try_from(moved).unwrap_or(u32::MAX)))
}

/// The versions that are in force.
pub(super) async fn versions_of(snapshot: &Tx<'_>, organization: OrganizationId) -> Outcome<Vec<(ScheduleId, ScheduleVersion)>> {
    let rows = snapshot.query(VERSIONS, &[&organization.key()]).await?;
    rows.iter().map(|row| Ok((row.id("id")?, ScheduleVersion(row.value("version")?)))).collect()
}

/// Whether an organization has a schedule. Asked while it is locked, so that nobody follows one that was deleted meanwhile.
pub(super) async fn exists(tx: &Tx<'_>, organization: OrganizationId, id: ScheduleId) -> Outcome<bool> {
    Ok(tx.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?.is_some())
}

/// Asked while the organization is locked, so that the answer still holds at the end of the change.
async fn name_is_taken(tx: &Tx<'_>, schedule: &OrganizationSchedule) -> Outcome<bool> {
    match tx.query_opt(BY_NAME, &[&schedule.organization.key(), &schedule.policy.name.0]).await? {
        Some(holder) => Ok(holder.id::<ScheduleId>("id")? != schedule.id),
        None => Ok(false),
    }
}

fn of_row(row: &Row) -> Outcome<OrganizationSchedule> {
    Ok(OrganizationSchedule {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        policy: row.spelled("definition", schedule_json::read)?,
        version: ScheduleVersion(row.value("version")?),
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}
