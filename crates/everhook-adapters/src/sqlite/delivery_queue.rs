//! Where deliveries wait: the port `DeliveryQueue`. What a settlement writes is in `settling`.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{DeadLetterStatus, Due, Event, Order, ShardSet},
    ports::{
        CancelWaiting, DeliveryQueue, DueQueue, DueRead, DueRequest, FreedHeads, LaneHead, Replay, Replayed, Settled, Settlement,
        StoreError,
    },
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustc_hash::FxHashMap;

use super::{
    SqliteStore,
    event_store::read_event,
    fault::Outcome,
    ordering,
    payload::Seals,
    replaying,
    rows::{Columns, Key},
    settling,
    spelling::{priority_number, read_priority},
    transaction::Tx,
};
use crate::due::unknown;

const NEXT_QUEUE_OF_LANE: &str = include_str!("queries/next_queue_of_lane.sql");
const NEXT_LANE: &str = include_str!("queries/next_lane.sql");
const DUE_DELIVERIES: &str = include_str!("queries/due_deliveries.sql");
const WAITING_FOR_ENDPOINT: &str = include_str!("queries/waiting_for_endpoint.sql");
const HELD_OR_PARKED: &str = include_str!("queries/held_or_parked_for_endpoint.sql");
const CANCEL_DELIVERY: &str = include_str!("queries/cancel_delivery.sql");

#[async_trait]
impl DeliveryQueue for SqliteStore {
    /// One process owns everything here, and asks for all shards: leaving some out after reading them costs it nothing.
    async fn lanes(&self, shards: ShardSet) -> Result<Vec<LaneHead>, StoreError> {
        let mut heads = self.read(lanes).await?;
        heads.retain(|head| shards.has_lane(head.lane_id));
        Ok(heads)
    }

    async fn due(&self, request: DueRequest) -> Result<Vec<DueRead>, StoreError> {
        let seals = self.seals.clone();
        self.read(move |connection| due(connection, &request, &seals)).await
    }

    async fn settle(&self, settlements: Arc<Vec<Settlement>>) -> Result<Vec<Settled>, StoreError> {
        // An attempt and a delivery each.
        let rows = settlements.len() * 2;
        self.write(rows, move |tx| settling::settle_all(tx, &settlements)).await
    }

    async fn free_heads(&self, at: Timestamp) -> Result<FreedHeads, StoreError> {
        let from = self.look_from.lock().expect("no panic leaves a place half written").clone();
        let stranded = self.read(move |connection| ordering::stranded(connection, from)).await?;
        let next = stranded.next.clone();
        let freed = match stranded.is_empty() {
            true => FreedHeads::default(),
            false => self.write(stranded.len(), move |tx| ordering::free_stranded(tx, &stranded, at)).await?,
        };
        *self.look_from.lock().expect("no panic leaves a place half written") = next;
        Ok(freed)
    }

    async fn cancel_waiting(&self, request: CancelWaiting) -> Result<u32, StoreError> {
        self.write(request.limit as usize, move |tx| cancel_waiting(tx, request)).await
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, StoreError> {
        // A delivery, its dead letter and its place on a list each.
        self.write(replay.items.len() * 3, move |tx| replaying::replay(tx, &replay)).await
    }
}

/// Steps from queue to queue, one look-up each, in one snapshot.
fn lanes(connection: &Connection) -> Outcome<Vec<LaneHead>> {
    let snapshot = connection.unchecked_transaction()?;
    let mut next_queue = snapshot.prepare_cached(NEXT_QUEUE_OF_LANE)?;
    let mut next_lane = snapshot.prepare_cached(NEXT_LANE)?;
    let mut lanes = Vec::new();
    // Before every queue: lanes count from one, no priority is negative.
    let mut after = (0, -1);
    loop {
        let next = match next_queue.query_row(params![after.0, after.1], lane_of_row).optional()? {
            Some(next) => Some(next),
            None => next_lane.query_row([after.0], lane_of_row).optional()?,
        };
        let Some((number, lane)) = next else { return Ok(lanes) };
        after = (number, priority_number(lane.priority));
        lanes.push(lane);
    }
}

fn lane_of_row(row: &Row<'_>) -> rusqlite::Result<(i64, LaneHead)> {
    let head = LaneHead {
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        lane_id: row.id("endpoint_id")?,
        priority: row.spelled("priority", read_priority)?,
        delivery: row.id("id")?,
        next_due_at: row.instant("due_at")?,
    };
    Ok((row.get("lane")?, head))
}

fn due(connection: &Connection, request: &DueRequest, seals: &Seals) -> Outcome<Vec<DueRead>> {
    let snapshot = connection.unchecked_transaction()?;
    let mut reads = request.queues.iter().map(|queue| due_in(&snapshot, queue, request.due_by)).collect::<Outcome<Vec<_>>>()?;
    load_events(&snapshot, unknown(request, &mut reads), request.event_bytes_max, seals)?;
    Ok(reads)
}

fn due_in(connection: &Connection, queue: &DueQueue, due_by: Timestamp) -> Outcome<DueRead> {
    let mut statement = connection.prepare_cached(DUE_DELIVERIES)?;
    // One more than asked for, to know when the next one is due.
    let (limit, due_from) = (i64::from(queue.limit) + 1, queue.due_from.as_micros());
    let parameters = params![queue.lane_id.key(), priority_number(queue.priority), limit, due_from];
    let mut found = statement.query(parameters)?;
    let mut read = DueRead::default();
    while let Some(row) = found.next()? {
        let due = due_of_row(row)?;
        if due.due_at > due_by || read.rows.len() == queue.limit as usize {
            read.next_due_at = Some(due.due_at);
            break;
        }
        read.rows.push(due);
    }
    Ok(read)
}

fn due_of_row(row: &Row<'_>) -> rusqlite::Result<Due> {
    Ok(Due {
        delivery: row.id("id")?,
        event: row.id("event_id")?,
        loaded: None,
        retry_schedule: everhook_core::ids::ScheduleVersion(row.get("retry_schedule")?),
        attempts: row.get("attempts")?,
        parkings: row.get::<_, Option<u32>>("parkings")?.unwrap_or(0),
        expired: row.expired()?,
        due_at: row.instant("due_at")?,
        replay_of: row.id_opt("replay_of")?,
        order: row.get_ref("order_key")?.as_str_or_null()?.map(Order::of_key),
    })
}

/// Reads events until the next one would pass the budget; that one is read in vain. A delivery whose event is missing or damaged is left without:
/// its attempt asks for it again, says what is wrong with it and fails alone.
fn load_events<'a>(connection: &Connection, rows: impl Iterator<Item = &'a mut Due>, bytes_max: usize, seals: &Seals) -> Outcome<()> {
    let mut bytes_left = bytes_max;
    let mut read: FxHashMap<EventId, Arc<Event>> = FxHashMap::default();
    for due in rows {
        due.loaded = read.get(&due.event).cloned();
        if due.loaded.is_some() {
            continue;
        }
        if bytes_left == 0 {
            break;
        }
        let event = match read_event(connection, due.event, seals) {
            Ok(Some(event)) => event,
            Ok(None) => continue,
            Err(fault) if fault.is_damage() => continue,
            Err(fault) => return Err(fault),
        };
        let Some(left) = bytes_left.checked_sub(event.data.len()) else { break };
        bytes_left = left;
        due.loaded = Some(read.entry(due.event).or_insert(Arc::new(event)).clone());
    }
    Ok(())
}

/// A delivery that is to be cancelled.
struct Waiting {
    id: DeliveryId,
    replay_of: Option<DeliveryId>,
    attempts: u32,
}

fn cancel_waiting(tx: &Tx<'_>, request: CancelWaiting) -> Outcome<u32> {
    let mut waiting = open_for(tx, WAITING_FOR_ENDPOINT, &request, request.limit)?;
    let room = request.limit.saturating_sub(u32::try_from(waiting.len()).unwrap_or(u32::MAX));
    if room > 0 {
        waiting.extend(open_for(tx, HELD_OR_PARKED, &request, room)?);
    }
    let mut cancel = tx.prepare(CANCEL_DELIVERY)?;
    for delivery in &waiting {
        cancel.execute(params![delivery.id.key(), request.at.as_micros(), request.cause.as_str()])?;
        if delivery.replay_of.is_some() {
            settling::end_retry(tx, delivery.id, DeadLetterStatus::Dead, delivery.attempts)?;
        }
    }
    Ok(u32::try_from(waiting.len()).unwrap_or(u32::MAX))
}

fn open_for(tx: &Tx<'_>, sql: &'static str, request: &CancelWaiting, limit: u32) -> Outcome<Vec<Waiting>> {
    let mut statement = tx.prepare(sql)?;
    let waiting = |row: &Row<'_>| Ok(Waiting { id: row.id("id")?, replay_of: row.id_opt("replay_of")?, attempts: row.get("attempts")? });
    let parameters = params![request.lane_id.key(), limit, request.made_until.as_micros()];
    Ok(statement.query_map(parameters, waiting)?.collect::<Result<_, _>>()?)
}
