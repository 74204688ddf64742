//! The events that wait, as rows.

use everhook_core::{
    ids::{ApplicationId, EndpointId, EventId},
    model::{Event, OrderingKey, WaitsFor},
    ports::{IncomingEvent, KeyOrigin, SpooledEvent, StoreError, Taken},
    time::Timestamp,
};
use rusqlite::{OptionalExtension, Row, params};

use crate::{
    commits::BYTES_A_ROW,
    encoding::{
        extras::{headers_json, labels_json, read_headers, read_labels},
        payload::{self, Body, Seals},
        spelling::{priority_number, read_priority},
    },
    sqlite::{
        fault::Outcome,
        rows::{Columns, Key, unreadable},
        transaction::Tx,
    },
};

const BY_KEY: &str = include_str!("queries/spooled_event_by_key.sql");
const INSERT: &str = include_str!("queries/insert_spooled_event.sql");
const OLDEST: &str = include_str!("queries/oldest_spooled_events.sql");
const REMOVE: &str = include_str!("queries/remove_spooled_event.sql");
const SET_ASIDE: &str = include_str!("queries/set_aside_spooled_event.sql");

/// As how many bytes an event counts beside its texts and its data: its other columns, its place in the index and its share of half-full pages.
const ROW_BYTES: usize = 512;
/// The most bytes that one read brings into memory, unless a single event has more.
const READ_BYTES_MAX: u64 = 16 << 20;

/// An event that may be taken, in the form in which it is kept.
pub(super) struct Offer {
    incoming: IncomingEvent,
    body: Body,
    labels: String,
    headers: String,
    /// As how many bytes it counts.
    pub(super) bytes: u64,
    /// Whether they were to be had.
    pub(super) has_room: bool,
}

impl Offer {
    /// Compresses the data, and seals it where that is wanted, on the publisher's task.
    pub(super) fn new(incoming: IncomingEvent, seals: &Seals) -> Result<Self, StoreError> {
        let event = &incoming.event;
        let body = Body::of(event, seals)?;
        let (labels, headers) = (labels_json(&event.labels), headers_json(&event.headers));
        let ordering_key = event.ordering_key.as_ref().map(OrderingKey::as_str);
        let user = event.received.as_ref().and_then(|received| received.external_user.as_deref());
        let waits_for = incoming.parked.as_ref().map(WaitsFor::as_str);
        let texts = [event.source.as_deref(), event.traceparent.as_deref(), ordering_key, event.content_type.kept(), user, waits_for];
        let texts = texts.into_iter().flatten().map(str::len).sum::<usize>();
        let kept = body.columns(&event.data).1.len() + body.headers().map_or(0, <[u8]>::len);
        let bytes = (ROW_BYTES + kept + labels.len() + headers.len() + event.idempotency_key.len() + texts) as u64;
        Ok(Self { body, labels, headers, bytes, has_room: false, incoming })
    }

    /// Where it belongs.
    pub(super) fn application(&self) -> ApplicationId {
        self.incoming.event.application
    }

    /// As how many rows of a commit it counts.
    pub(super) fn rows(&self) -> usize {
        usize::try_from(1 + self.bytes / BYTES_A_ROW as u64).unwrap_or(usize::MAX)
    }
}

/// Puts an event behind the others, unless its key waits already.
pub(super) fn take(tx: &Tx<'_>, offer: &Offer, seals: &Seals) -> Outcome<Taken> {
    let event = &offer.incoming.event;
    let first_of_row = |row: &Row<'_>| {
        let first = row.id::<EventId>("id")?;
        let data = payload::read(row.get("encoding")?, row.get("body")?, first, seals);
        Ok((first, row.event_type("event_type")? == event.event_type && data.as_ref() == Some(&event.data)))
    };
    let mut by_key = tx.prepare(BY_KEY)?;
    let first = by_key.query_row(params![event.application.key(), event.idempotency_key], first_of_row).optional()?;
    match first {
        Some((first, is_same)) if is_same || first == event.id => Ok(Taken::Duplicate(first)),
        Some((first, _)) => Ok(Taken::KeyReused(first)),
        None if offer.has_room => insert(tx, offer).map(|()| Taken::Taken),
        None => Ok(Taken::Full),
    }
}

fn insert(tx: &Tx<'_>, offer: &Offer) -> Outcome<()> {
    let IncomingEvent { organization, event, key, only, parked } = &offer.incoming;
    let received = event.received.as_deref();
    let valid_since = match key {
        KeyOrigin::Given { valid_since } => Some(valid_since.as_micros()),
        KeyOrigin::Made => None,
    };
    let (encoding, body) = offer.body.columns(&event.data);
    tx.prepare(INSERT)?.execute(params![
        event.id.key(),
        organization.key(),
        event.application.key(),
        event.event_type.as_str(),
        event.timestamp.as_micros(),
        event.idempotency_key,
        valid_since,
        event.source,
        priority_number(event.priority),
        event.traceparent,
        offer.labels,
        offer.headers,
        event.ordering_key.as_ref().map(OrderingKey::as_str),
        only.as_ref().map(EndpointId::key),
        event.created_at.as_micros(),
        event.content_type.kept(),
        received.map(|received| received.source.key()),
        received.and_then(|received| received.external_user.as_deref()),
        received.and_then(|received| received.duplicate_of.as_ref().map(EventId::key)),
        offer.body.headers(),
        parked.as_ref().map(WaitsFor::as_str),
        encoding,
        body,
        i64::try_from(offer.bytes).unwrap_or(i64::MAX),
    ])?;
    Ok(())
}

/// What a read brought.
pub(super) struct Read {
    /// In order.
    pub(super) events: Vec<SpooledEvent>,
    /// Whose events were set aside because they cannot be understood: once for each.
    pub(super) damaged: Vec<ApplicationId>,
}

/// Reads the oldest events of each application. One that cannot be understood never will be: it is set aside, so that those behind it come through.
pub(super) fn oldest(tx: &Tx<'_>, of: &[ApplicationId], limit: u32, now: Timestamp, seals: &Seals) -> Outcome<Read> {
    let (mut read, mut bytes, mut damaged) = (Read { events: Vec::new(), damaged: Vec::new() }, 0, Vec::new());
    let mut statement = tx.prepare(OLDEST)?;
    'applications: for application in of {
        let mut rows = statement.query(params![application.key(), limit])?;
        while let Some(row) = rows.next()? {
            bytes += number(row, "bytes")?;
            if bytes > READ_BYTES_MAX && !read.events.is_empty() {
                break 'applications;
            }
            match of_row(row, seals) {
                Ok(event) => read.events.push(event),
                Err(error) => damaged.push((row.get("position")?, error.to_string())),
            }
        }
    }
    for (position, reason) in damaged {
        tracing::error!(
            "cannot read a spooled event: {reason}. It is kept in the spool's table `unforwarded` and tried again at each start"
        );
        read.damaged.extend(set_aside(tx, position, &reason, now)?.events);
    }
    Ok(read)
}

fn of_row(row: &Row<'_>, seals: &Seals) -> rusqlite::Result<SpooledEvent> {
    let (id, encoding) = (row.id("id")?, row.get("encoding")?);
    let event = Event {
        id,
        application: row.id("application_id")?,
        event_type: row.event_type("event_type")?,
        data: payload::read(encoding, row.get("body")?, id, seals).ok_or_else(|| unreadable("body"))?,
        content_type: row.content_type()?,
        sealed: payload::is_sealed(encoding),
        timestamp: row.instant("timestamp")?,
        idempotency_key: row.get("idempotency_key")?,
        source: row.get("source")?,
        priority: row.spelled("priority", read_priority)?,
        sequence_number: 0,
        ordering_key: row.ordering_key("ordering_key")?,
        traceparent: row.get("traceparent")?,
        labels: row.spelled("labels", |json: String| read_labels(&json))?,
        headers: row.spelled("headers", |json: String| read_headers(&json))?,
        received: row.received(id, encoding, seals)?,
        created_at: row.instant("created_at")?,
    };
    let key = row.instant_opt("valid_since")?.map_or(KeyOrigin::Made, |valid_since| KeyOrigin::Given { valid_since });
    let (organization, only) = (row.id("organization_id")?, row.id_opt("only_endpoint_id")?);
    let parked = row.spelled_opt("waits_for", |text: String| WaitsFor::parse(&text))?;
    Ok(SpooledEvent { position: row.get("position")?, incoming: IncomingEvent { organization, event, key, only, parked } })
}

/// What left the queue.
#[derive(Default)]
pub(super) struct Removed {
    /// The application of each.
    pub(super) events: Vec<ApplicationId>,
    pub(super) bytes: u64,
}

/// Removes events; those that are gone already are no fault.
pub(super) fn remove(tx: &Tx<'_>, positions: &[i64]) -> Outcome<Removed> {
    let mut removed = Removed::default();
    let mut remove = tx.prepare(REMOVE)?;
    for position in positions {
        if let Some((application, bytes)) =
            remove.query_row([position], |row| Ok((row.id("application_id")?, number(row, "bytes")?))).optional()?
        {
            removed.events.push(application);
            removed.bytes += bytes;
        }
    }
    tx.leave_traces();
    Ok(removed)
}

/// Moves an event to those that the store will never take.
pub(super) fn set_aside(tx: &Tx<'_>, position: i64, reason: &str, at: Timestamp) -> Outcome<Removed> {
    tx.prepare(SET_ASIDE)?.execute(params![position, reason, at.as_micros()])?;
    remove(tx, &[position])
}

/// A number that is never negative.
pub(super) fn number(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    row.spelled(column, |number: i64| u64::try_from(number).ok())
}
