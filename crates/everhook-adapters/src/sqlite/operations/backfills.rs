//! Backfills: what became of their pieces, a letter each in the order in which they are asked for.

use everhook_core::{
    ids::{OperationId, OrganizationId},
    model::{Selection, health::ChunkOutcome},
    ports::KeptBackfill,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{
        fault::Outcome,
        rows::{Columns, Key, unreadable},
        selection_json,
        transaction::Tx,
    },
    row::of_row,
};
use crate::encoding::chunk_outcomes;

const OPEN: &str = include_str!("../queries/open_backfills.sql");
const BY_ID: &str = include_str!("../queries/backfill_by_id.sql");
const ADD: &str = include_str!("../queries/add_backfill_outcomes.sql");

pub(super) fn open(connection: &Connection, limit: u32) -> Outcome<Vec<KeptBackfill>> {
    Ok(connection.prepare_cached(OPEN)?.query_map([limit], kept_of_row)?.collect::<Result<_, _>>()?)
}

pub(super) fn find(connection: &Connection, organization: OrganizationId, id: OperationId) -> Outcome<Option<KeptBackfill>> {
    let mut statement = connection.prepare_cached(BY_ID)?;
    Ok(statement.query_row(params![organization.key(), id.key()], kept_of_row).optional()?)
}

pub(super) fn add(tx: &Tx<'_>, operation: OperationId, known: usize, outcomes: &[ChunkOutcome]) -> Outcome<bool> {
    let (letters, [done, failed, skipped]) = chunk_outcomes::write(outcomes);
    let known = i64::try_from(known).unwrap_or(i64::MAX);
    Ok(tx.prepare(ADD)?.execute(params![operation.key(), known, letters, done, failed, skipped])? > 0)
}

fn kept_of_row(row: &Row<'_>) -> rusqlite::Result<KeptBackfill> {
    let Selection::Backfill(backfill) = row.spelled("selection", |text: String| selection_json::read(&text))? else {
        return Err(unreadable("selection"));
    };
    let outcomes = row.spelled("chunk_outcomes", |letters: String| chunk_outcomes::read(&letters))?;
    Ok(KeptBackfill { operation: of_row(row)?, backfill, outcomes })
}
