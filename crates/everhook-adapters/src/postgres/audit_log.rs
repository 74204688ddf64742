//! Who changed what: the port `AuditLog`, and the entry that every change writes beside itself.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, OrganizationId},
    model::{Actor, AuditAction, AuditEntry, AuditNote, Page, PageRequest},
    ports::{ActorFilter, AuditFilter, AuditLog, Effect, StoreError},
};
use tokio_postgres::Row;

use super::{
    PostgresStore,
    fault::Outcome,
    page::{Between, List, bounds, list, rows_wanted},
    reader::Reader,
    rows::{Columns, Key},
    transaction::Tx,
};

const INSERT: &str = include_str!("queries/insert_audit_entry.sql");
const OF_ORGANIZATION: List = list!("queries/audit_log_page.sql");
const OF_RESOURCE: List = list!("queries/audit_log_of_resource_page.sql");

#[async_trait]
impl AuditLog for PostgresStore {
    async fn audit_log(
        &self,
        organization: OrganizationId,
        filter: AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEntry>, StoreError> {
        Ok(list(&self.reader().await?, organization, &filter, page).await?)
    }
}

/// Ends a change: one that took place is entered in the audit log and made durable with its entry, of any other nothing is left.
pub(super) async fn conclude<T: Effect>(tx: Tx<'_>, outcome: T, entry: &AuditEntry) -> Outcome<T> {
    if outcome.took_place() {
        append(&tx, entry).await?;
        tx.commit().await?;
    }
    Ok(outcome)
}

/// Enters a change, in its own transaction.
pub(super) async fn append(tx: &Tx<'_>, entry: &AuditEntry) -> Outcome<()> {
    let (actor, name) = match &entry.actor {
        Actor::Key { id, name } => (Some(id.key()), Some(name)),
        Actor::Server => (None, None),
    };
    tx.execute(
        INSERT,
        &[
            &entry.organization.key(),
            &entry.id.key(),
            &entry.at.as_micros(),
            &actor,
            &name,
            &entry.action.as_str(),
            &entry.resource,
            &entry.note.before,
            &entry.note.after,
            &entry.note.is_cut,
        ],
    )
    .await?;
    Ok(())
}

async fn list(reader: &Reader, organization: OrganizationId, filter: &AuditFilter, page: PageRequest) -> Outcome<Page<AuditEntry>> {
    let between = Between::of_span(page, filter.made);
    let (from, to) = bounds(filter.made);
    let (kind, key) = match &filter.actor {
        None => (None, None),
        Some(ActorFilter::Key(id)) => (Some("key"), Some(id.key())),
        Some(ActorFilter::Server) => (Some("server"), None),
    };
    let action = filter.action.map(AuditAction::as_str);
    let list = if filter.resource.is_some() { OF_RESOURCE } else { OF_ORGANIZATION };
    let (organization, wanted) = (organization.key(), rows_wanted(page));
    let rows = list
        .read(
            reader,
            page,
            &[&organization, &between.after, &between.before, &wanted, &kind, &key, &action, &filter.resource, &from, &to],
            of_row,
        )
        .await?;
    Ok(Page::from_read(rows, page, |entry| *entry.id.as_uuid()))
}

fn of_row(row: &Row) -> Outcome<AuditEntry> {
    let actor = match row.id_opt::<ApiKeyId>("actor_id")? {
        Some(id) => Actor::Key { id, name: row.value("actor_name")? },
        None => Actor::Server,
    };
    Ok(AuditEntry {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        at: row.instant("at")?,
        actor,
        action: row.spelled("action", AuditAction::parse)?,
        resource: row.id("resource_id")?,
        note: AuditNote { before: row.value("before")?, after: row.value("after")?, is_cut: row.value("is_cut")? },
    })
}
