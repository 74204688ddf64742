//! Events, as history shows them.

use everhook_core::{
    ids::{ApplicationId, EventId, OrganizationId},
    model::{Event, EventType, Page, PageRequest},
    ports::{EventFilter, EventSummary, ReceivedFilter, ReceivedSummary},
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::{
    event_store::{event_of_row, read_idempotency_key},
    fault::Outcome,
    page::{Between, List, bounds, list, rows_wanted},
    payload::Seals,
    rows::{Columns, Key},
    spelling::read_priority,
};

const LIST: List = list!("../queries/events_page.sql");
const OF_SOURCE: List = list!("../queries/received_of_source_page.sql");
const OF_USER: List = list!("../queries/received_of_user_page.sql");
const BY_ID: &str = include_str!("../queries/event_by_id.sql");
const OF_KEY: &str = include_str!("../queries/event_of_key.sql");
const OF_ALIAS: &str = include_str!("../queries/event_of_alias.sql");

pub(super) fn list(
    connection: &Connection,
    organization: OrganizationId,
    filter: &EventFilter,
    page: PageRequest,
) -> Outcome<Page<EventSummary>> {
    let between = Between::of(page).within(filter.accepted);
    let (from, to) = bounds(filter.accepted);
    let parameters = params![
        organization.key(),
        between.after,
        between.before,
        rows_wanted(page),
        filter.application.as_ref().map(ApplicationId::key),
        filter.event_type.as_ref().map(EventType::as_str),
        from,
        to
    ];
    let rows = LIST.read(connection, page, parameters, summary_of_row)?;
    Ok(Page::from_read(rows, page, |event| *event.id.as_uuid()))
}

pub(super) fn list_received(
    connection: &Connection,
    organization: OrganizationId,
    filter: &ReceivedFilter,
    page: PageRequest,
) -> Outcome<Page<ReceivedSummary>> {
    let between = Between::of(page).within(filter.accepted);
    let (from, to) = bounds(filter.accepted);
    let (organization, wanted) = (organization.key(), rows_wanted(page));
    let (event_type, source) = (filter.event_type.as_ref().map(EventType::as_str), filter.source.key());
    let rows = match &filter.external_user {
        None => {
            let parameters = params![organization, between.after, between.before, wanted, event_type, from, to, source];
            OF_SOURCE.read(connection, page, parameters, received_of_row)?
        }
        Some(user) => {
            let parameters = params![organization, between.after, between.before, wanted, event_type, from, to, source, user];
            OF_USER.read(connection, page, parameters, received_of_row)?
        }
    };
    Ok(Page::from_read(rows, page, |received| *received.event.id.as_uuid()))
}

fn received_of_row(row: &Row<'_>) -> rusqlite::Result<ReceivedSummary> {
    let (source, duplicate_of) = (row.id("source_id")?, row.id_opt("duplicate_of")?);
    Ok(ReceivedSummary { event: summary_of_row(row)?, source, external_user: row.get("external_user_id")?, duplicate_of })
}

/// The event that a key was given to.
pub(super) fn of_key(
    connection: &Connection,
    organization: OrganizationId,
    application: Option<ApplicationId>,
    key: &str,
) -> Outcome<Option<EventId>> {
    let parameters = params![organization.key(), application.as_ref().map(ApplicationId::key), key];
    Ok(connection.prepare_cached(OF_KEY)?.query_row(parameters, |row| row.id("event_id")).optional()?)
}

/// Finds an event by its id, or by an id that stands for it.
pub(super) fn find(
    connection: &Connection,
    organization: OrganizationId,
    id: EventId,
    seals: &Seals,
) -> Outcome<Option<(EventSummary, Option<Event>)>> {
    if let Some(found) = find_by_id(connection, organization, id, seals)? {
        return Ok(Some(found));
    }
    match connection.prepare_cached(OF_ALIAS)?.query_row([id.key()], |row| row.id("event_id")).optional()? {
        Some(original) => find_by_id(connection, organization, original, seals),
        None => Ok(None),
    }
}

fn find_by_id(
    connection: &Connection,
    organization: OrganizationId,
    id: EventId,
    seals: &Seals,
) -> Outcome<Option<(EventSummary, Option<Event>)>> {
    let mut statement = connection.prepare_cached(BY_ID)?;
    let whole = |row: &Row<'_>| {
        let summary = summary_of_row(row)?;
        let event = if summary.erased_at.is_none() { Some(event_of_row(row, seals)?) } else { None };
        Ok((summary, event))
    };
    Ok(statement.query_row(params![organization.key(), id.key()], whole).optional()?)
}

fn summary_of_row(row: &Row<'_>) -> rusqlite::Result<EventSummary> {
    Ok(EventSummary {
        id: row.id("id")?,
        application: row.id("application_id")?,
        event_type: row.event_type("event_type")?,
        content_type: row.content_type()?,
        priority: row.spelled("priority", read_priority)?,
        timestamp: row.instant("timestamp")?,
        idempotency_key: read_idempotency_key(row)?,
        source: row.get("source")?,
        sequence_number: row.get("sequence_number")?,
        deliveries: row.get("deliveries")?,
        created_at: row.instant("created_at")?,
        erased_at: row.instant_opt("erased_at")?,
    })
}
