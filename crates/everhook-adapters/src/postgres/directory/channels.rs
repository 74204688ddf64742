//! Channels: who is told by e-mail. They follow from the addresses of their organization, and change with it in one transaction.

use everhook_core::{
    ids::{ChannelId, OrganizationId, ScheduleVersion},
    model::{Channel, EmailAddress},
};
use tokio_postgres::Row;

use super::super::{
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
};

const OF_ORGANIZATION: &str = include_str!("../queries/channels_of_organization.sql");
const INSERT: &str = include_str!("../queries/insert_channel.sql");
const INSERT_LANE: &str = include_str!("../queries/insert_channel_lane.sql");
const DELETE: &str = include_str!("../queries/delete_channel.sql");

pub(super) async fn of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<Vec<Channel>> {
    tx.query(OF_ORGANIZATION, &[&organization.key()]).await?.iter().map(of_row).collect()
}

/// Makes the channels that addresses lack, with this version of their retry schedule, and removes those of other addresses.
pub(super) async fn follow(
    tx: &Tx<'_>,
    organization: OrganizationId,
    addresses: &[EmailAddress],
    schedule: Option<ScheduleVersion>,
) -> Outcome<()> {
    let known = of_organization(tx, organization).await?;
    for left in known.iter().filter(|channel| !addresses.contains(&channel.address)) {
        tx.execute(DELETE, &[&left.id.key()]).await?;
    }
    let Some(schedule) = schedule else { return Ok(()) };
    for address in addresses.iter().filter(|address| !known.iter().any(|channel| channel.address == **address)) {
        let id = ChannelId::of_email(organization, address);
        tx.execute(INSERT_LANE, &[&id.key(), &organization.key()]).await?;
        tx.execute(INSERT, &[&id.key(), &organization.key(), &address.as_str(), &schedule.0]).await?;
    }
    Ok(())
}

fn of_row(row: &Row) -> Outcome<Channel> {
    Ok(Channel {
        id: row.id("id")?,
        address: row.spelled("address", |text: &str| EmailAddress::parse(text).ok())?,
        retry_schedule: ScheduleVersion(row.value("retry_schedule")?),
    })
}
