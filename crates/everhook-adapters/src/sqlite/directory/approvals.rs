//! Calls that people decide about: the port `ApprovalStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, ApprovalId, EventId, OrganizationId, Ref},
    model::{Actor, Approval, ApprovalDecision, ApprovalEnd, ApprovalStatus, AuditEntry, CapabilityName, Page, PageRequest},
    ports::{Alert, ApprovalFilter, ApprovalRequested, ApprovalStore, Decided, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::{
    super::{
        SqliteStore,
        fault::Outcome,
        outbox,
        page::{Between, List, list, rows_wanted},
        rows::{Columns, Key, unreadable},
        transaction::Tx,
    },
    applications,
};
use crate::commits::BYTES_A_ROW;

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
impl ApprovalStore for SqliteStore {
    async fn request_approval(&self, approval: Approval, pending_max: u32, alert: Alert) -> Result<ApprovalRequested, StoreError> {
        let bytes = approval.call.as_ref().map_or(0, |call| call.len());
        self.write(2 + bytes / BYTES_A_ROW, move |tx| request(tx, &approval, pending_max, &alert)).await
    }

    async fn approval(&self, organization: OrganizationId, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.read(move |connection| find(connection, organization, id)).await
    }

    async fn approvals(
        &self,
        organization: OrganizationId,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<Page<Approval>, StoreError> {
        self.read_history(move |connection| {
            let (between, wanted) = (Between::of(page), rows_wanted(page));
            let (organization, status) = (organization.key(), filter.status.map(ApprovalStatus::as_str));
            let rows = match (filter.application, status) {
                (None, None) => ALL.read(connection, page, params![organization, between.after, between.before, wanted], of_row)?,
                (None, Some(status)) => {
                    OF_STATUS.read(connection, page, params![organization, between.after, between.before, wanted, status], of_row)?
                }
                (Some(of), None) => {
                    let parameters = params![organization, between.after, between.before, wanted, of.key()];
                    OF_APPLICATION.read(connection, page, parameters, of_row)?
                }
                (Some(of), Some(status)) => {
                    let parameters = params![organization, between.after, between.before, wanted, of.key(), status];
                    OF_APPLICATION_AND_STATUS.read(connection, page, parameters, of_row)?
                }
            };
            Ok(Page::from_read(rows, page, |approval| *approval.id.as_uuid()))
        })
        .await
    }

    async fn decide_approval(
        &self,
        organization: OrganizationId,
        id: ApprovalId,
        decision: ApprovalDecision,
        entry: AuditEntry,
    ) -> Result<Decided, StoreError> {
        self.change(1, entry, move |tx| decide(tx, organization, id, &decision)).await
    }

    async fn unpublished_approvals(&self, after: ApprovalId, limit: u32) -> Result<Vec<Approval>, StoreError> {
        self.read(move |connection| some(connection, UNPUBLISHED, params![after.key(), limit])).await
    }

    async fn approval_published(&self, id: ApprovalId, event: EventId) -> Result<(), StoreError> {
        self.write(1, move |tx| {
            tx.prepare(PUBLISH)?.execute(params![id.key(), event.key()])?;
            Ok(())
        })
        .await
    }

    async fn expiring_approvals(&self, limit: u32) -> Result<Vec<Approval>, StoreError> {
        self.read(move |connection| some(connection, EXPIRING, params![limit])).await
    }

    async fn forget_approvals(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.write(limit as usize, move |tx| {
            let rows = tx.prepare(FORGET)?.execute(params![before.as_micros(), limit])?;
            Ok(u32::try_from(rows).unwrap_or(u32::MAX))
        })
        .await
    }
}

/// Removes some of an application that was deleted. Says whether there were any.
pub(super) fn delete_of_application(tx: &Tx<'_>, application: uuid::Uuid, limit: u32) -> Outcome<bool> {
    Ok(tx.prepare(DELETE_OF_APPLICATION)?.execute(params![application.key(), limit])? > 0)
}

fn find(connection: &Connection, organization: OrganizationId, id: ApprovalId) -> Outcome<Option<Approval>> {
    Ok(connection.prepare_cached(BY_ID)?.query_row(params![id.key(), organization.key()], of_row).optional()?)
}

fn some(connection: &Connection, sql: &'static str, parameters: impl Params) -> Outcome<Vec<Approval>> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map(parameters, of_row)?.collect::<Result<_, _>>()?;
    Ok(found)
}

fn request(tx: &Tx<'_>, approval: &Approval, pending_max: u32, alert: &Alert) -> Outcome<ApprovalRequested> {
    let (organization, application) = (approval.organization, approval.application);
    if find(tx.connection(), organization, approval.id)?.is_some() {
        return Ok(ApprovalRequested::Kept);
    }
    if applications::find(tx.connection(), organization, &Ref::Id(application))?.is_none() {
        return Ok(ApprovalRequested::NoSuchApplication);
    }
    let waiting: u32 = tx.prepare(COUNT_PENDING)?.query_row([application.key()], |row| row.get("waiting"))?;
    if waiting >= pending_max {
        return Ok(ApprovalRequested::TooMany);
    }
    tx.prepare(INSERT)?.execute(params![
        approval.id.key(),
        organization.key(),
        application.key(),
        approval.capability.as_str(),
        approval.lane_id.key(),
        approval.request_id.key(),
        approval.cause,
        approval.call.as_deref(),
        approval.requested_at.as_micros(),
        approval.expires_at.as_micros()
    ])?;
    outbox::keep(tx, alert)?;
    Ok(ApprovalRequested::Kept)
}

fn decide(tx: &Tx<'_>, organization: OrganizationId, id: ApprovalId, decision: &ApprovalDecision) -> Outcome<Decided> {
    let (actor, name) = match &decision.by {
        Actor::Key { id, name } => (Some(id.key()), Some(name)),
        Actor::Server => (None, None),
    };
    let (status, data, job) = match &decision.end {
        ApprovalEnd::Queued { job } => (ApprovalStatus::Approved, None, Some(job)),
        ApprovalEnd::Answered { data } => (ApprovalStatus::Approved, data.as_deref(), None),
        ApprovalEnd::Rejected => (ApprovalStatus::Rejected, None, None),
        ApprovalEnd::Expired => (ApprovalStatus::Expired, None, None),
    };
    let written = tx.prepare(DECIDE)?.execute(params![
        id.key(),
        organization.key(),
        status.as_str(),
        decision.at.as_micros(),
        actor,
        name,
        decision.reason,
        data,
        job.map(EventId::key),
        decision.unpublished.as_ref().map(EventId::key)
    ])?;
    if written == 1 {
        return Ok(Decided::Decided);
    }
    let found = find(tx.connection(), organization, id)?;
    Ok(found.map_or(Decided::NotFound, |before| Decided::Before(Box::new(before))))
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let bytes = |column: &str| Ok::<_, rusqlite::Error>(row.get::<_, Option<Vec<u8>>>(column)?.map(bytes::Bytes::from));
    let end = match (row.spelled("status", |name: String| ApprovalStatus::parse(&name))?, row.id_opt("job_id")?) {
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
                Some(id) => Actor::Key { id, name: row.get("actor_name")? },
                None => Actor::Server,
            },
            reason: row.get("reason")?,
            at: row.instant_opt("decided_at")?.ok_or_else(|| unreadable("decided_at"))?,
            unpublished: row.id_opt("unpublished")?,
        }),
    };
    Ok(Approval {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        capability: row.spelled("capability", |name: String| CapabilityName::parse(&name))?,
        lane_id: row.id("lane_id")?,
        request_id: row.id("request_id")?,
        cause: row.get("cause")?,
        call: bytes("call")?,
        requested_at: row.instant("requested_at")?,
        expires_at: row.instant("expires_at")?,
        decision,
    })
}
