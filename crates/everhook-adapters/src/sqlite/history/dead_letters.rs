//! Dead letters.

use everhook_core::{
    ids::{ApplicationId, DeliveryId, EndpointId, OrganizationId},
    model::{DeadLetter, DeadLetterStatus, DeathCause, EventType, FailureCategory, LaneKind, Page, PageRequest},
    ports::{DeadLetterFilter, Discarded},
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::{
    fault::Outcome,
    page::{Between, List, bounds, list, rows_wanted},
    rows::{Columns, Key},
    spelling::read_category,
    transaction::Tx,
};

const OF_ORGANIZATION: List = list!("../queries/dead_letters_of_organization_page.sql");
const OF_ENDPOINT: List = list!("../queries/dead_letters_of_endpoint_page.sql");
const BY_ID: &str = include_str!("../queries/dead_letter.sql");
const DISCARD: &str = include_str!("../queries/discard_dead_letter.sql");

pub(super) fn list(
    connection: &Connection,
    organization: OrganizationId,
    filter: &DeadLetterFilter,
    page: PageRequest,
) -> Outcome<Page<DeadLetter>> {
    // Ids tell when the delivery was made, not when it died: the span of time cannot narrow them.
    let between = Between::of(page);
    let (from, to) = bounds(filter.died);
    let parameters = params![
        organization.key(),
        between.after,
        between.before,
        rows_wanted(page),
        filter.application.as_ref().map(ApplicationId::key),
        filter.endpoint.as_ref().map(EndpointId::key),
        filter.event_type.as_ref().map(EventType::as_str),
        filter.status.map(DeadLetterStatus::as_str),
        filter.category.map(FailureCategory::as_str),
        from,
        to,
        filter.kind.map(LaneKind::as_str)
    ];
    let list = if filter.endpoint.is_some() { OF_ENDPOINT } else { OF_ORGANIZATION };
    let rows = list.read(connection, page, parameters, of_row)?;
    Ok(Page::from_read(rows, page, |dead_letter| *dead_letter.id.as_uuid()))
}

/// Reads one dead letter of an organization.
pub(super) fn find(connection: &Connection, organization: OrganizationId, id: DeliveryId) -> Outcome<Option<DeadLetter>> {
    let mut statement = connection.prepare_cached(BY_ID)?;
    Ok(statement.query_row(params![organization.key(), id.key()], of_row).optional()?)
}

pub(super) fn discard(tx: &Tx<'_>, organization: OrganizationId, id: DeliveryId) -> Outcome<Discarded> {
    match find(tx.connection(), organization, id)? {
        None => Ok(Discarded::NotFound),
        Some(found) if found.status != DeadLetterStatus::Dead => Ok(Discarded::NotDead(found.status)),
        Some(_) => {
            tx.prepare(DISCARD)?.execute([id.key()])?;
            Ok(Discarded::Discarded)
        }
    }
}

/// Reads a row with all columns.
pub(in super::super) fn of_row(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    Ok(DeadLetter {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        event: row.id("event_id")?,
        event_type: row.event_type("event_type")?,
        lane_id: row.id("endpoint_id")?,
        kind: row.spelled("kind", |name: String| LaneKind::parse(&name))?,
        target: row.get("target")?,
        last_delivery: row.id("last_delivery_id")?,
        status: row.spelled("status", |name: String| DeadLetterStatus::parse(&name))?,
        cause: row.spelled("cause", |name: String| DeathCause::parse(&name))?,
        failure_category: row.spelled("failure_category", read_category)?,
        last_error: row.get("last_error")?,
        attempts: row.get("attempts")?,
        failures: row.get("failures")?,
        first_failure_at: row.instant("first_failure_at")?,
        last_failure_at: row.instant("last_failure_at")?,
        requeued_at: row.instant_opt("requeued_at")?,
    })
}
