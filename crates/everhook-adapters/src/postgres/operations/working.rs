//! What moves an operation on: its items are selected, taken off its list, counted and forgotten. Each is part of a transaction of the caller's.

use everhook_core::{
    ids::OperationId,
    model::OperationStatus,
    ports::{Cleared, Ending, OperationEnded, Phase, ReplayAnswer, SelectionStep},
};
use uuid::Uuid;

use super::{
    super::{
        audit_log,
        fault::Outcome,
        outbox::{AlertColumns, INSERT_ALERTS},
        rows::{Columns, Key},
        transaction::Tx,
    },
    NEXT_ITEMS, erasing, find,
    row::phase_name,
};

const STATUS: &str = include_str!("../queries/status_of_operation.sql");
const SELECTS_AFTER: &str = include_str!("../queries/operation_selects_after.sql");
const INSERT_ITEMS: &str = include_str!("../queries/insert_operation_item.sql");
pub(super) const MOVE_SELECTION_ON: &str = include_str!("../queries/move_selection_on.sql");
const TAKE_ITEMS: &str = include_str!("../queries/take_operation_item.sql");
const COUNT: &str = include_str!("../queries/count_operation.sql");
const END: &str = include_str!("../queries/end_operation.sql");
const DISCARD: &str = include_str!("../queries/discard_dead_letter_of.sql");
const CLEAR: &str = include_str!("../queries/clear_operation_items.sql");
const IS_OVER: &str = include_str!("../queries/operation_is_over.sql");

/// What became of some items.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Tally {
    pub(in super::super) done: u64,
    pub(in super::super) failed: u64,
    pub(in super::super) skipped: u64,
}

impl Tally {
    /// Counts what became of one item.
    pub(in super::super) fn count(&mut self, answer: &ReplayAnswer) {
        match answer {
            ReplayAnswer::Made { .. } => self.done += 1,
            ReplayAnswer::Open | ReplayAnswer::NotDead(_) => self.skipped += 1,
            ReplayAnswer::NotFound | ReplayAnswer::Erased => self.failed += 1,
            ReplayAnswer::DoneBefore => {}
        }
    }
}

/// How an operation stands, and will until the commit: nobody else changes it or takes its items meanwhile.
pub(in super::super) async fn status(tx: &Tx<'_>, id: OperationId) -> Outcome<Option<OperationStatus>> {
    let row = tx.query_opt(STATUS, &[&id.key()]).await?;
    row.map(|row| row.spelled("status", OperationStatus::parse)).transpose()
}

/// Takes items off the list, each named by its position and its lane; says which of them were on it.
pub(in super::super) async fn take_items(tx: &Tx<'_>, id: OperationId, positions: &[i64], lanes: &[i64]) -> Outcome<Vec<(i64, i64)>> {
    let rows = tx.query(TAKE_ITEMS, &[&id.key(), &positions, &lanes]).await?;
    rows.iter().map(|row| Ok((row.value("position")?, row.value("lane")?))).collect()
}

/// Adds to what an operation has worked off.
pub(in super::super) async fn add_to_counts(tx: &Tx<'_>, id: OperationId, tally: Tally) -> Outcome<()> {
    tx.execute(COUNT, &[&id.key(), &number(tally.done), &number(tally.failed), &number(tally.skipped)]).await?;
    Ok(())
}

pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Whether an operation still selects, from behind this id on, and will until the commit. Whoever looked there may have come too late.
pub(super) async fn selects_after(tx: &Tx<'_>, id: OperationId, after: Uuid) -> Outcome<bool> {
    Ok(tx.query_opt(SELECTS_AFTER, &[&id.key(), &after]).await?.is_some())
}

/// Adds items and moves the selection on. The lanes are those of the items, in their order.
pub(super) async fn select(tx: &Tx<'_>, step: &SelectionStep, lanes: &[i64]) -> Outcome<()> {
    if !selects_after(tx, step.operation, step.after).await? {
        return Ok(());
    }
    let events: Vec<Uuid> = step.items.iter().map(|(event, _, _)| event.key()).collect();
    let of: Vec<Option<Uuid>> = step.items.iter().map(|(_, _, of)| of.as_ref().map(Key::key)).collect();
    let added = tx.execute(INSERT_ITEMS, &[&step.operation.key(), &events, &lanes, &of]).await?;
    let total = number(step.skipped.saturating_add(added));
    let until = match step.phase {
        Some(Phase::Selecting(until)) => Some(until),
        Some(Phase::Selected | Phase::Clearing) | None => None,
    };
    let phase = step.phase.map(phase_name);
    tx.execute(MOVE_SELECTION_ON, &[&step.operation.key(), &total, &number(step.skipped), &phase, &until]).await?;
    Ok(())
}

/// Discards the dead letters of the next items; says how many items there were.
pub(super) async fn discard_next(tx: &Tx<'_>, operation: OperationId, limit: u32) -> Outcome<u32> {
    if status(tx, operation).await? != Some(OperationStatus::Running) {
        return Ok(0);
    }
    let rows = tx.query(NEXT_ITEMS, &[&operation.key(), &i64::from(limit)]).await?;
    let (mut events, mut endpoints, mut positions, mut lanes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        events.push(row.id::<Uuid>("event_id")?);
        endpoints.push(row.id::<Uuid>("endpoint_id")?);
        positions.push(row.value("position")?);
        lanes.push(row.value("lane")?);
    }
    let discarded = tx.execute(DISCARD, &[&events, &endpoints]).await?;
    take_items(tx, operation, &positions, &lanes).await?;
    let skipped = (rows.len() as u64).saturating_sub(discarded);
    add_to_counts(tx, operation, Tally { done: discarded, failed: 0, skipped }).await?;
    Ok(u32::try_from(rows.len()).unwrap_or(u32::MAX))
}

/// Ends an operation that has not ended, and keeps what the organization is told.
pub(super) async fn end(tx: &Tx<'_>, ending: &Ending) -> Outcome<OperationEnded> {
    // Locked before it is read: what is read stands until the commit.
    status(tx, ending.operation).await?;
    let Some(found) = find(tx, ending.organization, ending.operation).await? else { return Ok(OperationEnded::NotFound) };
    if found.status.is_over() {
        return Ok(OperationEnded::Before(found.status));
    }
    let is_finished = ending.status == OperationStatus::Finished;
    if is_finished && found.remaining() > 0 {
        return Ok(OperationEnded::NotYet);
    }
    let phase = if is_finished { "over" } else { "clearing" };
    let written = tx.execute(END, &[&ending.operation.key(), &ending.status.as_str(), &phase, &ending.at.as_micros()]).await?;
    if written == 0 {
        return Ok(OperationEnded::NotYet);
    }
    tx.execute(INSERT_ALERTS, &AlertColumns::new(&[&ending.alert]).parameters()).await?;
    if let Some(entry) = &ending.entry {
        audit_log::append(tx, entry).await?;
    }
    Ok(OperationEnded::Ended)
}

/// Forgets items of an operation that has ended.
pub(super) async fn clear(tx: &Tx<'_>, operation: OperationId, limit: u32) -> Outcome<Cleared> {
    if !status(tx, operation).await?.is_some_and(OperationStatus::is_over) {
        return Ok(Cleared::All);
    }
    // Each has items in one of the two lists.
    let cleared = tx.execute(CLEAR, &[&operation.key(), &i64::from(limit)]).await? + erasing::clear(tx, operation, limit).await?;
    if cleared >= u64::from(limit) {
        return Ok(Cleared::SomeLeft);
    }
    tx.execute(IS_OVER, &[&operation.key()]).await?;
    Ok(Cleared::All)
}
