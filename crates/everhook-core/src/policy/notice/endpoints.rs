//! The words about endpoints that fail, and about circuit breakers.

use serde_json::Value;

use super::{
    Notice, NoticeState, NoticeStep,
    values::{either, instant, named, number, text},
};
use crate::model::NoticeSeverity;

pub(super) fn disabled(data: &Value) -> Notice {
    let id = text(data, "endpoint_id");
    let mut facts = facts_of_endpoint(data);
    facts.extend([("Disabled at", instant(data, "disabled_at")), ("Last error", text(data, "last_error"))]);
    Notice {
        severity: NoticeSeverity::Critical,
        state: NoticeState::Problem,
        label: "Action Required",
        title: format!("Endpoint Disabled: {}", shown(data)),
        summary: "An endpoint was disabled because it answered 410 Gone, which says that it wants no more events. \
                  Nothing is sent to it any more, and what waited for it is cancelled."
            .to_owned(),
        facts,
        steps: vec![
            NoticeStep::plain("If this was intended, nothing is left to do."),
            NoticeStep::request("Otherwise repair the receiver, then enable the endpoint:", enabling(&id)),
            NoticeStep::request("Send what it missed:", recovery(data, &text(data, "disabled_at"))),
        ],
        dedupe_key: Some(health_key(data)),
    }
}

pub(super) fn warned(data: &Value) -> Notice {
    let disable_in = text(data, "disable_in");
    let outlook = if disable_in.is_empty() {
        String::new()
    } else {
        format!(" If no attempt succeeds, it is automatically disabled in {disable_in}.")
    };
    let mut facts = facts_of_endpoint(data);
    facts.extend([
        ("First failure", instant(data, "first_failure_at")),
        ("Failures", number(data, "failure_count")),
        ("Last attempt", instant(data, "last_attempt_at")),
        ("Next attempt", instant(data, "next_attempt_at")),
        ("Last error", text(data, "last_error")),
        ("Deadline", instant(data, "disable_at")),
    ]);
    Notice {
        severity: NoticeSeverity::Warning,
        state: NoticeState::Problem,
        label: "Warning",
        title: format!("Failing Endpoint: {}", shown(data)),
        summary: format!("An endpoint has been failing for the past {}: no attempt has succeeded.{outlook}", text(data, "failing_for")),
        facts,
        steps: vec![
            NoticeStep::plain("Check that the endpoint can be reached and responds correctly."),
            NoticeStep::plain("Make sure that it answers with a 2xx status within its timeout (15 seconds by default)."),
            NoticeStep::request("See what it answered:", format!("GET /v1/endpoints/{}/deliveries", text(data, "endpoint_id"))),
        ],
        dedupe_key: Some(health_key(data)),
    }
}

pub(super) fn failed(data: &Value) -> Notice {
    let id = text(data, "endpoint_id");
    let mut facts = facts_of_endpoint(data);
    facts.extend([
        ("Disabled at", instant(data, "disabled_at")),
        ("Failed for", text(data, "failing_for")),
        ("First failure", instant(data, "first_failure_at")),
        ("Attempts", number(data, "failure_count")),
        ("Last error", text(data, "last_error")),
    ]);
    Notice {
        severity: NoticeSeverity::Critical,
        state: NoticeState::Problem,
        label: "Action Required",
        title: format!("Endpoint Disabled: {}", shown(data)),
        summary: "An endpoint was automatically disabled because of repeated failures. \
                  Nothing is sent to it any more, and what waited for it is cancelled."
            .to_owned(),
        facts,
        steps: vec![
            NoticeStep::plain("Repair the endpoint."),
            NoticeStep::request("Enable it again:", enabling(&id)),
            NoticeStep::request("Send what it missed:", recovery(data, &text(data, "first_failure_at"))),
        ],
        dedupe_key: Some(health_key(data)),
    }
}

pub(super) fn recovered(data: &Value) -> Notice {
    let mut facts = facts_of_endpoint(data);
    facts.push(("Works since", instant(data, "recovered_at")));
    let missed = "Nothing has to be done. What it missed can be sent, from the time of your choice on:";
    Notice {
        severity: NoticeSeverity::Critical,
        state: NoticeState::Resolved,
        label: "Info",
        title: format!("Endpoint Recovered: {}", shown(data)),
        summary: "An endpoint works again: an attempt has succeeded.".to_owned(),
        facts,
        steps: vec![NoticeStep::request(missed, recovery(data, "…"))],
        dedupe_key: Some(health_key(data)),
    }
}

pub(super) fn breaker_opened(data: &Value) -> Notice {
    let mut facts = facts_of_lane(data);
    facts.extend([("Opened at", instant(data, "opened_at")), ("Reason", text(data, "reason"))]);
    let look = match text(data, "endpoint_id") {
        id if id.is_empty() => NoticeStep::plain("Check that the app can be reached and responds correctly."),
        id => NoticeStep::request("See its health:", format!("GET /v1/endpoints/{id}/health")),
    };
    Notice {
        severity: NoticeSeverity::Warning,
        state: NoticeState::Problem,
        label: "Warning",
        title: format!("Circuit Breaker Opened: {}", shown_lane(data)),
        summary:
            "A circuit breaker opened. Nothing is sent until it lets requests through again; what is to be sent waits, and nothing is lost."
                .to_owned(),
        facts,
        steps: vec![look],
        dedupe_key: Some(breaker_key(data)),
    }
}

pub(super) fn breaker_closed(data: &Value) -> Notice {
    let mut facts = facts_of_lane(data);
    facts.extend([("Closed at", instant(data, "closed_at")), ("Reason", text(data, "reason"))]);
    Notice {
        severity: NoticeSeverity::Warning,
        state: NoticeState::Resolved,
        label: "Info",
        title: format!("Circuit Breaker Closed: {}", shown_lane(data)),
        summary: "A circuit breaker closed: requests are sent again.".to_owned(),
        facts,
        steps: Vec::new(),
        dedupe_key: Some(breaker_key(data)),
    }
}

/// What every notice about an endpoint says of it.
pub(super) fn facts_of_endpoint(data: &Value) -> Vec<(&'static str, String)> {
    vec![
        ("Application", named(text(data, "application_name"), text(data, "application_id"))),
        ("Endpoint", named(text(data, "endpoint_name"), text(data, "endpoint_id"))),
        ("URL", text(data, "endpoint_url")),
        ("Description", text(data, "endpoint_description")),
    ]
}

/// The same where it may be a capability instead.
fn facts_of_lane(data: &Value) -> Vec<(&'static str, String)> {
    let mut facts = facts_of_endpoint(data);
    facts.push(("Capability", text(data, "capability")));
    facts
}

/// The request that sends what was missed since then.
fn recovery(data: &Value, since: &str) -> String {
    format!("POST /v1/applications/{}/recover  {{\"since\": \"{since}\"}}", text(data, "application_id"))
}

fn enabling(id: &str) -> String {
    format!("PUT /v1/endpoints/{id}  {{\"enabled\": true}}")
}

/// How an endpoint is named in a title.
pub(super) fn shown(data: &Value) -> String {
    either(text(data, "endpoint_name"), text(data, "endpoint_url"))
}

fn shown_lane(data: &Value) -> String {
    either(text(data, "capability"), shown(data))
}

fn health_key(data: &Value) -> String {
    format!("everhook:endpoint:{}:health", text(data, "endpoint_id"))
}

fn breaker_key(data: &Value) -> String {
    match text(data, "capability") {
        name if name.is_empty() => format!("everhook:endpoint:{}:circuit", text(data, "endpoint_id")),
        name => format!("everhook:application:{}:circuit:{name}", text(data, "application_id")),
    }
}
