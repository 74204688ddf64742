//! Versions of retry schedules. A version is never changed, and equal schedules share one.

use everhook_core::{ids::ScheduleVersion, model::RetrySchedule};
use tokio_postgres::Row;

use super::super::{
    fault::{Fault, Outcome},
    reader::Reader,
    rows::Columns,
};
use crate::encoding::schedule_json;

const VERSION_OF: &str = include_str!("../queries/schedule_version_of.sql");
const USE_AGAIN: &str = include_str!("../queries/use_schedule_again.sql");
const INSERT: &str = include_str!("../queries/insert_schedule.sql");
const BY_VERSION: &str = include_str!("../queries/schedule_by_version.sql");

/// Finds the version, or makes it. Two callers get the same one: whoever comes second waits, and then finds what the first has made.
pub(super) async fn ensure_version(reader: &Reader, definition: &str) -> Outcome<ScheduleVersion> {
    if let Some(version) = find_version(reader, definition).await? {
        return Ok(version);
    }
    if let Some(row) = reader.query_opt(USE_AGAIN, &[&definition]).await? {
        return version_of_row(&row);
    }
    match reader.query_opt(INSERT, &[&definition]).await? {
        Some(row) => version_of_row(&row),
        None => find_version(reader, definition).await?.ok_or_else(|| Fault::Impossible("a retry schedule version is missing".to_owned())),
    }
}

pub(super) async fn find(reader: &Reader, version: ScheduleVersion) -> Outcome<Option<RetrySchedule>> {
    let Some(row) = reader.query_opt(BY_VERSION, &[&version.0]).await? else { return Ok(None) };
    match schedule_json::read(row.value("definition")?) {
        Some(schedule) => Ok(Some(schedule)),
        None => Err(Fault::Impossible(format!("the retry schedule version {} is invalid", version.0))),
    }
}

async fn find_version(reader: &Reader, definition: &str) -> Outcome<Option<ScheduleVersion>> {
    reader.query_opt(VERSION_OF, &[&definition]).await?.as_ref().map(version_of_row).transpose()
}

fn version_of_row(row: &Row) -> Outcome<ScheduleVersion> {
    row.value("version").map(ScheduleVersion)
}
