//! Organizations.

use everhook_core::{
    ids::{OrganizationId, Ref, ScheduleVersion, Uid},
    model::{EmailAddress, Organization, OrganizationLimits, Page, PageRequest, PoolName},
    ports::{Created, Definitions, NewOrganization, Updated},
};
use tokio_postgres::Row;

use super::{
    super::{
        fault::Outcome,
        page::{Between, List, list, rows_wanted},
        reader::Reader,
        rows::{Columns, Key},
        transaction::Tx,
    },
    applications, channels, event_types, manifests, processors, retry_schedules, versions,
};
use crate::encoding::{
    extras::{emails_json, read_emails},
    limits_json,
};

const INSERT: &str = include_str!("../queries/insert_organization.sql");
const BY_ID: &str = include_str!("../queries/organization_by_id.sql");
const BY_UID: &str = include_str!("../queries/organization_by_uid.sql");
const LIST: List = list!("../queries/organizations_page.sql");
const UPDATE: &str = include_str!("../queries/update_organization.sql");
const LOCK_BOOTS: &str = include_str!("../queries/lock_boots.sql");
const INSERT_DEPARTURES: &str = include_str!("../queries/insert_departures.sql");
const VERSION: &str = include_str!("../queries/organization_version.sql");
const AS_IT_STANDS: &str = include_str!("../queries/write_organization_as_it_stands.sql");

/// What the server calls the rule that no two organizations have one uid.
const UNIQUE_UID: &str = "organizations_uid_key";

pub(super) async fn create(tx: &Tx<'_>, new: &NewOrganization, notify: Option<ScheduleVersion>) -> Outcome<Created> {
    let organization = &new.organization;
    let inserted = tx
        .execute(
            INSERT,
            &[
                &organization.id.key(),
                &organization.uid.as_ref().map(Uid::as_str),
                &organization.name,
                &organization.created_at.as_micros(),
                &limits_json::write(organization.limits),
                &organization.worker_pool.as_str(),
                &emails_json(&organization.admin_emails),
            ],
        )
        .await?;
    if inserted == 0 {
        return Ok(Created::UidTaken);
    }
    applications::insert(tx, &new.default).await?;
    applications::insert(tx, &new.operational).await?;
    let addresses: Vec<_> = organization.admin_emails.iter().collect();
    channels::follow(tx, organization.id, &organization.admin_emails, &addresses, notify).await?;
    Ok(Created::Created)
}

pub(super) async fn find(reader: &Reader, of: &Ref<OrganizationId>) -> Outcome<Option<Organization>> {
    let found = match of {
        Ref::Id(id) => reader.query_opt(BY_ID, &[&id.key()]).await?,
        Ref::Uid(uid) => reader.query_opt(BY_UID, &[&uid.as_str()]).await?,
    };
    found.as_ref().map(of_row).transpose()
}

/// The administrators of an organization. Asked while it is locked, so that the answer still holds at the end of the change.
pub(super) async fn admins(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<Vec<EmailAddress>> {
    let found = tx.query_opt(BY_ID, &[&organization.key()]).await?.as_ref().map(of_row).transpose()?;
    Ok(found.map_or_else(Vec::new, |found| found.admin_emails))
}

pub(super) async fn list(reader: &Reader, page: PageRequest) -> Outcome<Page<Organization>> {
    let between = Between::of(page);
    let rows = LIST.read(reader, page, &[&between.after, &between.before, &rows_wanted(page)], of_row).await?;
    Ok(Page::from_read(rows, page, |organization| *organization.id.as_uuid()))
}

/// Every application gets a new version: its endpoints go by the organization's limits and pool.
///
/// No lock of ours spans organizations, so the server itself says whether another has the uid. The transaction is then good for nothing more, and
/// nothing more is asked of it.
pub(super) async fn update(tx: &Tx<'_>, read: &Organization, changed: &Organization, notify: Option<ScheduleVersion>) -> Outcome<Updated> {
    let found = tx.query_opt(BY_ID, &[&read.id.key()]).await?.as_ref().map(of_row).transpose()?;
    if found.as_ref() != Some(read) {
        return Ok(Updated::Changed);
    }
    let updated = tx
        .execute(
            UPDATE,
            &[
                &changed.id.key(),
                &changed.uid.as_ref().map(Uid::as_str),
                &changed.name,
                &limits_json::write(changed.limits),
                &changed.worker_pool.as_str(),
                &emails_json(&changed.admin_emails),
            ],
        )
        .await;
    match updated {
        Err(fault) if fault.taken() == Some(UNIQUE_UID) => Ok(Updated::UidTaken),
        Err(fault) => Err(fault),
        Ok(0) => Ok(Updated::Changed),
        Ok(_) => {
            if changed.worker_pool != read.worker_pool {
                leave_pool(tx, changed.id, &read.worker_pool).await?;
            }
            let addresses: Vec<_> = read.admin_emails.iter().chain(&changed.admin_emails).collect();
            channels::follow(tx, changed.id, &changed.admin_emails, &addresses, notify).await?;
            versions::organization_changed(tx, changed.id).await?;
            Ok(Updated::Updated)
        }
    }
}

/// Every worker of the pool that an organization leaves must let go of it before another sends. A boot that begins at this moment is counted in, or
/// begins after the commit and reads which pool it is now.
async fn leave_pool(tx: &Tx<'_>, organization: OrganizationId, pool: &PoolName) -> Outcome<()> {
    tx.query_one(LOCK_BOOTS, &[]).await?;
    tx.execute(INSERT_DEPARTURES, &[&organization.key(), &pool.as_str()]).await?;
    Ok(())
}

/// Reads what its applications share in one snapshot, so that the version is that of exactly these definitions.
pub(super) async fn definitions(snapshot: &Tx<'_>, organization: OrganizationId) -> Outcome<Definitions> {
    let version = snapshot.query_opt(VERSION, &[&organization.key()]).await?;
    Ok(Definitions {
        version: version.map_or(Ok(0), |row| row.value("config_version"))?,
        event_types: event_types::marks(snapshot, organization).await?,
        schedules: retry_schedules::versions_of(snapshot, organization).await?,
        channels: channels::of_organization(snapshot, organization).await?,
        processors: processors::of_organization(snapshot, organization).await?,
        capabilities: manifests::lanes(snapshot, organization).await?,
    })
}

pub(super) async fn write_as_it_stands(reader: &Reader, organization: OrganizationId) -> Outcome<()> {
    reader.execute(AS_IT_STANDS, &[&organization.key()]).await?;
    Ok(())
}

/// Whether an organization has as many of something as its limits allow. Asked while it is locked, so that the answer still holds at the end of
/// the change.
pub(super) async fn is_at_limit(
    tx: &Tx<'_>,
    organization: OrganizationId,
    count: &'static str,
    limit: impl Fn(OrganizationLimits) -> Option<u32> + Send,
) -> Outcome<bool> {
    let Some(row) = tx.query_opt(BY_ID, &[&organization.key()]).await? else { return Ok(false) };
    let Some(limit) = limit(of_row(&row)?.limits) else { return Ok(false) };
    let count: i64 = tx.query_one(count, &[&organization.key()]).await?.value("count")?;
    Ok(count >= i64::from(limit))
}

fn of_row(row: &Row) -> Outcome<Organization> {
    Ok(Organization {
        id: row.id("id")?,
        uid: row.uid_opt("uid")?,
        name: row.value("name")?,
        limits: row.spelled("limits", limits_json::read)?,
        worker_pool: row.spelled("worker_pool", |name: &str| PoolName::parse(name))?,
        admin_emails: row.spelled("admin_emails", read_emails)?,
        created_at: row.instant("created_at")?,
    })
}
