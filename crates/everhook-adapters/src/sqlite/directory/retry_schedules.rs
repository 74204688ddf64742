//! The retry schedules that organizations named. What one means is a version in `schedules`, which is never changed.

use everhook_core::{
    ids::{ApplicationId, EndpointId, OrganizationId, ScheduleId, ScheduleVersion},
    model::OrganizationSchedule,
    ports::{Created, MoveEndpoints, Moved, ScheduleDeleted, ScheduleRef, Updated},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::{
    fault::Outcome,
    rows::{Columns, Key},
    schedule_json,
    transaction::Tx,
};

const INSERT: &str = include_str!("../queries/insert_retry_schedule.sql");
const UPDATE: &str = include_str!("../queries/update_retry_schedule.sql");
const DELETE: &str = include_str!("../queries/delete_retry_schedule.sql");
const COUNT: &str = include_str!("../queries/count_retry_schedules.sql");
const BY_ID: &str = include_str!("../queries/retry_schedule_by_id.sql");
const BY_NAME: &str = include_str!("../queries/retry_schedule_by_name.sql");
const OF_ORGANIZATION: &str = include_str!("../queries/retry_schedules_of_organization.sql");
const ENDPOINTS_OF: &str = include_str!("../queries/count_endpoints_of_schedule.sql");
const VERSIONS: &str = include_str!("../queries/schedule_versions.sql");
const MOVE_ENDPOINTS: &str = include_str!("../queries/move_endpoints_of_schedule.sql");

pub(super) fn create(tx: &Tx<'_>, schedule: &OrganizationSchedule, count_max: u32) -> Outcome<Created> {
    if name_is_taken(tx, schedule)? {
        return Ok(Created::NameTaken);
    }
    let count: u32 = tx.prepare(COUNT)?.query_row([schedule.organization.key()], |row| row.get(0))?;
    if count >= count_max {
        return Ok(Created::TooMany);
    }
    tx.prepare(INSERT)?.execute(params![
        schedule.id.key(),
        schedule.organization.key(),
        schedule.policy.name.0,
        schedule.version.0,
        schedule.created_at.as_micros(),
        schedule.updated_at.as_micros()
    ])?;
    Ok(Created::Created)
}

pub(super) fn find(connection: &Connection, organization: OrganizationId, of: &ScheduleRef) -> Outcome<Option<OrganizationSchedule>> {
    let found = match of {
        ScheduleRef::Id(id) => connection.prepare_cached(BY_ID)?.query_row(params![organization.key(), id.key()], of_row),
        ScheduleRef::Name(name) => connection.prepare_cached(BY_NAME)?.query_row(params![organization.key(), name], of_row),
    };
    Ok(found.optional()?)
}

pub(super) fn list(connection: &Connection, organization: OrganizationId) -> Outcome<Vec<OrganizationSchedule>> {
    let mut statement = connection.prepare_cached(OF_ORGANIZATION)?;
    Ok(statement.query_map([organization.key()], of_row)?.collect::<Result<_, _>>()?)
}

pub(super) fn update(tx: &mut Tx<'_>, schedule: &OrganizationSchedule, read_at: Timestamp) -> Outcome<Updated> {
    if name_is_taken(tx, schedule)? {
        return Ok(Updated::NameTaken);
    }
    let changed = tx.prepare(UPDATE)?.execute(params![
        schedule.id.key(),
        schedule.organization.key(),
        schedule.policy.name.0,
        schedule.version.0,
        schedule.updated_at.as_micros(),
        read_at.as_micros()
    ])?;
    if changed == 0 {
        return Ok(Updated::Changed);
    }
    tx.bump_organization(schedule.organization)?;
    Ok(Updated::Updated)
}

pub(super) fn delete(tx: &Tx<'_>, organization: OrganizationId, id: ScheduleId) -> Outcome<ScheduleDeleted> {
    if find(tx.connection(), organization, &ScheduleRef::Id(id))?.is_none() {
        return Ok(ScheduleDeleted::NotFound);
    }
    let endpoints: u32 = tx.prepare(ENDPOINTS_OF)?.query_row([id.key()], |row| row.get(0))?;
    if endpoints > 0 {
        return Ok(ScheduleDeleted::InUse(endpoints));
    }
    tx.prepare(DELETE)?.execute(params![organization.key(), id.key()])?;
    Ok(ScheduleDeleted::Deleted)
}

pub(super) fn move_endpoints(tx: &mut Tx<'_>, request: &MoveEndpoints) -> Outcome<Moved> {
    if let Some(to) = request.to
        && find(tx.connection(), request.organization, &ScheduleRef::Id(to))?.is_none()
    {
        return Ok(Moved::NoSuchSchedule);
    }
    let moved = {
        let mut statement = tx.prepare(MOVE_ENDPOINTS)?;
        let parameters = params![
            request.organization.key(),
            request.from.key(),
            request.to.as_ref().map(ScheduleId::key),
            request.version.0,
            request.now.as_micros(),
            request.limit
        ];
        let rows = statement.query_map(parameters, |row| Ok((row.id("application_id")?, row.id("id")?)))?;
        rows.collect::<Result<Vec<(ApplicationId, EndpointId)>, _>>()?
    };
    let count = u32::try_from(moved.len()).unwrap_or(u32::MAX);
    moved.into_iter().try_for_each(|(application, endpoint)| tx.endpoint_changed(application, endpoint))?;
    Ok(Moved::Moved(count))
}

/// The versions that are in force.
pub(super) fn versions(connection: &Connection, organization: OrganizationId) -> Outcome<Vec<(ScheduleId, ScheduleVersion)>> {
    let mut statement = connection.prepare_cached(VERSIONS)?;
    let version = |row: &Row<'_>| Ok((row.id("id")?, ScheduleVersion(row.get("version")?)));
    Ok(statement.query_map([organization.key()], version)?.collect::<Result<_, _>>()?)
}

/// Asked inside the write, so that the answer still holds at its end.
fn name_is_taken(tx: &Tx<'_>, schedule: &OrganizationSchedule) -> Outcome<bool> {
    let holder = find(tx.connection(), schedule.organization, &ScheduleRef::Name(schedule.policy.name.0.clone()))?;
    Ok(holder.is_some_and(|holder| holder.id != schedule.id))
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<OrganizationSchedule> {
    Ok(OrganizationSchedule {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        policy: row.spelled("definition", |json: String| schedule_json::read(&json))?,
        version: ScheduleVersion(row.get("version")?),
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}
