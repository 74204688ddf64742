//! Reads what operations select from, a bounded stretch at a time.

use std::collections::BTreeMap;

use everhook_core::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OrganizationId},
    model::{DeadLetter, EventType, NewestDelivery},
    ports::{EventCandidate, Scan, Scanned, TimeRange},
    time::Timestamp,
};
use rustc_hash::FxHashMap;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::{
    fault::Outcome,
    history::dead_letter_of_row,
    page::Between,
    reader::Reader,
    rows::{Columns, Key, unreadable},
    transaction::Tx,
};
use crate::encoding::{
    page,
    spelling::{CANCELLED, DEAD, DELIVERED, HELD, PARKED, WAITING},
};

const DEAD_LETTERS: &str = include_str!("../queries/dead_letters_after.sql");
const EVENTS: &str = include_str!("../queries/events_after.sql");
const EVENT: &str = include_str!("../queries/event_with_stretch.sql");
const NEWEST_DELIVERIES: &str = include_str!("../queries/newest_deliveries_of_event.sql");

/// After so many deliveries a scan of events ends early: an event may have tens of thousands.
const DELIVERIES_MAX: u64 = 20_000;

pub(super) async fn dead_letters(reader: &Reader, organization: OrganizationId, scan: Scan) -> Outcome<Scanned<DeadLetter>> {
    let rows = reader.query(DEAD_LETTERS, &[&organization.key(), &scan.after, &i64::from(scan.limit)]).await?;
    let rows = rows.iter().map(dead_letter_of_row).collect::<Outcome<Vec<_>>>()?;
    let is_full = rows.len() == scan.limit as usize;
    let goes_on_after = rows.last().filter(|_| is_full).map(|letter| *letter.id.as_uuid());
    Ok(Scanned { rows, goes_on_after })
}

pub(super) async fn events(
    snapshot: &Tx<'_>,
    organization: OrganizationId,
    application: ApplicationId,
    (from, to): (Timestamp, Timestamp),
    scan: Scan,
) -> Outcome<Scanned<EventCandidate>> {
    let all = page::Between { after: scan.after.into_bytes(), before: [0xff; 16] };
    let between: Between = all.within(TimeRange { from: Some(from), to: Some(to) }).into();
    let limit = i64::from(scan.limit);
    let found = snapshot.query(EVENTS, &[&organization.key(), &between.after, &between.before, &limit]).await?;
    let (mut wanted, mut goes_on_after, mut deliveries) = (Vec::new(), None, 0);
    for (row, looked_at) in found.iter().zip(1..) {
        let event = EventPosition::of_row(row)?;
        let last = *event.id.as_uuid();
        if event.application == application && (from..to).contains(&event.accepted_at) {
            deliveries += event.deliveries;
            wanted.push(event);
        }
        if looked_at == limit || deliveries >= DELIVERIES_MAX {
            goes_on_after = Some(last);
            break;
        }
    }
    Ok(Scanned { rows: into_candidates(snapshot, application, wanted).await?, goes_on_after })
}

pub(super) async fn event(snapshot: &Tx<'_>, organization: OrganizationId, id: EventId) -> Outcome<Option<EventCandidate>> {
    let Some(row) = snapshot.query_opt(EVENT, &[&organization.key(), &id.key()]).await? else { return Ok(None) };
    let event = EventPosition::of_row(&row)?;
    Ok(into_candidates(snapshot, event.application, vec![event]).await?.pop())
}

/// An event, and where the deliveries are that were made with it.
struct EventPosition {
    id: EventId,
    application: ApplicationId,
    event_type: EventType,
    accepted_at: Timestamp,
    deliveries: u64,
    first: Option<Uuid>,
    last: Option<Uuid>,
}

impl EventPosition {
    fn of_row(row: &Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id("id")?,
            application: row.id("application_id")?,
            event_type: row.event_type("event_type")?,
            accepted_at: row.instant("created_at")?,
            deliveries: row.number("deliveries")?,
            first: row.id_opt("first_delivery_id")?,
            last: row.id_opt("last_delivery_id")?,
        })
    }

    fn into_candidate(self, newest: NewestDeliveries) -> EventCandidate {
        EventCandidate {
            event: self.id,
            application: self.application,
            event_type: self.event_type,
            accepted_at: self.accepted_at,
            newest: newest.into_iter().collect(),
        }
    }
}

/// How an event stands at each endpoint.
type NewestDeliveries = BTreeMap<LaneId, NewestDelivery>;

/// Reads how events of one application stand everywhere. One statement looks into each lane once, for all of them: what was made with events
/// that follow each other lies together.
async fn into_candidates(snapshot: &Tx<'_>, application: ApplicationId, events: Vec<EventPosition>) -> Outcome<Vec<EventCandidate>> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = events.iter().map(|event| event.id.key()).collect();
    let first = events.iter().filter_map(|event| event.first).min();
    let last = events.iter().filter_map(|event| event.last).max();
    let mut newest: FxHashMap<EventId, NewestDeliveries> = FxHashMap::default();
    // Oldest first, so that the newest has the last word.
    for row in snapshot.query(NEWEST_DELIVERIES, &[&ids, &first, &last, &application.key()]).await? {
        newest.entry(row.id("event_id")?).or_default().insert(row.id("endpoint_id")?, newest_of_row(&row)?);
    }
    let with_newest_deliveries = |event: EventPosition| {
        let newest = newest.remove(&event.id).unwrap_or_default();
        event.into_candidate(newest)
    };
    Ok(events.into_iter().map(with_newest_deliveries).collect())
}

fn newest_of_row(row: &Row) -> Outcome<NewestDelivery> {
    let delivery: DeliveryId = row.id("id")?;
    match row.number("stage")? {
        WAITING | HELD | PARKED => Ok(NewestDelivery::Open(delivery)),
        DELIVERED => Ok(NewestDelivery::Delivered(delivery)),
        DEAD | CANCELLED => Ok(NewestDelivery::Failed(delivery)),
        _ => Err(unreadable("stage")),
    }
}
