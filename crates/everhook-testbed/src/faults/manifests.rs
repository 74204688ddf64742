//! Manifests, and what calls leave behind, that cannot be read or written on demand.

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OrganizationId},
    model::{
        AppCheck, AppCheckPlan, AppHealth, AuditEntry, CacheKey, CachedAnswer, FairDraw, JobAnswer, JobAttempt, JobRecord, KeptManifest,
        SealedSecrets,
    },
    ports::{Alert, AppHealthStore, CallRecords, JobAnswered, JobStore, ManifestStore, SecretsChange, StoreError},
    time::Timestamp,
};
use uuid::Uuid;

use super::{Faulty, Kind, injected};

#[async_trait]
impl<S: ManifestStore> ManifestStore for Faulty<S> {
    async fn manifest(&self, application: ApplicationId) -> Result<Option<KeptManifest>, StoreError> {
        through!(self, self.store.manifest(application))
    }

    async fn put_manifest(
        &self,
        manifest: KeptManifest,
        lanes: Vec<LaneId>,
        check: Option<AppCheckPlan>,
        entry: AuditEntry,
    ) -> Result<bool, StoreError> {
        through!(self, self.store.put_manifest(manifest, lanes, check, entry))
    }

    async fn application_secrets(&self, application: ApplicationId) -> Result<Option<SealedSecrets>, StoreError> {
        through!(self, self.store.application_secrets(application))
    }

    async fn put_application_secrets(&self, change: SecretsChange, entry: AuditEntry) -> Result<bool, StoreError> {
        through!(self, self.store.put_application_secrets(change, entry))
    }
}

#[async_trait]
impl<S: AppHealthStore> AppHealthStore for Faulty<S> {
    async fn app_check(&self, application: ApplicationId) -> Result<Option<AppCheck>, StoreError> {
        through!(self, self.store.app_check(application))
    }

    async fn next_app_check(&self) -> Result<Option<Timestamp>, StoreError> {
        through!(self, self.store.next_app_check())
    }

    async fn take_app_checks(&self, now: Timestamp, interval: Duration, limit: u32) -> Result<Vec<AppCheck>, StoreError> {
        through!(self, self.store.take_app_checks(now, interval, limit))
    }

    async fn keep_app_health(&self, application: ApplicationId, found: AppHealth, alerts: Vec<Alert>) -> Result<bool, StoreError> {
        through!(self, self.store.keep_app_health(application, found, alerts))
    }
}

#[async_trait]
impl<S: CallRecords> CallRecords for Faulty<S> {
    async fn cached_answer(&self, key: CacheKey) -> Result<Option<CachedAnswer>, StoreError> {
        through!(self, self.store.cached_answer(key))
    }

    async fn keep_answers(&self, answers: Vec<CachedAnswer>) -> Result<(), StoreError> {
        through!(self, self.store.keep_answers(answers))
    }

    async fn forget_answers(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
        through!(self, self.store.forget_answers(now, limit))
    }

    async fn forget_excess_answers(&self, kept_max: u32, limit: u32) -> Result<u32, StoreError> {
        through!(self, self.store.forget_excess_answers(kept_max, limit))
    }

    async fn keep_draw(&self, draw: FairDraw) -> Result<(), StoreError> {
        through!(self, self.store.keep_draw(draw))
    }

    async fn draw(&self, organization: OrganizationId, request_id: Uuid) -> Result<Option<FairDraw>, StoreError> {
        through!(self, self.store.draw(organization, request_id))
    }

    async fn forget_draws(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        through!(self, self.store.forget_draws(before, limit))
    }
}

#[async_trait]
impl<S: JobStore> JobStore for Faulty<S> {
    async fn begin_job_attempt(&self, attempt: JobAttempt) -> Result<JobRecord, StoreError> {
        through!(self, self.store.begin_job_attempt(attempt))
    }

    async fn job(&self, id: EventId) -> Result<Option<JobRecord>, StoreError> {
        through!(self, self.store.job(id))
    }

    async fn answer_job(&self, id: EventId, delivery: DeliveryId, answer: JobAnswer) -> Result<JobAnswered, StoreError> {
        through!(self, self.store.answer_job(id, delivery, answer))
    }

    async fn forget_jobs(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        through!(self, self.store.forget_jobs(before, limit))
    }
}
