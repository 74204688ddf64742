//! Writes into the store what was reported of the server, as one row for each rule and as operational events of the organization `default`. Whoever comes first
//! among nodes writes; the revision of the row decides it.

use std::time::Duration;

use crate::{
    line::{Line, alert::publish_pending, rule_alert::of_server},
    model::AlertStatus,
    policy::alerts::server::{
        ServerReport,
        records::{is_recorded, recorded, renewed},
    },
    ports::{AlertChange, StoreError, within},
    time::Timestamp,
};

/// How long the store may take: people wait to be notified.
const RECORD_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a row is read again that another node changed meanwhile.
const ROUNDS_MAX: u32 = 5;

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It is recorded.
    Now,
    /// Another node has recorded the same, and sends it.
    ByAnother,
    /// The store does not answer.
    NotKnown,
}

/// Records a report, unless another node has done it.
pub(super) async fn record(line: &Line, report: &ServerReport, is_sent: bool) -> Recorded {
    in_time(line, try_record(line, report, is_sent)).await
}

/// The same for a report that may have been recorded already: the store was asked, and nothing is known of its answer.
pub(super) async fn record_again(line: &Line, report: &ServerReport, is_sent: bool) -> Recorded {
    let again = async {
        match kept(line, report).await? {
            Some(kept) if is_recorded(&kept, report) => Ok(Recorded::Now),
            _ => try_record(line, report, is_sent).await,
        }
    };
    in_time(line, again).await
}

async fn in_time(line: &Line, recording: impl Future<Output = Result<Recorded, StoreError>>) -> Recorded {
    match within(&*line.ports.clock, RECORD_TIMEOUT, recording).await {
        Some(Ok(recorded)) => recorded,
        Some(Err(error)) => {
            line.log_delay("recording an alert about the server", &error);
            Recorded::NotKnown
        }
        None => Recorded::NotKnown,
    }
}

async fn try_record(line: &Line, report: &ServerReport, is_sent: bool) -> Result<Recorded, StoreError> {
    for _ in 0..ROUNDS_MAX {
        let Some(status) = recorded(kept(line, report).await?, report) else { return Ok(Recorded::ByAnother) };
        // The event names the alert as it is kept.
        let mut named = report.clone();
        named.status.id = status.id;
        let alert = Some(of_server(line, &named, is_sent));
        if line.ports.alerts.save_alerts(vec![AlertChange { status, alert }]).await? == [true] {
            return Ok(Recorded::Now);
        }
    }
    Err(StoreError::Conflict)
}

async fn kept(line: &Line, report: &ServerReport) -> Result<Option<AlertStatus>, StoreError> {
    let AlertStatus { organization, rule, target, .. } = &report.status;
    line.ports.alerts.alert_at(*organization, &rule.name, *target).await
}

/// Renews the record of an alert that still fires. If another node changed it meanwhile, it is not written, and need not be.
pub(super) async fn renew(line: &Line, record: &AlertStatus, value: f64, now: Timestamp) {
    let change = AlertChange { status: renewed(record, value, now), alert: None };
    if let Some(Err(error)) = within(&*line.ports.clock, RECORD_TIMEOUT, line.ports.alerts.save_alerts(vec![change])).await {
        line.log_delay("renewing an alert about the server", &error);
    }
}

/// Publishes what was recorded; says whether that worked.
pub(super) async fn publish(line: &Line) -> bool {
    matches!(within(&*line.ports.clock, RECORD_TIMEOUT, publish_pending(line)).await, Some(Ok(())))
}
