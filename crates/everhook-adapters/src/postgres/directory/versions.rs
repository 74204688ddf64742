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

/// The organization itself was changed: bumps all its applications. Other nodes drop what they know of it, and look at its lanes again.
pub(super) async fn organization_changed(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    bump(tx, &of_organization(tx, organization).await?).await?;
    tx.note_change(Change::Organization(organization)).await
}

/// What all applications of an organization share was changed: bumps them all. Other nodes drop what they know of this organization, and of nobody else.
pub(super) async fn definitions_changed(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    let applications = of_organization(tx, organization).await?;
    definitions_of_some_changed(tx, organization, &applications).await
}

/// The same, where it concerns only these applications.
pub(super) async fn definitions_of_some_changed(tx: &Tx<'_>, organization: OrganizationId, applications: &[ApplicationId]) -> Outcome<()> {
    bump(tx, applications).await?;
    tx.note_change(Change::Definitions(organization)).await
}

/// Counters are locked first, in the order in which everybody locks them.
async fn bump(tx: &Tx<'_>, applications: &[ApplicationId]) -> Outcome<()> {
    tx.lock_counters(applications).await?;
    let keys: Vec<Uuid> = applications.iter().map(Key::key).collect();
    tx.execute(BUMP_CONFIGS, &[&keys]).await?;
    Ok(())
}

async fn of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<Vec<ApplicationId>> {
    let rows = tx.query(APPLICATIONS_OF_ORGANIZATION, &[&organization.key()]).await?;
    rows.iter().map(|row| row.id("id")).collect()
}
