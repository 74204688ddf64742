//! Channels: who is told by e-mail. They follow from the addresses of their organization, and change with it in one write.

use everhook_core::{
    ids::{ChannelId, OrganizationId, ScheduleVersion},
    model::{Channel, EmailAddress},
    policy::presets,
};
use rusqlite::{Connection, Row, params};

use super::{
    super::{
        fault::Outcome,
        rows::{Columns, Key},
        schedule_json,
        transaction::Tx,
    },
    schedules,
};

const OF_ORGANIZATION: &str = include_str!("../queries/channels_of_organization.sql");
const INSERT: &str = include_str!("../queries/insert_channel.sql");
const INSERT_LANE: &str = include_str!("../queries/insert_channel_lane.sql");
const DELETE: &str = include_str!("../queries/delete_channel.sql");

pub(super) fn of_organization(connection: &Connection, organization: OrganizationId) -> Outcome<Vec<Channel>> {
    let mut statement = connection.prepare_cached(OF_ORGANIZATION)?;
    let channels = statement.query_map([organization.key()], of_row)?.collect::<Result<_, _>>()?;
    Ok(channels)
}

/// Makes the channels that addresses lack, and removes those of other addresses.
pub(super) fn follow(tx: &Tx<'_>, organization: OrganizationId, addresses: &[EmailAddress]) -> Outcome<()> {
    let known = of_organization(tx.connection(), organization)?;
    for left in known.iter().filter(|channel| !addresses.contains(&channel.address)) {
        tx.prepare(DELETE)?.execute([left.id.key()])?;
    }
    for address in addresses.iter().filter(|address| !known.iter().any(|channel| channel.address == **address)) {
        let id = ChannelId::of_email(organization, address);
        let schedule = schedules::ensure_version(tx, &schedule_json::write(&presets::notify()))?;
        tx.prepare(INSERT_LANE)?.execute(params![id.key(), organization.key()])?;
        tx.prepare(INSERT)?.execute(params![id.key(), organization.key(), address.as_str(), schedule.0])?;
    }
    Ok(())
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<Channel> {
    Ok(Channel {
        id: row.id("id")?,
        address: row.spelled("address", |text: String| EmailAddress::parse(&text).ok())?,
        retry_schedule: ScheduleVersion(row.get("retry_schedule")?),
    })
}
