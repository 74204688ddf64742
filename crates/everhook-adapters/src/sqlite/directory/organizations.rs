//! Organizations.

use everhook_core::{
    ids::{OrganizationId, Ref, Uid},
    model::{Organization, OrganizationLimits, Page, PageRequest, PoolName},
    ports::{Created, Definitions, NewOrganization, Updated},
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{
        fault::Outcome,
        limits_json,
        page::{Between, List, list, rows_wanted},
        rows::{Columns, Key},
        transaction::Tx,
    },
    applications, channels, event_types, manifests, processors, retry_schedules,
};
use crate::encoding::extras::{emails_json, read_emails};

const INSERT: &str = include_str!("../queries/insert_organization.sql");
const BY_ID: &str = include_str!("../queries/organization_by_id.sql");
const BY_UID: &str = include_str!("../queries/organization_by_uid.sql");
const LIST: List = list!("../queries/organizations_page.sql");
const VERSION: &str = include_str!("../queries/organization_version.sql");
const UPDATE: &str = include_str!("../queries/update_organization.sql");
const AS_IT_STANDS: &str = include_str!("../queries/write_organization_as_it_stands.sql");

pub(super) fn create(tx: &Tx<'_>, new: &NewOrganization) -> Outcome<Created> {
    let organization = &new.organization;
    if uid_is_taken(tx, organization)? {
        return Ok(Created::UidTaken);
    }
    tx.prepare(INSERT)?.execute(params![
        organization.id.key(),
        organization.uid.as_ref().map(Uid::as_str),
        organization.name,
        organization.created_at.as_micros(),
        limits_json::write(organization.limits),
        emails_json(&organization.admin_emails),
    ])?;
    applications::insert(tx, &new.default)?;
    applications::insert(tx, &new.operational)?;
    channels::follow(tx, organization.id, &organization.admin_emails, &organization.admin_emails)?;
    Ok(Created::Created)
}

pub(super) fn find(connection: &Connection, of: &Ref<OrganizationId>) -> Outcome<Option<Organization>> {
    let found = match of {
        Ref::Id(id) => connection.prepare_cached(BY_ID)?.query_row([id.key()], of_row),
        Ref::Uid(uid) => connection.prepare_cached(BY_UID)?.query_row([uid.as_str()], of_row),
    };
    Ok(found.optional()?)
}

pub(super) fn list(connection: &Connection, page: PageRequest) -> Outcome<Page<Organization>> {
    let between = Between::of(page);
    let rows = LIST.read(connection, page, params![between.after, between.before, rows_wanted(page)], of_row)?;
    Ok(Page::from_read(rows, page, |organization| *organization.id.as_uuid()))
}

/// Every application gets a new version: its endpoints go by the organization's limits.
pub(super) fn update(tx: &mut Tx<'_>, read: &Organization, changed: &Organization) -> Outcome<Updated> {
    if find(tx.connection(), &Ref::Id(read.id))?.as_ref() != Some(read) {
        return Ok(Updated::Changed);
    }
    if uid_is_taken(tx, changed)? {
        return Ok(Updated::UidTaken);
    }
    tx.prepare(UPDATE)?.execute(params![
        changed.id.key(),
        changed.uid.as_ref().map(Uid::as_str),
        changed.name,
        limits_json::write(changed.limits),
        emails_json(&changed.admin_emails),
    ])?;
    channels::follow(tx, changed.id, &changed.admin_emails, read.admin_emails.iter().chain(&changed.admin_emails))?;
    tx.bump_organization(changed.id)?;
    Ok(Updated::Updated)
}

/// Reads what its applications share in one snapshot, so that the version is that of exactly these definitions.
pub(super) fn definitions(connection: &Connection, organization: OrganizationId) -> Outcome<Definitions> {
    let snapshot = connection.unchecked_transaction()?;
    let version = snapshot.prepare_cached(VERSION)?.query_row([organization.key()], |row| row.get(0)).optional()?;
    Ok(Definitions {
        version: version.unwrap_or_default(),
        event_types: event_types::marks(&snapshot, organization)?,
        schedules: retry_schedules::versions(&snapshot, organization)?,
        channels: channels::of_organization(&snapshot, organization)?,
        processors: processors::of_organization(&snapshot, organization)?,
        capabilities: manifests::lanes(&snapshot, organization)?,
    })
}

pub(super) fn write_as_it_stands(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    tx.prepare(AS_IT_STANDS)?.execute([organization.key()])?;
    Ok(())
}

/// Whether an organization has as many of something as its limits allow. Asked inside the write, so that the answer still holds at its end.
pub(super) fn is_at_limit(
    tx: &Tx<'_>,
    organization: OrganizationId,
    count: &'static str,
    limit: impl Fn(OrganizationLimits) -> Option<u32>,
) -> Outcome<bool> {
    let found = find(tx.connection(), &Ref::Id(organization))?;
    let Some(limit) = found.and_then(|organization| limit(organization.limits)) else { return Ok(false) };
    let count: u32 = tx.prepare(count)?.query_row([organization.key()], |row| row.get(0))?;
    Ok(count >= limit)
}

/// Whether another organization has this one's uid. Asked inside the write, so that the answer still holds at its end.
fn uid_is_taken(tx: &Tx<'_>, organization: &Organization) -> Outcome<bool> {
    let Some(uid) = &organization.uid else { return Ok(false) };
    let holder = find(tx.connection(), &Ref::Uid(uid.clone()))?;
    Ok(holder.is_some_and(|holder| holder.id != organization.id))
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<Organization> {
    Ok(Organization {
        id: row.id("id")?,
        uid: row.uid_opt("uid")?,
        name: row.get("name")?,
        limits: row.spelled("limits", |json: String| limits_json::read(&json))?,
        // Whoever has the file to himself sends for everybody: no other is ever kept.
        worker_pool: PoolName::default(),
        admin_emails: row.spelled("admin_emails", |json: String| read_emails(&json))?,
        created_at: row.instant("created_at")?,
    })
}
