//! The lists of operations that erase: events, in the order of their ids.

use everhook_core::{
    ids::{EventId, OperationId, OrganizationId},
    model::{ErasureCandidate, OperationStatus},
    ports::{ErasureBatch, ErasureStep, FreedInLane, Phase, Scan, Scanned, TimeRange},
};
use rusqlite::{Connection, Row, params};

use super::{
    super::{
        erasing::{self, Begun, DELIVERIES_A_STEP},
        fault::Outcome,
        page::Between,
        rows::{Columns, Key},
        transaction::Tx,
    },
    MOVE_SELECTION_ON, Tally, add_to_counts, phase_name, selects_after, status,
};

const EVENTS: &str = include_str!("../queries/events_to_erase_after.sql");
const INSERT_ITEM: &str = include_str!("../queries/insert_erasure_item.sql");
const NEXT_ITEMS: &str = include_str!("../queries/next_erasure_items.sql");
const TAKE_ITEM: &str = include_str!("../queries/take_erasure_item.sql");
const CLEAR: &str = include_str!("../queries/clear_erasure_items.sql");

pub(super) fn scan(
    connection: &Connection,
    organization: OrganizationId,
    accepted: TimeRange,
    scan: Scan,
) -> Outcome<Scanned<ErasureCandidate>> {
    let between = Between { after: scan.after.into_bytes(), before: [0xff; 16] }.within(accepted);
    let mut statement = connection.prepare_cached(EVENTS)?;
    let parameters = params![organization.key(), between.after, between.before, scan.limit];
    let rows: Vec<ErasureCandidate> = statement.query_map(parameters, candidate_of_row)?.collect::<Result<_, _>>()?;
    let is_full = rows.len() == scan.limit as usize;
    let goes_on_after = rows.last().filter(|_| is_full).map(|row| *row.event.as_uuid());
    Ok(Scanned { rows, goes_on_after })
}

fn candidate_of_row(row: &Row<'_>) -> rusqlite::Result<ErasureCandidate> {
    Ok(ErasureCandidate {
        event: row.id("id")?,
        application: row.id("application_id")?,
        labels: row.spelled_opt("labels", |json: String| serde_json::from_str(&json).ok())?.unwrap_or_default(),
        accepted_at: row.instant("created_at")?,
        is_erased: row.get("is_erased")?,
    })
}

pub(super) fn select(tx: &mut Tx<'_>, step: &ErasureStep) -> Outcome<()> {
    if !selects_after(tx, step.operation, step.after)? {
        return Ok(());
    }
    let mut added = 0;
    for event in &step.events {
        added += tx.hot(INSERT_ITEM)?.execute(params![step.operation.key(), event.key()])?;
    }
    let until = match &step.phase {
        Phase::Selecting(until) => Some(until.key()),
        Phase::Selected | Phase::Clearing => None,
    };
    let total = i64::try_from(added).unwrap_or(i64::MAX);
    tx.prepare(MOVE_SELECTION_ON)?.execute(params![step.operation.key(), total, 0, phase_name(step.phase), until])?;
    Ok(())
}

pub(super) fn next(connection: &Connection, operation: OperationId, limit: u32) -> Outcome<Vec<EventId>> {
    let mut statement = connection.prepare_cached(NEXT_ITEMS)?;
    Ok(statement.query_map(params![operation.key(), limit], |row| row.id("event_id"))?.collect::<Result<_, _>>()?)
}

/// Erases what is on the list. The second value names the events that have deliveries left for further commits.
pub(super) fn erase(tx: &mut Tx<'_>, batch: &ErasureBatch) -> Outcome<Option<(Vec<FreedInLane>, Vec<EventId>)>> {
    if status(tx, batch.operation)? != Some(OperationStatus::Running) {
        return Ok(None);
    }
    let (mut freed, mut unfinished, mut tally) = (Vec::new(), Vec::new(), Tally::default());
    let mut room = DELIVERIES_A_STEP;
    for event in &batch.events {
        if tx.hot(TAKE_ITEM)?.execute(params![batch.operation.key(), event.key()])? == 0 {
            continue;
        }
        match erasing::begin(tx, None, *event, batch.at, room.max(1))? {
            Begun::NotFound | Begun::Before { .. } => tally.skipped += 1,
            Begun::Erased(step) => {
                tally.done += 1;
                room = room.saturating_sub(step.looked_at);
                freed.extend(step.freed);
                unfinished.extend(step.is_unfinished.then_some(*event));
            }
        }
    }
    add_to_counts(tx, batch.operation, tally)?;
    Ok(Some((freed, unfinished)))
}

/// Forgets items of an operation that has ended; says how many.
pub(super) fn clear(tx: &Tx<'_>, operation: OperationId, limit: u32) -> Outcome<usize> {
    Ok(tx.prepare(CLEAR)?.execute(params![operation.key(), limit])?)
}
