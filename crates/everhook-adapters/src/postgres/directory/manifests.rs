//! Manifests, and what signs the requests to applications: the port `ManifestStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, OrganizationId, ScheduleVersion},
    model::{AppCheckPlan, AuditEntry, CapabilityLane, EmailAddress, JobLane, KeptManifest, RetrySchedule, SealedSecret, SealedSecrets},
    ports::{
        Alert, Change, ManifestBounds, ManifestChange, ManifestPut, ManifestStore, RetryScheduleStore as _, SecretsChange, StoreError,
    },
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        PostgresStore, app_health,
        audit_log::conclude,
        collisions::retry_on_conflict,
        fault::Outcome,
        outbox,
        reader::Reader,
        rows::{Columns, Key, Params},
        transaction::Tx,
    },
    applications, changing, channels, versions,
};

const OF_APPLICATION: &str = include_str!("../queries/manifest_of_application.sql");
const PUT: &str = include_str!("../queries/put_manifest.sql");
const OTHERS: &str = include_str!("../queries/other_manifests_of_organization.sql");
const LANES_OF_ORGANIZATION: &str = include_str!("../queries/capability_lanes_of_organization.sql");
const INSERT_LANES: &str = include_str!("../queries/insert_capability_lane.sql");
const SET_SCHEDULES: &str = include_str!("../queries/set_job_schedule.sql");
const LANES: &str = include_str!("../queries/capabilities_of_organization.sql");
const DELETE: &str = include_str!("../queries/delete_manifest.sql");
const DELETE_OF_ORGANIZATION: &str = include_str!("../queries/delete_manifests_of_organization.sql");
const SECRETS: &str = include_str!("../queries/application_secrets.sql");
const PUT_SECRETS: &str = include_str!("../queries/put_application_secrets.sql");
const DELETE_SECRETS: &str = include_str!("../queries/delete_application_secrets.sql");
const DELETE_SECRETS_OF_ORGANIZATION: &str = include_str!("../queries/delete_application_secrets_of_organization.sql");

#[async_trait]
impl ManifestStore for PostgresStore {
    async fn manifest(&self, application: ApplicationId) -> Result<Option<KeptManifest>, StoreError> {
        let row = self.line_reader().await?.query_opt(OF_APPLICATION, &[&application.key()]).await?;
        Ok(row.as_ref().map(of_row).transpose()?)
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
        let lanes = with_versions(self, &lanes).await?;
        let notify = self.schedule_of_owner(change.manifest.owner_email.as_ref()).await?;
        changed!(self, change.manifest.organization, entry, |tx| put(
            &tx,
            &Written { change: &change, lanes: &lanes, check: check.as_ref(), alerts: &alerts, bounds, notify }
        ))
    }

    async fn application_secrets(&self, application: ApplicationId) -> Result<Option<SealedSecrets>, StoreError> {
        Ok(secrets(&self.line_reader().await?, application).await?)
    }

    async fn put_application_secrets(&self, change: SecretsChange, entry: AuditEntry) -> Result<bool, StoreError> {
        changed!(self, change.organization, entry, |tx| put_secrets(&tx, &change))
    }
}

/// Lanes, and the versions of their retry schedules beside them: few schedules, whatever the number of lanes.
struct VersionedLanes {
    ids: Vec<Uuid>,
    versions: Vec<i64>,
}

/// Makes the versions that are not there yet. Before the manifest's transaction, as for endpoints: others may be making the same ones.
async fn with_versions(store: &PostgresStore, lanes: &[JobLane]) -> Result<VersionedLanes, StoreError> {
    let mut known: Vec<(&RetrySchedule, ScheduleVersion)> = Vec::new();
    let mut versions = Vec::with_capacity(lanes.len());
    for JobLane { schedule, .. } in lanes {
        let version = match known.iter().find(|(one, _)| *one == schedule) {
            Some((_, version)) => *version,
            None => store.schedule_version(schedule).await?,
        };
        known.push((schedule, version));
        versions.push(version.0);
    }
    Ok(VersionedLanes { ids: lanes.iter().map(|lane| lane.lane_id.key()).collect(), versions })
}

/// What is written with a manifest.
struct Written<'a> {
    change: &'a ManifestChange,
    lanes: &'a VersionedLanes,
    check: Option<&'a AppCheckPlan>,
    alerts: &'a [Alert],
    bounds: ManifestBounds,
    /// The version of the retry schedule of its owner's channel, if it names one.
    notify: Option<ScheduleVersion>,
}

async fn put(tx: &Tx<'_>, written: &Written<'_>) -> Outcome<ManifestPut> {
    let Written { change: ManifestChange { read, manifest }, lanes, check, alerts, bounds, notify } = *written;
    let (organization, application) = (manifest.organization, manifest.application);
    if !applications::is_still(tx, read).await? {
        return Ok(ManifestPut::Outdated);
    }
    let old = tx.query_opt(OF_APPLICATION, &[&application.key()]).await?.as_ref().map(of_row).transpose()?;
    if old.is_none() != (manifest.version == 1) {
        return Ok(ManifestPut::Outdated);
    }
    if let Some(refused) = refusal(tx, manifest, old.as_ref(), &lanes.ids, bounds).await? {
        return Ok(refused);
    }
    let (version, updated_at) = (manifest.version, manifest.updated_at.as_micros());
    let owner = manifest.owner_email.as_ref();
    let owner_text = owner.map(EmailAddress::as_str);
    let values: Params<'_> = &[&application.key(), &organization.key(), &version, &manifest.document, &updated_at, &owner_text];
    if tx.execute(PUT, values).await? == 0 {
        return Ok(ManifestPut::Outdated);
    }
    tx.execute(INSERT_LANES, &[&lanes.ids, &organization.key(), &application.key()]).await?;
    tx.execute(SET_SCHEDULES, &[&lanes.ids, &lanes.versions]).await?;
    app_health::plan(tx, organization, application, check).await?;
    let old_owner = old.and_then(|old| old.owner_email);
    channels::follow_owners(tx, organization, &[old_owner.as_ref(), owner], notify).await?;
    // The lanes and their schedules are part of what its applications share.
    versions::definitions_changed(tx, organization).await?;
    tx.note_change(Change::Application(application)).await?;
    outbox::keep(tx, alerts).await?;
    Ok(ManifestPut::Kept)
}

/// The version of the manifest that an application has; 0 if it has none.
pub(super) async fn version(tx: &Tx<'_>, application: ApplicationId) -> Outcome<i64> {
    let kept = tx.query_opt(OF_APPLICATION, &[&application.key()]).await?.as_ref().map(of_row).transpose()?;
    Ok(kept.map_or(0, |kept| kept.version))
}

/// Why a manifest that is the next version is not kept all the same, if a bound of its organization says so.
async fn refusal(
    tx: &Tx<'_>,
    manifest: &KeptManifest,
    old: Option<&KeptManifest>,
    lanes: &[Uuid],
    bounds: ManifestBounds,
) -> Outcome<Option<ManifestPut>> {
    let organization = manifest.organization.key();
    let others = tx.query_one(OTHERS, &[&organization, &manifest.application.key()]).await?;
    let (manifests, bytes): (i64, i64) = (others.value("manifests")?, others.value("bytes")?);
    if old.is_none() && manifests >= i64::from(bounds.manifests) {
        return Ok(Some(ManifestPut::TooMany));
    }
    let (length, old_length) = (manifest.document.len() as u64, old.map_or(0, |old| old.document.len() as u64));
    if length > old_length && bytes.unsigned_abs() + length > bounds.bytes {
        return Ok(Some(ManifestPut::TooLarge));
    }
    let before = tx.query_one(LANES_OF_ORGANIZATION, &[&organization, &lanes]).await?;
    let (count, known): (i64, i64) = (before.value("lanes")?, before.value("known")?);
    let new = i64::try_from(lanes.len()).unwrap_or(i64::MAX).saturating_sub(known);
    let is_over = new > 0 && count.saturating_add(new) > i64::from(bounds.lanes);
    Ok(is_over.then_some(ManifestPut::TooManyLanes))
}

/// The lanes of the capabilities of an organization's applications.
pub(super) async fn lanes(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<Vec<CapabilityLane>> {
    let lane = |row: &Row| {
        Ok(CapabilityLane {
            lane_id: row.id("id")?,
            application: row.id("application_id")?,
            retry_schedule: ScheduleVersion(row.value("job_schedule")?),
        })
    };
    tx.query(LANES, &[&organization.key()]).await?.iter().map(lane).collect()
}

async fn secrets(reader: &Reader, application: ApplicationId) -> Outcome<Option<SealedSecrets>> {
    reader.query_opt(SECRETS, &[&application.key()]).await?.as_ref().map(secrets_of_row).transpose()
}

async fn put_secrets(tx: &Tx<'_>, change: &SecretsChange) -> Outcome<bool> {
    let (organization, application) = (change.organization, change.application);
    let kept = tx.query_opt(SECRETS, &[&application.key()]).await?.as_ref().map(secrets_of_row).transpose()?;
    if kept != change.read || !applications::exists(tx, organization, application).await? {
        return Ok(false);
    }
    let previous = change.secrets.previous.as_ref();
    let (old, until) = (previous.map(|(secret, _)| &secret.0), previous.map(|(_, until)| until.as_micros()));
    tx.execute(PUT_SECRETS, &[&application.key(), &organization.key(), &change.secrets.current.0, &old, &until]).await?;
    tx.note_change(Change::Application(application)).await?;
    Ok(true)
}

/// Deletes those of an application that is deleted in the same write, which tells the other nodes.
///
/// Says whom the manifest named as the owner.
pub(super) async fn delete_of_application(tx: &Tx<'_>, application: ApplicationId) -> Outcome<Option<EmailAddress>> {
    let kept = tx.query_opt(OF_APPLICATION, &[&application.key()]).await?.as_ref().map(of_row).transpose()?;
    tx.execute(DELETE, &[&application.key()]).await?;
    tx.execute(DELETE_SECRETS, &[&application.key()]).await?;
    app_health::delete_of_application(tx, application).await?;
    Ok(kept.and_then(|kept| kept.owner_email))
}

/// Deletes those of an organization that is deleted in the same write, which tells the other nodes.
pub(super) async fn delete_of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    tx.execute(DELETE_OF_ORGANIZATION, &[&organization.key()]).await?;
    tx.execute(DELETE_SECRETS_OF_ORGANIZATION, &[&organization.key()]).await?;
    app_health::delete_of_organization(tx, organization).await?;
    Ok(())
}

fn of_row(row: &Row) -> Outcome<KeptManifest> {
    Ok(KeptManifest {
        application: row.id("application_id")?,
        organization: row.id("organization_id")?,
        version: row.value("version")?,
        document: row.value("document")?,
        owner_email: row.spelled_opt("owner_email", |text: &str| EmailAddress::parse(text).ok())?,
        updated_at: row.instant("updated_at")?,
    })
}

fn secrets_of_row(row: &Row) -> Outcome<SealedSecrets> {
    let previous = row.value::<Option<Vec<u8>>>("previous_secret")?.map(SealedSecret);
    let until: Option<Timestamp> = row.instant_opt("previous_secret_until")?;
    Ok(SealedSecrets { current: SealedSecret(row.value("secret")?), previous: previous.zip(until) })
}
