//! Removes what is past its time, in small writes: the port `Retention`. What it frees is used again; the file does not shrink.
//!
//! Each step looks through a reader, where deliveries do not wait behind it, and writes at most as many rows as it was told.

mod events;

use async_trait::async_trait;
use everhook_core::ports::{Aging, Place, Purge, Purged, Retention, StoreError};
use rusqlite::{ToSql, params};
use uuid::Uuid;

use super::{
    SqliteStore,
    fault::Outcome,
    rows::{Columns, Key},
    statistics::minute_number,
    transaction::Tx,
};
use crate::encoding::page::first_id_at;

const FORGET_DEAD_LETTERS: &str = include_str!("../queries/forget_dead_letters.sql");
const ENDPOINTS: &str = include_str!("../queries/endpoints_until.sql");
const ORGANIZATIONS: &str = include_str!("../queries/organizations_until.sql");
const OPERATIONS: &str = include_str!("../queries/operations_until.sql");
const FORGET_ROLLUPS: &str = include_str!("../queries/forget_rollups.sql");
const FORGET_OPEN_PERIODS: &str = include_str!("../queries/forget_open_periods.sql");
const FORGET_AUDIT_ENTRIES: &str = include_str!("../queries/forget_audit_entries.sql");
const FORGET_OPERATIONS: &str = include_str!("../queries/forget_operations.sql");

/// How many endpoints or organizations a step looks at: for each, one look-up tells that it has nothing old.
const OWNERS_A_STEP: u32 = 100;

#[async_trait]
impl Retention for SqliteStore {
    async fn purge(&self, purge: Purge) -> Result<Purged, StoreError> {
        match purge.what {
            Aging::Events => self.purge_events(purge).await,
            Aging::Attempts => self.purge_attempts(purge).await,
            Aging::DeadLetters => self.purge_dead_letters(purge).await,
            Aging::Operations => self.purge_operations(purge).await,
            Aging::Rollups => self.purge_owned(purge, ENDPOINTS, FORGET_ROLLUPS, minute_number(purge.before)).await,
            Aging::OpenPeriods => self.purge_owned(purge, ENDPOINTS, FORGET_OPEN_PERIODS, purge.before.as_micros()).await,
            Aging::AuditLog => self.purge_owned(purge, ORGANIZATIONS, FORGET_AUDIT_ENTRIES, first_id_at(purge.before)).await,
        }
    }
}

impl SqliteStore {
    async fn purge_dead_letters(&self, purge: Purge) -> Result<Purged, StoreError> {
        let forget = move |tx: &mut Tx<'_>| forget(tx, FORGET_DEAD_LETTERS, params![purge.before.as_micros(), purge.limit]);
        let removed = self.write(purge.limit as usize, forget).await?;
        Ok(Purged { removed, next: (removed == purge.limit).then_some(purge.from) })
    }

    async fn purge_operations(&self, purge: Purge) -> Result<Purged, StoreError> {
        let (after, before) = (purge.from.id, purge.before);
        let forget = move |tx: &mut Tx<'_>| {
            let limits = params![after.key(), purge.limit, first_id_at(before)];
            let Some(until) = until(tx, OPERATIONS, limits)? else { return Ok(Purged::default()) };
            let removed = forget(tx, FORGET_OPERATIONS, params![after.key(), until.key(), before.as_micros()])?;
            Ok(Purged { removed, next: Some(Place { id: until, ..purge.from }) })
        };
        self.write(purge.limit as usize, forget).await
    }

    /// Removes rows that belong to endpoints or organizations, some owners at a time. `before` is how these rows spell their age.
    async fn purge_owned<T>(&self, purge: Purge, owners: &'static str, rows: &'static str, before: T) -> Result<Purged, StoreError>
    where
        T: ToSql + Send + 'static,
    {
        let after = purge.from.id;
        let forget = move |tx: &mut Tx<'_>| {
            let Some(until) = until(tx, owners, params![after.key(), OWNERS_A_STEP])? else { return Ok(Purged::default()) };
            let removed = forget(tx, rows, params![after.key(), until.key(), before, purge.limit])?;
            // A full step may have left some of the same owners.
            let id = if removed == purge.limit { after } else { until };
            Ok(Purged { removed, next: Some(Place { id, ..purge.from }) })
        };
        self.write(purge.limit as usize, forget).await
    }
}

/// Up to whom the next few are.
fn until(tx: &Tx<'_>, sql: &'static str, parameters: &[&dyn ToSql]) -> Outcome<Option<Uuid>> {
    Ok(tx.prepare(sql)?.query_row(parameters, |row| row.id_opt("until"))?)
}

/// Runs a statement that removes rows; says how many.
fn forget(tx: &Tx<'_>, sql: &'static str, parameters: &[&dyn ToSql]) -> Outcome<u32> {
    Ok(u32::try_from(tx.prepare(sql)?.execute(parameters)?).unwrap_or(u32::MAX))
}
