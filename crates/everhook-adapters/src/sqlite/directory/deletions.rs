//! Deletes organizations and applications: at once what others see of them, and in steps what they have left.

use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, OrganizationId, Ref},
    model::{Operation, Selection},
    ports::{ContentsDeleted, Deleted},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::{
    super::{
        fault::Outcome,
        operations,
        rows::{Columns, Key},
        transaction::Tx,
    },
    applications, approvals, channels, endpoints, manifests, sources,
};

const DELETE_APPLICATION: &str = include_str!("../queries/delete_application.sql");
const DELETE_ORGANIZATION: &str = include_str!("../queries/delete_organization.sql");
const KEYS_OF_APPLICATION: &str = include_str!("../queries/delete_api_keys_of_application.sql");
const KEYS_OF_ORGANIZATION: &str = include_str!("../queries/delete_api_keys_of_organization.sql");
const FORGET_USE: &str = include_str!("../queries/forget_api_key_use.sql");
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
    reached: EndpointId,
}

/// The operation that erases the data of what is deleted, and what it is about.
type Erasing<'e> = (&'e Operation, &'e Selection);

pub(super) fn delete_application(
    tx: &mut Tx<'_>,
    organization: OrganizationId,
    id: ApplicationId,
    erasing: Erasing<'_>,
) -> Outcome<Deleted> {
    let found = applications::find(tx.connection(), organization, &Ref::Id(id))?;
    if tx.prepare(DELETE_APPLICATION)?.execute(params![organization.key(), id.key()])? == 0 {
        return Ok(Deleted::NotFound);
    }
    tx.forget_counters(id);
    tx.prepare(applications::ADD_TO_COUNT)?.execute(params![organization.key(), -1])?;
    tx.prepare(INSERT)?.execute(params![id.key(), "application", organization.key()])?;
    operations::insert(tx, erasing.0, erasing.1)?;
    sources::delete_of_application(tx, organization, id)?;
    let (owner, other) = (found.and_then(|found| found.owner_email), manifests::delete_of_application(tx, id)?);
    channels::follow_owners(tx, organization, [owner.as_ref(), other.as_ref()])?;
    Ok(Deleted::Deleted(revoke(tx, KEYS_OF_APPLICATION, params![organization.key(), id.key()])?))
}

pub(super) fn delete_organization(tx: &mut Tx<'_>, id: OrganizationId, at: Timestamp, erasing: Erasing<'_>) -> Outcome<Deleted> {
    if tx.prepare(DELETE_ORGANIZATION)?.execute(params![id.key(), at.as_micros()])? == 0 {
        return Ok(Deleted::NotFound);
    }
    // Every publisher matches again, and finds no application.
    tx.bump_organization(id)?;
    channels::delete_of_organization(tx, id)?;
    tx.prepare(INSERT)?.execute(params![id.key(), "organization", id.key()])?;
    operations::insert(tx, erasing.0, erasing.1)?;
    sources::delete_of_organization(tx, id)?;
    manifests::delete_of_organization(tx, id)?;
    Ok(Deleted::Deleted(revoke(tx, KEYS_OF_ORGANIZATION, params![id.key()])?))
}

fn revoke(tx: &Tx<'_>, sql: &'static str, of: &[&dyn rusqlite::ToSql]) -> Outcome<Vec<ApiKeyId>> {
    let keys: Vec<ApiKeyId> = tx.prepare(sql)?.query_map(of, |row| row.id("id"))?.collect::<Result<_, _>>()?;
    for key in &keys {
        tx.prepare(FORGET_USE)?.execute([key.key()])?;
    }
    Ok(keys)
}

/// Whether anything that was deleted has something left.
pub(super) fn any(connection: &Connection) -> Outcome<bool> {
    Ok(connection.prepare_cached(NEXT)?.exists([])?)
}

pub(super) fn delete_contents(tx: &mut Tx<'_>, at: Timestamp, limit: u32) -> Outcome<ContentsDeleted> {
    let of_row = |row: &rusqlite::Row<'_>| {
        Ok(DeletedOwner {
            id: row.id("id")?,
            is_application: row.get::<_, String>("kind")? == "application",
            organization: row.id("organization_id")?,
            reached: row.id("reached")?,
        })
    };
    let Some(remains) = tx.prepare(NEXT)?.query_row([], of_row).optional()? else { return Ok(ContentsDeleted::default()) };
    if remains.is_application {
        return delete_endpoints(tx, &remains, at, limit);
    }
    delete_applications(tx, &remains, limit)?;
    Ok(ContentsDeleted { awaited: Vec::new(), has_more: true })
}

fn delete_endpoints(tx: &Tx<'_>, of: &DeletedOwner, at: Timestamp, limit: u32) -> Outcome<ContentsDeleted> {
    let application = ApplicationId::from_uuid(of.id);
    let mut next = tx.prepare(ENDPOINTS)?;
    let next = next.query_map(params![of.id.key(), of.reached.key(), limit], |row| row.id("id"))?;
    let Some(last) = next.last().transpose()? else {
        if !approvals::delete_of_application(tx, of.id, limit)? {
            tx.prepare(END)?.execute([of.id.key()])?;
        }
        return Ok(ContentsDeleted { awaited: Vec::new(), has_more: true });
    };
    let last: EndpointId = last;
    let mut statement = tx.prepare(DELETE_ENDPOINTS)?;
    let mut rows = statement.query(params![of.id.key(), of.reached.key(), last.key(), at.as_micros()])?;
    let (mut count, mut awaited) = (0, Vec::new());
    while let Some(row) = rows.next()? {
        count += 1;
        if row.get("is_awaited")? {
            awaited.push((application, row.id("id")?));
        }
    }
    tx.prepare(endpoints::ADD_TO_COUNT)?.execute(params![of.organization.key(), -count])?;
    tx.prepare(MOVE_ON)?.execute(params![of.id.key(), last.key()])?;
    Ok(ContentsDeleted { awaited, has_more: true })
}

/// Some applications of an organization; with the last of them goes what they shared.
fn delete_applications(tx: &mut Tx<'_>, of: &DeletedOwner, limit: u32) -> Outcome<()> {
    let gone = tx.prepare(APPLICATIONS)?.query_map(params![of.id.key(), limit], |row| row.id("id"))?.collect::<Result<Vec<_>, _>>()?;
    for application in &gone {
        tx.forget_counters(*application);
        tx.prepare(INSERT)?.execute(params![application.key(), "application", of.organization.key()])?;
    }
    if gone.is_empty() {
        for sql in [DELETE_HEALTH_CONNECTIONS, DELETE_HEALTH_METRICS, DELETE_ALERTS] {
            if tx.prepare(sql)?.execute(params![of.id.key(), limit])? > 0 {
                return Ok(());
            }
        }
        for sql in [DELETE_EVENT_TYPES, DELETE_SCHEDULES, DELETE_AUTO_REPLAY, DELETE_ALERT_RULES, END] {
            tx.prepare(sql)?.execute([of.id.key()])?;
        }
    }
    Ok(())
}
