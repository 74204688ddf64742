//! The words about alerts: rules that are not met any more, or are again.

use std::time::Duration;

use serde_json::Value;

use super::{
    Notice, NoticeState, NoticeStep,
    values::{either, instant, named, number, text},
};
use crate::{
    model::{AlertMetric, AlertScope, NoticeSeverity},
    policy::{alerts::server::advice, endpoint_health::in_words},
};

pub(super) fn fired(data: &Value) -> Notice {
    let severity = severity(data);
    let begin = if data["repeat"] == true { "Alert Still Firing" } else { "Alert" };
    Notice {
        severity,
        state: NoticeState::Problem,
        label: if severity == NoticeSeverity::Critical { "Critical" } else { "Warning" },
        title: format!("{begin}: {}", shown(data)),
        summary: either(text(data, "summary"), "An alert fired.".to_owned()),
        facts: facts(data),
        steps: steps(data),
        dedupe_key: dedupe_key(data),
    }
}

fn steps(data: &Value) -> Vec<NoticeStep> {
    let metric = data["metric"].as_str().and_then(AlertMetric::parse);
    let first = match metric {
        Some(metric) if is_of_server(data) => Some(NoticeStep::plain(advice(metric))),
        Some(AlertMetric::FailedHealthChecks) => {
            let path = format!("GET /v1/applications/{}/health", text(data, "application_id"));
            Some(NoticeStep::request("Check that the app is running, and what its health page answers:", path))
        }
        _ => None,
    };
    let silence = format!("POST /v1/alerts/{}/silence  {{\"for\": \"1h\"}}", text(data, "alert_id"));
    let others = [NoticeStep::request("See all alerts:", "GET /v1/alerts".to_owned()), NoticeStep::request("Silence it:", silence)];
    first.into_iter().chain(others).collect()
}

pub(super) fn resolved(data: &Value) -> Notice {
    Notice {
        severity: severity(data),
        state: NoticeState::Resolved,
        label: "Resolved",
        title: format!("Alert Resolved: {}", shown(data)),
        summary: either(text(data, "summary"), "An alert is over.".to_owned()),
        facts: facts(data),
        steps: Vec::new(),
        dedupe_key: dedupe_key(data),
    }
}

/// How serious an alert is. One that does not say it is a warning.
pub(super) fn severity(data: &Value) -> NoticeSeverity {
    data["severity"].as_str().and_then(NoticeSeverity::parse).unwrap_or(NoticeSeverity::Warning)
}

fn facts(data: &Value) -> Vec<(&'static str, String)> {
    vec![
        ("Rule", text(data, "rule")),
        ("Scope", text(data, "scope")),
        ("Node", text(data, "node")),
        ("Target", target(data)),
        ("Application", text(data, "application_id")),
        ("Metric", text(data, "metric")),
        ("Value", with_unit(data, "value")),
        ("Threshold", threshold(data)),
        ("Window", data["window_seconds"].as_u64().map(|secs| in_words(Duration::from_secs(secs))).unwrap_or_default()),
        ("Fired at", instant(data, "fired_at")),
        ("Resolved at", instant(data, "resolved_at")),
    ]
}

/// The server has no id: what stands for it says nothing to people.
fn target(data: &Value) -> String {
    if is_of_server(data) { String::new() } else { named(text(data, "target_name"), text(data, "target_id")) }
}

fn is_of_server(data: &Value) -> bool {
    data["scope"] == AlertScope::Server.as_str()
}

fn threshold(data: &Value) -> String {
    let value = with_unit(data, "threshold");
    if value.is_empty() { value } else { format!("{} {value}", text(data, "comparison")).trim().to_owned() }
}

fn with_unit(data: &Value, name: &str) -> String {
    let value = number(data, name);
    match data["unit"].as_str() {
        _ if value.is_empty() => value,
        Some("percent") => format!("{value} %"),
        Some("ms") => format!("{value} ms"),
        Some("seconds") => format!("{value} s"),
        _ => value,
    }
}

fn shown(data: &Value) -> String {
    let name = if is_of_server(data) { String::new() } else { text(data, "target_id") };
    let (rule, target) = (text(data, "rule"), either(text(data, "target_name"), name));
    if target.is_empty() { rule } else { format!("{rule}: {target}") }
}

fn dedupe_key(data: &Value) -> Option<String> {
    let key = either(text(data, "dedupe_key"), text(data, "alert_id"));
    (!key.is_empty()).then_some(key)
}
