//! New versions of the configurations of several applications at once. Publishers of each match again.

use everhook_core::{
    ids::{ApplicationId, OrganizationId},
    ports::Change,
};
use uuid::Uuid;

use super::super::{
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
};

const BUMP_CONFIGS: &str = include_str!("../queries/bump_configs.sql");
const APPLICATIONS_OF_ORGANIZATION: &str = include_str!("../queries/applications_of_organization.sql");

/// Bumps these applications of an organization. Their counters are locked first, in the order in which everybody locks them. Other nodes drop what
/// they know of this organization, and of nobody else.
pub(super) async fn bump(tx: &Tx<'_>, organization: OrganizationId, applications: &[ApplicationId]) -> Outcome<()> {
    tx.lock_counters(applications).await?;
    let keys: Vec<Uuid> = applications.iter().map(Key::key).collect();
    tx.execute(BUMP_CONFIGS, &[&keys]).await?;
    tx.note_change(Change::Organization(organization)).await
}

/// Bumps all applications of an organization, for a change of what they share.
pub(super) async fn bump_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    let rows = tx.query(APPLICATIONS_OF_ORGANIZATION, &[&organization.key()]).await?;
    let applications = rows.iter().map(|row| row.id("id")).collect::<Outcome<Vec<_>>>()?;
    bump(tx, organization, &applications).await
}
