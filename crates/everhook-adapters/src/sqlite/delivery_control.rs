//! What a person does to deliveries that have not ended: the port `DeliveryControl`.

use async_trait::async_trait;
use everhook_core::{
    ids::{DeliveryId, LaneId, OperationId},
    lifecycle,
    model::{DeadLetterStatus, OperationStatus, Priority, Stage},
    ports::{
        BringForward, BroughtForward, CancelDelivery, DeliveryCancelled, DeliveryControl, ForwardedDelivery, Scan, Scanned, StoreError,
        WaitingBacklog, WaitingRow,
    },
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
    SqliteStore,
    fault::Outcome,
    operations::{self, Tally},
    ordering,
    rows::{Columns, Key},
    settling,
    spelling::{read_priority, stage_columns},
    transaction::Tx,
};
use crate::encoding::waiting_place::WaitingPlace;

const OPEN: &str = include_str!("queries/open_delivery.sql");
const FORWARD: &str = include_str!("queries/bring_delivery_forward.sql");
const CANCEL: &str = include_str!("queries/cancel_delivery.sql");
const BACKLOG: &str = include_str!("queries/waiting_backlog.sql");
const WAITING_FROM: &str = include_str!("queries/waiting_from.sql");

#[async_trait]
impl DeliveryControl for SqliteStore {
    async fn bring_forward(&self, request: BringForward) -> Result<Vec<BroughtForward>, StoreError> {
        let BringForward { deliveries, at, entry } = request;
        self.change(deliveries.len(), entry, move |tx| deliveries.iter().map(|(_, id)| forward(tx, *id, at)).collect()).await
    }

    async fn cancel_delivery(&self, request: CancelDelivery) -> Result<DeliveryCancelled, StoreError> {
        let entry = request.entry.clone();
        self.change(3, entry, move |tx| cancel(tx, &request)).await
    }

    async fn scan_waiting(&self, lane_id: LaneId, created_by: Timestamp, scan: Scan) -> Result<Scanned<WaitingRow>, StoreError> {
        self.read_history(move |connection| scan_waiting(connection, lane_id, created_by, scan)).await
    }

    async fn waiting_backlog(&self, lane_id: LaneId, limit: u32) -> Result<WaitingBacklog, StoreError> {
        self.read_history(move |connection| {
            let read = |row: &Row<'_>| {
                Ok(WaitingBacklog { count: row.get("waiting")?, parked: row.get("parked")?, oldest_at: row.instant_opt("oldest_at")? })
            };
            Ok(connection.prepare_cached(BACKLOG)?.query_row(params![lane_id.key(), limit], read)?)
        })
        .await
    }

    async fn bring_listed_forward(
        &self,
        operation: OperationId,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<Vec<ForwardedDelivery>>, StoreError> {
        self.write(limit as usize * 2, move |tx| bring_listed_forward(tx, operation, limit, at)).await
    }
}

/// A delivery as far as it matters here.
struct Open {
    /// `None` if it has ended.
    stage: Option<Stage>,
    priority: Priority,
    attempts: u32,
    is_replay: bool,
    is_ordered: bool,
}

fn read(tx: &Tx<'_>, id: DeliveryId) -> Outcome<Option<Open>> {
    let of_row = |row: &Row<'_>| {
        Ok(Open {
            stage: Some(row.stage()?).filter(|stage| !stage.has_ended()),
            priority: row.spelled("priority", read_priority)?,
            attempts: row.get("attempts")?,
            is_replay: row.id_opt::<DeliveryId>("replay_of")?.is_some(),
            is_ordered: row.get("ordered")?,
        })
    };
    Ok(tx.prepare(OPEN)?.query_row([id.key()], of_row).optional()?)
}

fn forward(tx: &Tx<'_>, id: DeliveryId, at: Timestamp) -> Outcome<BroughtForward> {
    let Some(Open { stage: Some(stage), priority, .. }) = read(tx, id)? else { return Ok(BroughtForward::Ended) };
    match (lifecycle::brought_forward(&stage, at), stage) {
        (Some(now), _) => {
            tx.prepare(FORWARD)?.execute(params![id.key(), stage_columns(&now).due_at])?;
            Ok(BroughtForward::Forwarded(priority))
        }
        (None, Stage::Held) => Ok(BroughtForward::Held),
        (None, Stage::Parked(_)) => Ok(BroughtForward::Parked),
        (None, _) => Ok(BroughtForward::AlreadyDue),
    }
}

fn cancel(tx: &Tx<'_>, request: &CancelDelivery) -> Outcome<DeliveryCancelled> {
    let (id, at) = (request.delivery, request.at);
    let Some(Open { stage: Some(_), attempts, is_replay, is_ordered, .. }) = read(tx, id)? else { return Ok(DeliveryCancelled::Ended) };
    tx.prepare(CANCEL)?.execute(params![id.key(), at.as_micros(), request.cause.as_str()])?;
    if is_replay {
        settling::end_retry(tx, id, DeadLetterStatus::Dead, attempts)?;
    }
    let freed = if is_ordered { ordering::free_next(tx, id, at)? } else { None };
    Ok(DeliveryCancelled::Cancelled { freed: freed.map(Box::new) })
}

fn scan_waiting(connection: &Connection, lane_id: LaneId, created_by: Timestamp, scan: Scan) -> Outcome<Scanned<WaitingRow>> {
    let place = WaitingPlace::read(scan.after, created_by.as_micros());
    let mut statement = connection.prepare_cached(WAITING_FROM)?;
    let mut found = statement.query(params![lane_id.key(), place.priority, place.due_at, place.id.key(), scan.limit])?;
    let (mut rows, mut looked_at, mut last) = (Vec::new(), 0, None);
    while let Some(row) = found.next()? {
        let (delivery, event) = (row.id::<DeliveryId>("id")?, row.id("event_id")?);
        if row.instant("created_at")? <= created_by {
            rows.push(WaitingRow { delivery, event });
        }
        looked_at += 1;
        last = Some((row.get("due_at")?, *delivery.as_uuid()));
    }
    Ok(Scanned { rows, goes_on_after: place.after(last.filter(|_| looked_at == scan.limit)) })
}

fn bring_listed_forward(tx: &mut Tx<'_>, operation: OperationId, limit: u32, at: Timestamp) -> Outcome<Option<Vec<ForwardedDelivery>>> {
    if operations::status(tx, operation)? != Some(OperationStatus::Running) {
        return Ok(None);
    }
    let (mut forwarded, mut tally) = (Vec::new(), Tally::default());
    for item in operations::next_items(tx.connection(), operation, limit)? {
        let lane = tx.lane_of(item.lane_id)?;
        operations::take_item(tx, operation, item.position, lane)?;
        // All items of such an operation name a delivery.
        let Some(delivery) = item.of else { continue };
        match forward(tx, delivery, at)? {
            BroughtForward::Forwarded(priority) => {
                tally.done += 1;
                forwarded.push(ForwardedDelivery { delivery, lane_id: item.lane_id, application: item.application, priority });
            }
            _ => tally.skipped += 1,
        }
    }
    operations::add_to_counts(tx, operation, tally)?;
    Ok(Some(forwarded))
}
