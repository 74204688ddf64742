//! Channels: who is told what happened. Those of e-mail follow from the addresses of their organization, and change with it in one write; those of services
//! are the port `ChannelStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ChannelId, OrganizationId, Ref, ScheduleVersion},
    model::{AuditEntry, Channel, ChannelName, ChannelTarget, EmailAddress, NoticeSeverity, SealedSecret, ServiceChannel, ServiceKind},
    policy::presets,
    ports::{ChannelStore, Created, StoreError, Updated},
    time::Timestamp,
};
use rusqlite::{Connection, Row, params};

use super::{
    super::{
        SqliteStore,
        fault::Outcome,
        rows::{Columns, Key, unreadable},
        schedule_json,
        transaction::Tx,
    },
    organizations, schedules,
};
use crate::encoding::endpoint_columns::{read_event_types, write_event_types};

const OF_ORGANIZATION: &str = include_str!("../queries/channels_of_organization.sql");
const CHANGE_READER: &str = include_str!("../queries/change_channel_reader.sql");
const IS_OWNER: &str = include_str!("../queries/is_owner_email.sql");
const INSERT: &str = include_str!("../queries/insert_channel.sql");
const INSERT_SERVICE: &str = include_str!("../queries/insert_service_channel.sql");
const INSERT_LANE: &str = include_str!("../queries/insert_channel_lane.sql");
const UPDATE_SERVICE: &str = include_str!("../queries/update_service_channel.sql");
const DELETE: &str = include_str!("../queries/delete_channel.sql");
const DELETE_SERVICE: &str = include_str!("../queries/delete_service_channel.sql");
const DELETE_OF_ORGANIZATION: &str = include_str!("../queries/delete_channels_of_organization.sql");

#[async_trait]
impl ChannelStore for SqliteStore {
    async fn create_channel(
        &self,
        organization: OrganizationId,
        channel: Channel,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<Created, StoreError> {
        self.change(2, entry, move |tx| create(tx, organization, &channel, count_max)).await
    }

    async fn channels(&self, organization: OrganizationId) -> Result<Vec<Channel>, StoreError> {
        self.read(move |connection| of_organization(connection, organization)).await
    }

    async fn update_channel(
        &self,
        organization: OrganizationId,
        channel: Channel,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        self.change(1, entry, move |tx| update(tx, organization, &channel, read_at)).await
    }

    async fn delete_channel(&self, organization: OrganizationId, id: ChannelId, entry: AuditEntry) -> Result<bool, StoreError> {
        self.change(1, entry, move |tx| delete(tx, organization, id)).await
    }
}

pub(super) fn of_organization(connection: &Connection, organization: OrganizationId) -> Outcome<Vec<Channel>> {
    let mut statement = connection.prepare_cached(OF_ORGANIZATION)?;
    let channels = statement.query_map([organization.key()], of_row)?.collect::<Result<_, _>>()?;
    Ok(channels)
}

/// Makes, changes and removes the channels of these addresses, as it follows from whose they are: administrators are given, and owners are known already.
/// Says whether anything changed.
pub(super) fn follow<'a>(
    tx: &Tx<'_>,
    organization: OrganizationId,
    admins: &[EmailAddress],
    addresses: impl IntoIterator<Item = &'a EmailAddress>,
) -> Outcome<bool> {
    let known = of_organization(tx.connection(), organization)?;
    let mut is_changed = false;
    for address in addresses {
        let is_admin = admins.contains(address);
        let is_wanted = is_admin || is_owner(tx, organization, address)?;
        let id = ChannelId::of_email(organization, address);
        match known.iter().find(|channel| channel.id == id) {
            Some(_) if !is_wanted => {
                tx.prepare(DELETE)?.execute([id.key()])?;
            }
            Some(channel) if matches!(channel.to, ChannelTarget::Admin(_)) != is_admin => {
                tx.prepare(CHANGE_READER)?.execute(params![id.key(), is_admin])?;
            }
            None if is_wanted => {
                let schedule = schedule(tx)?;
                tx.prepare(INSERT_LANE)?.execute(params![id.key(), organization.key()])?;
                tx.prepare(INSERT)?.execute(params![id.key(), organization.key(), address.as_str(), schedule.0, is_admin])?;
            }
            _ => continue,
        }
        is_changed = true;
    }
    Ok(is_changed)
}

/// The same for owners that came or went in this write.
pub(super) fn follow_owners<'a>(
    tx: &mut Tx<'_>,
    organization: OrganizationId,
    owners: impl IntoIterator<Item = Option<&'a EmailAddress>>,
) -> Outcome<()> {
    let owners: Vec<&EmailAddress> = owners.into_iter().flatten().collect();
    if owners.is_empty() {
        return Ok(());
    }
    let admins = organizations::find(tx.connection(), &Ref::Id(organization))?.map_or_else(Vec::new, |found| found.admin_emails);
    if follow(tx, organization, &admins, owners)? {
        tx.bump_organization(organization)?;
    }
    Ok(())
}

fn is_owner(tx: &Tx<'_>, organization: OrganizationId, address: &EmailAddress) -> Outcome<bool> {
    Ok(tx.prepare(IS_OWNER)?.query_row(params![organization.key(), address.as_str()], |row| row.get("is_owner"))?)
}

/// Deletes those of an organization that is deleted in the same write.
pub(super) fn delete_of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    tx.prepare(DELETE_OF_ORGANIZATION)?.execute([organization.key()])?;
    Ok(())
}

/// The version of the retry schedule that channels go by.
fn schedule(tx: &Tx<'_>) -> Outcome<ScheduleVersion> {
    schedules::ensure_version(tx, &schedule_json::write(&presets::notify()))
}

fn create(tx: &mut Tx<'_>, organization: OrganizationId, channel: &Channel, count_max: u32) -> Outcome<Created> {
    let Some(service) = channel.service() else { return Ok(Created::NoSuchApplication) };
    let known = of_organization(tx.connection(), organization)?;
    if known.iter().any(|known| known.name() == channel.name()) {
        return Ok(Created::NameTaken);
    }
    if known.iter().filter(|known| known.service().is_some()).count() >= count_max as usize {
        return Ok(Created::TooMany);
    }
    if tx.prepare(INSERT_LANE)?.execute(params![channel.id.key(), organization.key()])? == 0 {
        return Ok(Created::NoSuchApplication);
    }
    let schedule = schedule(tx)?;
    tx.prepare(INSERT_SERVICE)?.execute(params![
        channel.id.key(),
        organization.key(),
        service.kind.as_str(),
        service.name.as_str(),
        schedule.0,
        service.credentials.0,
        write_event_types(&service.event_types),
        service.min_severity.map(NoticeSeverity::as_str),
        service.enabled,
        service.created_at.as_micros(),
        service.updated_at.as_micros()
    ])?;
    tx.bump_organization(organization)?;
    Ok(Created::Created)
}

fn update(tx: &mut Tx<'_>, organization: OrganizationId, channel: &Channel, read_at: Timestamp) -> Outcome<Updated> {
    let Some(service) = channel.service() else { return Ok(Updated::Changed) };
    let known = of_organization(tx.connection(), organization)?;
    if known.iter().any(|known| known.name() == channel.name() && known.id != channel.id) {
        return Ok(Updated::NameTaken);
    }
    let changed = tx.prepare(UPDATE_SERVICE)?.execute(params![
        channel.id.key(),
        organization.key(),
        read_at.as_micros(),
        service.name.as_str(),
        service.credentials.0,
        write_event_types(&service.event_types),
        service.min_severity.map(NoticeSeverity::as_str),
        service.enabled,
        service.updated_at.as_micros()
    ])?;
    if changed == 0 {
        return Ok(Updated::Changed);
    }
    tx.bump_organization(organization)?;
    Ok(Updated::Updated)
}

fn delete(tx: &mut Tx<'_>, organization: OrganizationId, id: ChannelId) -> Outcome<bool> {
    let is_deleted = tx.prepare(DELETE_SERVICE)?.execute(params![id.key(), organization.key()])? > 0;
    if is_deleted {
        tx.bump_organization(organization)?;
    }
    Ok(is_deleted)
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<Channel> {
    let kind: String = row.get("kind")?;
    let to = match ServiceKind::parse(&kind) {
        None if kind == "email" => {
            let address = row.spelled("name", |text: String| EmailAddress::parse(&text).ok())?;
            if row.get("is_admin")? { ChannelTarget::Admin(address) } else { ChannelTarget::Owner(address) }
        }
        None => return Err(unreadable("kind")),
        Some(kind) => ChannelTarget::Service(Box::new(ServiceChannel {
            name: row.spelled("name", |text: String| ChannelName::parse(&text))?,
            kind,
            credentials: SealedSecret(row.get("credentials")?),
            event_types: row.spelled("event_types", read_event_types)?,
            min_severity: row.spelled_opt("min_severity", |name: String| NoticeSeverity::parse(&name))?,
            enabled: row.get("enabled")?,
            created_at: row.instant("created_at")?,
            updated_at: row.instant("updated_at")?,
        })),
    };
    Ok(Channel { id: row.id("id")?, retry_schedule: ScheduleVersion(row.get("retry_schedule")?), to })
}
