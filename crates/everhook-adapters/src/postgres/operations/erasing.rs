//! The lists of operations that erase: events, in the order of their ids.

use everhook_core::{
    ids::{EventId, OperationId, OrganizationId},
    model::{ErasureCandidate, OperationStatus},
    ports::{ErasureBatch, ErasureStep, FreedInLane, Phase, Scan, Scanned, TimeRange},
};
use rustc_hash::FxHashMap;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        PostgresStore,
        collisions::retry_on_conflict,
        erasing::{self, APPLICATIONS_OF_EVENTS, keys},
        fault::Outcome,
        page::Between,
        reader::Reader,
        rows::{Columns, Key},
        transaction::Tx,
    },
    row::phase_name,
    working::{MOVE_SELECTION_ON, Tally, add_to_counts, number, selects_after, status},
};
use crate::encoding::page;

const EVENTS: &str = include_str!("../queries/events_to_erase_after.sql");
const INSERT_ITEMS: &str = include_str!("../queries/insert_erasure_items.sql");
const NEXT_ITEMS: &str = include_str!("../queries/next_erasure_items.sql");
const TAKE_ITEMS: &str = include_str!("../queries/take_erasure_items.sql");
const CLEAR: &str = include_str!("../queries/clear_erasure_items.sql");

/// How many deliveries the events of one transaction have, more or less: publishers to their applications wait for it. An event that has more
/// has a transaction to itself.
const DELIVERIES_A_STEP: u64 = 4_000;

pub(super) async fn scan(
    reader: &Reader,
    organization: OrganizationId,
    accepted: TimeRange,
    scan: Scan,
) -> Outcome<Scanned<ErasureCandidate>> {
    let all = page::Between { after: scan.after.into_bytes(), before: [0xff; 16] };
    let between: Between = all.within(accepted).into();
    let rows = reader.query(EVENTS, &[&organization.key(), &between.after, &between.before, &i64::from(scan.limit)]).await?;
    let rows = rows.iter().map(candidate_of_row).collect::<Outcome<Vec<_>>>()?;
    let is_full = rows.len() == scan.limit as usize;
    let goes_on_after = rows.last().filter(|_| is_full).map(|row| *row.event.as_uuid());
    Ok(Scanned { rows, goes_on_after })
}

fn candidate_of_row(row: &Row) -> Outcome<ErasureCandidate> {
    Ok(ErasureCandidate {
        event: row.id("id")?,
        application: row.id("application_id")?,
        labels: row.spelled_opt("labels", |json: &str| serde_json::from_str(json).ok())?.unwrap_or_default(),
        accepted_at: row.instant("created_at")?,
        is_erased: row.value("is_erased")?,
    })
}

/// Adds events and moves the selection on.
pub(super) async fn select(tx: &Tx<'_>, step: &ErasureStep) -> Outcome<()> {
    if !selects_after(tx, step.operation, step.after).await? {
        return Ok(());
    }
    let added = tx.execute(INSERT_ITEMS, &[&step.operation.key(), &keys(&step.events)]).await?;
    let until = match step.phase {
        Phase::Selecting(until) => Some(until),
        Phase::Selected | Phase::Clearing => None,
    };
    tx.execute(MOVE_SELECTION_ON, &[&step.operation.key(), &number(added), &0_i64, &Some(phase_name(step.phase)), &until]).await?;
    Ok(())
}

pub(super) async fn next(reader: &Reader, operation: OperationId, limit: u32) -> Outcome<Vec<EventId>> {
    let rows = reader.query(NEXT_ITEMS, &[&operation.key(), &i64::from(limit)]).await?;
    rows.iter().map(|row| row.id("event_id")).collect()
}

/// Erases what is on the list, in as many transactions as its deliveries take: each takes off the list what it erases. `None` if the operation
/// does not run.
pub(super) async fn erase(store: &PostgresStore, batch: &ErasureBatch) -> Outcome<Option<Vec<FreedInLane>>> {
    let mut freed = None;
    for events in steps(&store.reader().await?, &batch.events).await? {
        let step = ErasureBatch { events, ..*batch };
        match retry_on_conflict(|| erase_at_once(store, &step)).await? {
            Some(more) => freed.get_or_insert_with(Vec::new).extend(more),
            None => break,
        }
    }
    Ok(freed)
}

/// Cuts a batch where a transaction would become too large. There is always a step, to see whether the operation runs.
async fn steps(reader: &Reader, events: &[EventId]) -> Outcome<Vec<Vec<EventId>>> {
    let rows = reader.query(APPLICATIONS_OF_EVENTS, &[&keys(events), &None::<Uuid>]).await?;
    let counts = rows.iter().map(|row| Ok((row.id("id")?, row.number("deliveries")?))).collect::<Outcome<FxHashMap<EventId, u64>>>()?;
    let (mut steps, mut deliveries) = (vec![Vec::new()], 0);
    for event in events {
        let more = counts.get(event).copied().unwrap_or_default();
        if deliveries + more > DELIVERIES_A_STEP && deliveries > 0 {
            steps.push(Vec::new());
            deliveries = 0;
        }
        deliveries += more;
        steps.last_mut().expect("there is always a last step").push(*event);
    }
    Ok(steps)
}

/// Counters come before the operation, as where operations deliver again.
async fn erase_at_once(store: &PostgresStore, batch: &ErasureBatch) -> Outcome<Option<Vec<FreedInLane>>> {
    let mut connection = store.connection().await?;
    let tx = Tx::begin(&mut connection).await?;
    erasing::lock(&tx, None, &batch.events).await?;
    if status(&tx, batch.operation).await? != Some(OperationStatus::Running) {
        return Ok(None);
    }
    let taken = tx.query(TAKE_ITEMS, &[&batch.operation.key(), &keys(&batch.events)]).await?;
    let taken = taken.iter().map(|row| row.id("event_id")).collect::<Outcome<Vec<EventId>>>()?;
    let done = erasing::erase_locked(&tx, &taken, batch.at).await?;
    let (erased, taken) = (done.events.len() as u64, taken.len() as u64);
    add_to_counts(&tx, batch.operation, Tally { done: erased, failed: 0, skipped: taken.saturating_sub(erased) }).await?;
    tx.commit().await?;
    Ok(Some(done.freed))
}

/// Forgets items of an operation that has ended; says how many.
pub(super) async fn clear(tx: &Tx<'_>, operation: OperationId, limit: u32) -> Outcome<u64> {
    tx.execute(CLEAR, &[&operation.key(), &i64::from(limit)]).await
}
