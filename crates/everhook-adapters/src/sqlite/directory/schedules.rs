//! Versions of retry schedules. A version is never changed, and equal schedules share one.

use everhook_core::{ids::ScheduleVersion, model::RetrySchedule};
use rusqlite::{Connection, OptionalExtension};

use super::super::{
    fault::{Fault, Outcome},
    schedule_json,
    transaction::Tx,
};

const VERSION_OF: &str = include_str!("../queries/schedule_version_of.sql");
const INSERT: &str = include_str!("../queries/insert_schedule.sql");
const BY_VERSION: &str = include_str!("../queries/schedule_by_version.sql");

pub(super) fn find_version(connection: &Connection, definition: &str) -> Outcome<Option<ScheduleVersion>> {
    let mut statement = connection.prepare_cached(VERSION_OF)?;
    Ok(statement.query_row([definition], |row| row.get(0).map(ScheduleVersion)).optional()?)
}

/// Finds the version, or makes it. Asked inside the write, so that two callers get the same one.
pub(super) fn ensure_version(tx: &Tx<'_>, definition: &str) -> Outcome<ScheduleVersion> {
    match find_version(tx.connection(), definition)? {
        Some(version) => Ok(version),
        None => Ok(tx.prepare(INSERT)?.query_row([definition], |row| row.get(0).map(ScheduleVersion))?),
    }
}

pub(super) fn find(connection: &Connection, version: ScheduleVersion) -> Outcome<Option<RetrySchedule>> {
    let mut statement = connection.prepare_cached(BY_VERSION)?;
    let Some(definition) = statement.query_row([version.0], |row| row.get::<_, String>(0)).optional()? else { return Ok(None) };
    match schedule_json::read(&definition) {
        Some(schedule) => Ok(Some(schedule)),
        None => Err(Fault::Impossible(format!("the retry schedule version {} is invalid", version.0))),
    }
}
