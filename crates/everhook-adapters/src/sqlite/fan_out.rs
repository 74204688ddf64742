//! Makes the deliveries of an event, in as many commits as it takes.
//!
//! The first commit makes the first deliveries and keeps a list of the rest; each further commit makes one stretch and takes it off the list. A
//! crash in between leaves the list, and the next opening completes it before anything else is done.

use std::sync::Arc;

use everhook_core::{
    ids::{DeliveryId, EventId, LaneId, ScheduleVersion},
    model::{Placement, Priority, WaitsFor},
    ports::{NewDelivery, NewEvent, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::{
    fault::{Fault, Outcome},
    finishing::{self, Remainder},
    ordering::{self, Ordered},
    rows::{Columns, Key},
    spelling::{priority_number, read_priority},
    transaction::Tx,
    writer::Writer,
};
use crate::commits;

const INSERT_DELIVERY: &str = include_str!("queries/insert_delivery.sql");
const PARK_MADE: &str = include_str!("queries/park_made.sql");
const KEEP_STEP: &str = include_str!("queries/keep_fanout_step.sql");
const NEXT_STEP: &str = include_str!("queries/next_fanout_step.sql");
const FORGET_STEP: &str = include_str!("queries/forget_fanout_step.sql");

/// The bytes of one delivery in the list: its id, its endpoint's, its schedule version.
const ENTRY_BYTES: usize = 16 + 16 + 8;

/// What a delivery takes from its event.
#[derive(Clone, Debug)]
struct Origin {
    event: EventId,
    priority: Priority,
    /// When the deliveries are made, which is also when they are due.
    at: Timestamp,
    /// What they wait for.
    waits_for: Option<WaitsFor>,
}

impl Origin {
    fn of(new: &NewEvent) -> Self {
        Self { event: new.event.id, priority: new.event.priority, at: new.made_at, waits_for: new.parked.clone() }
    }
}

/// What the first commit of an event made of its deliveries.
#[derive(Default)]
pub(super) struct Begun {
    /// Whether there is a rest, for later commits.
    pub(super) is_unfinished: bool,
    /// Those that are held behind others, or parked.
    pub(super) held: Vec<DeliveryId>,
}

/// Makes the first deliveries of an event and keeps the rest for later commits.
///
/// Those that have an order are all made now: their event's number is their position, and a later event must not get theirs first.
pub(super) fn begin(tx: &mut Tx<'_>, new: &NewEvent, sequence_number: i64) -> Outcome<Begun> {
    let (origin, event, deliveries) = (Origin::of(new), &new.event, &new.deliveries);
    let is_ordered = |delivery: &NewDelivery| delivery.placement.is_ordered(event.ordered_by());
    if !deliveries.iter().any(is_ordered) {
        let is_unfinished = begin_unordered(tx, &origin, deliveries)?;
        return Ok(Begun { is_unfinished, held: park(tx, &origin, deliveries)? });
    }
    let (ordered, unordered): (Vec<_>, Vec<_>) = deliveries.iter().copied().partition(is_ordered);
    let mut begun = Begun { is_unfinished: begin_unordered(tx, &origin, &unordered)?, held: Vec::new() };
    for delivery in ordered {
        let new = Ordered {
            event: event.id,
            by: event.ordered_by(),
            delivery: &delivery,
            priority: event.priority,
            replay_of: None,
            operation: None,
            at: origin.at,
            position: sequence_number,
        };
        if ordering::place(tx, &new)? {
            begun.held.push(delivery.id);
        }
    }
    begun.held.extend(park(tx, &origin, deliveries)?);
    Ok(begun)
}

/// Parks those of the deliveries that are made, if they wait for something and it has not come; says which do not wait then, those included that later
/// commits make. In an order they keep their place, also behind others.
fn park(tx: &Tx<'_>, origin: &Origin, deliveries: &[NewDelivery]) -> Outcome<Vec<DeliveryId>> {
    let ids = || deliveries.iter().map(|delivery| delivery.id);
    let (Some(waits_for), Some(first), Some(last)) = (&origin.waits_for, ids().min(), ids().max()) else { return Ok(Vec::new()) };
    let parked = tx.prepare(PARK_MADE)?.execute(params![origin.event.key(), first.key(), last.key(), waits_for.as_str()])?;
    Ok(if parked > 0 { ids().collect() } else { Vec::new() })
}

/// Says whether there is a rest.
fn begin_unordered(tx: &mut Tx<'_>, origin: &Origin, deliveries: &[NewDelivery]) -> Outcome<bool> {
    let (first, rest) = deliveries.split_at(deliveries.len().min(commits::ROWS_MAX));
    make(tx, origin, first)?;
    for (step, stretch) in (0_i64..).zip(rest.chunks(commits::ROWS_MAX)) {
        let entries: Vec<u8> = stretch.iter().flat_map(entry).collect();
        let waits_for = origin.waits_for.as_ref().map(WaitsFor::as_str);
        tx.prepare(KEEP_STEP)?.execute(params![origin.event.key(), step, entries, origin.at.as_micros(), waits_for])?;
    }
    Ok(!rest.is_empty())
}

/// Makes the rest of an event's deliveries and returns after the last commit.
///
/// # Errors
/// [`StoreError::Unavailable`] if that takes too long; it goes on in the background.
pub(super) async fn finish(writer: &Arc<Writer>, event: EventId) -> Result<(), StoreError> {
    let rest = Remainder { event, rows: commits::ROWS_MAX, to_be: "made" };
    finishing::finish(writer, rest, move |tx| Ok(step(tx, Some(event))?.then_some(()))).await?;
    Ok(())
}

/// Completes what a crash left over.
pub(super) fn resume_all(connection: &Connection) -> Outcome<()> {
    loop {
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        let made = step(&mut Tx::new(connection), None)?;
        transaction.commit()?;
        if !made {
            return Ok(());
        }
    }
}

/// Makes the next stretch of deliveries; says whether there was one.
fn step(tx: &mut Tx<'_>, event: Option<EventId>) -> Outcome<bool> {
    let mut next = tx.prepare(NEXT_STEP)?;
    let found = next.query_row([event.as_ref().map(EventId::key)], step_of_row).optional()?;
    let Some((origin, number, entries)) = found else { return Ok(false) };
    let deliveries = read_entries(&entries)?;
    make(tx, &origin, &deliveries)?;
    park(tx, &origin, &deliveries)?;
    tx.prepare(FORGET_STEP)?.execute(params![origin.event.key(), number])?;
    Ok(true)
}

fn step_of_row(row: &Row<'_>) -> rusqlite::Result<(Origin, i64, Vec<u8>)> {
    let origin = Origin {
        event: row.id("event_id")?,
        priority: row.spelled("priority", read_priority)?,
        at: row.instant("made_at")?,
        waits_for: row.spelled_opt("waits_for", |text: String| WaitsFor::parse(&text))?,
    };
    Ok((origin, row.get("step")?, row.get("deliveries")?))
}

fn make(tx: &mut Tx<'_>, origin: &Origin, deliveries: &[NewDelivery]) -> Outcome<()> {
    for delivery in deliveries {
        let lane = tx.lane_of(delivery.lane_id)?;
        tx.hot(INSERT_DELIVERY)?.execute(params![
            delivery.id.key(),
            origin.event.key(),
            lane,
            priority_number(origin.priority),
            delivery.retry_schedule.0,
            origin.at.as_micros(),
            None::<i64>,
        ])?;
    }
    Ok(())
}

fn entry(delivery: &NewDelivery) -> impl Iterator<Item = u8> {
    let version = delivery.retry_schedule.0.to_le_bytes();
    (*delivery.id.key()).into_iter().chain(*delivery.lane_id.key()).chain(version)
}

fn read_entries(entries: &[u8]) -> Outcome<Vec<NewDelivery>> {
    let (whole, rest) = entries.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(Fault::Impossible("a list of deliveries to be made was cut".to_owned()));
    }
    Ok(whole.iter().map(read_entry).collect())
}

fn read_entry(entry: &[u8; ENTRY_BYTES]) -> NewDelivery {
    let (id, rest) = entry.split_first_chunk::<16>().expect("an entry is 40 bytes");
    let (lane_id, rest) = rest.split_first_chunk::<16>().expect("an entry is 40 bytes");
    let version = rest.first_chunk::<8>().expect("an entry is 40 bytes");
    NewDelivery {
        id: DeliveryId::from_key(*id),
        lane_id: LaneId::from_key(*lane_id),
        retry_schedule: ScheduleVersion(i64::from_le_bytes(*version)),
        // Those that have an order are never left for later.
        placement: Placement::default(),
    }
}
