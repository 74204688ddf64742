//! Deliveries that go one after the other: placed when they are made, freed when the one before them has ended.
//!
//! Of the open deliveries of one key, the one with the lowest position waits; the others are held. A barrier holds all that were made since the
//! endpoint's ordering was changed, until what was open then has ended. Whoever makes or ends ordered deliveries of a lane locks it first, so
//! that nobody is placed behind one that ends at the same moment.

use std::sync::Mutex;

use everhook_core::{
    ids::{ApplicationId, DeliveryId, EventId, OperationId, OrganizationId, ScheduleVersion},
    lifecycle,
    model::{Due, Order, OrderedBy, Priority, WaitsFor},
    ports::{Freed, FreedHeads, NewDelivery, NewEvent},
    time::Timestamp,
};
use rustc_hash::FxHashSet;
use tokio_postgres::Row;

use super::{
    connect::{Connection, Pools},
    fault::Outcome,
    making::{DeliveryColumns, Making, ParkingColumns},
    pipeline::Ask,
    reader::Reader,
    rows::Columns,
    transaction::Tx,
};

const LOCK_LANES: &str = include_str!("queries/lock_lanes.sql");
const OPEN_OF_KEYS: &str = include_str!("queries/open_of_keys.sql");
const FREE_FIRST_OF_KEYS: &str = include_str!("queries/free_first_of_keys.sql");
const LANES_WITH_BARRIER: &str = include_str!("queries/lanes_with_barrier.sql");
const STRANDED_KEYS: &str = include_str!("queries/stranded_keys.sql");
const APPLICATIONS_OF_LANES: &str = include_str!("queries/applications_of_lanes.sql");
const LIFT_BARRIERS: &str = include_str!("queries/lift_barriers.sql");

/// How many barriers one look lifts. Whoever asked asks again for the rest.
const LIFTED_MAX: i64 = 1_000;
/// How many keys with anything held one look steps over, some milliseconds' worth. The next look goes on where this one ended.
const KEYS_A_LOOK: i32 = 2_000;
/// What sorts behind all keys: neither an event type nor what other keys begin with does.
const AFTER_ALL_KEYS: &str = "~";

/// Names the deliveries that go one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct OrderKey {
    pub(super) lane: i64,
    pub(super) key: String,
}

impl OrderKey {
    /// Before every key of this lane and those after it.
    fn before(lane: i64) -> Self {
        Self { lane: lane - 1, key: AFTER_ALL_KEYS.to_owned() }
    }
}

/// A delivery about to be placed.
struct Placed {
    lane: i64,
    event: EventId,
    priority: Priority,
    id: DeliveryId,
    retry_schedule: ScheduleVersion,
    at: Timestamp,
    replay_of: Option<DeliveryId>,
    operation: Option<OperationId>,
    /// Its key, its position, and whether it is behind a barrier.
    order: Option<(OrderKey, i64, bool)>,
}

/// What a delivery takes from its event and from whoever makes it.
#[derive(Clone, Copy)]
pub(super) struct Origin<'o> {
    pub(super) event: EventId,
    pub(super) by: OrderedBy<'o>,
    pub(super) priority: Priority,
    pub(super) at: Timestamp,
    pub(super) replay_of: Option<DeliveryId>,
    pub(super) operation: Option<OperationId>,
    /// Its place among all deliveries of the application.
    pub(super) position: i64,
}

/// The new deliveries of one transaction, in their order.
#[derive(Default)]
pub(super) struct Placing {
    deliveries: Vec<Placed>,
    /// The keys that have anything open.
    open: FxHashSet<OrderKey>,
    /// Those that are made parked: whose they are, and what they wait for.
    parked: Vec<(i64, DeliveryId, (OrganizationId, WaitsFor))>,
}

impl Placing {
    /// Adds the deliveries of an event that was accepted.
    pub(super) fn add_event<'l>(&mut self, new: &NewEvent, sequence_number: i64, lanes: impl Iterator<Item = &'l i64>) {
        let origin = Origin {
            event: new.event.id,
            by: new.event.ordered_by(),
            priority: new.event.priority,
            at: new.made_at,
            replay_of: None,
            operation: None,
            position: sequence_number,
        };
        for (delivery, lane) in new.deliveries.iter().zip(lanes) {
            self.add(delivery, *lane, &origin);
            let parking = new.parked.clone().map(|waits_for| (new.organization, waits_for));
            self.parked.extend(parking.map(|parking| (*lane, delivery.id, parking)));
        }
    }

    /// Adds one delivery.
    pub(super) fn add(&mut self, delivery: &NewDelivery, lane: i64, origin: &Origin<'_>) {
        let key = delivery.placement.key(origin.by, delivery.id);
        let order = key.map(|key| (OrderKey { lane, key: key.into_owned() }, origin.position, delivery.placement.behind_barrier));
        self.deliveries.push(Placed {
            lane,
            event: origin.event,
            priority: origin.priority,
            id: delivery.id,
            retry_schedule: delivery.retry_schedule,
            at: origin.at,
            replay_of: origin.replay_of,
            operation: origin.operation,
            order,
        });
    }

    /// Locks the lanes of those that have an order, and looks which of their keys have anything open. Most groups have none.
    pub(super) async fn look(&mut self, transaction: &(impl Ask + Sync)) -> Outcome<()> {
        let keys: FxHashSet<&OrderKey> = self.deliveries.iter().filter_map(|placed| placed.order.as_ref()).map(|(key, ..)| key).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let (lanes, texts): (Vec<i64>, Vec<&str>) = keys.iter().map(|key| (key.lane, key.key.as_str())).unzip();
        transaction.ask(LOCK_LANES, &[&distinct(&lanes)]).await?;
        let open = transaction.ask(OPEN_OF_KEYS, &[&lanes, &texts]).await?;
        self.open = open.iter().map(|row| Ok(OrderKey { lane: row.value("lane")?, key: row.value("key")? })).collect::<Outcome<_>>()?;
        Ok(())
    }

    /// The rows to be written. The first of a key that has nothing open waits, the others are held.
    pub(super) fn deliveries(&self) -> DeliveryColumns<'_> {
        let mut columns = DeliveryColumns::default();
        for (placed, is_held) in self.with_stage() {
            columns.push(&Making {
                lane: placed.lane,
                id: placed.id,
                event: placed.event,
                priority: placed.priority,
                retry_schedule: placed.retry_schedule,
                stage: lifecycle::made(is_held, placed.at),
                at: placed.at,
                replay_of: placed.replay_of,
                operation: placed.operation,
                order: placed.order.as_ref().map(|(key, position, _)| (key.key.as_str(), *position)),
            });
        }
        columns
    }

    /// Those of the rows that are to be parked.
    pub(super) fn to_park(&self) -> ParkingColumns<'_> {
        let mut columns = ParkingColumns::default();
        for (lane, id, (organization, waits_for)) in &self.parked {
            columns.push(*lane, *id, (*organization, waits_for));
        }
        columns
    }

    /// Those that are held behind others.
    pub(super) fn held(&self) -> FxHashSet<DeliveryId> {
        self.with_stage().filter(|(_, is_held)| *is_held).map(|(placed, _)| placed.id).collect()
    }

    fn with_stage(&self) -> impl Iterator<Item = (&Placed, bool)> {
        let mut before: FxHashSet<&OrderKey> = FxHashSet::default();
        self.deliveries.iter().map(move |placed| {
            let is_held = placed
                .order
                .as_ref()
                .is_some_and(|(key, _, behind_barrier)| !before.insert(key) || self.open.contains(key) || *behind_barrier);
            (placed, is_held)
        })
    }
}

/// Each number once.
pub(super) fn distinct(numbers: &[i64]) -> Vec<i64> {
    let mut distinct = numbers.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// Locks lanes until the commit.
pub(super) async fn lock_lanes(tx: &Tx<'_>, lanes: &[i64]) -> Outcome<()> {
    tx.query(LOCK_LANES, &[&distinct(lanes)]).await?;
    Ok(())
}

/// Frees the first of each key, if it is held and no barrier is before it. The lanes are locked by the caller.
pub(super) async fn free_first(tx: &Tx<'_>, keys: &[(OrderKey, Timestamp)]) -> Outcome<Vec<(OrderKey, Freed)>> {
    let lanes: Vec<i64> = keys.iter().map(|(key, _)| key.lane).collect();
    let texts: Vec<&str> = keys.iter().map(|(key, _)| key.key.as_str()).collect();
    let due: Vec<i64> = keys.iter().map(|(_, at)| lifecycle::freed(*at)).map(due_at).collect();
    let rows = tx.query(FREE_FIRST_OF_KEYS, &[&lanes, &texts, &due]).await?;
    rows.iter().map(freed_of_row).collect()
}

fn due_at(stage: everhook_core::model::Stage) -> i64 {
    crate::encoding::spelling::stage_columns(&stage).due_at.expect("what is freed is due")
}

fn freed_of_row(row: &Row) -> Outcome<(OrderKey, Freed)> {
    let key = OrderKey { lane: row.value("lane")?, key: row.value("order_key")? };
    let due = Due {
        delivery: row.id("id")?,
        event: row.id("event_id")?,
        loaded: None,
        retry_schedule: ScheduleVersion(row.value("retry_schedule")?),
        attempts: row.number("attempts")?,
        parkings: row.number_opt("parkings")?.unwrap_or(0),
        expired: None,
        due_at: row.instant("due_at")?,
        replay_of: row.id_opt("replay_of")?,
        order: Some(Order::of_key(&key.key)),
    };
    let priority = row.priority("priority")?;
    Ok((key, Freed { priority, due }))
}

/// Deliveries whose turn in the order has come and which are held all the same.
struct Stranded {
    /// Lanes whose barrier has nothing open before it.
    lanes: Vec<i64>,
    keys: Vec<OrderKey>,
    /// Where the next look goes on; `None` if this one came to the end.
    next: Option<OrderKey>,
}

/// Frees what is held behind nothing. Most looks find nothing, and write nothing.
pub(super) async fn free_heads(pools: &Pools, look_from: &Mutex<Option<OrderKey>>, at: Timestamp) -> Outcome<FreedHeads> {
    let from = look_from.lock().expect("no panic leaves a place half written").clone();
    let stranded = stranded(&Reader::new(pools.line().await?), from).await?;
    let next = stranded.next.clone();
    let freed = match stranded.lanes.is_empty() && stranded.keys.is_empty() {
        true => FreedHeads::default(),
        false => free_stranded(&mut pools.line().await?, stranded, at).await?,
    };
    *look_from.lock().expect("no panic leaves a place half written") = next;
    Ok(freed)
}

/// Looks from where the last look ended, or from the first lane whose barrier is about to be lifted. Two statements and no transaction around them, which every
/// look would wait for twice: whoever frees looks at each again, under its lock.
async fn stranded(reader: &Reader, from: Option<OrderKey>) -> Outcome<Stranded> {
    let lanes = reader.query(LANES_WITH_BARRIER, &[&LIFTED_MAX]).await?;
    let lanes = lanes.iter().map(|row| row.value("lane")).collect::<Outcome<Vec<i64>>>()?;
    let after = lanes.iter().min().map(|lane| OrderKey::before(*lane)).or(from).unwrap_or(OrderKey::before(0));
    let mut stranded = Stranded { lanes, keys: Vec::new(), next: None };
    for row in reader.query(STRANDED_KEYS, &[&stranded.lanes, &KEYS_A_LOOK, &after.lane, &after.key]).await? {
        let key = OrderKey { lane: row.value("lane")?, key: row.value("order_key")? };
        if row.value("is_last")? {
            stranded.next = Some(key.clone());
        }
        if row.value("is_stranded")? {
            stranded.keys.push(key);
        }
    }
    Ok(stranded)
}

/// Lifts barriers and frees keys. Looks again at each, under its lock.
async fn free_stranded(connection: &mut Connection, stranded: Stranded, at: Timestamp) -> Outcome<FreedHeads> {
    let Stranded { lanes, keys, next } = stranded;
    let mut all = lanes.clone();
    all.extend(keys.iter().map(|key| key.lane));
    let tx = Tx::begin(connection).await?;
    // What was just lifted or cancelled mostly left more of the same behind.
    let mut freed = FreedHeads { may_be_more: next.is_some(), ..FreedHeads::default() };
    if !lanes.is_empty() {
        // Counters come before endpoints and lanes, as wherever both are taken: nobody waits in a circle.
        let applications = tx.query(APPLICATIONS_OF_LANES, &[&lanes]).await?;
        let applications = applications.iter().map(|row| row.id("application_id")).collect::<Outcome<Vec<ApplicationId>>>()?;
        tx.lock_counters(&applications).await?;
        lock_lanes(&tx, &all).await?;
        let lifted = tx.query(LIFT_BARRIERS, &[&lanes]).await?;
        freed.applications = lifted.iter().map(|row| row.id("application_id")).collect::<Outcome<Vec<ApplicationId>>>()?;
    }
    if lanes.is_empty() {
        lock_lanes(&tx, &all).await?;
    }
    let keys: Vec<_> = keys.into_iter().map(|key| (key, at)).collect();
    freed.deliveries = free_first(&tx, &keys).await?.into_iter().map(|(_, freed)| freed.due.delivery).collect();
    tx.commit().await?;
    Ok(freed)
}
