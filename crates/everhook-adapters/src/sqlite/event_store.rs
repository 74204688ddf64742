//! Records events with their deliveries: the port `EventStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{Event, Fingerprint, OrderingKey},
    ports::{Erased, Erasure, EventAlias, EventStore, KeyOrigin, NewEvent, Original, Recorded, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::{
    SqliteStore, erasing, fan_out,
    fault::{Fault, Outcome},
    payload::{self, Body, Seals},
    rows::{Columns, Key, unreadable},
    spelling::{priority_number, read_priority},
    transaction::Tx,
};
use crate::{
    commits::{self, Answers},
    encoding::extras::{headers_json, labels_json, read_headers, read_labels},
};

const ORIGINAL_OF_GIVEN_KEY: &str = include_str!("queries/original_of_given_key.sql");
const ORIGINAL_OF_MADE_KEY: &str = include_str!("queries/original_of_made_key.sql");
const KEEP_KEY: &str = include_str!("queries/keep_idempotency_key.sql");
const INSERT_EVENT: &str = include_str!("queries/insert_event.sql");
const INSERT_PAYLOAD: &str = include_str!("queries/insert_payload.sql");
const FORGET_PAYLOAD: &str = include_str!("queries/forget_payload.sql");
const INSERT_EXTRAS: &str = include_str!("queries/insert_event_extras.sql");
const INSERT_RECEIVED: &str = include_str!("queries/insert_received_event.sql");
const EVENT_FOR_SENDING: &str = include_str!("queries/event_for_sending.sql");
const KEEP_ALIAS: &str = include_str!("queries/keep_event_alias.sql");
const IS_ERASED: &str = include_str!("queries/event_is_erased.sql");

#[async_trait]
impl EventStore for SqliteStore {
    /// A batch that is too large for one commit is recorded in several, in order, until one fails.
    async fn record(&self, events: Vec<NewEvent>) -> Vec<Result<Recorded, StoreError>> {
        let mut answers = Answers::default();
        let mut commits = commits::split(events, rows_of).into_iter();
        for commit in commits.by_ref() {
            let count = commit.len();
            if !answers.add(count, self.record_in_one_commit(commit).await) {
                break;
            }
        }
        answers.finish(commits.map(|commit| commit.len()).sum())
    }

    async fn event(&self, id: EventId) -> Result<Option<Event>, StoreError> {
        let seals = self.seals.clone();
        self.read(move |connection| read_event(connection, id, &seals)).await
    }

    async fn is_erased(&self, id: EventId) -> Result<bool, StoreError> {
        self.read(move |connection| Ok(connection.prepare_cached(IS_ERASED)?.query_row([id.key()], |row| row.get(0))?)).await
    }

    async fn erase(&self, erasure: Erasure) -> Result<Erased, StoreError> {
        erasing::erase(&self.writer, erasure).await
    }

    async fn alias(&self, aliases: Vec<EventAlias>) -> Result<(), StoreError> {
        let keep = move |tx: &mut Tx<'_>| {
            let mut keep = tx.prepare(KEEP_ALIAS)?;
            for EventAlias { alias, event } in &aliases {
                keep.execute(params![alias.key(), event.key()])?;
            }
            Ok(())
        };
        self.write(1, keep).await
    }
}

impl SqliteStore {
    async fn record_in_one_commit(&self, events: Vec<NewEvent>) -> Result<Vec<Recorded>, StoreError> {
        let rows = events.iter().map(rows_of).sum();
        // Compressed here, on the publisher's task: the writer's time is everybody's.
        let ready = events.into_iter().map(|new| Ready::new(new, &self.seals)).collect::<Result<Vec<_>, _>>()?;
        let seals = self.seals.clone();
        let recorded = self.write(rows, move |tx| ready.iter().map(|ready| record(tx, ready, &seals)).collect::<Outcome<Vec<_>>>()).await?;
        let mut answers = Vec::with_capacity(recorded.len());
        for (answer, unfinished) in recorded {
            // Only an event that has the commit to itself is ever unfinished, so that failing here is no other event's failure.
            if let Some(event) = unfinished {
                fan_out::finish(&self.writer, event).await?;
            }
            answers.push(answer);
        }
        Ok(answers)
    }
}

/// Reads one event with its data.
pub(super) fn read_event(connection: &Connection, id: EventId, seals: &Seals) -> Outcome<Option<Event>> {
    Ok(connection.prepare_cached(EVENT_FOR_SENDING)?.query_row([id.key()], |row| event_of_row(row, seals)).optional()?)
}

/// Reads the idempotency key; ours is the event's id, and is not kept twice.
pub(super) fn read_idempotency_key(row: &Row<'_>) -> rusqlite::Result<String> {
    match row.get("idempotency_key")? {
        Some(given) => Ok(given),
        None => Ok(row.id::<EventId>("id")?.to_string()),
    }
}

pub(super) fn event_of_row(row: &Row<'_>, seals: &Seals) -> rusqlite::Result<Event> {
    let (id, encoding) = (row.id("id")?, row.get("encoding")?);
    Ok(Event {
        id,
        application: row.id("application_id")?,
        event_type: row.event_type("event_type")?,
        data: payload::read(encoding, row.get("body")?, id, seals).ok_or_else(|| unreadable("body"))?,
        content_type: row.content_type()?,
        sealed: payload::is_sealed(encoding),
        timestamp: row.instant("timestamp")?,
        idempotency_key: read_idempotency_key(row)?,
        source: row.get("source")?,
        priority: row.spelled("priority", read_priority)?,
        sequence_number: row.get("sequence_number")?,
        ordering_key: row.ordering_key("ordering_key")?,
        traceparent: row.get("traceparent")?,
        labels: row.spelled_opt("labels", |json: String| read_labels(&json))?.unwrap_or_default(),
        headers: row.spelled_opt("headers", |json: String| read_headers(&json))?.unwrap_or_default(),
        received: row.received(id, encoding, seals)?,
        created_at: row.instant("created_at")?,
    })
}

/// An event whose data has the form in which it is kept.
struct Ready {
    new: NewEvent,
    body: Body,
    /// Of those whose key a publisher gave.
    fingerprint: Option<Fingerprint>,
}

impl Ready {
    fn new(new: NewEvent, seals: &Seals) -> Result<Self, StoreError> {
        let fingerprint = matches!(new.key, KeyOrigin::Given { .. }).then(|| new.event.fingerprint());
        Ok(Self { body: Body::of(&new.event, seals)?, fingerprint, new })
    }

    /// What is said to it, given the event that has its key or its id.
    fn answer(&self, original: &Original) -> Recorded {
        original.answer_to(self.new.event.id, self.fingerprint.unwrap_or_else(|| self.new.event.fingerprint()))
    }
}

/// About how many rows the first commit of an event writes: the event, its data, its key, its deliveries.
fn rows_of(new: &NewEvent) -> usize {
    3 + commits::rows_of_data(new) + new.deliveries.len().min(commits::ROWS_MAX)
}

/// Records one event. The second value names it if deliveries are left for further commits.
fn record(tx: &mut Tx<'_>, ready: &Ready, seals: &Seals) -> Outcome<(Recorded, Option<EventId>)> {
    let new = &ready.new;
    if let Some(original) = original(tx, new, seals)? {
        return Ok((ready.answer(&original), None));
    }
    let Some(counters) = tx.counters(new.event.application)? else { return Ok((Recorded::ConfigChanged, None)) };
    if counters.version.total() != new.config_version {
        return Ok((Recorded::ConfigChanged, None));
    }
    let sequence_number = counters.next_sequence;
    counters.next_sequence += 1;
    let payload = insert_payload(tx, ready)?;
    if !insert_event(tx, new, sequence_number, payload)? {
        tx.prepare(FORGET_PAYLOAD)?.execute([payload])?;
        return Ok((ready.answer(&recorded_before(tx, new, seals)?), None));
    }
    insert_extras(tx, &new.event)?;
    insert_received(tx, ready)?;
    if let KeyOrigin::Given { .. } = new.key {
        let event = &new.event;
        tx.prepare(KEEP_KEY)?.execute(params![
            event.application.key(),
            event.idempotency_key,
            event.id.key(),
            event.created_at.as_micros(),
            ready.fingerprint.as_ref().map(Fingerprint::as_bytes),
        ])?;
    }
    let begun = fan_out::begin(tx, new, sequence_number)?;
    Ok((Recorded::Accepted { sequence_number, held: begun.held }, begun.is_unfinished.then_some(new.event.id)))
}

/// Most events have none, and cost no row.
fn insert_extras(tx: &Tx<'_>, event: &Event) -> Outcome<()> {
    if event.labels.is_empty() && event.headers.is_empty() && event.ordering_key.is_none() {
        return Ok(());
    }
    let ordering_key = event.ordering_key.as_ref().map(OrderingKey::as_str);
    tx.prepare(INSERT_EXTRAS)?.execute(params![event.id.key(), labels_json(&event.labels), headers_json(&event.headers), ordering_key])?;
    Ok(())
}

/// Only events of sources have this, and cost another row.
fn insert_received(tx: &Tx<'_>, ready: &Ready) -> Outcome<()> {
    let event = &ready.new.event;
    let Some(received) = &event.received else { return Ok(()) };
    tx.prepare(INSERT_RECEIVED)?.execute(params![
        event.id.key(),
        received.source.key(),
        received.external_user,
        received.duplicate_of.as_ref().map(EventId::key),
        ready.body.headers(),
    ])?;
    Ok(())
}

/// The event that has this one's key already. A key that we made is an event's id, and can be given by whoever was told that id.
fn original(tx: &Tx<'_>, new: &NewEvent, seals: &Seals) -> Outcome<Option<Original>> {
    let KeyOrigin::Given { valid_since } = new.key else { return Ok(None) };
    let event = &new.event;
    let mut by_key = tx.prepare(ORIGINAL_OF_GIVEN_KEY)?;
    let found =
        by_key.query_row(params![event.application.key(), event.idempotency_key, valid_since.as_micros()], of_given_key).optional()?;
    match (found, Uuid::try_parse(&event.idempotency_key)) {
        (None, Ok(id)) if id.to_string() == event.idempotency_key => made_key(tx, new, id, valid_since, seals),
        (found, _) => Ok(found),
    }
}

fn made_key(tx: &Tx<'_>, new: &NewEvent, id: Uuid, valid_since: Timestamp, seals: &Seals) -> Outcome<Option<Original>> {
    let mut by_id = tx.prepare(ORIGINAL_OF_MADE_KEY)?;
    let parameters = params![new.event.application.key(), id.key(), valid_since.as_micros()];
    Ok(by_id.query_row(parameters, |row| of_made_key(row, seals)).optional()?)
}

/// An event that is recorded under this id already: the caller tries again after an unknown outcome.
fn recorded_before(tx: &Tx<'_>, new: &NewEvent, seals: &Seals) -> Outcome<Original> {
    made_key(tx, new, *new.event.id.as_uuid(), Timestamp::from_micros(i64::MIN), seals)?
        .ok_or_else(|| Fault::Impossible(format!("the id {} was given to two events", new.event.id)))
}

fn original_of_row(row: &Row<'_>, fingerprint: Option<Fingerprint>) -> rusqlite::Result<Original> {
    Ok(Original { event: row.id("id")?, deliveries: row.get("deliveries")?, sequence_number: row.get("sequence_number")?, fingerprint })
}

fn of_given_key(row: &Row<'_>) -> rusqlite::Result<Original> {
    original_of_row(row, row.get::<_, Option<_>>("fingerprint")?.map(Fingerprint::from_bytes))
}

/// Nothing is kept of an event whose key we made but the event itself. One that is damaged counts as erased: nobody can say what it was.
fn of_made_key(row: &Row<'_>, seals: &Seals) -> rusqlite::Result<Original> {
    let data = match row.get("encoding")? {
        None => None,
        Some(encoding) => payload::read(encoding, row.get("body")?, row.id("id")?, seals),
    };
    let event_type = row.event_type("event_type")?;
    original_of_row(row, data.map(|data| Fingerprint::of(&event_type, &data)))
}

/// Says whether there was none of this id.
fn insert_event(tx: &mut Tx<'_>, new: &NewEvent, sequence_number: i64, payload: i64) -> Outcome<bool> {
    let event = &new.event;
    let ids = || new.deliveries.iter().map(|delivery| delivery.id);
    let made_key = event.idempotency_key == event.id.to_string();
    let inserted = tx.hot(INSERT_EVENT)?.execute(params![
        event.id.key(),
        new.organization.key(),
        event.application.key(),
        event.event_type.as_str(),
        event.timestamp.as_micros(),
        (!made_key).then_some(&event.idempotency_key),
        event.source,
        priority_number(event.priority),
        sequence_number,
        event.traceparent,
        i64::try_from(new.deliveries.len()).unwrap_or(i64::MAX),
        ids().min().as_ref().map(DeliveryId::key),
        ids().max().as_ref().map(DeliveryId::key),
        event.created_at.as_micros(),
        payload,
        event.content_type.kept(),
    ])?;
    Ok(inserted == 1)
}

/// Says under which number it is kept.
fn insert_payload(tx: &mut Tx<'_>, ready: &Ready) -> Outcome<i64> {
    let event = &ready.new.event;
    let (encoding, body) = ready.body.columns(&event.data);
    Ok(tx.hot(INSERT_PAYLOAD)?.insert(params![event.id.key(), encoding, body])?)
}
