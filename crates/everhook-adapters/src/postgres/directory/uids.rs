//! The uids that lists show beside ids: all of a page in one read.

use everhook_core::{
    ids::{ApplicationId, EndpointId, OrganizationId},
    ports::UidsRead,
};
use uuid::Uuid;

use super::super::{
    fault::Outcome,
    reader::Reader,
    rows::{Columns, Key},
};

const UIDS: &str = include_str!("../queries/uids.sql");

pub(super) async fn read(
    reader: &Reader,
    organization: OrganizationId,
    endpoints: &[EndpointId],
    applications: &[ApplicationId],
) -> Outcome<UidsRead> {
    let endpoints: Vec<Uuid> = endpoints.iter().map(Key::key).collect();
    let applications: Vec<Uuid> = applications.iter().map(Key::key).collect();
    let mut found = UidsRead::default();
    for row in reader.query(UIDS, &[&organization.key(), &endpoints, &applications]).await? {
        let Some(uid) = row.uid_opt("uid")? else { continue };
        if row.value("is_endpoint")? {
            found.endpoints.push((row.id("id")?, uid));
        } else {
            found.applications.push((row.id("id")?, uid));
        }
    }
    Ok(found)
}
