//! Calls that people decide about: the port `ApprovalStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, ApprovalId, EventId, OrganizationId},
    model::{Actor, Approval, ApprovalDecision, ApprovalEnd, ApprovalStatus, AuditEntry, CapabilityName, Page, PageRequest},
    ports::{Alert, ApprovalFilter, ApprovalRequested, ApprovalStore, Decided, StoreError},
    time::Timestamp,
};
use tokio_postgres::Row;

use super::{
    super::{
        PostgresStore,
        audit_log::conclude,
        fault::Outcome,
        outbox::{AlertColumns, INSERT_ALERTS},
        page::{Between, List, list, rows_wanted},
        rows::{Columns, Key, Params},
        transaction::Tx,
    },
    applications,
};

const BY_ID: &str = include_str!("../queries/approval_by_id.sql");
const ALL: List = list!("../queries/approvals_page.sql");
const OF_STATUS: List = list!("../queries/approvals_of_status_page.sql");
const OF_APPLICATION: List = list!("../queries/approvals_of_application_page.sql");
const OF_APPLICATION_AND_STATUS: List = list!("../queries/approvals_of_application_and_status_page.sql");
const COUNT_PENDING: &str = include_str!("../queries/count_pending_approvals.sql");
const INSERT: &str = include_str!("../queries/insert_approval.sql");
const DECIDE: &str = include_str!("../queries/decide_approval.sql");
const UNPUBLISHED: &str = include_str!("../queries/unpublished_approvals.sql");
const PUBLISH: &str = include_str!("../queries/publish_approval.sql");
const EXPIRING: &str = include_str!("../queries/expiring_approvals.sql");
const FORGET: &str = include_str!("../queries/forget_approvals.sql");
const DELETE_OF_APPLICATION: &str = include_str!("../queries/delete_approvals_of_application.sql");

#[async_trait]
impl ApprovalStore for PostgresStore {
    async fn request_approval(&self, approval: Approval, pending_max: u32, alert: Alert) -> Result<ApprovalRequested, StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let requested = request(&tx, &approval, pending_max, &alert).await?;
        tx.commit().await?;
        Ok(requested)
    }

    async fn approval(&self, organization: OrganizationId, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        let row = self.reader().await?.query_opt(BY_ID, &[&id.key(), &organization.key()]).await?;
        Ok(row.as_ref().map(of_row).transpose()?)
    }

    async fn approvals(
        &self,
        organization: OrganizationId,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<Page<Approval>, StoreError> {
        let (between, wanted, reader) = (Between::of(page), rows_wanted(page), self.reader().await?);
        let (organization, status) = (organization.key(), filter.status.map(ApprovalStatus::as_str));
        let (after, before) = (&between.after, &between.before);
        let rows = match (filter.application.as_ref().map(Key::key), status) {
            (None, None) => ALL.read(&reader, page, &[&organization, after, before, &wanted], of_row).await?,
            (None, Some(status)) => OF_STATUS.read(&reader, page, &[&organization, after, before, &wanted, &status], of_row).await?,
            (Some(of), None) => OF_APPLICATION.read(&reader, page, &[&organization, after, before, &wanted, &of], of_row).await?,
            (Some(of), Some(status)) => {
                let parameters: Params<'_> = &[&organization, after, before, &wanted, &of, &status];
                OF_APPLICATION_AND_STATUS.read(&reader, page, parameters, of_row).await?
            }
        };
        Ok(Page::from_read(rows, page, |approval| *approval.id.as_uuid()))
    }

    async fn decide_approval(
        &self,
        organization: OrganizationId,
        id: ApprovalId,
        decision: ApprovalDecision,
        entry: AuditEntry,
    ) -> Result<Decided, StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let decided = decide(&tx, organization, id, &decision).await?;
        Ok(conclude(tx, decided, &entry).await?)
    }

    async fn unpublished_approvals(&self, after: ApprovalId, limit: u32) -> Result<Vec<Approval>, StoreError> {
        let rows = self.reader().await?.query(UNPUBLISHED, &[&after.key(), &i64::from(limit)]).await?;
        Ok(rows.iter().map(of_row).collect::<Outcome<_>>()?)
    }

    async fn approval_published(&self, id: ApprovalId, event: EventId) -> Result<(), StoreError> {
        self.reader().await?.execute(PUBLISH, &[&id.key(), &event.key()]).await?;
        Ok(())
    }

    async fn expiring_approvals(&self, limit: u32) -> Result<Vec<Approval>, StoreError> {
        let rows = self.reader().await?.query(EXPIRING, &[&i64::from(limit)]).await?;
        Ok(rows.iter().map(of_row).collect::<Outcome<_>>()?)
    }

    async fn forget_approvals(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let rows = self.reader().await?.execute(FORGET, &[&before.as_micros(), &i64::from(limit)]).await?;
        Ok(u32::try_from(rows).unwrap_or(u32::MAX))
    }
}

/// Removes some of an application that was deleted. Says whether there were any.
pub(super) async fn delete_of_application(tx: &Tx<'_>, application: uuid::Uuid, limit: u32) -> Outcome<bool> {
    Ok(tx.execute(DELETE_OF_APPLICATION, &[&application, &i64::from(limit)]).await? > 0)
}

async fn request(tx: &Tx<'_>, approval: &Approval, pending_max: u32, alert: &Alert) -> Outcome<ApprovalRequested> {
    let (organization, application) = (approval.organization, approval.application);
    if !applications::exists(tx, organization, application).await? {
        return Ok(ApprovalRequested::NoSuchApplication);
    }
    // Whoever keeps another at the same moment is not seen: it is a bound and no promise.
    let row = tx.query_opt(COUNT_PENDING, &[&application.key()]).await?;
    let waiting: i64 = row.map(|row| row.value("waiting")).transpose()?.unwrap_or(0);
    if waiting >= i64::from(pending_max) {
        return Ok(ApprovalRequested::TooMany);
    }
    let inserted = tx
        .execute(
            INSERT,
            &[
                &approval.id.key(),
                &organization.key(),
                &application.key(),
                &approval.capability.as_str(),
                &approval.lane_id.key(),
                &approval.request_id,
                &approval.cause,
                &approval.call.as_deref(),
                &approval.requested_at.as_micros(),
                &approval.expires_at.as_micros(),
            ],
        )
        .await?;
    if inserted == 1 {
        tx.execute(INSERT_ALERTS, &AlertColumns::new(&[alert]).parameters()).await?;
    }
    Ok(ApprovalRequested::Kept)
}

async fn decide(tx: &Tx<'_>, organization: OrganizationId, id: ApprovalId, decision: &ApprovalDecision) -> Outcome<Decided> {
    let (actor, name) = match &decision.by {
        Actor::Key { id, name } => (Some(id.key()), Some(name)),
        Actor::Server => (None, None),
    };
    let (status, data, job) = match &decision.end {
        ApprovalEnd::Queued { job } => (ApprovalStatus::Approved, None, Some(job.key())),
        ApprovalEnd::Answered { data } => (ApprovalStatus::Approved, data.as_deref(), None),
        ApprovalEnd::Rejected => (ApprovalStatus::Rejected, None, None),
        ApprovalEnd::Expired => (ApprovalStatus::Expired, None, None),
    };
    let written = tx
        .execute(
            DECIDE,
            &[
                &id.key(),
                &organization.key(),
                &status.as_str(),
                &decision.at.as_micros(),
                &actor,
                &name,
                &decision.reason,
                &data,
                &job,
                &decision.unpublished.as_ref().map(EventId::key),
            ],
        )
        .await?;
    if written == 1 {
        return Ok(Decided::Decided);
    }
    let row = tx.query_opt(BY_ID, &[&id.key(), &organization.key()]).await?;
    let found = row.as_ref().map(of_row).transpose()?;
    Ok(found.map_or(Decided::NotFound, |before| Decided::Before(Box::new(before))))
}

fn of_row(row: &Row) -> Outcome<Approval> {
    let bytes =
        |column: &'static str| -> Outcome<Option<bytes::Bytes>> { Ok(row.value::<Option<Vec<u8>>>(column)?.map(bytes::Bytes::from)) };
    let end = match (row.spelled("status", ApprovalStatus::parse)?, row.id_opt("job_id")?) {
        (ApprovalStatus::Pending, _) => None,
        (ApprovalStatus::Approved, Some(job)) => Some(ApprovalEnd::Queued { job }),
        (ApprovalStatus::Approved, None) => Some(ApprovalEnd::Answered { data: bytes("data")? }),
        (ApprovalStatus::Rejected, _) => Some(ApprovalEnd::Rejected),
        (ApprovalStatus::Expired, _) => Some(ApprovalEnd::Expired),
    };
    let decision = match end {
        None => None,
        Some(end) => Some(ApprovalDecision {
            end,
            by: match row.id_opt::<ApiKeyId>("actor_id")? {
                Some(id) => Actor::Key { id, name: row.value("actor_name")? },
                None => Actor::Server,
            },
            reason: row.value("reason")?,
            at: row.instant("decided_at")?,
            unpublished: row.id_opt("unpublished")?,
        }),
    };
    Ok(Approval {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        capability: row.spelled("capability", CapabilityName::parse)?,
        lane_id: row.id("lane_id")?,
        request_id: row.value("request_id")?,
        cause: row.value("cause")?,
        call: bytes("call")?,
        requested_at: row.instant("requested_at")?,
        expires_at: row.instant("expires_at")?,
        decision,
    })
}
