//! Which endpoints fail for long, and what was reported about them: the port `EndpointHealthStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::EndpointId,
    model::{EndpointActivity, HealthRecord},
    ports::{EndpointHealthStore, FailingEndpoint, FailingRequest, HealthReport, StoreError},
};
use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

use super::{
    SqliteStore, audit_log,
    fault::Outcome,
    outbox,
    rows::{Columns, Key},
    statistics::{activity_of_lane, activity_of_row, write_activity},
    transaction::Tx,
};
use crate::encoding::health_history;

const FAILING: &str = include_str!("queries/failing_endpoints.sql");
const RECOVERED: &str = include_str!("queries/recovered_endpoints.sql");
const DISABLE: &str = include_str!("queries/disable_failing_endpoint.sql");
const HISTORY: &str = include_str!("queries/health_history_of_endpoint.sql");
const WRITE_HISTORY: &str = include_str!("queries/write_health_history.sql");

#[async_trait]
impl EndpointHealthStore for SqliteStore {
    async fn failing_endpoints(&self, request: FailingRequest) -> Result<Vec<FailingEndpoint>, StoreError> {
        let FailingRequest { since, warned_since, after, limit } = request;
        let (after_since, after_id) = after.map_or((i64::MIN, *Uuid::nil().as_bytes()), |(since, id)| (since.as_micros(), *id.key()));
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(FAILING)?;
            let parameters = params![since.as_micros(), warned_since.as_micros(), after_since, after_id, limit];
            Ok(statement.query_map(parameters, endpoint_of_row)?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn recovered_endpoints(&self, limit: u32) -> Result<Vec<FailingEndpoint>, StoreError> {
        self.read_history(move |connection| {
            Ok(connection.prepare_cached(RECOVERED)?.query_map([limit], endpoint_of_row)?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn report_health(&self, report: HealthReport) -> Result<bool, StoreError> {
        self.write(5, move |tx| record(tx, &report)).await
    }

    async fn health_history(&self, endpoint: EndpointId) -> Result<Vec<HealthRecord>, StoreError> {
        let read = |row: &Row<'_>| row.spelled("health_history", |written: String| health_history::read(&written));
        self.read_history(move |connection| {
            Ok(connection.prepare_cached(HISTORY)?.query_row([endpoint.key()], read).optional()?.unwrap_or_default())
        })
        .await
    }
}

fn record(tx: &mut Tx<'_>, report: &HealthReport) -> Outcome<bool> {
    let lane = tx.lane_of(report.endpoint.into())?;
    let mut activity: EndpointActivity = activity_of_lane(tx, lane)?;
    if !activity.clock.report(report.record.kind, &report.seen, report.record.at) || !disable(tx, report)? {
        return Ok(false);
    }
    write_activity(tx, lane, &activity)?;
    let read = |row: &Row<'_>| row.spelled("health_history", |written: String| health_history::with(&written, report.record));
    let history = tx.prepare(HISTORY)?.query_row([report.endpoint.key()], read)?;
    tx.prepare(WRITE_HISTORY)?.execute(params![lane, history])?;
    outbox::keep(tx, &report.alert)?;
    Ok(true)
}

/// Says whether the endpoint is disabled, if it is to be.
fn disable(tx: &mut Tx<'_>, report: &HealthReport) -> Outcome<bool> {
    let Some(disabling) = &report.disables else { return Ok(true) };
    let parameters = params![report.endpoint.key(), report.record.at.as_micros(), disabling.reason.as_str()];
    let application = tx.prepare(DISABLE)?.query_row(parameters, |row| row.id("application_id")).optional()?;
    let Some(application) = application else { return Ok(false) };
    tx.endpoint_changed(application, report.endpoint)?;
    audit_log::append(tx, &disabling.entry)?;
    Ok(true)
}

fn endpoint_of_row(row: &Row<'_>) -> rusqlite::Result<FailingEndpoint> {
    Ok(FailingEndpoint { endpoint: row.id("id")?, organization: row.id("organization_id")?, activity: activity_of_row(row)? })
}
