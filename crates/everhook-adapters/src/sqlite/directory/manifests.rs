//! Manifests, and what signs the requests to applications: the port `ManifestStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, LaneId, OrganizationId, Ref, ScheduleVersion},
    model::{AppCheckPlan, AuditEntry, CapabilityLane, EmailAddress, JobLane, KeptManifest, SealedSecret, SealedSecrets},
    ports::{Alert, Effect as _, ManifestBounds, ManifestChange, ManifestPut, ManifestStore, SecretsChange, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustc_hash::FxHashSet;

use super::{
    super::{
        SqliteStore, app_health,
        fault::Outcome,
        outbox,
        rows::{Columns, Key},
        schedule_json,
        transaction::Tx,
    },
    applications, channels, schedules,
};

const OF_APPLICATION: &str = include_str!("../queries/manifest_of_application.sql");
const PUT: &str = include_str!("../queries/put_manifest.sql");
const OTHERS: &str = include_str!("../queries/other_manifests_of_organization.sql");
const LANES_OF_ORGANIZATION: &str = include_str!("../queries/capability_lanes_of_organization.sql");
const INSERT_LANE: &str = include_str!("../queries/insert_capability_lane.sql");
const SET_SCHEDULE: &str = include_str!("../queries/set_job_schedule.sql");
const LANES: &str = include_str!("../queries/capabilities_of_organization.sql");
const DELETE: &str = include_str!("../queries/delete_manifest.sql");
const DELETE_OF_ORGANIZATION: &str = include_str!("../queries/delete_manifests_of_organization.sql");
const SECRETS: &str = include_str!("../queries/application_secrets.sql");
const PUT_SECRETS: &str = include_str!("../queries/put_application_secrets.sql");
const DELETE_SECRETS: &str = include_str!("../queries/delete_application_secrets.sql");
const DELETE_SECRETS_OF_ORGANIZATION: &str = include_str!("../queries/delete_application_secrets_of_organization.sql");

#[async_trait]
impl ManifestStore for SqliteStore {
    async fn manifest(&self, application: ApplicationId) -> Result<Option<KeptManifest>, StoreError> {
        self.read(move |connection| Ok(connection.prepare_cached(OF_APPLICATION)?.query_row([application.key()], of_row).optional()?)).await
    }

    async fn put_manifest(
        &self,
        change: ManifestChange,
        lanes: Vec<JobLane>,
        check: Option<AppCheckPlan>,
        alerts: Vec<Alert>,
        bounds: ManifestBounds,
        entry: AuditEntry,
    ) -> Result<ManifestPut, StoreError> {
        self.change(2 + lanes.len() + alerts.len(), entry, move |tx| {
            let put = put(tx, &change, &lanes, check.as_ref(), bounds)?;
            if put.took_place() {
                alerts.iter().try_for_each(|alert| outbox::keep(tx, alert))?;
            }
            Ok(put)
        })
        .await
    }

    async fn application_secrets(&self, application: ApplicationId) -> Result<Option<SealedSecrets>, StoreError> {
        self.read(move |connection| secrets(connection, application)).await
    }

    async fn put_application_secrets(&self, change: SecretsChange, entry: AuditEntry) -> Result<bool, StoreError> {
        self.change(1, entry, move |tx| put_secrets(tx, &change)).await
    }
}

fn put(
    tx: &mut Tx<'_>,
    ManifestChange { read, manifest }: &ManifestChange,
    lanes: &[JobLane],
    check: Option<&AppCheckPlan>,
    bounds: ManifestBounds,
) -> Outcome<ManifestPut> {
    let (organization, application) = (manifest.organization, manifest.application);
    if !applications::is_still(tx, read)? {
        return Ok(ManifestPut::Outdated);
    }
    let old = tx.prepare(OF_APPLICATION)?.query_row([application.key()], of_row).optional()?;
    if old.is_none() != (manifest.version == 1) {
        return Ok(ManifestPut::Outdated);
    }
    let lanes_before = lanes_of_organization(tx, organization)?;
    if let Some(refused) = refusal(tx, manifest, old.as_ref(), (lanes, &lanes_before), bounds)? {
        return Ok(refused);
    }
    let written = tx.prepare(PUT)?.execute(params![
        application.key(),
        organization.key(),
        manifest.version,
        manifest.document,
        manifest.updated_at.as_micros(),
        manifest.owner_email.as_ref().map(EmailAddress::as_str)
    ])?;
    if written == 0 {
        return Ok(ManifestPut::Outdated);
    }
    for JobLane { lane_id, schedule } in lanes {
        let version = schedules::ensure_version(tx, &schedule_json::write(schedule))?;
        tx.prepare(INSERT_LANE)?.execute(params![lane_id.key(), organization.key(), application.key()])?;
        tx.prepare(SET_SCHEDULE)?.execute(params![lane_id.key(), version.0])?;
    }
    app_health::plan(tx, organization, application, check)?;
    let old_owner = old.and_then(|old| old.owner_email);
    channels::follow_owners(tx, organization, [old_owner.as_ref(), manifest.owner_email.as_ref()])?;
    // The lanes and their schedules are part of what its applications share.
    tx.bump_organization(organization)?;
    Ok(ManifestPut::Kept)
}

/// The version of the manifest that an application has; 0 if it has none.
pub(super) fn version(tx: &Tx<'_>, application: ApplicationId) -> Outcome<i64> {
    let kept = tx.prepare(OF_APPLICATION)?.query_row([application.key()], of_row).optional()?;
    Ok(kept.map_or(0, |kept| kept.version))
}

/// Why a manifest that is the next version is not kept all the same, if a bound of its organization says so.
fn refusal(
    tx: &Tx<'_>,
    manifest: &KeptManifest,
    old: Option<&KeptManifest>,
    (lanes, lanes_before): (&[JobLane], &FxHashSet<LaneId>),
    bounds: ManifestBounds,
) -> Outcome<Option<ManifestPut>> {
    let others = |row: &Row<'_>| Ok((row.get::<_, u32>("manifests")?, row.get::<_, i64>("bytes")?.unsigned_abs()));
    let (manifests, bytes) = tx.prepare(OTHERS)?.query_row(params![manifest.organization.key(), manifest.application.key()], others)?;
    if old.is_none() && manifests >= bounds.manifests {
        return Ok(Some(ManifestPut::TooMany));
    }
    let (length, old_length) = (manifest.document.len() as u64, old.map_or(0, |old| old.document.len() as u64));
    if length > old_length && bytes + length > bounds.bytes {
        return Ok(Some(ManifestPut::TooLarge));
    }
    let new = lanes.iter().filter(|lane| !lanes_before.contains(&lane.lane_id)).count();
    let is_over = new > 0 && lanes_before.len() + new > bounds.lanes as usize;
    Ok(is_over.then_some(ManifestPut::TooManyLanes))
}

fn lanes_of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<FxHashSet<LaneId>> {
    let lanes = tx.prepare(LANES_OF_ORGANIZATION)?.query_map([organization.key()], |row| row.id("id"))?.collect::<Result<_, _>>()?;
    Ok(lanes)
}

/// The lanes of the capabilities of an organization's applications.
pub(super) fn lanes(connection: &Connection, organization: OrganizationId) -> Outcome<Vec<CapabilityLane>> {
    let lane = |row: &Row<'_>| {
        Ok(CapabilityLane {
            lane_id: row.id("id")?,
            application: row.id("application_id")?,
            retry_schedule: ScheduleVersion(row.get("job_schedule")?),
        })
    };
    let mut statement = connection.prepare_cached(LANES)?;
    let lanes = statement.query_map([organization.key()], lane)?.collect::<Result<_, _>>()?;
    Ok(lanes)
}

fn secrets(connection: &Connection, application: ApplicationId) -> Outcome<Option<SealedSecrets>> {
    Ok(connection.prepare_cached(SECRETS)?.query_row([application.key()], secrets_of_row).optional()?)
}

fn put_secrets(tx: &Tx<'_>, change: &SecretsChange) -> Outcome<bool> {
    let (organization, application) = (change.organization, change.application);
    let is_there = applications::find(tx.connection(), organization, &Ref::Id(application))?.is_some();
    if !is_there || secrets(tx.connection(), application)? != change.read {
        return Ok(false);
    }
    let previous = change.secrets.previous.as_ref();
    tx.prepare(PUT_SECRETS)?.execute(params![
        application.key(),
        organization.key(),
        change.secrets.current.0,
        previous.map(|(secret, _)| &secret.0),
        previous.map(|(_, until)| until.as_micros())
    ])?;
    Ok(true)
}

/// Deletes those of an application that is deleted in the same write. Says whom the manifest named as the owner.
pub(super) fn delete_of_application(tx: &Tx<'_>, application: ApplicationId) -> Outcome<Option<EmailAddress>> {
    let kept = tx.prepare(OF_APPLICATION)?.query_row([application.key()], of_row).optional()?;
    tx.prepare(DELETE)?.execute([application.key()])?;
    tx.prepare(DELETE_SECRETS)?.execute([application.key()])?;
    app_health::delete_of_application(tx, application)?;
    Ok(kept.and_then(|kept| kept.owner_email))
}

/// Deletes those of an organization that is deleted in the same write.
pub(super) fn delete_of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    tx.prepare(DELETE_OF_ORGANIZATION)?.execute([organization.key()])?;
    tx.prepare(DELETE_SECRETS_OF_ORGANIZATION)?.execute([organization.key()])?;
    app_health::delete_of_organization(tx, organization)?;
    Ok(())
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<KeptManifest> {
    Ok(KeptManifest {
        application: row.id("application_id")?,
        organization: row.id("organization_id")?,
        version: row.get("version")?,
        document: row.get("document")?,
        owner_email: row.spelled_opt("owner_email", |text: String| EmailAddress::parse(&text).ok())?,
        updated_at: row.instant("updated_at")?,
    })
}

fn secrets_of_row(row: &Row<'_>) -> rusqlite::Result<SealedSecrets> {
    let previous = row.get::<_, Option<Vec<u8>>>("previous_secret")?.map(SealedSecret);
    let until: Option<Timestamp> = row.instant_opt("previous_secret_until")?;
    Ok(SealedSecrets { current: SealedSecret(row.get("secret")?), previous: previous.zip(until) })
}
