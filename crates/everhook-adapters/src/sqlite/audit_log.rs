//! Who changed what: the port `AuditLog`, and the entry that every change writes beside itself.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, OrganizationId},
    model::{Actor, AuditAction, AuditEntry, AuditNote, Page, PageRequest},
    ports::{ActorFilter, AuditFilter, AuditLog, Effect, StoreError},
};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::{
    SqliteStore,
    fault::{Fault, Outcome},
    page::{Between, List, bounds, list, rows_wanted},
    rows::{Columns, Key},
    transaction::Tx,
};

const INSERT: &str = include_str!("queries/insert_audit_entry.sql");
const IS_DELETED: &str = include_str!("queries/organization_is_deleted.sql");
const OF_ORGANIZATION: List = list!("queries/audit_log_page.sql");
const OF_RESOURCE: List = list!("queries/audit_log_of_resource_page.sql");

#[async_trait]
impl AuditLog for SqliteStore {
    async fn audit_log(
        &self,
        organization: OrganizationId,
        filter: AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEntry>, StoreError> {
        self.read_history(move |connection| list(connection, organization, &filter, page)).await
    }
}

impl SqliteStore {
    /// Runs a change in a transaction, and enters it in the audit log in the same one, if it took place. In an organization that was deleted nothing is
    /// changed any more.
    pub(super) async fn change<T, F>(&self, rows: usize, entry: AuditEntry, mut work: F) -> Result<T, StoreError>
    where
        T: Effect + Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Outcome<T> + Send + 'static,
    {
        let work = move |tx: &mut Tx<'_>| {
            if tx.prepare(IS_DELETED)?.exists([entry.organization.key()])? {
                return Err(Fault::Deleted);
            }
            let outcome = work(tx)?;
            if outcome.took_place() {
                append(tx, &entry)?;
            }
            Ok(outcome)
        };
        self.write(rows + 1, work).await
    }
}

/// Enters a change, in its own transaction.
pub(super) fn append(tx: &Tx<'_>, entry: &AuditEntry) -> Outcome<()> {
    let (actor, name) = match &entry.actor {
        Actor::Key { id, name } => (Some(id.key()), Some(name)),
        Actor::Server => (None, None),
    };
    tx.prepare(INSERT)?.execute(params![
        entry.organization.key(),
        entry.id.key(),
        entry.at.as_micros(),
        actor,
        name,
        entry.action.as_str(),
        entry.resource.key(),
        entry.note.before,
        entry.note.after,
        entry.note.is_cut
    ])?;
    Ok(())
}

fn list(connection: &Connection, organization: OrganizationId, filter: &AuditFilter, page: PageRequest) -> Outcome<Page<AuditEntry>> {
    let between = Between::of(page).within(filter.made);
    let (from, to) = bounds(filter.made);
    let (kind, key) = match &filter.actor {
        None => (None, None),
        Some(ActorFilter::Key(id)) => (Some("key"), Some(id.key())),
        Some(ActorFilter::Server) => (Some("server"), None),
    };
    let parameters = params![
        organization.key(),
        between.after,
        between.before,
        rows_wanted(page),
        kind,
        key,
        filter.action.map(AuditAction::as_str),
        filter.resource.as_ref().map(Uuid::key),
        from,
        to
    ];
    let list = if filter.resource.is_some() { OF_RESOURCE } else { OF_ORGANIZATION };
    let rows = list.read(connection, page, parameters, of_row)?;
    Ok(Page::from_read(rows, page, |entry| *entry.id.as_uuid()))
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    let actor = match row.id_opt::<ApiKeyId>("actor_id")? {
        Some(id) => Actor::Key { id, name: row.get("actor_name")? },
        None => Actor::Server,
    };
    Ok(AuditEntry {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        at: row.instant("at")?,
        actor,
        action: row.spelled("action", |name: String| AuditAction::parse(&name))?,
        resource: row.id("resource_id")?,
        note: AuditNote { before: row.get("before")?, after: row.get("after")?, is_cut: row.get("is_cut")? },
    })
}
