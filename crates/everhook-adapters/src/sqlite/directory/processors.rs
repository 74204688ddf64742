//! Processors of sources, as destinations of deliveries. They are part of their source's row, and their lanes are made with it in one write.

use everhook_core::{
    ids::{OrganizationId, ScheduleVersion},
    model::{ProcessorKind, Source, SourceProcessor},
    policy::presets,
};
use rusqlite::{Connection, Row, params};

use super::{
    super::{
        fault::Outcome,
        rows::{Columns, Key},
        schedule_json,
        transaction::Tx,
    },
    schedules,
};

const OF_ORGANIZATION: &str = include_str!("../queries/processors_of_organization.sql");
const INSERT_LANE: &str = include_str!("../queries/insert_processor_lane.sql");

pub(super) fn of_organization(connection: &Connection, organization: OrganizationId) -> Outcome<Vec<SourceProcessor>> {
    let mut statement = connection.prepare_cached(OF_ORGANIZATION)?;
    let processors = statement.query_map([organization.key()], of_row)?.collect::<Result<_, _>>()?;
    Ok(processors)
}

/// The version of the retry schedule that a source's processor goes by, if it has one.
pub(super) fn schedule(tx: &Tx<'_>, source: &Source) -> Outcome<Option<ScheduleVersion>> {
    match source.processor {
        None => Ok(None),
        Some(_) => schedules::ensure_version(tx, &schedule_json::write(&presets::ingest())).map(Some),
    }
}

/// A source that has, or had, a processor was written: its lane is there, and publishers match again.
pub(super) fn follow(tx: &mut Tx<'_>, source: &Source) -> Outcome<()> {
    if source.processor.is_some() {
        tx.prepare(INSERT_LANE)?.execute(params![source.id.key(), source.organization.key(), source.application.key()])?;
    }
    tx.bump_organization(source.organization)
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<SourceProcessor> {
    Ok(SourceProcessor {
        source: row.id("id")?,
        application: row.id("application_id")?,
        kind: row.spelled("processor", |name: String| ProcessorKind::parse(&name))?,
        source_kind: row.get("kind")?,
        retry_schedule: ScheduleVersion(row.get("processor_schedule")?),
    })
}
