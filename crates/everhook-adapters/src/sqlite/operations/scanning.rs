//! Reads what operations select from, a bounded stretch at a time.

use std::collections::BTreeMap;

use everhook_core::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OrganizationId},
    model::{DeadLetter, EventType, NewestDelivery},
    ports::{EventCandidate, Scan, Scanned, TimeRange},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::super::{
    fault::Outcome,
    history::dead_letter_of_row,
    page::Between,
    rows::{Columns, Key, unreadable},
    spelling::{CANCELLED, DEAD, DELIVERED, HELD, PARKED, WAITING},
};

const DEAD_LETTERS: &str = include_str!("../queries/dead_letters_after.sql");
const EVENTS: &str = include_str!("../queries/events_after.sql");
const EVENT: &str = include_str!("../queries/event_with_stretch.sql");
const NEWEST_DELIVERIES: &str = include_str!("../queries/newest_deliveries_of_event.sql");

/// After so many deliveries a scan of events ends early: an event may have tens of thousands.
const DELIVERIES_MAX: usize = 20_000;

pub(super) fn dead_letters(connection: &Connection, organization: OrganizationId, scan: Scan) -> Outcome<Scanned<DeadLetter>> {
    let mut statement = connection.prepare_cached(DEAD_LETTERS)?;
    let parameters = params![organization.key(), scan.after.key(), scan.limit];
    let rows: Vec<DeadLetter> = statement.query_map(parameters, dead_letter_of_row)?.collect::<Result<_, _>>()?;
    let is_full = rows.len() == scan.limit as usize;
    let goes_on_after = rows.last().filter(|_| is_full).map(|letter| *letter.id.as_uuid());
    Ok(Scanned { rows, goes_on_after })
}

pub(super) fn events(
    connection: &Connection,
    organization: OrganizationId,
    application: ApplicationId,
    (from, to): (Timestamp, Timestamp),
    scan: Scan,
) -> Outcome<Scanned<EventCandidate>> {
    let snapshot = connection.unchecked_transaction()?;
    let all = Between { after: scan.after.into_bytes(), before: [0xff; 16] };
    let between = all.within(TimeRange { from: Some(from), to: Some(to) });
    let mut statement = snapshot.prepare_cached(EVENTS)?;
    let mut found = statement.query(params![organization.key(), between.after, between.before, scan.limit])?;
    let mut scanned = Scanned { rows: Vec::new(), goes_on_after: None };
    let (mut looked_at, mut deliveries) = (0, 0);
    while let Some(row) = found.next()? {
        let event = EventPosition::of_row(row)?;
        let last = *event.id.as_uuid();
        if event.application == application && (from..to).contains(&event.accepted_at) {
            let (candidate, read) = event.into_candidate(&snapshot)?;
            deliveries += read;
            scanned.rows.push(candidate);
        }
        looked_at += 1;
        if looked_at == scan.limit || deliveries >= DELIVERIES_MAX {
            scanned.goes_on_after = Some(last);
            break;
        }
    }
    Ok(scanned)
}

pub(super) fn event(connection: &Connection, organization: OrganizationId, id: EventId) -> Outcome<Option<EventCandidate>> {
    let snapshot = connection.unchecked_transaction()?;
    let mut statement = snapshot.prepare_cached(EVENT)?;
    let found = statement.query_row(params![organization.key(), id.key()], EventPosition::of_row).optional()?;
    match found {
        Some(event) => Ok(Some(event.into_candidate(&snapshot)?.0)),
        None => Ok(None),
    }
}

/// An event, and where the deliveries are that were made with it.
struct EventPosition {
    id: EventId,
    application: ApplicationId,
    event_type: EventType,
    accepted_at: Timestamp,
    first: Option<Uuid>,
    last: Option<Uuid>,
}

impl EventPosition {
    fn of_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.id("id")?,
            application: row.id("application_id")?,
            event_type: row.event_type("event_type")?,
            accepted_at: row.instant("created_at")?,
            first: row.id_opt("first_delivery_id")?,
            last: row.id_opt("last_delivery_id")?,
        })
    }

    /// Reads how it stands everywhere, and says how many deliveries that took.
    fn into_candidate(self, connection: &Connection) -> Outcome<(EventCandidate, usize)> {
        let mut statement = connection.prepare_cached(NEWEST_DELIVERIES)?;
        let stretch = params![self.id.key(), self.first.as_ref().map(Uuid::key), self.last.as_ref().map(Uuid::key)];
        let mut found = statement.query(stretch)?;
        let (mut newest, mut read) = (BTreeMap::new(), 0);
        // Oldest first, so that the newest has the last word.
        while let Some(row) = found.next()? {
            newest.insert(row.id::<LaneId>("endpoint_id")?, newest_of_row(row)?);
            read += 1;
        }
        let candidate = EventCandidate {
            event: self.id,
            application: self.application,
            event_type: self.event_type,
            accepted_at: self.accepted_at,
            newest: newest.into_iter().collect(),
        };
        Ok((candidate, read))
    }
}

fn newest_of_row(row: &Row<'_>) -> rusqlite::Result<NewestDelivery> {
    let delivery: DeliveryId = row.id("id")?;
    match row.get("stage")? {
        WAITING | HELD | PARKED => Ok(NewestDelivery::Open(delivery)),
        DELIVERED => Ok(NewestDelivery::Delivered(delivery)),
        DEAD | CANCELLED => Ok(NewestDelivery::Failed(delivery)),
        _ => Err(unreadable("stage")),
    }
}
