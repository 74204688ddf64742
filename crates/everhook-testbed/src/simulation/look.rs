//! Reading what the store holds, for the oracle.

use everhook_core::{
    ids::{DeliveryId, EndpointId},
    model::{Cursor, LaneKind, OpenPeriod, PageRequest, health::Metric},
    ports::{DeadLetterFilter, DeliveryFilter, EventFilter, MetricFilter, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::{
    Simulation,
    log::{Happening, Summary},
    oracle::{Place, Stored, Violation},
};

/// More rows than any run makes.
const ALL_ROWS: PageRequest = PageRequest { limit: 1_000_000, cursor: Cursor::Newest };

/// Where deliveries stand in an order. History does not show it.
const PLACES: &str = "SELECT id, order_key, order_position FROM deliveries WHERE order_key IS NOT NULL";

/// When breakers were not closed, read beside the port so that no planned fault is spent on it.
const OPEN_PERIODS: &str = "SELECT endpoint_id, opened_at, closed_at FROM open_periods ORDER BY endpoint_id, opened_at";

/// Deliveries that are held although nothing of their key is before them, waiting, held or parked, nor a barrier that something open is before.
const HELD_FIRST: &str = "
    SELECT d.id FROM deliveries d JOIN lanes p ON p.lane = d.lane
    WHERE d.order_position IS NOT NULL AND d.stage IN (0, 4) AND d.stage = 4
        AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.order_position IS NOT NULL AND e.stage IN (0, 4)
            AND e.lane = d.lane AND e.order_key = d.order_key AND e.order_position < d.order_position)
        AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.stage = 5
            AND e.lane = d.lane AND e.order_key = d.order_key AND e.order_position < d.order_position)
        AND (p.order_barrier IS NULL OR d.order_position < p.order_barrier
            OR NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.lane = d.lane AND e.stage = 0)
            AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.order_position IS NOT NULL AND e.stage IN (0, 4)
                AND e.lane = d.lane AND e.order_position < p.order_barrier))
    ORDER BY d.id";

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Everything but attempts.
    Quick,
    /// Attempts too.
    Whole,
}

impl Simulation {
    /// Everything that every organization can see.
    pub(super) async fn look(&self, reading: Reading) -> Result<Stored, Violation> {
        let refuse = |error| Violation { rule: "history can be read", because: format!("{error:#}") };
        let mut stored = self.read(reading).await.map_err(|error| refuse(anyhow::Error::new(error)))?;
        self.look_behind(&mut stored).map_err(|error| refuse(anyhow::Error::new(error)))?;
        Ok(stored)
    }

    async fn read(&self, reading: Reading) -> Result<Stored, StoreError> {
        let history = &self.world.line().ports.history;
        let mut stored = Stored::default();
        for organization in self.tenants.iter().copied() {
            let events = history.events(organization, EventFilter::default(), ALL_ROWS).await?;
            stored.events.extend(events.rows.into_iter().map(|event| (event.id, event)));
            let deliveries = history.deliveries(organization, DeliveryFilter::default(), ALL_ROWS).await?;
            for delivery in deliveries.rows {
                match delivery.kind {
                    LaneKind::Processor => stored.processed.push(delivery),
                    LaneKind::Capability => stored.asked.push(delivery),
                    LaneKind::Channel => stored.told.push(delivery),
                    _ => stored.deliveries.push(delivery),
                }
            }
            let dead_letters = history.dead_letters(organization, DeadLetterFilter::default(), ALL_ROWS).await?;
            stored.dead_letters.extend(dead_letters.rows.into_iter().map(|letter| letter.id));
        }
        stored.administrators.clone_from(&self.administrators);
        if reading == Reading::Whole {
            stored.summaries = self.read_summaries().await?;
            stored.jobs.extend(self.read_jobs().await?);
            stored.approvals.extend(self.read_approvals().await?);
            for delivery in &stored.deliveries {
                let found = history.delivery(delivery.organization, delivery.id).await?;
                let attempts = found.map(|(_, attempts)| attempts).unwrap_or_default();
                stored.attempts.insert(delivery.id, attempts.iter().map(|attempt| attempt.number).collect());
            }
        }
        Ok(stored)
    }

    /// What the processor made of what was pushed.
    async fn read_summaries(&self) -> Result<Vec<Summary>, StoreError> {
        let Some(organization) = self.receiving_organization() else { return Ok(Vec::new()) };
        let metrics = self.world.line().ports.health_metrics.metrics(organization, MetricFilter::default(), ALL_ROWS).await?;
        Ok(metrics.rows.iter().filter_map(summary).collect())
    }

    /// What the store holds beside what the ports show.
    fn look_behind(&self, stored: &mut Stored) -> rusqlite::Result<()> {
        let connection = Connection::open(&self.database)?;
        let place = |row: &Row<'_>| Ok((delivery(row)?, Place { key: row.get(1)?, position: row.get(2)? }));
        stored.places = connection.prepare(PLACES)?.query_map([], place)?.collect::<Result<_, _>>()?;
        let period = |row: &Row<'_>| {
            let closed_at = row.get::<_, Option<i64>>(2)?.map(Timestamp::from_micros);
            let period = OpenPeriod { opened_at: Timestamp::from_micros(row.get(1)?), closed_at };
            Ok((EndpointId::from_uuid(uuid(row)?), period))
        };
        stored.open_periods = connection.prepare(OPEN_PERIODS)?.query_map([], period)?.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Notes which deliveries are held behind nothing, if there are any.
    pub(super) fn look_for_stranded(&self) {
        let read = || -> rusqlite::Result<Vec<DeliveryId>> {
            let connection = Connection::open(&self.database)?;
            connection.prepare(HELD_FIRST)?.query_map([], delivery)?.collect()
        };
        // A file that cannot be read now is read at the next look.
        let held_first = read().unwrap_or_default();
        if !held_first.is_empty() {
            self.log.note(Happening::HeldFirst(held_first));
        }
    }
}

/// What a metric says, as it was pushed: the record's id is `<user>-<day>`.
fn summary(metric: &Metric) -> Option<Summary> {
    let record = metric.measured.record_id.as_ref()?.to_string();
    let (user, day) = record.split_once('-')?;
    Some(Summary { user: user.parse().ok()?, day: day.parse().ok()?, steps: metric.measured.value? as u32 })
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<DeliveryId> {
    uuid(row).map(DeliveryId::from_uuid)
}

fn uuid(row: &Row<'_>) -> rusqlite::Result<Uuid> {
    row.get::<_, [u8; 16]>(0).map(Uuid::from_bytes)
}
