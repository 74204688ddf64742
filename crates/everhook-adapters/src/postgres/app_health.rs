//! The health checks of apps: the port `AppHealthStore`. They are made and removed by the write that puts a manifest.

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, OrganizationId},
    model::{AppCheck, AppCheckPlan, AppHealth, AppStatus, FailingChecks},
    ports::{Alert, AppHealthStore, StoreError},
    time::Timestamp,
};
use tokio_postgres::Row;

use super::{
    PostgresStore,
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
impl AppHealthStore for PostgresStore {
    async fn app_check(&self, application: ApplicationId) -> Result<Option<AppCheck>, StoreError> {
        let row = self.reader().await?.query_opt(CHECK, &[&application.key()]).await?;
        Ok(row.as_ref().map(of_row).transpose()?)
    }

    async fn next_app_check(&self) -> Result<Option<Timestamp>, StoreError> {
        let row = self.reader().await?.query_opt(NEXT, &[]).await?;
        Ok(row.as_ref().map(|row| row.instant("next_at")).transpose()?)
    }

    async fn take_app_checks(&self, now: Timestamp, interval: Duration, limit: u32) -> Result<Vec<AppCheck>, StoreError> {
        let parameters = (now.as_micros(), micros(interval).max(1), i64::from(limit));
        let rows = self.reader().await?.query(TAKE, &[&parameters.0, &parameters.1, &parameters.2]).await?;
        Ok(rows.iter().map(of_row).collect::<Outcome<_>>()?)
    }

    async fn keep_app_health(&self, application: ApplicationId, found: AppHealth, alerts: Vec<Alert>) -> Result<bool, StoreError> {
        Ok(keep(self, application, &found, &alerts).await?)
    }
}

/// Has the health of an application checked as its manifest says, in the write that puts that.
pub(super) async fn plan(
    tx: &Tx<'_>,
    organization: OrganizationId,
    application: ApplicationId,
    check: Option<&AppCheckPlan>,
) -> Outcome<()> {
    match check {
        Some(AppCheckPlan { url, first_at }) => {
            tx.execute(PUT, &[&application.key(), &organization.key(), url, &first_at.as_micros()]).await?;
            Ok(())
        }
        None => delete_of_application(tx, application).await,
    }
}

/// Deletes that of an application that is deleted in the same write.
pub(super) async fn delete_of_application(tx: &Tx<'_>, application: ApplicationId) -> Outcome<()> {
    tx.execute(DELETE, &[&application.key()]).await?;
    Ok(())
}

/// Deletes those of an organization that is deleted in the same write.
pub(super) async fn delete_of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    tx.execute(DELETE_OF_ORGANIZATION, &[&organization.key()]).await?;
    Ok(())
}

async fn keep(store: &PostgresStore, application: ApplicationId, found: &AppHealth, alerts: &[Alert]) -> Outcome<bool> {
    let mut connection = store.connection().await?;
    let tx = Tx::begin(&mut connection).await?;
    let kept = tx
        .execute(
            KEEP,
            &[
                &application.key(),
                &found.status.as_str(),
                &found.checked_at.as_micros(),
                &micros(found.took),
                &found.failing.map_or(0, |failing| i64::from(failing.count)),
                &found.failing.map(|failing| failing.since.as_micros()),
                &found.detail,
                &found.checks,
            ],
        )
        .await?;
    if kept == 1 {
        outbox::keep(&tx, alerts).await?;
    }
    tx.commit().await?;
    Ok(kept == 1)
}

fn of_row(row: &Row) -> Outcome<AppCheck> {
    let found = match row.spelled_opt("status", AppStatus::parse)? {
        None => None,
        Some(status) => Some(AppHealth {
            status,
            checked_at: row.instant("checked_at")?,
            took: row.duration_opt("took")?.ok_or_else(|| unreadable("took"))?,
            failing: match row.instant_opt("failing_since")? {
                Some(since) => Some(FailingChecks { count: row.number("failures")?, since }),
                None => None,
            },
            detail: row.value("detail")?,
            checks: row.value("checks")?,
        }),
    };
    Ok(AppCheck {
        application: row.id("application_id")?,
        organization: row.id("organization_id")?,
        url: row.value("url")?,
        next_at: row.instant("next_at")?,
        found,
    })
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}
