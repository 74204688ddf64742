//! Step 5 for alert rules: what is reported to an organization when a rule fires, still fires, or is fulfilled again.

use bytes::Bytes;
use serde_json::json;

use crate::{
    line::Line,
    model::{AlertStatus, EmailAddress, EventType},
    policy::alerts::{AlertReport, words::summary},
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
    let name = about.name.as_deref();
    let rule = &status.rule;
    let fired_at = status.episodes.first().map_or(status.since, |episode| episode.fired_at);
    let mut data = json!({
        "alert_id": status.id.to_string(),
        "dedupe_key": format!("everhook/{}/{}/{}", status.organization, rule.name, status.target),
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
    let event_type = match report {
        AlertReport::Fired | AlertReport::Repeated => "alert.fired",
        AlertReport::Resolved => {
            data["resolved_at"] = json!(now.to_string());
            "alert.resolved"
        }
    };
    Alert {
        id: line.ports.entropy.uuid(now),
        organization: status.organization,
        event_type: EventType::parse(event_type).expect("our own event types are well-formed"),
        data: Bytes::from(data.to_string()),
    }
}
