//! Event types, as organizations defined them. All applications share them, so that a change has publishers of all of them check again.

use everhook_core::{
    ids::{EventTypeId, OrganizationId, Ref},
    model::{EventTypeDefinition, EventTypeMark, Page, PageRequest},
    ports::{Created, Updated},
    time::Timestamp,
};
use tokio_postgres::Row;

use super::{
    super::{
        fault::Outcome,
        page::{Between, List, list, rows_wanted},
        reader::Reader,
        rows::{Columns, Key},
        transaction::Tx,
    },
    versions,
};

const INSERT: &str = include_str!("../queries/insert_event_type.sql");
const UPDATE: &str = include_str!("../queries/update_event_type.sql");
const DELETE: &str = include_str!("../queries/delete_event_type.sql");
const COUNT: &str = include_str!("../queries/count_event_types.sql");
const BY_ID: &str = include_str!("../queries/event_type_by_id.sql");
const BY_NAME: &str = include_str!("../queries/event_type_by_name.sql");
const LIST: List = list!("../queries/event_types_page.sql");
const MARKS: &str = include_str!("../queries/event_type_marks.sql");

pub(super) async fn create(tx: &Tx<'_>, definition: &EventTypeDefinition, count_max: u32) -> Outcome<Created> {
    let organization = definition.organization;
    if tx.query_opt(BY_NAME, &[&organization.key(), &definition.name.as_str()]).await?.is_some() {
        return Ok(Created::NameTaken);
    }
    let count: i64 = tx.query_one(COUNT, &[&organization.key()]).await?.value("count")?;
    if count >= i64::from(count_max) {
        return Ok(Created::TooMany);
    }
    tx.execute(
        INSERT,
        &[
            &definition.id.key(),
            &organization.key(),
            &definition.name.as_str(),
            &definition.description,
            &definition.schema,
            &definition.example,
            &definition.archived,
            &definition.created_at.as_micros(),
            &definition.updated_at.as_micros(),
        ],
    )
    .await?;
    versions::definitions_changed(tx, organization).await?;
    Ok(Created::Created)
}

pub(super) async fn find(reader: &Reader, organization: OrganizationId, of: &Ref<EventTypeId>) -> Outcome<Option<EventTypeDefinition>> {
    let found = match of {
        Ref::Id(id) => reader.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?,
        Ref::Uid(name) => reader.query_opt(BY_NAME, &[&organization.key(), &name.as_str()]).await?,
    };
    found.as_ref().map(of_row).transpose()
}

pub(super) async fn list(
    reader: &Reader,
    organization: OrganizationId,
    archived: Option<bool>,
    page: PageRequest,
) -> Outcome<Page<EventTypeDefinition>> {
    let between = Between::of(page);
    let (organization, wanted) = (organization.key(), rows_wanted(page));
    let rows = LIST.read(reader, page, &[&organization, &between.after, &between.before, &wanted, &archived], of_row).await?;
    Ok(Page::from_read(rows, page, |definition| *definition.id.as_uuid()))
}

/// What publishing must know of an organization's types.
pub(super) async fn marks(snapshot: &Tx<'_>, organization: OrganizationId) -> Outcome<Vec<EventTypeMark>> {
    let mark = |row: &Row| {
        Ok(EventTypeMark {
            id: row.id("id")?,
            name: row.event_type("name")?,
            archived: row.value("archived")?,
            has_schema: row.value("has_schema")?,
            updated_at: row.instant("updated_at")?,
        })
    };
    snapshot.query(MARKS, &[&organization.key()]).await?.iter().map(mark).collect()
}

pub(super) async fn update(tx: &Tx<'_>, definition: &EventTypeDefinition, read_at: Timestamp) -> Outcome<Updated> {
    let changed = tx
        .execute(
            UPDATE,
            &[
                &definition.id.key(),
                &definition.organization.key(),
                &definition.description,
                &definition.schema,
                &definition.example,
                &definition.archived,
                &definition.updated_at.as_micros(),
                &read_at.as_micros(),
            ],
        )
        .await?;
    if changed == 0 {
        return Ok(Updated::Changed);
    }
    versions::definitions_changed(tx, definition.organization).await?;
    Ok(Updated::Updated)
}

pub(super) async fn delete(tx: &Tx<'_>, organization: OrganizationId, id: EventTypeId) -> Outcome<bool> {
    if tx.execute(DELETE, &[&organization.key(), &id.key()]).await? == 0 {
        return Ok(false);
    }
    versions::definitions_changed(tx, organization).await?;
    Ok(true)
}

fn of_row(row: &Row) -> Outcome<EventTypeDefinition> {
    Ok(EventTypeDefinition {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        name: row.event_type("name")?,
        description: row.value("description")?,
        schema: row.value("schema")?,
        example: row.value("example")?,
        archived: row.value("archived")?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}
