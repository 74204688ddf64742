//! The uids that lists show beside ids: all of a page in one read.

use everhook_core::{
    ids::{ApplicationId, EndpointId, OrganizationId, Uid},
    ports::UidsRead,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::super::{
    fault::Outcome,
    rows::{Columns, Key},
};

const OF_ENDPOINT: &str = include_str!("../queries/uid_of_endpoint.sql");
const OF_APPLICATION: &str = include_str!("../queries/uid_of_application.sql");

pub(super) fn read(
    connection: &Connection,
    organization: OrganizationId,
    endpoints: &[EndpointId],
    applications: &[ApplicationId],
) -> Outcome<UidsRead> {
    Ok(UidsRead {
        endpoints: of(connection, OF_ENDPOINT, organization, endpoints)?,
        applications: of(connection, OF_APPLICATION, organization, applications)?,
    })
}

fn of<T: Key + Copy>(connection: &Connection, sql: &str, organization: OrganizationId, ids: &[T]) -> Outcome<Vec<(T, Uid)>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let uid = statement.query_row(params![organization.key(), id.key()], |row| row.uid_opt("uid")).optional()?;
        found.extend(uid.flatten().map(|uid| (*id, uid)));
    }
    Ok(found)
}
