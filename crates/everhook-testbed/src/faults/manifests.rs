//! Manifests, and what calls leave behind, that cannot be read or written on demand.

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, ApprovalId, DeliveryId, EventId, LaneId, OrganizationId},
    model::{
        AppCheck, AppCheckPlan, AppHealth, Approval, ApprovalDecision, AuditEntry, CacheKey, CachedAnswer, FairDraw, JobAnswer, JobAttempt,
        JobLane, JobProgress, JobRecord, KeptManifest, LaneAnswers, Page, PageRequest, SealedSecrets,
    },
    ports::{
        Alert, AppHealthStore, ApprovalFilter, ApprovalRequested, ApprovalStore, CallRecords, Decided, JobAnswered, JobProgressed,
        JobStore, ManifestBounds, ManifestChange, ManifestPut, ManifestStore, SecretsChange, StoreError,
    },
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
        change: ManifestChange,
        lanes: Vec<JobLane>,
        check: Option<AppCheckPlan>,
        alerts: Vec<Alert>,
        bounds: ManifestBounds,
        entry: AuditEntry,
    ) -> Result<ManifestPut, StoreError> {
        through!(self, self.store.put_manifest(change, lanes, check, alerts, bounds, entry))
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

    async fn answers_of(&self, organization: OrganizationId) -> Result<Vec<LaneAnswers>, StoreError> {
        through!(self, self.store.answers_of(organization))
    }

    async fn forget_oldest_answers(&self, lane_id: LaneId, count: u32) -> Result<u32, StoreError> {
        through!(self, self.store.forget_oldest_answers(lane_id, count))
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
impl<S: ApprovalStore> ApprovalStore for Faulty<S> {
    async fn request_approval(&self, approval: Approval, pending_max: u32, alert: Alert) -> Result<ApprovalRequested, StoreError> {
        through!(self, self.store.request_approval(approval, pending_max, alert))
    }

    async fn approval(&self, organization: OrganizationId, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        through!(self, self.store.approval(organization, id))
    }

    async fn approvals(
        &self,
        organization: OrganizationId,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<Page<Approval>, StoreError> {
        through!(self, self.store.approvals(organization, filter, page))
    }

    async fn decide_approval(
        &self,
        organization: OrganizationId,
        id: ApprovalId,
        decision: ApprovalDecision,
        entry: AuditEntry,
    ) -> Result<Decided, StoreError> {
        through!(self, self.store.decide_approval(organization, id, decision, entry))
    }

    async fn unpublished_approvals(&self, after: ApprovalId, limit: u32) -> Result<Vec<Approval>, StoreError> {
        through!(self, self.store.unpublished_approvals(after, limit))
    }

    async fn approval_published(&self, id: ApprovalId, event: EventId) -> Result<(), StoreError> {
        through!(self, self.store.approval_published(id, event))
    }

    async fn expiring_approvals(&self, limit: u32) -> Result<Vec<Approval>, StoreError> {
        through!(self, self.store.expiring_approvals(limit))
    }

    async fn forget_approvals(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        through!(self, self.store.forget_approvals(before, limit))
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

    async fn note_job_progress(
        &self,
        id: EventId,
        delivery: DeliveryId,
        progress: JobProgress,
        last_at_most: Timestamp,
    ) -> Result<JobProgressed, StoreError> {
        through!(self, self.store.note_job_progress(id, delivery, progress, last_at_most))
    }

    async fn end_contract_test(&self, id: EventId) -> Result<(), StoreError> {
        through!(self, self.store.end_contract_test(id))
    }

    async fn forget_jobs(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        through!(self, self.store.forget_jobs(before, limit))
    }
}
