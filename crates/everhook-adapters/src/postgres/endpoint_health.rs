//! Which endpoints fail for long, and what was reported about them: the port `EndpointHealthStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::EndpointId,
    model::HealthRecord,
    ports::{EndpointHealthStore, FailingEndpoint, FailingRequest, HealthReport, StoreError},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore, audit_log,
    fault::Outcome,
    outbox::{AlertColumns, INSERT_ALERTS},
    rows::{Columns, Key},
    statistics::{activity_of_row, lock_activities, write_activities},
    transaction::Tx,
};
use crate::encoding::health_history;

const FAILING: &str = include_str!("queries/failing_endpoints.sql");
const RECOVERED: &str = include_str!("queries/recovered_endpoints.sql");
const DISABLE: &str = include_str!("queries/disable_failing_endpoint.sql");
const HISTORY: &str = include_str!("queries/health_history_of_endpoint.sql");
const WRITE_HISTORY: &str = include_str!("queries/write_health_history.sql");

#[async_trait]
impl EndpointHealthStore for PostgresStore {
    async fn failing_endpoints(&self, request: FailingRequest) -> Result<Vec<FailingEndpoint>, StoreError> {
        let FailingRequest { since, warned_since, after, limit } = request;
        let (after_since, after_id) = after.map_or((i64::MIN, Uuid::nil()), |(since, id)| (since.as_micros(), id.key()));
        let (since, warned_since, limit) = (since.as_micros(), warned_since.as_micros(), i64::from(limit));
        let rows = self.reader().await?.query(FAILING, &[&since, &warned_since, &after_since, &after_id, &limit]).await?;
        Ok(rows.iter().map(endpoint_of_row).collect::<Outcome<_>>()?)
    }

    async fn recovered_endpoints(&self, limit: u32) -> Result<Vec<FailingEndpoint>, StoreError> {
        let rows = self.reader().await?.query(RECOVERED, &[&i64::from(limit)]).await?;
        Ok(rows.iter().map(endpoint_of_row).collect::<Outcome<_>>()?)
    }

    async fn report_health(&self, report: HealthReport) -> Result<bool, StoreError> {
        let lane = self.lane_number(report.endpoint.into()).await?;
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        if !record(&tx, lane, &report).await? {
            // What was not committed is rolled back.
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    async fn health_history(&self, endpoint: EndpointId) -> Result<Vec<HealthRecord>, StoreError> {
        let row = self.reader().await?.query_opt(HISTORY, &[&endpoint.key()]).await?;
        let read = |row: Row| row.spelled("health_history", |written: String| health_history::read(&written));
        Ok(row.map(read).transpose()?.unwrap_or_default())
    }
}

/// Locks in the order that publishing has: counters first.
async fn record(tx: &Tx<'_>, lane: i64, report: &HealthReport) -> Outcome<bool> {
    if report.disables.is_some() {
        tx.lock_counters(&[report.application]).await?;
    }
    let mut activities = lock_activities(tx, &[lane]).await?;
    let mut reports = activities.values_mut().map(|activity| activity.clock.report(report.record.kind, &report.seen, report.record.at));
    if !reports.all(|is_reported| is_reported) || !disable(tx, report).await? {
        return Ok(false);
    }
    write_activities(tx, &activities).await?;
    let row = tx.query_one(HISTORY, &[&report.endpoint.key()]).await?;
    let history = row.spelled("health_history", |written: String| health_history::with(&written, report.record))?;
    tx.execute(WRITE_HISTORY, &[&lane, &history]).await?;
    tx.execute(INSERT_ALERTS, &AlertColumns::new(&[&report.alert]).parameters()).await?;
    Ok(true)
}

/// Says whether the endpoint is disabled, if it is to be.
async fn disable(tx: &Tx<'_>, report: &HealthReport) -> Outcome<bool> {
    let Some(disabling) = &report.disables else { return Ok(true) };
    let (at, reason) = (report.record.at.as_micros(), disabling.reason.as_str());
    let Some(row) = tx.query_opt(DISABLE, &[&report.endpoint.key(), &at, &reason]).await? else { return Ok(false) };
    tx.endpoint_changed(row.id("application_id")?, report.endpoint).await?;
    audit_log::append(tx, &disabling.entry).await?;
    Ok(true)
}

fn endpoint_of_row(row: &Row) -> Outcome<FailingEndpoint> {
    Ok(FailingEndpoint { endpoint: row.id("id")?, organization: row.id("organization_id")?, activity: activity_of_row(row)? })
}
