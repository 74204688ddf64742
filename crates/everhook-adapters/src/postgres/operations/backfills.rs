//! Backfills: what became of their pieces, a letter each in the order in which they are asked for.

use everhook_core::{
    ids::{OperationId, OrganizationId},
    model::{Selection, health::ChunkOutcome},
    ports::KeptBackfill,
};
use tokio_postgres::Row;

use super::{
    super::{
        PostgresStore,
        fault::Outcome,
        rows::{Columns, Key, unreadable},
    },
    row::of_row,
};
use crate::encoding::{chunk_outcomes, selection_json};

const OPEN: &str = include_str!("../queries/open_backfills.sql");
const BY_ID: &str = include_str!("../queries/backfill_by_id.sql");
const ADD: &str = include_str!("../queries/add_backfill_outcomes.sql");

pub(super) async fn open(store: &PostgresStore, limit: u32) -> Outcome<Vec<KeptBackfill>> {
    let rows = store.reader().await?.query(OPEN, &[&i64::from(limit)]).await?;
    rows.iter().map(kept_of_row).collect()
}

pub(super) async fn find(store: &PostgresStore, organization: OrganizationId, id: OperationId) -> Outcome<Option<KeptBackfill>> {
    let row = store.reader().await?.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?;
    row.as_ref().map(kept_of_row).transpose()
}

pub(super) async fn add(store: &PostgresStore, operation: OperationId, known: usize, outcomes: &[ChunkOutcome]) -> Outcome<bool> {
    let (letters, [done, failed, skipped]) = chunk_outcomes::write(outcomes);
    let known = i64::try_from(known).unwrap_or(i64::MAX);
    Ok(store.reader().await?.execute(ADD, &[&operation.key(), &known, &letters, &done, &failed, &skipped]).await? > 0)
}

fn kept_of_row(row: &Row) -> Outcome<KeptBackfill> {
    let Selection::Backfill(backfill) = row.spelled("selection", selection_json::read)? else { return Err(unreadable("selection")) };
    Ok(KeptBackfill { operation: of_row(row)?, backfill, outcomes: row.spelled("chunk_outcomes", chunk_outcomes::read)? })
}
