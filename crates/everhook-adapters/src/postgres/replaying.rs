//! Makes deliveries that were not made with their events: retries by hand, and what operations do again.
//!
//! The counters of the applications are locked first, so that of several who do the same again at one moment the second finds it open.

use everhook_core::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OperationId},
    model::{DeadLetterStatus, OperationStatus},
    ports::{NewDelivery, Replay, ReplayAnswer, ReplayBy, ReplayItem, Replayed},
};
use rustc_hash::{FxHashMap, FxHashSet};
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::Outcome,
    making::INSERT_DELIVERIES,
    operations::{self, Tally},
    ordering::{Origin, Placing},
    rows::{Columns, Key},
    sequences::Sequences,
    transaction::Tx,
};
use crate::due::EventFacts;

const EVENTS: &str = include_str!("queries/events_to_replay.sql");
const STATUSES: &str = include_str!("queries/statuses_of_dead_letters.sql");
const OPEN: &str = include_str!("queries/open_of_events_and_lanes.sql");
const NOTE_LATER: &str = include_str!("queries/note_made_later.sql");
const REQUEUE: &str = include_str!("queries/requeue_dead_letters.sql");
const RAISE_SEQUENCES: &str = include_str!("queries/raise_sequences.sql");

/// Makes what can be made, in the order of the events.
pub(super) async fn replay(store: &PostgresStore, replay: &Replay) -> Outcome<Replayed> {
    let endpoints: Vec<LaneId> = replay.items.iter().map(|item| item.lane_id).collect();
    let lanes = store.lane_numbers(&endpoints).await?;
    let failed = failed_items(store, &replay.by).await?;
    let mut connection = store.pools.line().await?;
    let tx = Tx::begin(&mut connection).await?;
    let sequences = Sequences::new(tx.lock_counters(&applications_of(replay)).await?);
    let changed = changed_applications(&sequences, replay);
    if !changed.is_empty() {
        return Ok(Replayed::ConfigChanged(changed));
    }
    let operation = operation_of(&replay.by);
    if let Some(id) = operation
        && operations::status(&tx, id).await? != Some(OperationStatus::Running)
    {
        return Ok(Replayed::Stopped);
    }
    let answers = Replaying { tx: &tx, replay, operation, lanes: &lanes }.run(sequences).await?;
    if let Some(id) = operation {
        let mut tally = Tally::default();
        answers.iter().for_each(|answer| tally.count(answer));
        tally.failed += operations::take_items(&tx, id, &failed.0, &failed.1).await?.len() as u64;
        operations::add_to_counts(&tx, id, tally).await?;
    }
    tx.commit().await?;
    Ok(Replayed::Answered(answers))
}

fn operation_of(by: &ReplayBy) -> Option<OperationId> {
    match by {
        ReplayBy::Operation { id, .. } => Some(*id),
        ReplayBy::Hand | ReplayBy::Automatic => None,
    }
}

/// The places of items that cannot be done: their positions and lanes.
async fn failed_items(store: &PostgresStore, by: &ReplayBy) -> Outcome<(Vec<i64>, Vec<i64>)> {
    let ReplayBy::Operation { failed, .. } = by else { return Ok((Vec::new(), Vec::new())) };
    let endpoints: Vec<LaneId> = failed.iter().map(|item| item.lane_id).collect();
    Ok((failed.iter().map(|item| item.position).collect(), store.lane_numbers(&endpoints).await?))
}

fn applications_of(replay: &Replay) -> Vec<ApplicationId> {
    let mut applications: Vec<ApplicationId> = replay.configurations().map(|(application, _)| application).collect();
    applications.sort_unstable();
    applications.dedup();
    applications
}

fn changed_applications(sequences: &Sequences, replay: &Replay) -> Vec<ApplicationId> {
    let outdated = replay.configurations().filter(|(application, version)| sequences.has_changed(*application, *version));
    let mut changed: Vec<ApplicationId> = outdated.map(|(application, _)| application).collect();
    changed.dedup();
    changed
}

/// What is known of the items before anything is made.
struct Known {
    events: FxHashMap<EventId, EventFacts>,
    dead_letters: FxHashMap<(EventId, LaneId), DeadLetterStatus>,
    open: FxHashSet<(EventId, i64)>,
    /// The places on the operation's list that were taken off it now; `None` if there is no list.
    taken: Option<FxHashSet<(i64, i64)>>,
}

/// One replay, inside its transaction.
struct Replaying<'r> {
    tx: &'r Tx<'r>,
    replay: &'r Replay,
    operation: Option<OperationId>,
    /// The lanes of the items.
    lanes: &'r [i64],
}

impl Replaying<'_> {
    /// One lane gets them in the order of their events, whatever the order of the items; the answers are in the order of the items.
    async fn run(&self, mut sequences: Sequences) -> Outcome<Vec<ReplayAnswer>> {
        let items = &self.replay.items;
        let mut known = self.look().await?;
        let mut placing = Placing::default();
        let mut made: Vec<(&ReplayItem, i64)> = Vec::new();
        let mut answers: Vec<ReplayAnswer> = items.iter().map(|_| ReplayAnswer::NotFound).collect();
        let mut in_order: Vec<usize> = (0..items.len()).collect();
        in_order.sort_by_key(|index| known.events.get(&items[*index].event).map_or(0, |facts| facts.sequence_number));
        for index in in_order {
            let (item, lane) = (&items[index], self.lanes[index]);
            answers[index] = match self.refusal(&known, item, lane) {
                Some(refusal) => refusal,
                None => {
                    let facts = &known.events[&item.event];
                    let priority = item.priority.unwrap_or(facts.priority);
                    self.place(&mut placing, &mut sequences, item, lane, facts);
                    known.open.insert((item.event, lane));
                    made.push((item, lane));
                    ReplayAnswer::Made { due: Some(item.due(facts.ordered_by(), self.replay.at)), priority }
                }
            };
        }
        placing.look(self.tx).await?;
        self.write(&placing, &sequences, &made, &known).await?;
        Ok(without_held(answers, items, &placing.held()))
    }

    async fn look(&self) -> Outcome<Known> {
        let items = &self.replay.items;
        let events: Vec<Uuid> = items.iter().map(|item| item.event.key()).collect();
        let endpoints: Vec<Uuid> = items.iter().map(|item| item.lane_id.key()).collect();
        let of: Vec<Option<Uuid>> = items.iter().map(|item| item.of.as_ref().map(DeliveryId::key)).collect();
        let facts = self.tx.query(EVENTS, &[&events, &self.replay.organization.key()]).await?;
        // In this order: a delivery that ends in between is then not open, and its dead letter is there.
        let open = self.tx.query(OPEN, &[&events, &self.lanes, &of]).await?;
        let statuses = self.tx.query(STATUSES, &[&events, &endpoints]).await?;
        Ok(Known {
            events: facts.iter().map(|row| Ok((row.id("id")?, facts_of_row(row)?))).collect::<Outcome<_>>()?,
            dead_letters: statuses.iter().map(status_of_row).collect::<Outcome<_>>()?,
            open: open.iter().map(|row| Ok((row.id("event_id")?, row.value("lane")?))).collect::<Outcome<_>>()?,
            taken: self.take_off().await?,
        })
    }

    /// Takes the items off their operation's list: also those that are gone, or the operation would never end.
    async fn take_off(&self) -> Outcome<Option<FxHashSet<(i64, i64)>>> {
        let Some(operation) = self.operation else { return Ok(None) };
        let listed = self.replay.items.iter().zip(self.lanes).filter_map(|(item, lane)| Some((item.position?, *lane)));
        let (positions, lanes): (Vec<i64>, Vec<i64>) = listed.unzip();
        let taken = operations::take_items(self.tx, operation, &positions, &lanes).await?;
        Ok(Some(taken.into_iter().collect()))
    }

    /// Why an item is not done; `None` if it is.
    fn refusal(&self, known: &Known, item: &ReplayItem, lane: i64) -> Option<ReplayAnswer> {
        if let (Some(taken), Some(position)) = (&known.taken, item.position)
            && !taken.contains(&(position, lane))
        {
            return Some(ReplayAnswer::DoneBefore);
        }
        match known.events.get(&item.event) {
            None => return Some(ReplayAnswer::NotFound),
            Some(facts) if facts.is_erased => return Some(ReplayAnswer::Erased),
            Some(_) => {}
        }
        let dead_letter = known.dead_letters.get(&(item.event, item.lane_id)).copied();
        if item.only_dead && dead_letter != Some(DeadLetterStatus::Dead) {
            return Some(dead_letter.map_or(ReplayAnswer::NotFound, ReplayAnswer::NotDead));
        }
        known.open.contains(&(item.event, lane)).then_some(ReplayAnswer::Open)
    }

    /// At the tail of its lane: behind every event that was published, and everything that was done again, until now.
    fn place(&self, placing: &mut Placing, sequences: &mut Sequences, item: &ReplayItem, lane: i64, facts: &EventFacts) {
        let position = match item.placement.is_ordered(facts.ordered_by()) {
            true => sequences.next(item.application, item.config_version).unwrap_or(i64::MAX),
            false => 0,
        };
        let delivery =
            NewDelivery { id: item.delivery, lane_id: item.lane_id, retry_schedule: item.retry_schedule, placement: item.placement };
        let origin = Origin {
            event: item.event,
            by: facts.ordered_by(),
            priority: item.priority.unwrap_or(facts.priority),
            at: self.replay.at,
            replay_of: item.of,
            operation: self.operation,
            position,
        };
        placing.add(&delivery, lane, &origin);
    }

    async fn write(&self, placing: &Placing, sequences: &Sequences, made: &[(&ReplayItem, i64)], known: &Known) -> Outcome<()> {
        if made.is_empty() {
            return Ok(());
        }
        let (applications, next) = sequences.raised();
        self.tx.execute(RAISE_SEQUENCES, &[&applications, &next]).await?;
        self.tx.execute(INSERT_DELIVERIES, &placing.deliveries().parameters()).await?;
        let events: Vec<Uuid> = made.iter().map(|(item, _)| item.event.key()).collect();
        let lanes: Vec<i64> = made.iter().map(|(_, lane)| *lane).collect();
        let ids: Vec<Uuid> = made.iter().map(|(item, _)| item.delivery.key()).collect();
        self.tx.execute(NOTE_LATER, &[&events, &lanes, &ids]).await?;
        self.requeue(made, known).await
    }

    async fn requeue(&self, made: &[(&ReplayItem, i64)], known: &Known) -> Outcome<()> {
        let is_dead = |item: &ReplayItem| known.dead_letters.get(&(item.event, item.lane_id)) == Some(&DeadLetterStatus::Dead);
        let dead: Vec<&ReplayItem> = made.iter().map(|(item, _)| *item).filter(|item| is_dead(item)).collect();
        if dead.is_empty() {
            return Ok(());
        }
        let events: Vec<Uuid> = dead.iter().map(|item| item.event.key()).collect();
        let endpoints: Vec<Uuid> = dead.iter().map(|item| item.lane_id.key()).collect();
        let ids: Vec<Uuid> = dead.iter().map(|item| item.delivery.key()).collect();
        let is_automatic = self.replay.by == ReplayBy::Automatic;
        self.tx.execute(REQUEUE, &[&events, &endpoints, &ids, &self.replay.at.as_micros(), &is_automatic]).await?;
        Ok(())
    }
}

fn facts_of_row(row: &tokio_postgres::Row) -> Outcome<EventFacts> {
    Ok(EventFacts {
        event_type: row.event_type("event_type")?,
        ordering_key: row.ordering_key("ordering_key")?,
        priority: row.priority("priority")?,
        sequence_number: row.value("sequence_number")?,
        is_erased: row.value("is_erased")?,
    })
}

fn status_of_row(row: &tokio_postgres::Row) -> Outcome<((EventId, LaneId), DeadLetterStatus)> {
    Ok(((row.id("event_id")?, row.id("endpoint_id")?), row.spelled("status", DeadLetterStatus::parse)?))
}

/// A delivery that is held is not handed to its lane.
fn without_held(mut answers: Vec<ReplayAnswer>, items: &[ReplayItem], held: &FxHashSet<DeliveryId>) -> Vec<ReplayAnswer> {
    for (answer, item) in answers.iter_mut().zip(items) {
        if let ReplayAnswer::Made { due, .. } = answer
            && held.contains(&item.delivery)
        {
            *due = None;
        }
    }
    answers
}
