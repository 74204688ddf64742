//! Processors of sources, as destinations of deliveries. They are part of their source's row, and their lanes are made with it in one transaction.

use everhook_core::{
    ids::{EndpointId, OrganizationId, ScheduleVersion},
    model::{ProcessorKind, Source, SourceProcessor},
    ports::Change,
};
use tokio_postgres::Row;

use super::{
    super::{
        fault::Outcome,
        rows::{Columns, Key},
        transaction::Tx,
    },
    versions,
};

const OF_ORGANIZATION: &str = include_str!("../queries/processors_of_organization.sql");
const INSERT_LANE: &str = include_str!("../queries/insert_processor_lane.sql");

pub(super) async fn of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<Vec<SourceProcessor>> {
    tx.query(OF_ORGANIZATION, &[&organization.key()]).await?.iter().map(of_row).collect()
}

/// A source that has, or had, a processor was written: its lane is there, and publishers match again.
pub(super) async fn follow(tx: &Tx<'_>, source: &Source) -> Outcome<()> {
    if source.processor.is_some() {
        tx.execute(INSERT_LANE, &[&source.id.key(), &source.organization.key(), &source.application.key()]).await?;
    }
    changed(tx, source).await
}

/// Tells all nodes that the processor of a source was made, changed or deleted.
pub(super) async fn changed(tx: &Tx<'_>, source: &Source) -> Outcome<()> {
    versions::definitions_changed(tx, source.organization).await?;
    tx.note_change(Change::Endpoint(source.application, EndpointId::from_uuid(source.id.key()))).await
}

fn of_row(row: &Row) -> Outcome<SourceProcessor> {
    Ok(SourceProcessor {
        source: row.id("id")?,
        application: row.id("application_id")?,
        kind: row.spelled("processor", |name: &str| ProcessorKind::parse(name))?,
        source_kind: row.value("kind")?,
        retry_schedule: ScheduleVersion(row.value("processor_schedule")?),
    })
}
