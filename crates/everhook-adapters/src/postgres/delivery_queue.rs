//! Where deliveries wait: the port `DeliveryQueue`. What a settlement writes is in `settling`.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_core::{
    ids::{EventId, ScheduleVersion},
    model::{DeadLetterStatus, Due, Event, Order, ShardSet},
    ports::{CancelWaiting, DeliveryQueue, DueRead, DueRequest, FreedHeads, LaneHead, Replay, Replayed, Settled, Settlement, StoreError},
    time::Timestamp,
};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;

use super::{
    PostgresStore,
    collisions::retry_on_conflict,
    fault::Outcome,
    ordering, replaying,
    rows::{Columns, Int, unreadable},
    settlement_columns::EndedRetries,
    transaction::Tx,
};
use crate::{due::unknown, encoding::spelling::priority_number};

const LANES: &str = include_str!("queries/lanes.sql");
const DUE_DELIVERIES: &str = include_str!("queries/due_deliveries.sql");
const CANCEL_OPEN: &str = include_str!("queries/cancel_open_deliveries.sql");

/// How many events are read in one go: few enough that little is read in vain where the budget ends.
const EVENTS_A_READ: usize = 128;

#[async_trait]
impl DeliveryQueue for PostgresStore {
    async fn lanes(&self, shards: ShardSet) -> Result<Vec<LaneHead>, StoreError> {
        let rows = self.line_reader().await?.query(LANES, &[&shards.bits().cast_signed(), &self.pool]).await?;
        Ok(rows.iter().map(lane_of_row).collect::<Outcome<_>>()?)
    }

    async fn due(&self, request: DueRequest) -> Result<Vec<DueRead>, StoreError> {
        Ok(self.read_due(&request).await?)
    }

    async fn settle(&self, settlements: Arc<Vec<Settlement>>) -> Result<Vec<Settled>, StoreError> {
        Ok(retry_on_conflict(|| self.settle_all(&settlements)).await?)
    }

    async fn free_heads(&self, at: Timestamp) -> Result<FreedHeads, StoreError> {
        Ok(retry_on_conflict(|| ordering::free_heads(&self.pools, &self.look_from, at)).await?)
    }

    async fn cancel_waiting(&self, request: CancelWaiting) -> Result<u32, StoreError> {
        Ok(retry_on_conflict(|| self.cancel_open(request)).await?)
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, StoreError> {
        Ok(retry_on_conflict(|| replaying::replay(self, &replay)).await?)
    }
}

fn lane_of_row(row: &Row) -> Outcome<LaneHead> {
    Ok(LaneHead {
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        lane_id: row.id("endpoint_id")?,
        priority: row.priority("priority")?,
        delivery: row.id("id")?,
        next_due_at: row.instant("due_at")?,
    })
}

impl PostgresStore {
    async fn read_due(&self, request: &DueRequest) -> Outcome<Vec<DueRead>> {
        let mut reads = vec![DueRead::default(); request.queues.len()];
        for row in &self.due_rows(request).await? {
            let place = row.number::<usize>("place")?;
            let (Some(queue), Some(read)) = (request.queues.get(place), reads.get_mut(place)) else { return Err(unreadable("place")) };
            let due = due_of_row(row)?;
            if due.due_at > request.due_by || read.rows.len() == queue.limit as usize {
                read.next_due_at = Some(read.next_due_at.map_or(due.due_at, |first| first.min(due.due_at)));
            } else {
                read.rows.push(due);
            }
        }
        self.load_events(unknown(request, &mut reads).collect(), request.event_bytes_max).await?;
        Ok(reads)
    }

    async fn due_rows(&self, request: &DueRequest) -> Outcome<Vec<Row>> {
        let (mut lanes, mut priorities, mut limits, mut from) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for queue in &request.queues {
            lanes.push(self.lane_number(queue.lane_id).await?);
            priorities.push(Int(priority_number(queue.priority)));
            // One more than asked for, to know when the next one is due.
            limits.push(i64::from(queue.limit) + 1);
            from.push(queue.due_from.as_micros());
        }
        let due_by = request.due_by.as_micros();
        self.line_reader().await?.query(DUE_DELIVERIES, &[&lanes, &priorities, &limits, &from, &due_by]).await
    }

    /// Brings along what is sent, within the budget. A delivery that is left without its event asks for it again at its attempt; if that event is missing
    /// or damaged, the attempt says so and fails alone.
    async fn load_events(&self, rows: Vec<&mut Due>, bytes_max: usize) -> Outcome<()> {
        let mut seen: FxHashSet<EventId> = FxHashSet::default();
        let wanted: Vec<EventId> = rows.iter().map(|due| due.event).filter(|event| seen.insert(*event)).collect();
        let events = self.events_within(&wanted, bytes_max).await?;
        for due in rows {
            due.loaded = events.get(&due.event).cloned();
        }
        Ok(())
    }

    /// Reads events in their order until the next one would pass the budget.
    async fn events_within(&self, wanted: &[EventId], bytes_max: usize) -> Outcome<FxHashMap<EventId, Arc<Event>>> {
        let mut bytes_left = bytes_max;
        let mut events: FxHashMap<EventId, Arc<Event>> = FxHashMap::default();
        for some in wanted.chunks(EVENTS_A_READ) {
            if bytes_left == 0 {
                break;
            }
            let mut read: FxHashMap<EventId, Event> =
                self.events_for_sending(some).await?.into_iter().map(|event| (event.id, event)).collect();
            for event in some.iter().filter_map(|id| read.remove(id)) {
                let Some(left) = bytes_left.checked_sub(event.data.len()) else { return Ok(events) };
                bytes_left = left;
                events.insert(event.id, Arc::new(event));
            }
        }
        Ok(events)
    }

    async fn cancel_open(&self, request: CancelWaiting) -> Outcome<u32> {
        let lane = self.lane_number(request.lane_id).await?;
        let mut connection = self.pools.line().await?;
        let tx = Tx::begin(&mut connection).await?;
        let (made_until, at, cause) = (request.made_until.as_micros(), request.at.as_micros(), request.cause.as_str());
        let cancelled = tx.query(CANCEL_OPEN, &[&lane, &made_until, &i64::from(request.limit), &at, &cause]).await?;
        let mut retries = EndedRetries::default();
        for row in cancelled.iter().filter(|row| matches!(row.id_opt::<EventId>("replay_of"), Ok(Some(_)))) {
            retries.push(row.value("id")?, lane, row.id("event_id")?, DeadLetterStatus::Dead, row.number("attempts")?);
        }
        retries.write(&tx).await?;
        tx.commit().await?;
        Ok(u32::try_from(cancelled.len()).unwrap_or(u32::MAX))
    }
}

fn due_of_row(row: &Row) -> Outcome<Due> {
    Ok(Due {
        delivery: row.id("id")?,
        event: row.id("event_id")?,
        loaded: None,
        retry_schedule: ScheduleVersion(row.value("retry_schedule")?),
        attempts: row.number("attempts")?,
        parkings: row.number_opt("parkings")?.unwrap_or(0),
        expired: row.expired()?,
        due_at: row.instant("due_at")?,
        replay_of: row.id_opt("replay_of")?,
        order: row.value::<Option<&str>>("order_key")?.map(Order::of_key),
    })
}
