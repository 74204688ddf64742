//! Records events with their deliveries: the port `EventStore`. How their data ends is in `erasing`.
//!
//! A group of events is one transaction of two steps. First keys are taken and the counters of the applications locked; then what was decided
//! from that is written and committed. Each step is sent at once and costs one way to the server and back.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_core::{
    ids::{DeliveryId, EventId, SourceId},
    model::{ContentType, Event, Received},
    ports::{Erased, Erasure, EventAlias, EventStore, NewEvent, Original, Recorded, StoreError},
};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore,
    collisions::retry_on_conflict,
    connect::Pools,
    erasing,
    event_columns::{EventColumns, Ready},
    fault::Outcome,
    keys::{self, KeyStatements, Originals},
    lanes::LaneNumbers,
    making::{DeliveryColumns, INSERT_DELIVERIES, ParkingColumns},
    ordering::Placing,
    parking,
    pipeline::Pipeline,
    rows::{Columns, Key, unreadable},
    sequences::Sequences,
    transaction::counters_of_row,
};
use crate::{
    commits::{self, Answers},
    encoding::{
        extras::{read_headers, read_labels},
        payload::{self, ReceivedColumns, Seals},
    },
};

const LOCK_COUNTERS: &str = include_str!("queries/lock_counters.sql");
const RAISE_SEQUENCES: &str = include_str!("queries/raise_sequences.sql");
const INSERT_EVENTS: &str = include_str!("queries/insert_events.sql");
const EVENTS_FOR_SENDING: &str = include_str!("queries/events_for_sending.sql");
const KEEP_ALIASES: &str = include_str!("queries/keep_event_aliases.sql");
const IS_ERASED: &str = include_str!("queries/event_is_erased.sql");

#[async_trait]
impl EventStore for PostgresStore {
    /// A batch that is too large for one commit is recorded in several, in order, until one fails.
    async fn record(&self, events: Vec<NewEvent>) -> Vec<Result<Recorded, StoreError>> {
        let mut answers = Answers::default();
        let mut commits = commits::split(events, rows_of).into_iter();
        for commit in commits.by_ref() {
            let (count, rows) = (commit.len(), commit.iter().map(rows_of).sum());
            if !answers.add(count, self.recorder.record(commit, rows).await) {
                break;
            }
        }
        answers.finish(commits.map(|commit| commit.len()).sum())
    }

    async fn originals(&self, events: &[NewEvent]) -> Result<Vec<Option<Recorded>>, StoreError> {
        Ok(keys::given_before(&self.line_reader().await?, events).await?)
    }

    async fn event(&self, id: EventId) -> Result<Option<Event>, StoreError> {
        let found = self.line_reader().await?.query_opt(EVENTS_FOR_SENDING, &[&vec![id.key()]]).await?;
        Ok(found.as_ref().map(|row| event_of_row(row, &self.seals)).transpose()?)
    }

    async fn is_erased(&self, id: EventId) -> Result<bool, StoreError> {
        Ok(self.line_reader().await?.query_one(IS_ERASED, &[&id.key()]).await?.value("is_erased")?)
    }

    async fn erase(&self, erasure: Erasure) -> Result<Erased, StoreError> {
        Ok(retry_on_conflict(|| erasing::erase(self, &erasure)).await?)
    }

    async fn alias(&self, aliases: Vec<EventAlias>) -> Result<(), StoreError> {
        let (ids, events): (Vec<Uuid>, Vec<Uuid>) = aliases.iter().map(|alias| (alias.alias.key(), alias.event.key())).unzip();
        self.line_reader().await?.execute(KEEP_ALIASES, &[&ids, &events]).await?;
        Ok(())
    }
}

impl PostgresStore {
    /// Reads events for sending. One that is missing or damaged is left out.
    pub(super) async fn events_for_sending(&self, ids: &[EventId]) -> Outcome<Vec<Event>> {
        let keys: Vec<Uuid> = ids.iter().map(Key::key).collect();
        let rows = self.line_reader().await?.query(EVENTS_FOR_SENDING, &[&keys]).await?;
        Ok(rows.iter().filter_map(|row| event_of_row(row, &self.seals).ok()).collect())
    }
}

/// Reads the idempotency key; ours is the event's id, and is not kept twice.
pub(super) fn read_idempotency_key(row: &Row) -> Outcome<String> {
    match row.value("idempotency_key")? {
        Some(given) => Ok(given),
        None => Ok(row.id::<EventId>("id")?.to_string()),
    }
}

/// Reads an event with its data.
pub(super) fn event_of_row(row: &Row, seals: &Seals) -> Outcome<Event> {
    let (id, encoding) = (row.id("id")?, row.number("encoding")?);
    Ok(Event {
        id,
        application: row.id("application_id")?,
        event_type: row.event_type("event_type")?,
        data: payload::read(encoding, row.value("body")?, id, seals).ok_or_else(|| unreadable("body"))?,
        content_type: read_content_type(row)?,
        sealed: payload::is_sealed(encoding),
        timestamp: row.instant("timestamp")?,
        idempotency_key: read_idempotency_key(row)?,
        source: row.value("source")?,
        priority: row.priority("priority")?,
        sequence_number: row.value("sequence_number")?,
        ordering_key: row.ordering_key("ordering_key")?,
        traceparent: row.value("traceparent")?,
        labels: row.spelled_opt("labels", read_labels)?.unwrap_or_default(),
        headers: row.spelled_opt("headers", read_headers)?.unwrap_or_default(),
        received: read_received(row, id, encoding, seals)?,
        created_at: row.instant("created_at")?,
    })
}

/// Reads what an event's data is.
pub(super) fn read_content_type(row: &Row) -> Outcome<ContentType> {
    Ok(row.spelled_opt("content_type", ContentType::parse)?.unwrap_or_default())
}

/// Reads how an event came in, if a provider sent it.
fn read_received(row: &Row, event: EventId, encoding: i64, seals: &Seals) -> Outcome<Option<Box<Received>>> {
    let Some(source) = row.id_opt::<SourceId>("source_id")? else { return Ok(None) };
    let (external_user, duplicate_of) = (row.value("external_user_id")?, row.id_opt("duplicate_of")?);
    let received = Received { source, external_user, duplicate_of, headers: Vec::new() };
    let columns = ReceivedColumns { event, received, headers: row.value("received_headers")? };
    payload::read_received(encoding, columns, seals).map(Some).ok_or_else(|| unreadable("received_headers"))
}

/// About how many rows an event writes: the event, its key, its deliveries. An event for more endpoints than a commit should have rows has the
/// commit to itself.
fn rows_of(new: &NewEvent) -> usize {
    2 + commits::rows_of_data(new) + new.deliveries.len()
}

/// Records groups of events. Shared by the recorder and those that it sets aside.
pub(super) struct Recording {
    pools: Pools,
    lanes: Arc<LaneNumbers>,
    seals: Seals,
}

impl Recording {
    pub(super) fn new(pools: Pools, lanes: Arc<LaneNumbers>, seals: Seals) -> Self {
        Self { pools, lanes, seals }
    }

    /// Records events in one transaction; one answer for each, in their order.
    pub(super) async fn record(&self, events: &[&Ready], waits: Waits) -> Outcome<Vec<Recorded>> {
        match self.try_to_record(events, &FxHashMap::default(), waits).await {
            // One of them is recorded under its id already: its publisher tries again after an unknown outcome.
            Err(fault) if fault.taken().is_some_and(|constraint| constraint.starts_with("events")) => {
                let known = keys::recorded_before(&self.pools, events, &self.seals).await?;
                self.try_to_record(events, &known, waits).await
            }
            answers => answers,
        }
    }

    async fn try_to_record(&self, events: &[&Ready], known: &FxHashMap<EventId, Original>, waits: Waits) -> Outcome<Vec<Recorded>> {
        let endpoints: Vec<_> = events.iter().flat_map(|ready| ready.new.deliveries.iter().map(|delivery| delivery.lane_id)).collect();
        let lanes = self.lanes.of(&self.pools, &endpoints).await?;
        let pipeline = Pipeline::new(self.pools.line().await?);
        let outcome = record_in(&pipeline, Group { events, lanes: &lanes, known, waits, seals: &self.seals }).await;
        pipeline.finish(outcome).await
    }
}

/// How long a transaction waits for rows that others keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// A moment: others wait with it who want other rows.
    Shortly,
    /// As long as the line waits for any lock.
    Long,
}

impl Waits {
    /// What begins such a transaction.
    fn begin(self) -> &'static str {
        match self {
            Self::Shortly => "BEGIN; SET LOCAL lock_timeout = '150ms'",
            Self::Long => "BEGIN",
        }
    }
}

/// What one transaction records.
struct Group<'g> {
    events: &'g [&'g Ready],
    /// Those of all their deliveries, in order.
    lanes: &'g [i64],
    /// Those that are recorded already.
    known: &'g FxHashMap<EventId, Original>,
    waits: Waits,
    seals: &'g Seals,
}

async fn record_in(pipeline: &Pipeline, group: Group<'_>) -> Outcome<Vec<Recorded>> {
    let Group { events, lanes, known, waits, seals } = group;
    let key_statements = KeyStatements::prepare(pipeline).await?;
    let lock_counters = pipeline.prepare(LOCK_COUNTERS).await?;
    let applications = applications_of(events);
    let (_, originals, counters) = tokio::try_join!(biased; pipeline.send(waits.begin()), keys::take(pipeline, &key_statements, events, known, seals), async {
            pipeline.query(&lock_counters, &[&applications]).await
        },)?;
    let counters = counters.iter().map(counters_of_row).collect::<Outcome<_>>()?;
    let mut sequences = Sequences::new(counters);
    let answers = decide_all(events, &originals, &mut sequences);
    let mut placing = Placing::default();
    let mut lanes = lanes.iter();
    for (ready, answer) in events.iter().zip(&answers) {
        let lanes = lanes.by_ref().take(ready.new.deliveries.len());
        if let Recorded::Accepted { sequence_number, .. } = answer {
            placing.add_event(&ready.new, *sequence_number, lanes);
        } else {
            lanes.for_each(drop);
        }
    }
    placing.look(pipeline).await?;
    let made = Made { events, answers: &answers, originals: &originals, sequences: &sequences };
    let parked = write(pipeline, &made, &placing.deliveries(), &placing.to_park()).await?;
    let mut held = placing.held();
    held.extend(parked);
    Ok(with_held(answers, events, &held))
}

fn applications_of(events: &[&Ready]) -> Vec<Uuid> {
    let mut applications: Vec<_> = events.iter().map(|ready| ready.new.event.application.key()).collect();
    applications.sort_unstable();
    applications.dedup();
    applications
}

/// Decides about each event, in order. Whether its deliveries are held is known later.
fn decide_all(events: &[&Ready], originals: &Originals, sequences: &mut Sequences) -> Vec<Recorded> {
    let mut answers: Vec<Recorded> = Vec::with_capacity(events.len());
    for (place, ready) in events.iter().enumerate() {
        let event = &ready.new.event;
        answers.push(match (originals.of(event.id), originals.twin(place)) {
            (Some(original), _) => ready.answer(original),
            (None, Some(first)) => match originals.of(events[first].new.event.id) {
                Some(original) => ready.answer(original),
                None => duplicate_in_batch(events[first], &answers[first], ready),
            },
            (None, None) => match sequences.next(event.application, ready.new.config_version) {
                Some(sequence_number) => Recorded::Accepted { sequence_number, held: Vec::new() },
                None => Recorded::ConfigChanged,
            },
        });
    }
    answers
}

/// The answer for an event with the same key as one before it in the group, of which no original was found.
fn duplicate_in_batch(first: &Ready, answer: &Recorded, ready: &Ready) -> Recorded {
    match answer {
        Recorded::Accepted { sequence_number, .. } => ready.answer(&Original {
            event: first.new.event.id,
            deliveries: u32::try_from(first.new.deliveries.len()).unwrap_or(u32::MAX),
            sequence_number: *sequence_number,
            fingerprint: first.fingerprint,
        }),
        other => other.clone(),
    }
}

/// Names those of each event's deliveries that are held or parked.
fn with_held(mut answers: Vec<Recorded>, events: &[&Ready], all_held: &FxHashSet<DeliveryId>) -> Vec<Recorded> {
    if all_held.is_empty() {
        return answers;
    }
    for (answer, ready) in answers.iter_mut().zip(events) {
        if let Recorded::Accepted { held, .. } = answer {
            held.extend(ready.new.deliveries.iter().map(|delivery| delivery.id).filter(|id| all_held.contains(id)));
        }
    }
    answers
}

/// What was decided about a group.
struct Made<'g> {
    events: &'g [&'g Ready],
    answers: &'g [Recorded],
    originals: &'g Originals,
    sequences: &'g Sequences,
}

/// Writes what was accepted, and commits. Says which deliveries are parked.
async fn write(
    pipeline: &Pipeline,
    made: &Made<'_>,
    deliveries: &DeliveryColumns<'_>,
    to_park: &ParkingColumns<'_>,
) -> Outcome<Vec<DeliveryId>> {
    let raise_sequences = pipeline.prepare(RAISE_SEQUENCES).await?;
    let insert_events = pipeline.prepare(INSERT_EVENTS).await?;
    let insert_deliveries = pipeline.prepare(INSERT_DELIVERIES).await?;
    let mut columns = EventColumns::default();
    for (ready, answer) in made.events.iter().zip(made.answers) {
        if let Recorded::Accepted { sequence_number, .. } = answer {
            columns.push(ready, *sequence_number);
        }
    }
    let (applications, next) = made.sequences.raised();
    keys::give_back(pipeline, made.events, made.answers, made.originals).await?;
    let raised: [&(dyn ToSql + Sync); 2] = [&applications, &next];
    let (events, deliveries_made) = (columns.parameters(), deliveries.parameters());
    let (_, _, _, parked, ()) = tokio::try_join!(
        biased;
        pipeline.execute_if(!applications.is_empty(), &raise_sequences, &raised),
        pipeline.execute_if(!columns.is_empty(), &insert_events, &events),
        pipeline.execute_if(!deliveries.is_empty(), &insert_deliveries, &deliveries_made),
        parking::park_made(pipeline, to_park),
        pipeline.send("COMMIT"),
    )?;
    Ok(parked)
}
