//! Dead letters.

use everhook_core::{
    ids::{DeliveryId, OrganizationId},
    model::{DeadLetter, DeadLetterStatus, DeathCause, EventType, FailureCategory, LaneKind, Page, PageRequest},
    ports::{DeadLetterFilter, Discarded},
};
use tokio_postgres::Row;

use super::super::{
    fault::Outcome,
    page::{Between, List, bounds, list, rows_wanted},
    reader::Reader,
    rows::{Columns, Key, Params},
    transaction::Tx,
};
use crate::encoding::spelling::read_category;

const OF_ORGANIZATION: List = list!("../queries/dead_letters_of_organization_page.sql");
const OF_ENDPOINT: List = list!("../queries/dead_letters_of_endpoint_page.sql");
const BY_ID: &str = include_str!("../queries/dead_letter.sql");
const LOCK: &str = include_str!("../queries/lock_dead_letter.sql");
const DISCARD: &str = include_str!("../queries/discard_dead_letter.sql");

pub(super) async fn list(
    reader: &Reader,
    organization: OrganizationId,
    filter: &DeadLetterFilter,
    page: PageRequest,
) -> Outcome<Page<DeadLetter>> {
    // Ids tell when the delivery was made, not when it died: the span of time cannot narrow them.
    let between = Between::of(page);
    let (from, to) = bounds(filter.died);
    let list = if filter.endpoint.is_some() { OF_ENDPOINT } else { OF_ORGANIZATION };
    let parameters: Params<'_> = &[
        &organization.key(),
        &between.after,
        &between.before,
        &rows_wanted(page),
        &filter.application.as_ref().map(Key::key),
        &filter.endpoint.as_ref().map(Key::key),
        &filter.event_type.as_ref().map(EventType::as_str),
        &filter.status.map(DeadLetterStatus::as_str),
        &filter.category.map(FailureCategory::as_str),
        &from,
        &to,
        &filter.kind.map(LaneKind::as_str),
    ];
    let rows = list.read(reader, page, parameters, of_row).await?;
    Ok(Page::from_read(rows, page, |dead_letter| *dead_letter.id.as_uuid()))
}

/// Reads one dead letter of an organization.
pub(super) async fn find(reader: &Reader, organization: OrganizationId, id: DeliveryId) -> Outcome<Option<DeadLetter>> {
    reader.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?.as_ref().map(of_row).transpose()
}

pub(super) async fn discard(tx: &Tx<'_>, organization: OrganizationId, id: DeliveryId) -> Outcome<Discarded> {
    let Some(row) = tx.query_opt(LOCK, &[&organization.key(), &id.key()]).await? else { return Ok(Discarded::NotFound) };
    match row.spelled("status", DeadLetterStatus::parse)? {
        DeadLetterStatus::Dead => {
            tx.execute(DISCARD, &[&id.key()]).await?;
            Ok(Discarded::Discarded)
        }
        other => Ok(Discarded::NotDead(other)),
    }
}

/// Reads a row with all columns.
pub(in super::super) fn of_row(row: &Row) -> Outcome<DeadLetter> {
    Ok(DeadLetter {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        event: row.id("event_id")?,
        event_type: row.event_type("event_type")?,
        lane_id: row.id("endpoint_id")?,
        kind: row.spelled("kind", LaneKind::parse)?,
        target: row.value("target")?,
        last_delivery: row.id("last_delivery_id")?,
        status: row.spelled("status", DeadLetterStatus::parse)?,
        cause: row.spelled("cause", DeathCause::parse)?,
        failure_category: row.spelled("failure_category", read_category)?,
        last_error: row.value("last_error")?,
        attempts: row.number("attempts")?,
        failures: row.number("failures")?,
        first_failure_at: row.instant("first_failure_at")?,
        last_failure_at: row.instant("last_failure_at")?,
        requeued_at: row.instant_opt("requeued_at")?,
    })
}
