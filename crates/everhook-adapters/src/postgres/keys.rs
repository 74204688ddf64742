//! Idempotency keys: taken before anything else is decided, given back if nothing came of it.

use everhook_core::{
    ids::{ApplicationId, EventId},
    model::Fingerprint,
    ports::{KeyOrigin, NewEvent, Original, Recorded},
    time::Timestamp,
};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::{
    connect::Pools,
    event_columns::Ready,
    fault::Outcome,
    pipeline::Pipeline,
    reader::Reader,
    rows::{Columns, Key, unreadable},
};
use crate::encoding::payload::{self, Seals};

const TAKE: &str = include_str!("queries/keep_idempotency_keys.sql");
const GIVE_BACK: &str = include_str!("queries/forget_keys_of_events.sql");
const OF_GIVEN_KEYS: &str = include_str!("queries/originals_of_given_keys.sql");
const OF_MADE_KEYS: &str = include_str!("queries/originals_of_made_keys.sql");

/// Which events of a group are not new.
#[derive(Default)]
pub(super) struct Originals {
    /// The events that have their keys or their ids.
    found: FxHashMap<EventId, Original>,
    /// The places in the group of events with the same key, or the same id, as one before them, and its place.
    duplicates_in_batch: FxHashMap<usize, usize>,
    /// Whose keys were taken in this transaction.
    taken: FxHashSet<EventId>,
}

impl Originals {
    /// The event that has an event's key or id, if one was recorded before.
    pub(super) fn of(&self, event: EventId) -> Option<&Original> {
        self.found.get(&event)
    }

    /// The place of the event in the same group that has the same key, or is the same, and comes first.
    pub(super) fn twin(&self, place: usize) -> Option<usize> {
        self.duplicates_in_batch.get(&place).copied()
    }
}

/// The statements that taking keys needs, prepared before the transaction begins: taking must be the first thing that it does.
pub(super) struct KeyStatements {
    take: Statement,
    of_given_keys: Statement,
    of_made_keys: Statement,
}

impl KeyStatements {
    pub(super) async fn prepare(pipeline: &Pipeline) -> Outcome<Self> {
        Ok(Self {
            take: pipeline.prepare(TAKE).await?,
            of_given_keys: pipeline.prepare(OF_GIVEN_KEYS).await?,
            of_made_keys: pipeline.prepare(OF_MADE_KEYS).await?,
        })
    }
}

/// Takes the keys that publishers gave, and says which events are not new. `known` are not new for another reason, and take none.
pub(super) async fn take(
    pipeline: &Pipeline,
    statements: &KeyStatements,
    events: &[&Ready],
    known: &FxHashMap<EventId, Original>,
    seals: &Seals,
) -> Outcome<Originals> {
    let mut originals = Originals { found: known.clone(), duplicates_in_batch: duplicates_in_batch(events), ..Originals::default() };
    let is_first = |place: usize, new: &NewEvent| originals.twin(place).is_none() && !known.contains_key(&new.event.id);
    let firsts = events.iter().enumerate().filter(|(place, ready)| is_first(*place, &ready.new));
    let (wanted, fingerprints): (Vec<Wanted<'_>>, Vec<_>) =
        firsts.filter_map(|(_, ready)| Some((Wanted::of(&ready.new)?, ready.fingerprint.as_ref().map(fingerprint_bytes)))).unzip();
    if wanted.is_empty() {
        return Ok(originals);
    }
    originals.taken = take_free(pipeline, &statements.take, &wanted, &fingerprints).await?;
    let (taken, refused): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|wanted| originals.taken.contains(&wanted.event));
    originals.found.extend(of_given_keys(pipeline, &statements.of_given_keys, &refused).await?);
    originals.found.extend(of_made_keys(pipeline, &statements.of_made_keys, &taken, seals).await?);
    Ok(originals)
}

/// Finds events of a group that are one and the same for their publishers.
fn duplicates_in_batch(events: &[&Ready]) -> FxHashMap<usize, usize> {
    let mut duplicates_in_batch = FxHashMap::default();
    let mut by_id: FxHashMap<EventId, usize> = FxHashMap::default();
    let mut by_key: FxHashMap<(ApplicationId, &str), usize> = FxHashMap::default();
    for (place, ready) in events.iter().enumerate() {
        let key = Wanted::of(&ready.new).map(|wanted| (wanted.application, wanted.key));
        let first = by_id.get(&ready.new.event.id).or_else(|| by_key.get(&key?)).copied();
        match first {
            Some(first) => {
                duplicates_in_batch.insert(place, first);
            }
            None => {
                by_id.insert(ready.new.event.id, place);
                by_key.extend(key.map(|key| (key, place)));
            }
        }
    }
    duplicates_in_batch
}

/// A key that a publisher gave.
#[derive(Clone, Copy)]
struct Wanted<'e> {
    event: EventId,
    application: ApplicationId,
    key: &'e str,
    at: Timestamp,
    valid_since: Timestamp,
}

impl<'e> Wanted<'e> {
    fn of(new: &'e NewEvent) -> Option<Self> {
        let KeyOrigin::Given { valid_since } = new.key else { return None };
        let event = &new.event;
        Some(Self { event: event.id, application: event.application, key: &event.idempotency_key, at: event.created_at, valid_since })
    }
}

fn columns<'e>(wanted: &[Wanted<'e>]) -> (Vec<Uuid>, Vec<&'e str>, Vec<Uuid>) {
    let applications = wanted.iter().map(|wanted| wanted.application.key()).collect();
    let keys = wanted.iter().map(|wanted| wanted.key).collect();
    (applications, keys, wanted.iter().map(|wanted| wanted.event.key()).collect())
}

fn valid_since(wanted: &[Wanted<'_>]) -> Vec<i64> {
    wanted.iter().map(|wanted| wanted.valid_since.as_micros()).collect()
}

/// Says for which events a key could be taken.
async fn take_free(
    pipeline: &Pipeline,
    statement: &Statement,
    wanted: &[Wanted<'_>],
    fingerprints: &[Option<&[u8]>],
) -> Outcome<FxHashSet<EventId>> {
    let (applications, keys, events) = columns(wanted);
    let made: Vec<i64> = wanted.iter().map(|wanted| wanted.at.as_micros()).collect();
    let rows = pipeline.query(statement, &[&applications, &keys, &events, &made, &valid_since(wanted), &fingerprints]).await?;
    rows.iter().map(|row| row.id("event_id")).collect()
}

async fn of_given_keys(pipeline: &Pipeline, statement: &Statement, refused: &[Wanted<'_>]) -> Outcome<Vec<(EventId, Original)>> {
    if refused.is_empty() {
        return Ok(Vec::new());
    }
    let (applications, keys, _) = columns(refused);
    let rows = pipeline.query(statement, &[&applications, &keys, &valid_since(refused)]).await?;
    let mut originals = Vec::with_capacity(rows.len());
    for row in &rows {
        let (application, key): (ApplicationId, &str) = (row.id("application_id")?, row.value("key")?);
        let original = of_given_key(row)?;
        let of_key = refused.iter().filter(|wanted| wanted.application == application && wanted.key == key);
        originals.extend(of_key.map(|wanted| (wanted.event, original)));
    }
    Ok(originals)
}

/// A key that we made is an event's id, and can be given by whoever was told that id.
async fn of_made_keys(
    pipeline: &Pipeline,
    statement: &Statement,
    taken: &[Wanted<'_>],
    seals: &Seals,
) -> Outcome<Vec<(EventId, Original)>> {
    let as_id = |wanted: &Wanted<'_>| Uuid::try_parse(wanted.key).ok().filter(|id| id.to_string() == wanted.key);
    let (ids, since): (Vec<Uuid>, Vec<i64>) =
        taken.iter().filter_map(|wanted| Some((as_id(wanted)?, wanted.valid_since.as_micros()))).unzip();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut originals = Vec::new();
    for row in &pipeline.query(statement, &[&ids, &since]).await? {
        let (id, application): (Uuid, ApplicationId) = (row.id("id")?, row.id("application_id")?);
        let original = of_made_key(row, seals)?;
        let of_id = taken.iter().filter(|wanted| wanted.application == application && as_id(wanted) == Some(id));
        originals.extend(of_id.map(|wanted| (wanted.event, original)));
    }
    Ok(originals)
}

/// Gives keys free whose events were not accepted after all.
pub(super) async fn give_back(pipeline: &Pipeline, events: &[&Ready], answers: &[Recorded], originals: &Originals) -> Outcome<()> {
    let refused = events.iter().zip(answers).filter(|(_, answer)| !matches!(answer, Recorded::Accepted { .. }));
    let wanted: Vec<Wanted<'_>> = refused.filter_map(|(ready, _)| Wanted::of(&ready.new)).collect();
    let in_vain: Vec<Wanted<'_>> = wanted.into_iter().filter(|wanted| originals.taken.contains(&wanted.event)).collect();
    if in_vain.is_empty() {
        return Ok(());
    }
    let (applications, keys, ids) = columns(&in_vain);
    let statement = pipeline.prepare(GIVE_BACK).await?;
    pipeline.execute(&statement, &[&applications, &keys, &ids]).await?;
    Ok(())
}

/// The originals of events whose keys were given before, one answer for each.
pub(super) async fn given_before(reader: &Reader, events: &[NewEvent]) -> Outcome<Vec<Option<Recorded>>> {
    let wanted: Vec<Wanted<'_>> = events.iter().filter_map(Wanted::of).collect();
    if wanted.is_empty() {
        return Ok(vec![None; events.len()]);
    }
    let (applications, keys, _) = columns(&wanted);
    let rows = reader.query(OF_GIVEN_KEYS, &[&applications, &keys, &valid_since(&wanted)]).await?;
    let mut found: FxHashMap<(ApplicationId, &str), Original> = FxHashMap::default();
    for row in &rows {
        found.insert((row.id("application_id")?, row.value("key")?), of_given_key(row)?);
    }
    let answer = |new: &NewEvent| {
        let original = found.get(&Wanted::of(new).map(|wanted| (wanted.application, wanted.key))?)?;
        Some(original.answer_to(new.event.id, new.event.fingerprint()))
    };
    Ok(events.iter().map(answer).collect())
}

/// Which of these events are recorded under their ids already.
pub(super) async fn recorded_before(pools: &Pools, events: &[&Ready], seals: &Seals) -> Outcome<FxHashMap<EventId, Original>> {
    let ids: Vec<Uuid> = events.iter().map(|ready| ready.new.event.id.key()).collect();
    let rows = Reader::new(pools.line().await?).query(OF_MADE_KEYS, &[&ids, &vec![i64::MIN; ids.len()]]).await?;
    rows.iter().map(|row| Ok((row.id("id")?, of_made_key(row, seals)?))).collect()
}

fn original_of_row(row: &Row, fingerprint: Option<Fingerprint>) -> Outcome<Original> {
    Ok(Original {
        event: row.id("id")?,
        deliveries: row.number("deliveries")?,
        sequence_number: row.value("sequence_number")?,
        fingerprint,
    })
}

fn of_given_key(row: &Row) -> Outcome<Original> {
    let fingerprint = row.value::<Option<&[u8]>>("fingerprint")?.map(|kept| kept.try_into().map_err(|_| unreadable("fingerprint")));
    original_of_row(row, fingerprint.transpose()?.map(Fingerprint::from_bytes))
}

/// Nothing is kept of an event whose key we made but the event itself. One that is damaged counts as erased: nobody can say what it was.
fn of_made_key(row: &Row, seals: &Seals) -> Outcome<Original> {
    let (encoding, body) = (row.number("encoding")?, row.value::<Option<Vec<u8>>>("body")?);
    let id = row.id("id")?;
    let data = body.and_then(|body| payload::read(encoding, body, id, seals));
    let event_type = row.event_type("event_type")?;
    original_of_row(row, data.map(|data| Fingerprint::of(&event_type, &data)))
}

fn fingerprint_bytes(fingerprint: &Fingerprint) -> &[u8] {
    fingerprint.as_bytes()
}
