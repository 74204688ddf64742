//! The words about apps, their calls and jobs, and about connections to health providers.

use serde_json::Value;

use super::{
    Notice, NoticeState, NoticeStep,
    values::{either, instant, named, number, text},
};
use crate::model::NoticeSeverity;

pub(super) fn unhealthy(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Critical,
        state: NoticeState::Problem,
        label: "Critical",
        title: format!("App Unhealthy: {}", shown(data)),
        summary: "An app failed its health checks. Calls to it are answered by their fallbacks as far as they have some.".to_owned(),
        facts: facts_of_health(data),
        steps: vec![
            NoticeStep::plain("Check that the app is running, and what its health page answers."),
            NoticeStep::request("See its health:", format!("GET /v1/applications/{}/health", text(data, "application_id"))),
        ],
        dedupe_key: Some(health_key(data)),
    }
}

pub(super) fn healthy(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Critical,
        state: NoticeState::Resolved,
        label: "Resolved",
        title: format!("App Healthy: {}", shown(data)),
        summary: "An app passes its health checks again.".to_owned(),
        facts: facts_of_health(data),
        steps: Vec::new(),
        dedupe_key: Some(health_key(data)),
    }
}

fn facts_of_health(data: &Value) -> Vec<(&'static str, String)> {
    vec![
        application(data),
        ("URL", text(data, "url")),
        ("Status", text(data, "status")),
        ("Detail", text(data, "detail")),
        ("Failures", number(data, "failure_count")),
        ("Failing since", instant(data, "failing_since")),
        ("Checked at", instant(data, "checked_at")),
    ]
}

/// The key of the alert `app_health_check_failed` about the same app: whoever subscribes to both has one incident.
fn health_key(data: &Value) -> String {
    format!("everhook/{}/app_health_check_failed/{}", text(data, "organization_id"), text(data, "application_id"))
}

pub(super) fn fallback(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Warning,
        state: NoticeState::Problem,
        label: "Warning",
        title: format!("Fallback Used: {}", text(data, "capability")),
        summary: "Calls were answered by a fallback instead of the app.".to_owned(),
        facts: vec![
            application(data),
            ("Capability", text(data, "capability")),
            ("Calls", number(data, "count")),
            ("Last request", text(data, "last_request_id")),
            ("Reported at", instant(data, "reported_at")),
        ],
        steps: vec![NoticeStep::plain("Check that the app can be reached and answers in time.")],
        dedupe_key: None,
    }
}

pub(super) fn canary_withdrawn(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Warning,
        state: NoticeState::Problem,
        label: "Warning",
        title: format!("Canary Withdrawn: {}", text(data, "capability")),
        summary: "A canary fails more often than the stable app. It is not called any more.".to_owned(),
        facts: vec![application(data), ("Capability", text(data, "capability")), ("Reason", text(data, "reason"))],
        steps: vec![NoticeStep::plain("Repair the new version of the app, then put its manifest again.")],
        dedupe_key: None,
    }
}

pub(super) fn approval_requested(data: &Value) -> Notice {
    let capability = text(data, "capability");
    Notice {
        severity: NoticeSeverity::Critical,
        state: NoticeState::Problem,
        label: "Action Required",
        title: format!("Approval Requested: {capability}"),
        summary: "A call waits for a person to decide its answer.".to_owned(),
        facts: vec![
            application(data),
            ("Capability", capability),
            ("Approval", text(data, "approval_id")),
            ("Request", text(data, "request_id")),
            ("Reason", text(data, "reason")),
            ("Requested at", instant(data, "requested_at")),
            ("Expires at", instant(data, "expires_at")),
        ],
        steps: vec![NoticeStep::plain("Decide the answer before it expires.")],
        dedupe_key: None,
    }
}

pub(super) fn job_dead(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Warning,
        state: NoticeState::Problem,
        label: "Warning",
        title: format!("Job Failed: {}", either(text(data, "capability"), text(data, "job_id"))),
        summary: "A job failed for good. It is a dead letter, and can be done again.".to_owned(),
        facts: facts_of_job(data),
        steps: steps_of_job(data),
        dedupe_key: None,
    }
}

pub(super) fn callback_failed(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Warning,
        state: NoticeState::Problem,
        label: "Warning",
        title: format!("Callback Failed: {}", text(data, "job_id")),
        summary: "The caller of a job could not be notified of its end.".to_owned(),
        facts: facts_of_job(data),
        steps: steps_of_job(data),
        dedupe_key: None,
    }
}

fn facts_of_job(data: &Value) -> Vec<(&'static str, String)> {
    vec![
        application(data),
        ("Capability", text(data, "capability")),
        ("Job", text(data, "job_id")),
        ("Delivery", text(data, "delivery_id")),
        ("Attempts", number(data, "attempts")),
        ("Reason", text(data, "reason")),
        ("Failed at", instant(data, "died_at")),
    ]
}

fn steps_of_job(data: &Value) -> Vec<NoticeStep> {
    let id = text(data, "delivery_id");
    vec![
        NoticeStep::request("See what was answered:", format!("GET /v1/deliveries/{id}")),
        NoticeStep::request("Try it again:", format!("POST /v1/deliveries/{id}/retry")),
    ]
}

pub(super) fn connection_deregistered(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Info,
        state: NoticeState::Info,
        label: "Info",
        title: format!("Connection Deregistered: {}", text(data, "provider")),
        summary: "A user withdrew the connection to a health provider. No more data comes in over it.".to_owned(),
        facts: vec![
            application(data),
            ("Provider", text(data, "provider")),
            ("Connections", data["connection_ids"].as_array().map(|ids| ids.len().to_string()).unwrap_or_default()),
            ("Deregistered at", instant(data, "deregistered_at")),
        ],
        steps: Vec::new(),
        dedupe_key: None,
    }
}

fn application(data: &Value) -> (&'static str, String) {
    ("Application", named(text(data, "application_name"), text(data, "application_id")))
}

/// How an app is named in a title.
fn shown(data: &Value) -> String {
    either(text(data, "application_name"), either(text(data, "url"), text(data, "application_id")))
}
