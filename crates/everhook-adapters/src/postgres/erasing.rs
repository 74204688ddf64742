//! Removes the data of events, and everything that repeats it, in one transaction. Called by `event_store` and `operations`.
//!
//! One transaction also for an event with many thousands of deliveries: a few statements over all of them, and nobody waits for it but who makes
//! or ends something in the same applications. So that nothing is ever left half done, there is nothing to resume.
//!
//! Locks are taken in the order that publishing, replaying and settling have: the counters of the applications, so that nothing is made of these
//! events meanwhile; then the lanes in which something may be freed; then rows. An outcome that is written at the same moment comes first or finds
//! its delivery ended.
//!
//! The server keeps what a row was until it vacuums the table: `docs/operating.md` says what that means.

use everhook_core::{
    ids::{ApplicationId, EventId, LaneId, OrganizationId},
    model::{CancelCause, DeadLetterStatus},
    ports::{Change, Erased, Erasure, FreedInLane},
    time::Timestamp,
};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore, audit_log,
    fault::Outcome,
    ordering::{self, OrderKey},
    rows::{Columns, Key},
    settlement_columns::EndedRetries,
    transaction::Tx,
};

pub(super) const APPLICATIONS_OF_EVENTS: &str = include_str!("queries/applications_of_events.sql");
const ERASE_EVENTS: &str = include_str!("queries/erase_events.sql");
const ERASE_FINGERPRINTS: &str = include_str!("queries/erase_fingerprints.sql");
const ERASE_JOBS: &str = include_str!("queries/erase_jobs.sql");
const DELIVERIES: &str = include_str!("queries/deliveries_of_events.sql");
const ORDERED_LANES: &str = include_str!("queries/ordered_lanes.sql");
const CANCEL: &str = include_str!("queries/cancel_deliveries.sql");
const ERASE_RESPONSES: &str = include_str!("queries/erase_responses.sql");
const DISCARD: &str = include_str!("queries/discard_dead_letters_of_events.sql");

/// What an erasure did.
#[derive(Default)]
pub(super) struct Done {
    /// The events that had data until now.
    pub(super) events: Vec<EventId>,
    /// What was held behind their deliveries and waits now.
    pub(super) freed: Vec<FreedInLane>,
}

/// Erases one event, and enters it in the audit log unless it was erased before.
pub(super) async fn erase(store: &PostgresStore, erasure: &Erasure) -> Outcome<Erased> {
    let mut connection = store.connection().await?;
    let tx = Tx::begin(&mut connection).await?;
    if lock(&tx, Some(erasure.organization), &[erasure.event]).await?.is_empty() {
        return Ok(Erased::NotFound);
    }
    let done = erase_locked(&tx, &[erasure.event], erasure.at).await?;
    if !done.events.is_empty() {
        audit_log::append(&tx, &erasure.entry).await?;
        tx.commit().await?;
    }
    Ok(Erased::Erased(done.freed))
}

/// Says which of these events are there (of an organization, if one is named), and holds up whoever would make something of them.
pub(super) async fn lock(tx: &Tx<'_>, of: Option<OrganizationId>, events: &[EventId]) -> Outcome<Vec<EventId>> {
    // One event may have as many deliveries as there are endpoints.
    tx.take_longer().await?;
    let rows = tx.query(APPLICATIONS_OF_EVENTS, &[&keys(events), &of.as_ref().map(Key::key)]).await?;
    let applications: FxHashSet<ApplicationId> = rows.iter().map(|row| row.id("application_id")).collect::<Outcome<_>>()?;
    tx.lock_counters(&Vec::from_iter(applications)).await?;
    rows.iter().map(|row| row.id("id")).collect()
}

/// Erases those of some events that have data. The caller has [locked](lock) them.
pub(super) async fn erase_locked(tx: &Tx<'_>, events: &[EventId], at: Timestamp) -> Outcome<Done> {
    let rows = tx.query(ERASE_EVENTS, &[&keys(events), &at.as_micros()]).await?;
    let events = rows.iter().map(|row| row.id("id")).collect::<Outcome<Vec<EventId>>>()?;
    if events.is_empty() {
        return Ok(Done::default());
    }
    tx.execute(ERASE_FINGERPRINTS, &[&keys(&events)]).await?;
    tx.execute(ERASE_JOBS, &[&keys(&events)]).await?;
    let traces = Traces::find(tx, &events).await?;
    let freed = traces.cancel(tx, at).await?;
    // Only now: nobody can add an attempt any more.
    tx.execute(ERASE_RESPONSES, &[&traces.ids]).await?;
    // Also what was retried until now is dead: there is nothing left to bring back.
    tx.execute(DISCARD, &[&keys(&events)]).await?;
    let changes: Vec<Change> = events.iter().copied().map(Change::Erased).collect();
    tx.note_changes(&changes).await?;
    Ok(Done { events, freed })
}

pub(super) fn keys(events: &[EventId]) -> Vec<Uuid> {
    events.iter().map(Key::key).collect()
}

/// All deliveries of the events, open or ended, column by column.
#[derive(Default)]
struct Traces {
    lanes: Vec<i64>,
    ids: Vec<Uuid>,
    /// Whose the lanes are.
    endpoints: FxHashMap<i64, (ApplicationId, LaneId)>,
}

impl Traces {
    async fn find(tx: &Tx<'_>, events: &[EventId]) -> Outcome<Self> {
        let mut traces = Self::default();
        for row in tx.query(DELIVERIES, &[&keys(events)]).await? {
            let lane = row.value("lane")?;
            traces.lanes.push(lane);
            traces.ids.push(row.value("id")?);
            traces.endpoints.insert(lane, (row.id("application_id")?, row.id("endpoint_id")?));
        }
        Ok(traces)
    }

    /// Ends those that are open, and frees what was held behind them.
    async fn cancel(&self, tx: &Tx<'_>, at: Timestamp) -> Outcome<Vec<FreedInLane>> {
        let ordered = tx.query(ORDERED_LANES, &[&self.lanes, &self.ids]).await?;
        let ordered = ordered.iter().map(|row| row.value("lane")).collect::<Outcome<Vec<i64>>>()?;
        if !ordered.is_empty() {
            ordering::lock_lanes(tx, &ordered).await?;
        }
        let cancelled = tx.query(CANCEL, &[&self.lanes, &self.ids, &at.as_micros(), &CancelCause::Erased.as_str()]).await?;
        end_retries(tx, &cancelled).await?;
        self.free_next(tx, &cancelled, at).await
    }

    async fn free_next(&self, tx: &Tx<'_>, cancelled: &[Row], at: Timestamp) -> Outcome<Vec<FreedInLane>> {
        let mut ended: FxHashSet<OrderKey> = FxHashSet::default();
        for row in cancelled {
            if let Some(key) = row.value("order_key")? {
                ended.insert(OrderKey { lane: row.value("lane")?, key });
            }
        }
        if ended.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<(OrderKey, Timestamp)> = ended.into_iter().map(|key| (key, at)).collect();
        let freed = ordering::free_first(tx, &keys).await?;
        let in_lane = |(key, freed): (OrderKey, _)| {
            let (application, lane_id) = self.endpoints[&key.lane];
            FreedInLane { application, lane_id, freed }
        };
        Ok(freed.into_iter().map(in_lane).collect())
    }
}

/// Notes on dead letters that the deliveries which brought them back have ended.
async fn end_retries(tx: &Tx<'_>, cancelled: &[Row]) -> Outcome<()> {
    let mut retries = EndedRetries::default();
    for row in cancelled {
        if row.id_opt::<Uuid>("replay_of")?.is_some() {
            retries.push(row.value("id")?, row.value("lane")?, row.id("event_id")?, DeadLetterStatus::Dead, row.number("attempts")?);
        }
    }
    retries.write(tx).await
}
