//! Event types, as organizations defined them. All applications share them, so that a change has publishers of all of them check again.

use everhook_core::{
    ids::{EventTypeId, OrganizationId, Ref},
    model::{EventTypeDefinition, EventTypeMark, Page, PageRequest},
    ports::{Created, Updated},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::{
    fault::Outcome,
    page::{Between, List, list, rows_wanted},
    rows::{Columns, Key},
    transaction::Tx,
};

const INSERT: &str = include_str!("../queries/insert_event_type.sql");
const UPDATE: &str = include_str!("../queries/update_event_type.sql");
const DELETE: &str = include_str!("../queries/delete_event_type.sql");
const COUNT: &str = include_str!("../queries/count_event_types.sql");
const BY_ID: &str = include_str!("../queries/event_type_by_id.sql");
const BY_NAME: &str = include_str!("../queries/event_type_by_name.sql");
const LIST: List = list!("../queries/event_types_page.sql");
const MARKS: &str = include_str!("../queries/event_type_marks.sql");

pub(super) fn create(tx: &mut Tx<'_>, definition: &EventTypeDefinition, count_max: u32) -> Outcome<Created> {
    let organization = definition.organization;
    let named = params![organization.key(), definition.name.as_str()];
    if tx.prepare(BY_NAME)?.exists(named)? {
        return Ok(Created::NameTaken);
    }
    let count: u32 = tx.prepare(COUNT)?.query_row([organization.key()], |row| row.get(0))?;
    if count >= count_max {
        return Ok(Created::TooMany);
    }
    tx.prepare(INSERT)?.execute(params![
        definition.id.key(),
        organization.key(),
        definition.name.as_str(),
        definition.description,
        definition.schema,
        definition.example,
        definition.archived,
        definition.created_at.as_micros(),
        definition.updated_at.as_micros()
    ])?;
    tx.bump_organization(organization)?;
    Ok(Created::Created)
}

pub(super) fn find(connection: &Connection, organization: OrganizationId, of: &Ref<EventTypeId>) -> Outcome<Option<EventTypeDefinition>> {
    let found = match of {
        Ref::Id(id) => connection.prepare_cached(BY_ID)?.query_row(params![organization.key(), id.key()], of_row),
        Ref::Uid(name) => connection.prepare_cached(BY_NAME)?.query_row(params![organization.key(), name.as_str()], of_row),
    };
    Ok(found.optional()?)
}

pub(super) fn list(
    connection: &Connection,
    organization: OrganizationId,
    archived: Option<bool>,
    page: PageRequest,
) -> Outcome<Page<EventTypeDefinition>> {
    let between = Between::of(page);
    let parameters = params![organization.key(), between.after, between.before, rows_wanted(page), archived];
    let rows = LIST.read(connection, page, parameters, of_row)?;
    Ok(Page::from_read(rows, page, |definition| *definition.id.as_uuid()))
}

/// What publishing must know of an organization's types.
pub(super) fn marks(connection: &Connection, organization: OrganizationId) -> Outcome<Vec<EventTypeMark>> {
    let mut statement = connection.prepare_cached(MARKS)?;
    let mark = |row: &Row<'_>| {
        Ok(EventTypeMark {
            id: row.id("id")?,
            name: row.event_type("name")?,
            archived: row.get("archived")?,
            has_schema: row.get("has_schema")?,
            updated_at: row.instant("updated_at")?,
        })
    };
    Ok(statement.query_map([organization.key()], mark)?.collect::<Result<_, _>>()?)
}

pub(super) fn update(tx: &mut Tx<'_>, definition: &EventTypeDefinition, read_at: Timestamp) -> Outcome<Updated> {
    let changed = tx.prepare(UPDATE)?.execute(params![
        definition.id.key(),
        definition.organization.key(),
        definition.description,
        definition.schema,
        definition.example,
        definition.archived,
        definition.updated_at.as_micros(),
        read_at.as_micros()
    ])?;
    if changed == 0 {
        return Ok(Updated::Changed);
    }
    tx.bump_organization(definition.organization)?;
    Ok(Updated::Updated)
}

pub(super) fn delete(tx: &mut Tx<'_>, organization: OrganizationId, id: EventTypeId) -> Outcome<bool> {
    if tx.prepare(DELETE)?.execute(params![organization.key(), id.key()])? == 0 {
        return Ok(false);
    }
    tx.bump_organization(organization)?;
    Ok(true)
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<EventTypeDefinition> {
    Ok(EventTypeDefinition {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        name: row.event_type("name")?,
        description: row.get("description")?,
        schema: row.get("schema")?,
        example: row.get("example")?,
        archived: row.get("archived")?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}
