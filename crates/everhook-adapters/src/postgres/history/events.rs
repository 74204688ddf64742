//! Events, as history shows them.

use everhook_core::{
    ids::{ApplicationId, EventId, OrganizationId},
    model::{Event, EventType, Page, PageRequest},
    ports::{EventFilter, EventSummary, ReceivedFilter, ReceivedSummary},
};
use tokio_postgres::Row;

use super::super::{
    event_store::{event_of_row, read_content_type, read_idempotency_key},
    fault::Outcome,
    page::{Between, List, bounds, list, rows_wanted},
    reader::Reader,
    rows::{Columns, Key, Params},
};
use crate::encoding::payload::Seals;

const LIST: List = list!("../queries/events_page.sql");
const OF_SOURCE: List = list!("../queries/received_of_source_page.sql");
const OF_USER: List = list!("../queries/received_of_user_page.sql");
const BY_ID: &str = include_str!("../queries/event_by_id.sql");
const OF_KEY: &str = include_str!("../queries/event_of_key.sql");
const OF_ALIAS: &str = include_str!("../queries/event_of_alias.sql");

pub(super) async fn list(
    reader: &Reader,
    organization: OrganizationId,
    filter: &EventFilter,
    page: PageRequest,
) -> Outcome<Page<EventSummary>> {
    let between = Between::of_span(page, filter.accepted);
    let (from, to) = bounds(filter.accepted);
    let parameters: Params<'_> = &[
        &organization.key(),
        &between.after,
        &between.before,
        &rows_wanted(page),
        &filter.application.as_ref().map(Key::key),
        &filter.event_type.as_ref().map(EventType::as_str),
        &from,
        &to,
    ];
    let rows = LIST.read(reader, page, parameters, summary_of_row).await?;
    Ok(Page::from_read(rows, page, |event| *event.id.as_uuid()))
}

pub(super) async fn list_received(
    reader: &Reader,
    organization: OrganizationId,
    filter: &ReceivedFilter,
    page: PageRequest,
) -> Outcome<Page<ReceivedSummary>> {
    let between = Between::of_span(page, filter.accepted);
    let (from, to) = bounds(filter.accepted);
    let (organization, wanted) = (organization.key(), rows_wanted(page));
    let (event_type, source) = (filter.event_type.as_ref().map(EventType::as_str), filter.source.key());
    let rows = match &filter.external_user {
        None => {
            let parameters: Params<'_> = &[&organization, &between.after, &between.before, &wanted, &event_type, &from, &to, &source];
            OF_SOURCE.read(reader, page, parameters, received_of_row).await?
        }
        // A text with this character cannot be stored, and asking for it would be refused.
        Some(user) if user.contains('\0') => Vec::new(),
        Some(user) => {
            let parameters: Params<'_> = &[&organization, &between.after, &between.before, &wanted, &event_type, &from, &to, &source, user];
            OF_USER.read(reader, page, parameters, received_of_row).await?
        }
    };
    Ok(Page::from_read(rows, page, |received| *received.event.id.as_uuid()))
}

fn received_of_row(row: &Row) -> Outcome<ReceivedSummary> {
    let (source, duplicate_of) = (row.id("source_id")?, row.id_opt("duplicate_of")?);
    Ok(ReceivedSummary { event: summary_of_row(row)?, source, external_user: row.value("external_user_id")?, duplicate_of })
}

/// The event that a key was given to.
pub(super) async fn of_key(
    reader: &Reader,
    organization: OrganizationId,
    application: Option<ApplicationId>,
    key: &str,
) -> Outcome<Option<EventId>> {
    // A text with this character cannot be stored, and asking for it would be refused.
    if key.contains('\0') {
        return Ok(None);
    }
    let row = reader.query_opt(OF_KEY, &[&organization.key(), &application.as_ref().map(Key::key), &key]).await?;
    row.map(|row| row.id("event_id")).transpose()
}

/// Finds an event by its id, or by an id that stands for it.
pub(super) async fn find(
    reader: &Reader,
    organization: OrganizationId,
    id: EventId,
    seals: &Seals,
) -> Outcome<Option<(EventSummary, Option<Event>)>> {
    if let Some(found) = find_by_id(reader, organization, id, seals).await? {
        return Ok(Some(found));
    }
    match reader.query_opt(OF_ALIAS, &[&id.key()]).await? {
        Some(row) => find_by_id(reader, organization, row.id("event_id")?, seals).await,
        None => Ok(None),
    }
}

async fn find_by_id(
    reader: &Reader,
    organization: OrganizationId,
    id: EventId,
    seals: &Seals,
) -> Outcome<Option<(EventSummary, Option<Event>)>> {
    let row = reader.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?;
    let whole = |row: &Row| {
        let summary = summary_of_row(row)?;
        let event = if summary.erased_at.is_none() { Some(event_of_row(row, seals)?) } else { None };
        Ok((summary, event))
    };
    row.as_ref().map(whole).transpose()
}

fn summary_of_row(row: &Row) -> Outcome<EventSummary> {
    Ok(EventSummary {
        id: row.id("id")?,
        application: row.id("application_id")?,
        event_type: row.event_type("event_type")?,
        content_type: read_content_type(row)?,
        priority: row.priority("priority")?,
        timestamp: row.instant("timestamp")?,
        idempotency_key: read_idempotency_key(row)?,
        source: row.value("source")?,
        sequence_number: row.value("sequence_number")?,
        deliveries: row.number("deliveries")?,
        created_at: row.instant("created_at")?,
        erased_at: row.instant_opt("erased_at")?,
    })
}
