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

/// Bumps these applications. Their counters are locked first, in the order in which everybody locks them.
pub(super) async fn bump(tx: &Tx<'_>, applications: &[ApplicationId]) -> Outcome<()> {
    tx.lock_counters(applications).await?;
    let keys: Vec<Uuid> = applications.iter().map(Key::key).collect();
    tx.execute(BUMP_CONFIGS, &[&keys]).await?;
    tx.note_change(Change::Shared).await
}

/// Bumps all applications of an organization, for a change of what they share.
pub(super) async fn bump_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    let rows = tx.query(APPLICATIONS_OF_ORGANIZATION, &[&organization.key()]).await?;
    let applications = rows.iter().map(|row| row.id("id")).collect::<Outcome<Vec<_>>>()?;
    bump(tx, &applications).await
}
