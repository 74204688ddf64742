//! Where manifests are kept: what applications answer when they are called, and what signs the requests to them.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, OrganizationId},
    model::{AppCheckPlan, Application, AuditEntry, JobLane, KeptManifest, SealedSecrets},
    ports::{Alert, Effect, StoreError},
};

/// The manifests of applications. Deleting an application deletes its manifest, its secrets and its health check in the same write.
///
/// Every change is announced to other nodes as [`Change::Application`](crate::ports::Change::Application). Every method fails with
/// [`StoreError::Unavailable`] if the store cannot be reached, and then changed nothing.
#[async_trait]
pub trait ManifestStore: Send + Sync {
    /// The manifest of an application; `None` if it has none.
    async fn manifest(&self, application: ApplicationId) -> Result<Option<KeptManifest>, StoreError>;

    /// Keeps a manifest, if its version is the next one (1 for the first) and its application is still as it was read, and makes the lanes of its
    /// capabilities that are not there yet. New deliveries to these keep the schedules that are given; those under way keep theirs. Its app is checked as
    /// `check` says from now on, and no more if it is `None`. The channels of owners follow from it.
    /// What the organization is to be notified of is kept with it.
    async fn put_manifest(
        &self,
        change: ManifestChange,
        lanes: Vec<JobLane>,
        check: Option<AppCheckPlan>,
        alerts: Vec<Alert>,
        bounds: ManifestBounds,
        entry: AuditEntry,
    ) -> Result<ManifestPut, StoreError>;

    /// What signs the requests to an application; `None` if it was never called.
    async fn application_secrets(&self, application: ApplicationId) -> Result<Option<SealedSecrets>, StoreError>;

    /// Keeps what signs from now on, if nobody changed it since it was `read` and the application is there. Says whether it did.
    async fn put_application_secrets(&self, change: SecretsChange, entry: AuditEntry) -> Result<bool, StoreError>;
}

/// A manifest that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestChange {
    /// The application that it was checked for, as it was read.
    pub read: Application,
    /// The manifest.
    pub manifest: KeptManifest,
}

/// What the manifests of one organization may have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestBounds {
    /// How many there may be.
    pub manifests: u32,
    /// How many bytes their documents may have.
    pub bytes: u64,
    /// How many lanes of capabilities there may be, those that no manifest names any more among them.
    pub lanes: u32,
}

/// What came of keeping a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestPut {
    /// It is kept.
    Kept,
    /// Its version is not the next one, or its application was changed or deleted.
    Outdated,
    /// The organization would have more manifests than it may.
    TooMany,
    /// Its manifests would have more bytes than they may. One that is not larger than the one before is kept all the same.
    TooLarge,
    /// It would have more lanes than it may. One that needs no new lane is kept all the same.
    TooManyLanes,
}

impl Effect for ManifestPut {
    fn took_place(&self) -> bool {
        matches!(self, Self::Kept)
    }
}

/// A change of what signs the requests to an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretsChange {
    /// The tenant that owns the application.
    pub organization: OrganizationId,
    /// Whose.
    pub application: ApplicationId,
    /// What signed before; `None` if there was nothing.
    pub read: Option<SealedSecrets>,
    /// What signs now.
    pub secrets: SealedSecrets,
}
