//! The health checks of apps: the port `AppHealthStore`. They are made and removed by the write that puts a manifest.

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, OrganizationId},
    model::{AppCheck, AppCheckPlan, AppHealth, AppStatus, FailingChecks},
    ports::{Alert, AppHealthStore, StoreError},
    time::Timestamp,
};
use rusqlite::{OptionalExtension, Row, params};

use super::{
    SqliteStore,
    fault::Outcome,
    outbox,
    rows::{Columns, Key, unreadable},
    transaction::Tx,
};

const CHECK: &str = include_str!("queries/app_check.sql");
const NEXT: &str = include_str!("queries/next_app_check.sql");
const TAKE: &str = include_str!("queries/take_app_checks.sql");
const PUT: &str = include_str!("queries/put_app_check.sql");
const KEEP: &str = include_str!("queries/keep_app_health.sql");
const DELETE: &str = include_str!("queries/delete_app_check.sql");
const DELETE_OF_ORGANIZATION: &str = include_str!("queries/delete_app_checks_of_organization.sql");

#[async_trait]
impl AppHealthStore for SqliteStore {
    async fn app_check(&self, application: ApplicationId) -> Result<Option<AppCheck>, StoreError> {
        self.read(move |connection| Ok(connection.prepare_cached(CHECK)?.query_row([application.key()], of_row).optional()?)).await
    }

    async fn next_app_check(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(|connection| Ok(connection.prepare_cached(NEXT)?.query_row([], |row| row.instant("next_at")).optional()?)).await
    }

    async fn take_app_checks(&self, now: Timestamp, interval: Duration, limit: u32) -> Result<Vec<AppCheck>, StoreError> {
        let interval = micros(interval).max(1);
        self.write(limit as usize, move |tx| {
            let mut statement = tx.prepare(TAKE)?;
            let taken = statement.query_map(params![now.as_micros(), interval, limit], of_row)?.collect::<Result<_, _>>()?;
            Ok(taken)
        })
        .await
    }

    async fn keep_app_health(&self, application: ApplicationId, found: AppHealth, alerts: Vec<Alert>) -> Result<bool, StoreError> {
        self.write(1 + alerts.len(), move |tx| keep(tx, application, &found, &alerts)).await
    }
}

/// Has the health of an application checked as its manifest says, in the write that puts that.
pub(super) fn plan(tx: &Tx<'_>, organization: OrganizationId, application: ApplicationId, check: Option<&AppCheckPlan>) -> Outcome<()> {
    match check {
        Some(AppCheckPlan { url, first_at }) => {
            tx.prepare(PUT)?.execute(params![application.key(), organization.key(), url, first_at.as_micros()])?;
            Ok(())
        }
        None => delete_of_application(tx, application),
    }
}

/// Deletes that of an application that is deleted in the same write.
pub(super) fn delete_of_application(tx: &Tx<'_>, application: ApplicationId) -> Outcome<()> {
    tx.prepare(DELETE)?.execute([application.key()])?;
    Ok(())
}

/// Deletes those of an organization that is deleted in the same write.
pub(super) fn delete_of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    tx.prepare(DELETE_OF_ORGANIZATION)?.execute([organization.key()])?;
    Ok(())
}

fn keep(tx: &Tx<'_>, application: ApplicationId, found: &AppHealth, alerts: &[Alert]) -> Outcome<bool> {
    let kept = tx.prepare(KEEP)?.execute(params![
        application.key(),
        found.status.as_str(),
        found.checked_at.as_micros(),
        micros(found.took),
        found.failing.map_or(0, |failing| failing.count),
        found.failing.map(|failing| failing.since.as_micros()),
        found.detail,
        found.checks
    ])?;
    if kept == 1 {
        alerts.iter().try_for_each(|alert| outbox::keep(tx, alert))?;
    }
    Ok(kept == 1)
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<AppCheck> {
    let found = match row.spelled_opt("status", |name: String| AppStatus::parse(&name))? {
        None => None,
        Some(status) => Some(AppHealth {
            status,
            checked_at: row.instant("checked_at")?,
            took: row.duration_opt("took")?.ok_or_else(|| unreadable("took"))?,
            failing: match row.instant_opt("failing_since")? {
                Some(since) => Some(FailingChecks { count: row.get("failures")?, since }),
                None => None,
            },
            detail: row.get("detail")?,
            checks: row.get("checks")?,
        }),
    };
    Ok(AppCheck {
        application: row.id("application_id")?,
        organization: row.id("organization_id")?,
        url: row.get("url")?,
        next_at: row.instant("next_at")?,
        found,
    })
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}
