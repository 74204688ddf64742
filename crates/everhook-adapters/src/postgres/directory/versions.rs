//! New versions of the configurations of several applications at once. Publishers of each match again.

use everhook_core::{
    ids::{ApplicationId, OrganizationId},
    ports::Change,
};
use uuid::Uuid;

use super::super::{fault::Outcome, rows::Key, transaction::Tx};

const BUMP_CONFIGS: &str = include_str!("../queries/bump_configs.sql");
const BUMP_ORGANIZATION: &str = include_str!("../queries/bump_organization.sql");

/// The organization itself was changed: other nodes drop what they know of it, and look at its lanes again.
pub(super) async fn organization_changed(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    tx.execute(BUMP_ORGANIZATION, &[&organization.key()]).await?;
    tx.note_change(Change::Organization(organization)).await
}

/// What all applications of an organization share was changed.
pub(super) async fn definitions_changed(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    tx.execute(BUMP_ORGANIZATION, &[&organization.key()]).await?;
    tx.note_change(Change::Definitions(organization)).await
}

/// Some endpoints of these applications are about to change. Counters are locked first, in the order in which everybody locks them.
pub(super) async fn endpoints_change(tx: &Tx<'_>, organization: OrganizationId, applications: &[ApplicationId]) -> Outcome<()> {
    tx.lock_counters(applications).await?;
    let keys: Vec<Uuid> = applications.iter().map(Key::key).collect();
    tx.execute(BUMP_CONFIGS, &[&keys]).await?;
    tx.note_change(Change::Definitions(organization)).await
}
