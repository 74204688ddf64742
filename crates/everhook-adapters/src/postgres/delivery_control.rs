//! What a person does to deliveries that have not ended: the port `DeliveryControl`.
//!
//! Rows are locked in the order of their key, as settling locks them: an outcome that is written at the same moment comes first, or meets what was changed.

use async_trait::async_trait;
use everhook_core::{
    ids::{DeliveryId, LaneId, OperationId},
    lifecycle,
    model::{DeadLetterStatus, OperationStatus, Priority, Stage},
    ports::{
        BringForward, BroughtForward, CancelDelivery, Change, DeliveryCancelled, DeliveryControl, Effect as _, ForwardedDelivery, Scan,
        Scanned, StoreError, WaitingBacklog, WaitingRow,
    },
    time::Timestamp,
};
use rustc_hash::FxHashMap;
use uuid::Uuid;

use super::{
    PostgresStore, audit_log,
    collisions::retry_on_conflict,
    fault::Outcome,
    operations::{self, NEXT_ITEMS, Tally},
    ordering::{self, OrderKey},
    rows::{Columns, Int, Key},
    settlement_columns::EndedRetries,
    transaction::Tx,
};
use crate::encoding::waiting_place::WaitingPlace;

const OPEN: &str = include_str!("queries/open_delivery.sql");
const FORWARD: &str = include_str!("queries/bring_delivery_forward.sql");
const ORDERED_LANES: &str = include_str!("queries/ordered_lanes.sql");
const CANCEL: &str = include_str!("queries/cancel_deliveries.sql");
const BACKLOG: &str = include_str!("queries/waiting_backlog.sql");
const WAITING_FROM: &str = include_str!("queries/waiting_from.sql");

#[async_trait]
impl DeliveryControl for PostgresStore {
    async fn bring_forward(&self, request: BringForward) -> Result<Vec<BroughtForward>, StoreError> {
        Ok(retry_on_conflict(|| self.bring_named_forward(&request)).await?)
    }

    async fn cancel_delivery(&self, request: CancelDelivery) -> Result<DeliveryCancelled, StoreError> {
        Ok(retry_on_conflict(|| self.cancel_one(&request)).await?)
    }

    async fn scan_waiting(&self, lane_id: LaneId, created_by: Timestamp, scan: Scan) -> Result<Scanned<WaitingRow>, StoreError> {
        Ok(self.scan_waiting_from(lane_id, created_by, scan).await?)
    }

    async fn waiting_backlog(&self, lane_id: LaneId, limit: u32) -> Result<WaitingBacklog, StoreError> {
        let lane = self.lane_number(lane_id).await?;
        let row = self.reader().await?.query_one(BACKLOG, &[&lane, &i64::from(limit)]).await?;
        Ok(WaitingBacklog { count: row.number("waiting")?, parked: row.number("parked")?, oldest_at: row.instant_opt("oldest_at")? })
    }

    async fn bring_listed_forward(
        &self,
        operation: OperationId,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<Vec<ForwardedDelivery>>, StoreError> {
        Ok(retry_on_conflict(|| self.bring_next_forward(operation, limit, at)).await?)
    }
}

impl PostgresStore {
    async fn bring_named_forward(&self, request: &BringForward) -> Outcome<Vec<BroughtForward>> {
        let endpoints: Vec<LaneId> = request.deliveries.iter().map(|(lane_id, _)| *lane_id).collect();
        let ids: Vec<Uuid> = request.deliveries.iter().map(|(_, id)| id.key()).collect();
        let lanes = self.lane_numbers(&endpoints).await?;
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let answers = forward(&tx, &lanes, &ids, request.at).await?;
        if answers.took_place() {
            audit_log::append(&tx, &request.entry).await?;
            tx.commit().await?;
        }
        Ok(answers)
    }

    async fn cancel_one(&self, request: &CancelDelivery) -> Outcome<DeliveryCancelled> {
        let lane = self.lane_number(request.lane_id).await?;
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let (lanes, ids) = ([lane], [request.delivery.key()]);
        if !tx.query(ORDERED_LANES, &[&lanes.as_slice(), &ids.as_slice()]).await?.is_empty() {
            ordering::lock_lanes(&tx, &lanes).await?;
        }
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&lanes.as_slice(), &ids.as_slice(), &request.at.as_micros(), &request.cause.as_str()];
        let cancelled = tx.query(CANCEL, &parameters).await?;
        let Some(row) = cancelled.first() else { return Ok(DeliveryCancelled::Ended) };
        if row.id_opt::<Uuid>("replay_of")?.is_some() {
            let mut retries = EndedRetries::default();
            retries.push(row.value("id")?, lane, row.id("event_id")?, DeadLetterStatus::Dead, row.number("attempts")?);
            retries.write(&tx).await?;
        }
        let freed = match row.value::<Option<String>>("order_key")? {
            Some(key) => ordering::free_first(&tx, &[(OrderKey { lane, key }, request.at)]).await?,
            None => Vec::new(),
        };
        audit_log::append(&tx, &request.entry).await?;
        tx.note_change(Change::Cancelled(request.application, request.lane_id.endpoint())).await?;
        tx.commit().await?;
        Ok(DeliveryCancelled::Cancelled { freed: freed.into_iter().next().map(|(_, freed)| Box::new(freed)) })
    }

    async fn scan_waiting_from(&self, lane_id: LaneId, created_by: Timestamp, scan: Scan) -> Outcome<Scanned<WaitingRow>> {
        let lane = self.lane_number(lane_id).await?;
        let place = WaitingPlace::read(scan.after, created_by.as_micros());
        let limit = i64::from(scan.limit);
        let found = self.reader().await?.query(WAITING_FROM, &[&lane, &Int(place.priority), &place.due_at, &place.id, &limit]).await?;
        let mut rows = Vec::with_capacity(found.len());
        for row in &found {
            if row.instant("created_at")? <= created_by {
                rows.push(WaitingRow { delivery: row.id("id")?, event: row.id("event_id")? });
            }
        }
        let last = match found.last().filter(|_| found.len() == scan.limit as usize) {
            Some(row) => Some((row.value("due_at")?, row.value("id")?)),
            None => None,
        };
        Ok(Scanned { rows, goes_on_after: place.after(last) })
    }

    async fn bring_next_forward(&self, operation: OperationId, limit: u32, at: Timestamp) -> Outcome<Option<Vec<ForwardedDelivery>>> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        if operations::status(&tx, operation).await? != Some(OperationStatus::Running) {
            return Ok(None);
        }
        let items = tx.query(NEXT_ITEMS, &[&operation.key(), &i64::from(limit)]).await?;
        let (mut positions, mut lanes, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for item in &items {
            positions.push(item.value("position")?);
            lanes.push(item.value("lane")?);
            // All items of such an operation name a delivery.
            ids.push(item.id_opt("replay_of")?.unwrap_or_else(Uuid::nil));
        }
        let answers = forward(&tx, &lanes, &ids, at).await?;
        let (mut forwarded, mut tally) = (Vec::new(), Tally::default());
        for ((item, id), answer) in items.iter().zip(&ids).zip(answers) {
            let BroughtForward::Forwarded(priority) = answer else {
                tally.skipped += 1;
                continue;
            };
            tally.done += 1;
            let (lane_id, application) = (item.id("endpoint_id")?, item.id("application_id")?);
            forwarded.push(ForwardedDelivery { delivery: DeliveryId::from_uuid(*id), lane_id, application, priority });
        }
        operations::take_items(&tx, operation, &positions, &lanes).await?;
        operations::add_to_counts(&tx, operation, tally).await?;
        tx.commit().await?;
        Ok(Some(forwarded))
    }
}

/// Makes those of some deliveries due that wait and are not. One answer each, in their order.
async fn forward(tx: &Tx<'_>, lanes: &[i64], ids: &[Uuid], at: Timestamp) -> Outcome<Vec<BroughtForward>> {
    let mut open: FxHashMap<Uuid, (Stage, Priority)> = FxHashMap::default();
    for row in tx.query(OPEN, &[&lanes, &ids]).await? {
        open.insert(row.value("id")?, (row.stage()?, row.priority("priority")?));
    }
    tx.execute(FORWARD, &[&lanes, &ids, &at.as_micros()]).await?;
    let answer = |id: &Uuid| match open.get(id) {
        None => BroughtForward::Ended,
        Some((stage, priority)) if lifecycle::brought_forward(stage, at).is_some() => BroughtForward::Forwarded(*priority),
        Some((Stage::Held, _)) => BroughtForward::Held,
        Some((Stage::Parked(_), _)) => BroughtForward::Parked,
        Some(_) => BroughtForward::AlreadyDue,
    };
    Ok(ids.iter().map(answer).collect())
}
