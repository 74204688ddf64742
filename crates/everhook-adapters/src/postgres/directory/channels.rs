//! Channels: who is told what happened. Those of e-mail follow from the addresses of their organization, and change with it in one transaction; those of
//! services are the port `ChannelStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ChannelId, OrganizationId, ScheduleVersion},
    model::{AuditEntry, Channel, ChannelName, ChannelTarget, EmailAddress, NoticeSeverity, SealedSecret, ServiceChannel, ServiceKind},
    policy::presets,
    ports::{ChannelStore, Created, RetryScheduleStore as _, StoreError, Updated},
    time::Timestamp,
};
use tokio_postgres::Row;

use super::{
    super::{
        PostgresStore,
        audit_log::conclude,
        collisions::retry_on_conflict,
        fault::Outcome,
        rows::{Columns, Key, unreadable},
        transaction::Tx,
    },
    changing, organizations, versions,
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
impl ChannelStore for PostgresStore {
    async fn create_channel(
        &self,
        organization: OrganizationId,
        channel: Channel,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<Created, StoreError> {
        let notify = self.schedule_version(&presets::notify()).await?;
        changed!(self, organization, entry, |tx| create(&tx, organization, &channel, notify, count_max))
    }

    async fn channels(&self, organization: OrganizationId) -> Result<Vec<Channel>, StoreError> {
        let rows = self.reader().await?.query(OF_ORGANIZATION, &[&organization.key()]).await?;
        Ok(rows.iter().map(of_row).collect::<Outcome<_>>()?)
    }

    async fn update_channel(
        &self,
        organization: OrganizationId,
        channel: Channel,
        read_at: Timestamp,
        entry: AuditEntry,
    ) -> Result<Updated, StoreError> {
        changed!(self, organization, entry, |tx| update(&tx, organization, &channel, read_at))
    }

    async fn delete_channel(&self, organization: OrganizationId, id: ChannelId, entry: AuditEntry) -> Result<bool, StoreError> {
        changed!(self, organization, entry, |tx| delete(&tx, organization, id))
    }
}

pub(super) async fn of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<Vec<Channel>> {
    tx.query(OF_ORGANIZATION, &[&organization.key()]).await?.iter().map(of_row).collect()
}

/// Makes, changes and removes the channels of these addresses, as it follows from whose they are: administrators are given, and owners are known already.
/// New ones go by this version of their retry schedule. Says whether anything changed.
pub(super) async fn follow(
    tx: &Tx<'_>,
    organization: OrganizationId,
    admins: &[EmailAddress],
    addresses: &[&EmailAddress],
    schedule: Option<ScheduleVersion>,
) -> Outcome<bool> {
    let known = of_organization(tx, organization).await?;
    let mut is_changed = false;
    for address in addresses {
        let is_admin = admins.contains(address);
        let is_wanted = is_admin || is_owner(tx, organization, address).await?;
        let id = ChannelId::of_email(organization, address);
        match (known.iter().find(|channel| channel.id == id), schedule) {
            (Some(_), _) if !is_wanted => {
                tx.execute(DELETE, &[&id.key()]).await?;
            }
            (Some(channel), _) if matches!(channel.to, ChannelTarget::Admin(_)) != is_admin => {
                tx.execute(CHANGE_READER, &[&id.key(), &is_admin]).await?;
            }
            (None, Some(schedule)) if is_wanted => {
                tx.execute(INSERT_LANE, &[&id.key(), &organization.key()]).await?;
                tx.execute(INSERT, &[&id.key(), &organization.key(), &address.as_str(), &schedule.0, &is_admin]).await?;
            }
            _ => continue,
        }
        is_changed = true;
    }
    Ok(is_changed)
}

/// The same for owners that came or went in this transaction.
pub(super) async fn follow_owners(
    tx: &Tx<'_>,
    organization: OrganizationId,
    owners: &[Option<&EmailAddress>],
    schedule: Option<ScheduleVersion>,
) -> Outcome<()> {
    let owners: Vec<&EmailAddress> = owners.iter().copied().flatten().collect();
    if owners.is_empty() {
        return Ok(());
    }
    let admins = organizations::admins(tx, organization).await?;
    if follow(tx, organization, &admins, &owners, schedule).await? {
        versions::organization_changed(tx, organization).await?;
    }
    Ok(())
}

async fn is_owner(tx: &Tx<'_>, organization: OrganizationId, address: &EmailAddress) -> Outcome<bool> {
    tx.query_one(IS_OWNER, &[&organization.key(), &address.as_str()]).await?.value("is_owner")
}

/// Deletes those of an organization that is deleted in the same transaction.
pub(super) async fn delete_of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    tx.execute(DELETE_OF_ORGANIZATION, &[&organization.key()]).await?;
    Ok(())
}

/// The organization is locked, so that nobody else counts its channels or takes a name meanwhile.
async fn create(
    tx: &Tx<'_>,
    organization: OrganizationId,
    channel: &Channel,
    schedule: ScheduleVersion,
    count_max: u32,
) -> Outcome<Created> {
    let Some(service) = channel.service() else { return Ok(Created::NoSuchApplication) };
    let known = of_organization(tx, organization).await?;
    if known.iter().any(|known| known.name() == channel.name()) {
        return Ok(Created::NameTaken);
    }
    if known.iter().filter(|known| known.service().is_some()).count() >= count_max as usize {
        return Ok(Created::TooMany);
    }
    if tx.execute(INSERT_LANE, &[&channel.id.key(), &organization.key()]).await? == 0 {
        return Ok(Created::NoSuchApplication);
    }
    tx.execute(
        INSERT_SERVICE,
        &[
            &channel.id.key(),
            &organization.key(),
            &service.kind.as_str(),
            &service.name.as_str(),
            &schedule.0,
            &service.credentials.0,
            &write_event_types(&service.event_types),
            &service.min_severity.map(NoticeSeverity::as_str),
            &service.enabled,
            &service.created_at.as_micros(),
            &service.updated_at.as_micros(),
        ],
    )
    .await?;
    versions::organization_changed(tx, organization).await?;
    Ok(Created::Created)
}

async fn update(tx: &Tx<'_>, organization: OrganizationId, channel: &Channel, read_at: Timestamp) -> Outcome<Updated> {
    let Some(service) = channel.service() else { return Ok(Updated::Changed) };
    let known = of_organization(tx, organization).await?;
    if known.iter().any(|known| known.name() == channel.name() && known.id != channel.id) {
        return Ok(Updated::NameTaken);
    }
    let changed = tx
        .execute(
            UPDATE_SERVICE,
            &[
                &channel.id.key(),
                &organization.key(),
                &read_at.as_micros(),
                &service.name.as_str(),
                &service.credentials.0,
                &write_event_types(&service.event_types),
                &service.min_severity.map(NoticeSeverity::as_str),
                &service.enabled,
                &service.updated_at.as_micros(),
            ],
        )
        .await?;
    if changed == 0 {
        return Ok(Updated::Changed);
    }
    versions::organization_changed(tx, organization).await?;
    Ok(Updated::Updated)
}

async fn delete(tx: &Tx<'_>, organization: OrganizationId, id: ChannelId) -> Outcome<bool> {
    let is_deleted = tx.execute(DELETE_SERVICE, &[&id.key(), &organization.key()]).await? > 0;
    if is_deleted {
        versions::organization_changed(tx, organization).await?;
    }
    Ok(is_deleted)
}

fn of_row(row: &Row) -> Outcome<Channel> {
    let kind: &str = row.value("kind")?;
    let to = match ServiceKind::parse(kind) {
        None if kind == "email" => {
            let address = row.spelled("name", |text: &str| EmailAddress::parse(text).ok())?;
            if row.value("is_admin")? { ChannelTarget::Admin(address) } else { ChannelTarget::Owner(address) }
        }
        None => return Err(unreadable("kind")),
        Some(kind) => ChannelTarget::Service(Box::new(ServiceChannel {
            name: row.spelled("name", |text: &str| ChannelName::parse(text))?,
            kind,
            credentials: SealedSecret(row.value("credentials")?),
            event_types: row.spelled("event_types", read_event_types)?,
            min_severity: row.spelled_opt("min_severity", |name: &str| NoticeSeverity::parse(name))?,
            enabled: row.value("enabled")?,
            created_at: row.instant("created_at")?,
            updated_at: row.instant("updated_at")?,
        })),
    };
    Ok(Channel { id: row.id("id")?, retry_schedule: ScheduleVersion(row.value("retry_schedule")?), to })
}
