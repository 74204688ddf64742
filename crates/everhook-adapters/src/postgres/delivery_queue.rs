//! Where deliveries wait: the port `DeliveryQueue`. What a settlement writes is in `settling`.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_core::{
    ids::{EventId, ScheduleVersion},
    model::{DeadLetterStatus, Due, ShardSet},
    ports::{
        Alert, AlertId, CancelWaiting, DeliveryQueue, DueRead, DueRequest, FreedHeads, LaneHead, Replay, Replayed, Settled, Settlement,
        StoreError,
    },
    time::Timestamp,
};
use rustc_hash::FxHashMap;
use tokio_postgres::Row;

use super::{
    PostgresStore,
    alerts::alert_of_row,
    collisions::insist,
    fault::Outcome,
    ordering, replaying,
    rows::{Columns, Int, unreadable},
    settlement_columns::EndedRetries,
    transaction::Tx,
};
use crate::encoding::spelling::{priority_number, read_priority};

const LANES: &str = include_str!("queries/lanes.sql");
const DUE_DELIVERIES: &str = include_str!("queries/due_deliveries.sql");
const CANCEL_OPEN: &str = include_str!("queries/cancel_open_deliveries.sql");
const PENDING_ALERTS: &str = include_str!("queries/pending_alerts.sql");
const FORGET_ALERTS: &str = include_str!("queries/forget_alerts.sql");

/// How many events are read in one go, so that little is read in vain where the budget ends.
const EVENTS_A_READ: usize = 32;

#[async_trait]
impl DeliveryQueue for PostgresStore {
    async fn lanes(&self, shards: ShardSet) -> Result<Vec<LaneHead>, StoreError> {
        let rows = self.line_reader().await?.query(LANES, &[&shards.bits().cast_signed()]).await?;
        Ok(rows.iter().map(lane_of_row).collect::<Outcome<_>>()?)
    }

    async fn due(&self, request: DueRequest) -> Result<DueRead, StoreError> {
        Ok(self.read_due(request).await?)
    }

    async fn settle(&self, settlements: Arc<Vec<Settlement>>) -> Result<Vec<Settled>, StoreError> {
        Ok(insist(|| self.settle_all(&settlements)).await?)
    }

    async fn free_heads(&self, at: Timestamp) -> Result<FreedHeads, StoreError> {
        Ok(insist(|| ordering::free_heads(&self.pools, at)).await?)
    }

    async fn cancel_waiting(&self, request: CancelWaiting) -> Result<u32, StoreError> {
        Ok(insist(|| self.cancel_open(request)).await?)
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, StoreError> {
        Ok(insist(|| replaying::replay(self, &replay)).await?)
    }

    async fn pending_alerts(&self, limit: u32) -> Result<Vec<Alert>, StoreError> {
        let rows = self.line_reader().await?.query(PENDING_ALERTS, &[&i64::from(limit)]).await?;
        Ok(rows.iter().map(alert_of_row).collect::<Outcome<_>>()?)
    }

    async fn alerts_told(&self, ids: Vec<AlertId>) -> Result<(), StoreError> {
        self.line_reader().await?.execute(FORGET_ALERTS, &[&ids]).await?;
        Ok(())
    }
}

fn lane_of_row(row: &Row) -> Outcome<LaneHead> {
    Ok(LaneHead {
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        endpoint: row.id("endpoint_id")?,
        priority: read_priority(row.number("priority")?).ok_or_else(|| unreadable("priority"))?,
        delivery: row.id("id")?,
        next_due_at: row.instant("due_at")?,
    })
}

impl PostgresStore {
    async fn read_due(&self, request: DueRequest) -> Outcome<DueRead> {
        let lane = self.lane_number(request.endpoint).await?;
        // One more than asked for, to know when the next one is due.
        let wanted = i64::from(request.limit) + 1;
        let found = self.line_reader().await?.query(DUE_DELIVERIES, &[&lane, &Int(priority_number(request.priority)), &wanted]).await?;
        let mut read = DueRead { rows: Vec::new(), next_due_at: None };
        for row in &found {
            let due = due_of_row(row)?;
            if due.due_at > request.due_by || read.rows.len() == request.limit as usize {
                read.next_due_at = Some(due.due_at);
                break;
            }
            read.rows.push(due);
        }
        self.load_events(&mut read.rows, request.event_bytes_max).await?;
        Ok(read)
    }

    /// Reads events until the next one would pass the budget. A delivery whose event is missing or damaged is left without: its attempt asks for
    /// it again, says what is wrong with it and fails alone.
    async fn load_events(&self, rows: &mut [Due], bytes_max: usize) -> Outcome<()> {
        let mut bytes_left = bytes_max;
        for some in rows.chunks_mut(EVENTS_A_READ) {
            if bytes_left == 0 {
                return Ok(());
            }
            let ids: Vec<EventId> = some.iter().map(|due| due.event).collect();
            let events: FxHashMap<EventId, _> =
                self.events_for_sending(&ids).await?.into_iter().map(|event| (event.id, Arc::new(event))).collect();
            for due in some {
                let Some(event) = events.get(&due.event) else { continue };
                let Some(left) = bytes_left.checked_sub(event.data.len()) else { return Ok(()) };
                bytes_left = left;
                due.loaded = Some(event.clone());
            }
        }
        Ok(())
    }

    async fn cancel_open(&self, request: CancelWaiting) -> Outcome<u32> {
        let lane = self.lane_number(request.endpoint).await?;
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
        due_at: row.instant("due_at")?,
        replay_of: row.id_opt("replay_of")?,
        ordered: row.value("ordered")?,
    })
}
