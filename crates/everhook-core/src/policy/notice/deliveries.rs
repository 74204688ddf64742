//! The words about deliveries, bulk actions and the queue that events are taken from.

use serde_json::Value;

use super::{
    Notice, NoticeState, NoticeStep,
    endpoints::{facts_of_endpoint, shown},
    values::{instant, number, text},
};
use crate::model::NoticeSeverity;

pub(super) fn exhausted(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Warning,
        state: NoticeState::Problem,
        label: "Warning",
        title: format!("Delivery Given Up: {}", shown(data)),
        summary: "A delivery was given up. It is a dead letter, and can be sent again.".to_owned(),
        facts: facts_of_delivery(data),
        steps: steps_of_delivery(data),
        dedupe_key: None,
    }
}

pub(super) fn replay_failed(data: &Value) -> Notice {
    Notice {
        title: format!("Replay Failed: {}", shown(data)),
        summary: "A dead letter was sent again automatically, and was given up again.".to_owned(),
        ..exhausted(data)
    }
}

fn facts_of_delivery(data: &Value) -> Vec<(&'static str, String)> {
    let mut facts = facts_of_endpoint(data);
    facts.extend([
        ("Event", text(data, "message_id")),
        ("Delivery", text(data, "delivery_id")),
        ("Attempts", number(data, "attempts")),
        ("Reason", text(data, "reason")),
    ]);
    facts
}

fn steps_of_delivery(data: &Value) -> Vec<NoticeStep> {
    let id = text(data, "delivery_id");
    vec![
        NoticeStep::request("See what was answered:", format!("GET /v1/deliveries/{id}")),
        NoticeStep::request("Send it again:", format!("POST /v1/deliveries/{id}/retry")),
    ]
}

pub(super) fn operation_finished(data: &Value) -> Notice {
    let (kind, status) = (text(data, "kind"), text(data, "status"));
    let has_failed = status == "failed";
    Notice {
        severity: if has_failed { NoticeSeverity::Warning } else { NoticeSeverity::Info },
        state: if has_failed { NoticeState::Problem } else { NoticeState::Info },
        label: if has_failed { "Warning" } else { "Info" },
        title: format!("Operation Ended: {kind}"),
        summary: format!("An operation has ended with the status `{status}`."),
        facts: vec![
            ("Operation", text(data, "operation_id")),
            ("Kind", kind),
            ("Status", status),
            ("Total", number(data, "total")),
            ("Done", number(data, "done")),
            ("Failed", number(data, "failed")),
            ("Skipped", number(data, "skipped")),
            ("Finished at", instant(data, "finished_at")),
        ],
        steps: Vec::new(),
        dedupe_key: None,
    }
}

pub(super) fn queue_unreachable(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Critical,
        state: NoticeState::Problem,
        label: "Critical",
        title: format!("Queue Unreachable: {}", text(data, "queue")),
        summary: "Events cannot be consumed from a queue. They wait there.".to_owned(),
        facts: vec![("Queue", text(data, "queue")), ("Failures", number(data, "failures")), ("Error", text(data, "error"))],
        steps: vec![NoticeStep::plain("Check that the broker is running, and that the queue exists.")],
        dedupe_key: Some(queue_key(data)),
    }
}

pub(super) fn queue_recovered(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Critical,
        state: NoticeState::Resolved,
        label: "Resolved",
        title: format!("Queue Reachable: {}", text(data, "queue")),
        summary: "Events are consumed from a queue again.".to_owned(),
        facts: vec![("Queue", text(data, "queue"))],
        steps: Vec::new(),
        dedupe_key: Some(queue_key(data)),
    }
}

fn queue_key(data: &Value) -> String {
    format!("everhook:organization:{}:queue:{}", text(data, "organization_id"), text(data, "queue"))
}
