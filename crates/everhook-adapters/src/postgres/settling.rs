//! What settlements write: attempts, the deliveries' next stages, and everything that follows from them.
//!
//! Most settlements are of deliveries without an order that wait on or were delivered: those of one call are one statement. What follows from the others
//! is written with it in one transaction.

use std::sync::{Mutex, PoisonError};

use everhook_core::{
    ids::{DeliveryId, EventId},
    model::Stage,
    ports::{Alert, AlertFacts, Freed, Settled, Settlement},
    time::Timestamp,
};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore, audit_log,
    connect::Connection,
    fault::{Fault, Outcome},
    ordering::{self, OrderKey},
    outbox::{AlertColumns, INSERT_ALERTS},
    parking,
    reader::Reader,
    rows::{Columns, Key},
    settlement_columns::{Deaths, EndedRetries, SettlementColumns},
    transaction::Tx,
};

const SETTLE: &str = include_str!("queries/settle_deliveries.sql");
const APPLICATIONS_OF_ENDPOINTS: &str = include_str!("queries/applications_of_endpoints.sql");
const DISABLE: &str = include_str!("queries/disable_endpoint.sql");
const IS_ALIVE: &str = include_str!("queries/boot_is_alive.sql");
const IS_ERASED: &str = include_str!("queries/delivery_is_erased.sql");
const DIED_AUTOMATICALLY: &str = include_str!("queries/died_automatically.sql");
const NUMBER_OF_NODE: &str = include_str!("queries/number_of_node.sql");

/// The number by which attempts name the node. All attempts of one process have the same.
#[derive(Default)]
pub(super) struct NodeNumbers(Mutex<Option<(String, String, i32)>>);

impl PostgresStore {
    /// Writes settlements. Those of one delivery come after each other, each in a write of its own; there are hardly ever two.
    pub(super) async fn settle_all(&self, settlements: &[Settlement]) -> Outcome<Vec<Settled>> {
        let mut answers = Vec::with_capacity(settlements.len());
        let mut rest = settlements;
        while !rest.is_empty() {
            let mut seen: FxHashSet<DeliveryId> = FxHashSet::default();
            let until = rest.iter().position(|settlement| !seen.insert(settlement.delivery)).unwrap_or(rest.len());
            answers.extend(self.settle_distinct(&rest[..until]).await?);
            rest = &rest[until..];
        }
        self.check_fence(&answers).await?;
        Ok(answers)
    }

    async fn settle_distinct(&self, settlements: &[Settlement]) -> Outcome<Vec<Settled>> {
        let Some(first) = settlements.first() else { return Ok(Vec::new()) };
        let endpoints: Vec<_> = settlements.iter().map(|settlement| settlement.lane_id).collect();
        let lanes = self.lane_numbers(&endpoints).await?;
        let node = self.number_of_node(&first.attempt.node, &first.attempt.user_agent).await?;
        let settling = Settling { settlements, lanes: &lanes, node, boot: self.boot.get() };
        let connection = self.pools.line().await?;
        if settlements.iter().any(Settlement::has_consequences) {
            settling.run(connection).await
        } else {
            settling.run_alone(connection).await
        }
    }

    /// Tells settlements that nobody waited for apart from those of a boot that is over.
    async fn check_fence(&self, answers: &[Settled]) -> Outcome<()> {
        let (Some(boot), true) = (self.boot.get(), answers.iter().all(|answer| matches!(answer, Settled::Stale))) else { return Ok(()) };
        let is_alive = self.line_reader().await?.query_opt(IS_ALIVE, &[&boot]).await?.is_some();
        if is_alive { Ok(()) } else { Err(Fault::Fenced) }
    }

    async fn number_of_node(&self, name: &str, user_agent: &str) -> Outcome<i32> {
        let known = self.nodes.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((.., number)) = known.filter(|(known, version, _)| known == name && version == user_agent) {
            return Ok(number);
        }
        let number = self.line_reader().await?.query_one(NUMBER_OF_NODE, &[&name, &user_agent]).await?.value("number")?;
        *self.nodes.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((name.to_owned(), user_agent.to_owned(), number));
        Ok(number)
    }
}

/// The settlements of one transaction.
struct Settling<'s> {
    settlements: &'s [Settlement],
    lanes: &'s [i64],
    node: i32,
    boot: Option<Uuid>,
}

/// What the store knew of a delivery that was moved on.
struct Moved {
    /// `None` if it waits on.
    event: Option<EventId>,
    order: Option<String>,
}

impl Settling<'_> {
    /// Writes settlements that nothing follows from: the statement is a transaction of its own.
    async fn run_alone(&self, connection: Connection) -> Outcome<Vec<Settled>> {
        let columns = SettlementColumns::new(self.with_lanes(), self.node, self.boot);
        let rows = Reader::new(connection).query(SETTLE, &columns.parameters()).await?;
        Ok(self.answers(&moved(&rows)?, FxHashMap::default()))
    }

    /// Writes settlements and what follows from them.
    async fn run(&self, mut connection: Connection) -> Outcome<Vec<Settled>> {
        let columns = SettlementColumns::new(self.with_lanes(), self.node, self.boot);
        let tx = Tx::begin(&mut connection).await?;
        self.lock(&tx).await?;
        let moved = moved(&tx.query(SETTLE, &columns.parameters()).await?)?;
        let freed = self.follow(&tx, &moved).await?;
        tx.commit().await?;
        Ok(self.answers(&moved, freed))
    }

    /// Locks what consequences change, in the order that publishing has: first counters, then lanes.
    async fn lock(&self, tx: &Tx<'_>) -> Outcome<()> {
        let disabled: Vec<Uuid> = self.settlements.iter().filter(|of| of.disables.is_some()).map(|of| of.lane_id.key()).collect();
        if !disabled.is_empty() {
            let rows = tx.query(APPLICATIONS_OF_ENDPOINTS, &[&disabled]).await?;
            let applications = rows.iter().map(|row| row.id("application_id")).collect::<Outcome<Vec<_>>>()?;
            tx.lock_counters(&applications).await?;
        }
        let ordered: Vec<i64> = self.with_lanes().filter(|(of, _)| of.frees_next()).map(|(_, lane)| lane).collect();
        if !ordered.is_empty() {
            ordering::lock_lanes(tx, &ordered).await?;
        }
        Ok(())
    }

    fn with_lanes(&self) -> impl Iterator<Item = (&Settlement, i64)> {
        self.settlements.iter().zip(self.lanes.iter().copied())
    }

    /// Writes what follows from those that were moved, and says what was freed, by the key of the one that ended.
    async fn follow(&self, tx: &Tx<'_>, moved: &FxHashMap<Uuid, Moved>) -> Outcome<FxHashMap<OrderKey, Freed>> {
        parking::park(tx, self.with_lanes().filter(|(of, _)| moved.contains_key(&of.delivery.key()))).await?;
        self.record_deaths(tx, moved).await?;
        self.end_retries(tx, moved).await?;
        let freed = self.free_next(tx, moved).await?;
        let mut alerts = Vec::new();
        for (settlement, lane) in self.with_lanes() {
            if !moved.contains_key(&settlement.delivery.key()) {
                alerts.extend(self.apply_gone(tx, settlement, lane).await?);
                continue;
            }
            let facts = AlertFacts {
                disabled_by_this: disable(tx, settlement).await?,
                automatic_replay: settlement.asks_for_origin() && died_automatically(tx, settlement, moved).await?,
            };
            alerts.extend(settlement.alerts_given(facts));
        }
        if !alerts.is_empty() {
            tx.execute(INSERT_ALERTS, &AlertColumns::new(&alerts).parameters()).await?;
        }
        Ok(freed)
    }

    /// An endpoint that says it is gone means it, also if the event of that request was erased meanwhile. Says what is told about that.
    async fn apply_gone<'a>(&self, tx: &Tx<'_>, settlement: &'a Settlement, lane: i64) -> Outcome<Vec<&'a Alert>> {
        if settlement.disables.is_none() {
            return Ok(Vec::new());
        }
        let is_erased: bool = tx.query_one(IS_ERASED, &[&lane, &settlement.delivery.key(), &self.boot]).await?.value("is_erased")?;
        if !is_erased || !disable(tx, settlement).await? {
            return Ok(Vec::new());
        }
        Ok(settlement.alerts_of_disabling().collect())
    }

    async fn record_deaths(&self, tx: &Tx<'_>, moved: &FxHashMap<Uuid, Moved>) -> Outcome<()> {
        let mut deaths = Deaths::default();
        for (settlement, lane) in self.with_lanes() {
            let event = moved.get(&settlement.delivery.key()).and_then(|moved| moved.event);
            if let (&Stage::Dead { at, cause }, Some(event)) = (&settlement.stage, event) {
                deaths.push(settlement, lane, event, (at, cause))?;
            }
        }
        deaths.write(tx).await
    }

    async fn end_retries(&self, tx: &Tx<'_>, moved: &FxHashMap<Uuid, Moved>) -> Outcome<()> {
        let mut retries = EndedRetries::default();
        for (settlement, lane) in self.with_lanes() {
            let Some(status) = settlement.end_of_retry() else { continue };
            if let Some(event) = moved.get(&settlement.delivery.key()).and_then(|moved| moved.event) {
                retries.push(settlement.delivery.key(), lane, event, status, settlement.attempt.number);
            }
        }
        retries.write(tx).await
    }

    /// What was held behind a delivery waits once it has ended.
    async fn free_next(&self, tx: &Tx<'_>, moved: &FxHashMap<Uuid, Moved>) -> Outcome<FxHashMap<OrderKey, Freed>> {
        let mut ended: FxHashMap<OrderKey, Timestamp> = FxHashMap::default();
        for (settlement, lane) in self.with_lanes().filter(|(of, _)| of.frees_next()) {
            if let Some(key) = moved.get(&settlement.delivery.key()).and_then(|moved| moved.order.clone()) {
                ended.insert(OrderKey { lane, key }, settlement.settled_at());
            }
        }
        if ended.is_empty() {
            return Ok(FxHashMap::default());
        }
        let keys: Vec<_> = ended.into_iter().collect();
        Ok(ordering::free_first(tx, &keys).await?.into_iter().collect())
    }

    fn answers(&self, moved: &FxHashMap<Uuid, Moved>, mut freed: FxHashMap<OrderKey, Freed>) -> Vec<Settled> {
        let answer = |(settlement, lane): (&Settlement, i64)| match moved.get(&settlement.delivery.key()) {
            None => Settled::Stale,
            Some(Moved { order: Some(key), .. }) => {
                Settled::Recorded { freed: freed.remove(&OrderKey { lane, key: key.clone() }).map(Box::new) }
            }
            Some(_) => Settled::Recorded { freed: None },
        };
        self.with_lanes().map(answer).collect()
    }
}

fn moved(rows: &[Row]) -> Outcome<FxHashMap<Uuid, Moved>> {
    rows.iter().map(|row| Ok((row.value("id")?, Moved { event: row.id_opt("event_id")?, order: row.value("order_key")? }))).collect()
}

/// Says whether the endpoint was enabled, and still at the URL that was asked.
async fn disable(tx: &Tx<'_>, settlement: &Settlement) -> Outcome<bool> {
    let Some(disabling) = &settlement.disables else { return Ok(false) };
    let (at, reason) = (settlement.settled_at().as_micros(), disabling.reason.as_str());
    let disabled = tx.query_opt(DISABLE, &[&settlement.lane_id.key(), &at, &reason, &settlement.target]).await?;
    let Some(row) = disabled else { return Ok(false) };
    let application = row.id("application_id")?;
    tx.endpoint_changed(application, settlement.lane_id.endpoint()).await?;
    audit_log::append(tx, &disabling.entry).await?;
    Ok(true)
}

async fn died_automatically(tx: &Tx<'_>, settlement: &Settlement, moved: &FxHashMap<Uuid, Moved>) -> Outcome<bool> {
    let Some(event) = moved.get(&settlement.delivery.key()).and_then(|moved| moved.event) else { return Ok(false) };
    tx.query_one(DIED_AUTOMATICALLY, &[&settlement.delivery.key(), &event.key(), &settlement.lane_id.key()]).await?.value("died")
}
