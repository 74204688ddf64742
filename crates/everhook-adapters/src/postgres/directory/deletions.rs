//! Deletes organizations and applications: at once what others see of them, and in steps what they have left.

use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, OrganizationId},
    model::{Operation, Selection},
    ports::{Change, ContentsDeleted, Deleted},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        fault::Outcome,
        operations,
        reader::Reader,
        rows::{Columns, Key},
        transaction::{LOCK_ORGANIZATION, Tx},
    },
    applications, approvals, channels, endpoints, manifests, sources, versions,
};

const DELETE_APPLICATION: &str = include_str!("../queries/delete_application.sql");
const DELETE_ORGANIZATION: &str = include_str!("../queries/delete_organization.sql");
const KEYS_OF_APPLICATION: &str = include_str!("../queries/delete_api_keys_of_application.sql");
const KEYS_OF_ORGANIZATION: &str = include_str!("../queries/delete_api_keys_of_organization.sql");
const INSERT: &str = include_str!("../queries/insert_deletion.sql");
const NEXT: &str = include_str!("../queries/next_deletion.sql");
const ENDPOINTS: &str = include_str!("../queries/endpoints_of_deleted_application.sql");
const DELETE_ENDPOINTS: &str = include_str!("../queries/delete_endpoints.sql");
const MOVE_ON: &str = include_str!("../queries/move_deletion_on.sql");
const END: &str = include_str!("../queries/end_deletion.sql");
const APPLICATIONS: &str = include_str!("../queries/delete_applications_of_organization.sql");
const DELETE_EVENT_TYPES: &str = include_str!("../queries/delete_event_types_of_organization.sql");
const DELETE_SCHEDULES: &str = include_str!("../queries/delete_retry_schedules_of_organization.sql");
const DELETE_HEALTH_METRICS: &str = include_str!("../queries/delete_health_metrics_of_organization.sql");
const DELETE_HEALTH_CONNECTIONS: &str = include_str!("../queries/delete_health_connections_of_organization.sql");
const DELETE_ALERTS: &str = include_str!("../queries/delete_alerts_of_organization.sql");
const DELETE_ALERT_RULES: &str = include_str!("../queries/delete_alert_rules_of_organization.sql");
const DELETE_AUTO_REPLAY: &str = include_str!("../queries/delete_auto_replay.sql");

/// What is left of an organization or application that was deleted.
struct DeletedOwner {
    id: Uuid,
    is_application: bool,
    organization: OrganizationId,
    reached: Uuid,
}

/// The operation that erases the data of what is deleted, and what it is about.
type Erasing<'e> = (&'e Operation, &'e Selection);

pub(super) async fn delete_application(
    tx: &Tx<'_>,
    organization: OrganizationId,
    id: ApplicationId,
    erasing: Erasing<'_>,
) -> Outcome<Deleted> {
    // Whoever records an event holds the counters: it ends before, or finds none.
    tx.lock_counters(&[id]).await?;
    let found = applications::of_id(tx, organization, id).await?;
    if tx.execute(DELETE_APPLICATION, &[&organization.key(), &id.key()]).await? == 0 {
        return Ok(Deleted::NotFound);
    }
    tx.execute(applications::ADD_TO_COUNT, &[&organization.key(), &-1_i64]).await?;
    tx.execute(INSERT, &[&vec![id.key()], &"application", &organization.key()]).await?;
    operations::insert(tx, erasing.0, erasing.1).await?;
    sources::delete_of_application(tx, organization, id).await?;
    let (owner, other) = (found.and_then(|found| found.owner_email), manifests::delete_of_application(tx, id).await?);
    // Nobody becomes an owner here: no channel is made.
    channels::follow_owners(tx, organization, &[owner.as_ref(), other.as_ref()], None).await?;
    let keys = tx.query(KEYS_OF_APPLICATION, &[&organization.key(), &id.key()]).await?;
    tx.note_change(Change::Application(id)).await?;
    revoked(tx, &keys).await
}

pub(super) async fn delete_organization(tx: &Tx<'_>, id: OrganizationId, at: Timestamp, erasing: Erasing<'_>) -> Outcome<Deleted> {
    if tx.execute(DELETE_ORGANIZATION, &[&id.key(), &at.as_micros()]).await? == 0 {
        return Ok(Deleted::NotFound);
    }
    // Every publisher matches again, and finds no application.
    versions::organization_changed(tx, id).await?;
    channels::delete_of_organization(tx, id).await?;
    tx.execute(INSERT, &[&vec![id.key()], &"organization", &id.key()]).await?;
    operations::insert(tx, erasing.0, erasing.1).await?;
    sources::delete_of_organization(tx, id).await?;
    manifests::delete_of_organization(tx, id).await?;
    let keys = tx.query(KEYS_OF_ORGANIZATION, &[&id.key()]).await?;
    revoked(tx, &keys).await
}

/// Tells the nodes that remember these keys.
async fn revoked(tx: &Tx<'_>, rows: &[Row]) -> Outcome<Deleted> {
    let keys: Vec<ApiKeyId> = rows.iter().map(|row| row.id("id")).collect::<Outcome<_>>()?;
    let changes: Vec<Change> = keys.iter().map(|key| Change::ApiKey(*key)).collect();
    tx.note_changes(&changes).await?;
    Ok(Deleted::Deleted(keys))
}

/// Whether anything that was deleted has something left.
pub(super) async fn any(reader: &Reader) -> Outcome<bool> {
    Ok(reader.query_opt(NEXT, &[]).await?.is_some())
}

pub(super) async fn delete_contents(tx: &Tx<'_>, at: Timestamp, limit: u32) -> Outcome<ContentsDeleted> {
    let Some(row) = tx.query_opt(NEXT, &[]).await? else { return Ok(ContentsDeleted::default()) };
    let remains = DeletedOwner {
        id: row.value("id")?,
        is_application: row.value::<&str>("kind")? == "application",
        organization: row.id("organization_id")?,
        reached: row.value("reached")?,
    };
    // Others lock the organization before what it has; whether it was deleted does not matter here.
    tx.query_opt(LOCK_ORGANIZATION, &[&remains.organization.key()]).await?;
    if remains.is_application {
        return delete_endpoints(tx, &remains, at, limit).await;
    }
    delete_applications(tx, &remains, limit).await?;
    Ok(ContentsDeleted { awaited: Vec::new(), has_more: true })
}

async fn delete_endpoints(tx: &Tx<'_>, of: &DeletedOwner, at: Timestamp, limit: u32) -> Outcome<ContentsDeleted> {
    let application = ApplicationId::from_uuid(of.id);
    let next = tx.query(ENDPOINTS, &[&of.id, &of.reached, &i64::from(limit)]).await?;
    let Some(last) = next.last() else {
        if !approvals::delete_of_application(tx, of.id, limit).await? {
            tx.execute(END, &[&of.id]).await?;
        }
        return Ok(ContentsDeleted { awaited: Vec::new(), has_more: true });
    };
    let last: Uuid = last.value("id")?;
    let deleted = tx.query(DELETE_ENDPOINTS, &[&of.id, &of.reached, &last, &at.as_micros()]).await?;
    let mut awaited: Vec<(ApplicationId, EndpointId)> = Vec::new();
    for row in &deleted {
        if row.value("is_awaited")? {
            awaited.push((application, row.id("id")?));
        }
    }
    let count = i64::try_from(deleted.len()).unwrap_or(i64::MAX);
    tx.execute(endpoints::ADD_TO_COUNT, &[&of.organization.key(), &-count]).await?;
    tx.execute(MOVE_ON, &[&of.id, &last]).await?;
    let changes: Vec<Change> = awaited.iter().map(|(_, endpoint)| Change::Endpoint(application, *endpoint)).collect();
    tx.note_changes(&changes).await?;
    Ok(ContentsDeleted { awaited, has_more: true })
}

/// Some applications of an organization; with the last of them goes what they shared.
async fn delete_applications(tx: &Tx<'_>, of: &DeletedOwner, limit: u32) -> Outcome<()> {
    let gone = tx.query(APPLICATIONS, &[&of.id, &i64::from(limit)]).await?;
    let gone: Vec<Uuid> = gone.iter().map(|row| row.value("id")).collect::<Outcome<_>>()?;
    if !gone.is_empty() {
        tx.execute(INSERT, &[&gone, &"application", &of.organization.key()]).await?;
        return Ok(());
    }
    for sql in [DELETE_HEALTH_CONNECTIONS, DELETE_HEALTH_METRICS, DELETE_ALERTS] {
        if tx.execute(sql, &[&of.id, &i64::from(limit)]).await? > 0 {
            return Ok(());
        }
    }
    for sql in [DELETE_EVENT_TYPES, DELETE_SCHEDULES, DELETE_AUTO_REPLAY, DELETE_ALERT_RULES, END] {
        tx.execute(sql, &[&of.id]).await?;
    }
    Ok(())
}
