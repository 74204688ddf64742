//! Deliveries that go one after the other: placed when they are made, freed when the one before them has ended.
//!
//! Of the open deliveries of one key, the one with the lowest position waits; the others are held. A barrier holds all that were made since the
//! endpoint's ordering was changed, until what was open then has ended.

use everhook_core::{
    ids::{DeliveryId, EventId, LaneId, OperationId, ScheduleVersion},
    lifecycle,
    model::{Due, Endpoint, Order, OrderedBy, OrderingMode, Priority},
    ports::{Freed, FreedHeads, NewDelivery},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    fault::Outcome,
    rows::{Columns, Key},
    spelling::{HELD, priority_number, read_priority, stage_columns},
    transaction::Tx,
};

const ORDER_OF_ENDPOINT: &str = include_str!("queries/order_of_endpoint.sql");
const RAISE_BARRIER: &str = include_str!("queries/raise_barrier.sql");
const LIFT_BARRIER: &str = include_str!("queries/lift_barrier.sql");
const LANES_WITH_BARRIER: &str = include_str!("queries/lanes_with_barrier.sql");
const OPEN_IN_LANE: &str = include_str!("queries/open_in_lane.sql");
const OPEN_OF_KEY: &str = include_str!("queries/open_of_key.sql");
const INSERT: &str = include_str!("queries/insert_ordered_delivery.sql");
const ORDER_OF_DELIVERY: &str = include_str!("queries/order_of_delivery.sql");
const FIRST_OF_KEY: &str = include_str!("queries/first_of_key.sql");
const FREE: &str = include_str!("queries/free_delivery.sql");
const NEXT_LANE: &str = include_str!("queries/next_held_lane.sql");
const NEXT_KEY: &str = include_str!("queries/next_held_key.sql");

/// How many keys and barriers one look frees. Whoever asked asks again for the rest.
pub(super) const FREED_MAX: usize = 1_000;
/// How many keys with anything held one look steps over, some milliseconds' worth. The next look goes on where this one ended.
const KEYS_A_LOOK: usize = 5_000;

/// What the key of a delivery that has one to itself begins with, and what sorts behind all such keys.
const OWN_KEY: char = '#';
const AFTER_OWN_KEYS: &str = "$";
/// What sorts behind all keys: neither an event type nor what other keys begin with does.
const AFTER_ALL_KEYS: &str = "~";

/// A delivery that has an order, about to be made.
pub(super) struct Ordered<'a> {
    pub(super) event: EventId,
    pub(super) by: OrderedBy<'a>,
    pub(super) delivery: &'a NewDelivery,
    pub(super) priority: Priority,
    pub(super) replay_of: Option<DeliveryId>,
    pub(super) operation: Option<OperationId>,
    pub(super) at: Timestamp,
    /// Its place among all deliveries of the application.
    pub(super) position: i64,
}

/// Makes a delivery that has an order, and says whether it is held.
pub(super) fn place(tx: &mut Tx<'_>, new: &Ordered<'_>) -> Outcome<bool> {
    let delivery = new.delivery;
    let lane = tx.lane_of(delivery.lane_id)?;
    let key = delivery.placement.key(new.by, delivery.id);
    let is_behind = delivery.placement.behind_barrier || tx.prepare(OPEN_OF_KEY)?.query_row(params![lane, key], |row| row.get(0))?;
    let stage = stage_columns(&lifecycle::made(is_behind, new.at));
    tx.prepare(INSERT)?.execute(params![
        delivery.id.key(),
        new.event.key(),
        lane,
        priority_number(new.priority),
        delivery.retry_schedule.0,
        stage.stage,
        stage.due_at,
        new.replay_of.as_ref().map(DeliveryId::key),
        new.at.as_micros(),
        key,
        new.position,
        new.operation.as_ref().map(OperationId::key),
    ])?;
    Ok(is_behind)
}

/// Frees what was held behind a delivery that has ended.
pub(super) fn free_next(tx: &Tx<'_>, ended: DeliveryId, at: Timestamp) -> Outcome<Option<Freed>> {
    let key = |row: &Row<'_>| Ok(OrderKey { lane: row.get("lane")?, key: row.get("order_key")? });
    let found = tx.prepare(ORDER_OF_DELIVERY)?.query_row([ended.key()], key).optional()?;
    match found {
        Some(key) => free_first(tx, &key, at),
        None => Ok(None),
    }
}

/// What a change of an endpoint means for its order.
pub(super) enum ModeChange {
    /// Nothing.
    None,
    /// It may not be made while an earlier one still settles.
    Refused,
    /// Deliveries are open: those of this position or a later one wait for them.
    Raises(i64),
}

/// Decides what a change of an endpoint means for its order. Writes nothing: the change itself may yet be refused.
pub(super) fn plan_change(tx: &mut Tx<'_>, endpoint: &Endpoint, read_at: Timestamp) -> Outcome<ModeChange> {
    let read = |row: &Row<'_>| {
        let mode = row.spelled("ordering", |name: String| OrderingMode::parse(&name))?;
        let is_current = row.instant("updated_at")? == read_at;
        Ok((mode, is_current, row.get::<_, Option<i64>>("order_barrier")?, row.get::<_, i64>("lane")?))
    };
    let found = tx.prepare(ORDER_OF_ENDPOINT)?.query_row([endpoint.id.key()], read).optional()?;
    let Some((mode, is_current, barrier, lane)) = found else { return Ok(ModeChange::None) };
    // A change of an older row is refused for that, whatever it asks for.
    if mode == endpoint.ordering.mode || !is_current {
        return Ok(ModeChange::None);
    }
    if barrier.is_some() {
        return Ok(ModeChange::Refused);
    }
    if !tx.prepare(OPEN_IN_LANE)?.query_row([lane], |row| row.get::<_, bool>(0))? {
        return Ok(ModeChange::None);
    }
    Ok(ModeChange::Raises(tx.counters(endpoint.application)?.map_or(i64::MAX, |counters| counters.next_sequence)))
}

/// Holds everything of this position or a later one until what is open has ended.
pub(super) fn raise_barrier(tx: &Tx<'_>, lane_id: LaneId, position: i64) -> Outcome<()> {
    tx.prepare(RAISE_BARRIER)?.execute(params![lane_id.key(), position])?;
    Ok(())
}

/// Deliveries whose turn in the order has come and which are held all the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Stranded {
    /// Lanes whose barrier has nothing open before it.
    lanes: Vec<i64>,
    keys: Vec<OrderKey>,
    /// Where the next look goes on; `None` if this one came to the end.
    pub(super) next: Option<OrderKey>,
}

impl Stranded {
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.keys.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.len() + self.keys.len()
    }
}

/// Names the deliveries that go one after the other.
#[derive(Clone, Debug)]
pub(super) struct OrderKey {
    lane: i64,
    key: String,
}

impl OrderKey {
    /// Before every key of this lane and those after it.
    fn before(lane: i64) -> Self {
        Self { lane: lane - 1, key: AFTER_ALL_KEYS.to_owned() }
    }
}

/// Steps from key to key of those that have anything held, one look-up each, in one snapshot: from where the last look ended, or from the first lane
/// whose barrier is about to be lifted.
pub(super) fn stranded(connection: &Connection, from: Option<OrderKey>) -> Outcome<Stranded> {
    let snapshot = connection.unchecked_transaction()?;
    let lanes = lanes_to_lift(&snapshot)?;
    let mut next_key = snapshot.prepare_cached(NEXT_KEY)?;
    let mut next_lane = snapshot.prepare_cached(NEXT_LANE)?;
    let mut after = lanes.first().map(|lane| OrderKey::before(*lane)).or(from).unwrap_or(OrderKey::before(0));
    let mut stranded = Stranded { lanes, ..Stranded::default() };
    for _ in 0..KEYS_A_LOOK {
        let next = match next_key.query_row(params![after.lane, after.key], held_of_row).optional()? {
            Some(next) => Some(next),
            None => next_lane.query_row([after.lane], held_of_row).optional()?,
        };
        let Some((key, held)) = next else { return Ok(stranded) };
        after = key.clone();
        match held {
            Held::First => stranded.keys.push(key),
            Held::BehindBarrier if stranded.lanes.contains(&key.lane) => stranded.keys.push(key),
            // The others that have a key to themselves wait behind the same barrier.
            Held::BehindBarrier if key.key.starts_with(OWN_KEY) => after.key = AFTER_OWN_KEYS.to_owned(),
            Held::BehindBarrier | Held::BehindAnother => {}
        }
        if stranded.keys.len() >= FREED_MAX {
            break;
        }
    }
    Ok(Stranded { next: Some(after), ..stranded })
}

/// Lifts barriers and frees what is held behind nothing. Looks again at each, inside the write.
pub(super) fn free_stranded(tx: &mut Tx<'_>, stranded: &Stranded, at: Timestamp) -> Outcome<FreedHeads> {
    // What was just lifted or cancelled mostly left more of the same behind.
    let mut freed = FreedHeads { may_be_more: stranded.next.is_some(), ..FreedHeads::default() };
    let liftable = lanes_to_lift(tx.connection())?;
    for lane in stranded.lanes.iter().filter(|lane| liftable.contains(lane)) {
        let lifted = tx.prepare(LIFT_BARRIER)?.query_row([lane], |row| Ok((row.id("application_id")?, row.id("id")?))).optional()?;
        if let Some((application, endpoint)) = lifted {
            tx.endpoint_changed(application, endpoint)?;
            freed.applications.push(application);
        }
    }
    for key in &stranded.keys {
        freed.deliveries.extend(free_first(tx, key, at)?.map(|freed| freed.due.delivery));
    }
    Ok(freed)
}

fn lanes_to_lift(connection: &Connection) -> Outcome<Vec<i64>> {
    let mut statement = connection.prepare_cached(LANES_WITH_BARRIER)?;
    let most = i64::try_from(FREED_MAX).unwrap_or(i64::MAX);
    Ok(statement.query_map([most], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// What is before the first held delivery of a key.
enum Held {
    BehindAnother,
    BehindBarrier,
    /// Nothing.
    First,
}

fn held_of_row(row: &Row<'_>) -> rusqlite::Result<(OrderKey, Held)> {
    let held = match (row.get("behind_another")?, row.get("behind_barrier")?) {
        (true, _) => Held::BehindAnother,
        (false, true) => Held::BehindBarrier,
        (false, false) => Held::First,
    };
    Ok((OrderKey { lane: row.get("lane")?, key: row.get("order_key")? }, held))
}

/// Frees the first of a key, if it is held and no barrier is before it.
fn free_first(tx: &Tx<'_>, key: &OrderKey, at: Timestamp) -> Outcome<Option<Freed>> {
    let read = |row: &Row<'_>| {
        let is_held = row.get::<_, i64>("stage")? == HELD && !row.get::<_, bool>("behind_barrier")?;
        Ok((is_held, freed_of_row(row, &key.key, at)?))
    };
    let first = tx.prepare(FIRST_OF_KEY)?.query_row(params![key.lane, key.key], read).optional()?;
    let Some((true, freed)) = first else { return Ok(None) };
    let due_at = stage_columns(&lifecycle::freed(at)).due_at;
    tx.prepare(FREE)?.execute(params![freed.due.delivery.key(), due_at])?;
    Ok(Some(freed))
}

fn freed_of_row(row: &Row<'_>, key: &str, at: Timestamp) -> rusqlite::Result<Freed> {
    let due = Due {
        delivery: row.id("id")?,
        event: row.id("event_id")?,
        loaded: None,
        retry_schedule: ScheduleVersion(row.get("retry_schedule")?),
        attempts: row.get("attempts")?,
        parkings: row.get::<_, Option<u32>>("parkings")?.unwrap_or(0),
        expired: None,
        due_at: at,
        replay_of: row.id_opt("replay_of")?,
        order: Some(Order::of_key(key)),
    };
    Ok(Freed { priority: row.spelled("priority", read_priority)?, due })
}
