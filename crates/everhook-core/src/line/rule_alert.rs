//! Step 5 for alert rules: what is reported to an organization when a rule fires, still fires, or is fulfilled again.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    line::Line,
    model::{AlertScope, AlertStatus, EmailAddress, EventType},
    policy::alerts::{AlertReport, server::ServerReport, words::summary},
    ports::Alert,
    time::Timestamp,
};

/// What is looked up for a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertAbout {
    /// What people call the thing that it is about; `None` if it is not there any more.
    pub name: Option<String>,
    /// The owner of its application, if the alert is for the owner and there is an address.
    pub owner: Option<EmailAddress>,
}

/// What is reported to an organization about an alert: an event `alert.fired`, also when it is repeated, or `alert.resolved`.
///
/// The fields are what channels render, and what `docs/alerts.md` describes.
pub fn of_rule(line: &Line, status: &AlertStatus, about: &AlertAbout, report: AlertReport, now: Timestamp) -> Alert {
    let data = data(status, about, report, now);
    as_alert(line, status, report, &data, now)
}

/// The same about the server, as this node noticed it. `is_sent` says that administrators were notified of it directly, so that their channels are not again.
pub fn of_server(line: &Line, of: &ServerReport, is_sent: bool) -> Alert {
    let mut data = data(&of.status, &AlertAbout::default(), of.report, of.at);
    data["node"] = json!(line.node);
    data["sent_directly"] = json!(is_sent);
    as_alert(line, &of.status, of.report, &data, of.at)
}

/// What the notices about one alert have in common. Of the server, it is the same on all nodes: what they notice is one trouble.
fn dedupe_key(status: &AlertStatus) -> String {
    match status.rule.scope {
        AlertScope::Server => format!("everhook/server/{}", status.rule.name),
        _ => format!("everhook/{}/{}/{}", status.organization, status.rule.name, status.target),
    }
}

fn data(status: &AlertStatus, about: &AlertAbout, report: AlertReport, now: Timestamp) -> Value {
    let name = about.name.as_deref();
    let rule = &status.rule;
    let fired_at = status.episodes.first().map_or(status.since, |episode| episode.fired_at);
    let mut data = json!({
        "alert_id": status.id.to_string(),
        "dedupe_key": dedupe_key(status),
        "organization_id": status.organization.to_string(),
        "rule": rule.name,
        "severity": rule.severity.as_str(),
        "metric": rule.metric.as_str(),
        "scope": rule.scope.as_str(),
        "target_id": status.target.to_string(),
        "target_name": name,
        "value": status.value,
        "threshold": rule.threshold,
        "comparison": rule.metric.comparison().as_str(),
        "unit": rule.metric.unit().as_str(),
        "window_seconds": rule.window.as_secs(),
        "fired_at": fired_at.to_string(),
        "repeat": report == AlertReport::Repeated,
        "summary": summary(rule, name, status.value, report),
        "recipients": {
            "owner": rule.recipients.owner,
            "owner_email": about.owner.as_ref().map(EmailAddress::as_str),
            "admins": rule.recipients.admins,
            "channels": rule.recipients.channels,
        },
    });
    if let Some(application) = status.application {
        data["application_id"] = json!(application.to_string());
    }
    if report == AlertReport::Resolved {
        data["resolved_at"] = json!(now.to_string());
    }
    data
}

fn as_alert(line: &Line, status: &AlertStatus, report: AlertReport, data: &Value, now: Timestamp) -> Alert {
    let event_type = match report {
        AlertReport::Fired | AlertReport::Repeated => "alert.fired",
        AlertReport::Resolved => "alert.resolved",
    };
    Alert {
        id: line.ports.entropy.uuid(now),
        organization: status.organization,
        event_type: EventType::parse(event_type).expect("our own event types are well-formed"),
        data: Bytes::from(data.to_string()),
    }
}
