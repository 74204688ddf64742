//! What was changed by any node: the port `Changes`. Noted in the transaction of the change.
//!
//! A place in the order of changes is the number of a transaction: everything before the oldest one that is still open is complete. A look goes
//! on from there, so that nothing is passed over, whatever order transactions end in; what came behind it is told twice.

use async_trait::async_trait;
use everhook_core::ports::{Change, ChangeCursor, Changed, Changes, StoreError};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
};

const NEWEST: &str = include_str!("queries/newest_change.sql");
const SINCE: &str = include_str!("queries/changes_since.sql");
const NOTE: &str = include_str!("queries/note_changes.sql");
const FORGET: &str = include_str!("queries/forget_changes.sql");

/// The most changes of one answer. Where there are more, the rest comes with the next.
const CHANGES_MAX: i64 = 1_000;
/// The most erased events of one answer, the latest. More than are ever erased between two looks; they are told one by one, because forgetting
/// everything that was read of the directory keeps nothing from being sent.
const ERASED_MAX: i64 = 20_000;

#[async_trait]
impl Changes for PostgresStore {
    async fn newest(&self) -> Result<ChangeCursor, StoreError> {
        Ok(cursor_of_row(&self.line_reader().await?.query_one(NEWEST, &[]).await?)?)
    }

    async fn changes(&self, after: ChangeCursor) -> Result<Changed, StoreError> {
        let rows = self.line_reader().await?.query(SINCE, &[&after.0.to_string(), &CHANGES_MAX, &ERASED_MAX]).await?;
        Ok(changed(&rows, after)?)
    }
}

impl PostgresStore {
    /// Forgets changes that every node has seen long ago.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was forgotten, as far as is known.
    pub async fn forget_changes(&self) -> Result<(), StoreError> {
        self.line_reader().await?.execute(FORGET, &[]).await?;
        Ok(())
    }
}

fn changed(rows: &[Row], after: ChangeCursor) -> Outcome<Changed> {
    let Some(first) = rows.first() else { return Ok(Changed { cursor: after, ..Changed::default() }) };
    let cursor = cursor_of_row(first)?;
    let mut changes = Vec::new();
    for row in rows {
        // One row without a change says that there is none.
        if let Some(kind) = row.value::<Option<&str>>("kind")? {
            changes.push(change_of_row(row, kind)?);
        }
    }
    let others = changes.iter().filter(|change| !matches!(change, Change::Erased(_))).count();
    let is_full = i64::try_from(others).unwrap_or(i64::MAX) >= CHANGES_MAX;
    let is_forgotten: bool = first.value("is_forgotten")?;
    if is_full
        && !is_forgotten
        && let Some(last) = last_transaction(rows)?.map(|last| last.min(cursor)).filter(|last| *last > after)
    {
        return Ok(Changed { changes, cursor: last, has_more: true });
    }
    // A full answer that leads nowhere is one transaction with very many changes, or very many behind one that has been open for long.
    if is_forgotten || is_full {
        changes.retain(|change| matches!(change, Change::Erased(_)));
        changes.push(Change::Everything);
    }
    Ok(Changed { changes, cursor, has_more: false })
}

/// The transaction of the last change that is not an erasure: what came before it was told.
fn last_transaction(rows: &[Row]) -> Outcome<Option<ChangeCursor>> {
    for row in rows.iter().rev() {
        if row.value::<Option<&str>>("kind")?.is_some_and(|kind| kind != "erased") {
            return Ok(Some(ChangeCursor(row.spelled("transaction", |number: &str| number.parse().ok())?)));
        }
    }
    Ok(None)
}

fn cursor_of_row(row: &Row) -> Outcome<ChangeCursor> {
    Ok(ChangeCursor(row.spelled("cursor", |number: &str| number.parse().ok())?))
}

fn change_of_row(row: &Row, kind: &str) -> Outcome<Change> {
    Ok(match kind {
        "endpoint" => Change::Endpoint(row.id("application_id")?, row.id("id")?),
        "application" => Change::Application(row.id("id")?),
        "organization" => Change::Organization(row.id("id")?),
        "definitions" => Change::Definitions(row.id("id")?),
        "source" => Change::Source(row.id("id")?),
        "api_key" => Change::ApiKey(row.id("id")?),
        "erased" => Change::Erased(row.id("id")?),
        "cancelled" => Change::Cancelled(row.id("application_id")?, row.id("id")?),
        "everything" => Change::Everything,
        // A newer version's.
        _ => Change::Everything,
    })
}

impl Tx<'_> {
    /// Notes a change, for the nodes that remember what was before.
    pub(super) async fn note_change(&self, change: Change) -> Outcome<()> {
        self.note_changes(&[change]).await
    }

    /// Notes several changes.
    pub(super) async fn note_changes(&self, changes: &[Change]) -> Outcome<()> {
        let (mut kinds, mut ids, mut applications) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            let (kind, id, application) = columns_of(*change);
            kinds.push(kind);
            ids.push(id);
            applications.push(application);
        }
        self.execute(NOTE, &[&kinds, &ids, &applications]).await?;
        Ok(())
    }
}

/// What a change is called, and the ids that it names: its own, and the application of an endpoint.
fn columns_of(change: Change) -> (&'static str, Option<Uuid>, Option<Uuid>) {
    match change {
        Change::Endpoint(application, endpoint) => ("endpoint", Some(endpoint.key()), Some(application.key())),
        Change::Application(application) => ("application", Some(application.key()), None),
        Change::Organization(organization) => ("organization", Some(organization.key()), None),
        Change::Definitions(organization) => ("definitions", Some(organization.key()), None),
        Change::Source(source) => ("source", Some(source.key()), None),
        Change::ApiKey(key) => ("api_key", Some(key.key()), None),
        Change::Erased(event) => ("erased", Some(event.key()), None),
        Change::Cancelled(application, endpoint) => ("cancelled", Some(endpoint.key()), Some(application.key())),
        Change::Everything => ("everything", None, None),
    }
}
