//! The notice about an operational event, whichever channel sends it. Pure; asked by the attempt of a channel's delivery.
//!
//! First the words, which are the same for everyone ([`of_event`]), then how each kind of channel writes them: [`email`], [`slack`], [`pagerduty`], [`teams`],
//! [`webhook`]. [`routing`] says which channels get an event.
//!
//! Every value in a notice may come from a tenant: it is bounded here, and every writer sees to it that none becomes markup, a link, a mention or a header.

mod alerts;
mod apps;
mod deliveries;
pub mod email;
mod endpoints;
pub mod pagerduty;
pub mod routing;
pub mod slack;
pub mod teams;
mod values;
pub mod webhook;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::model::{EventType, NoticeSeverity};

/// The type of the event that tries a channel out. It is never published.
pub const TEST_EVENT_TYPE: &str = "channel.test";

/// What messages call the sender where nobody says otherwise.
pub const DEFAULT_BRAND: &str = "Everhook";

/// The longest name of the sender, in characters.
pub const BRAND_CHARS_MAX: usize = 40;

/// What people read, before it is written for a kind of channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How serious its story is: the end of one is as serious as its beginning, so that whoever was notified of one is notified of the other.
    pub severity: NoticeSeverity,
    /// Whether it begins or ends something.
    pub state: NoticeState,
    /// A word for it, in the style of a subject.
    pub label: &'static str,
    /// What it is about, in one line.
    pub title: String,
    /// What happened, and what it means.
    pub summary: String,
    /// What is known about it, by name.
    pub facts: Vec<(&'static str, String)>,
    /// What to do, step by step.
    pub steps: Vec<NoticeStep>,
    /// What its beginning and its end have in common; `None` of what has no end.
    pub dedupe_key: Option<String>,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeStep {
    /// What.
    pub words: &'static str,
    /// The request that does it.
    pub request: Option<String>,
}

/// Whether a notice begins or ends something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeState {
    /// Something is wrong.
    Problem,
    /// Something that was wrong is not any more.
    Resolved,
    /// Neither.
    Info,
}

impl NoticeState {
    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Resolved => "resolved",
            Self::Info => "info",
        }
    }
}

impl Notice {
    /// The line that stands above it: the sender, how urgent it is, what it is about.
    pub fn subject(&self, brand: &str) -> String {
        format!("[{brand} - {}] {}", self.label, self.title)
    }

    /// As it is written: facts that are not known are left out.
    fn complete(mut self) -> Self {
        self.facts.retain(|(_, value)| !value.is_empty());
        self
    }
}

impl NoticeStep {
    /// Something to do by oneself.
    const fn plain(words: &'static str) -> Self {
        Self { words, request: None }
    }

    /// Something that a request does.
    const fn request(words: &'static str, request: String) -> Self {
        Self { words, request: Some(request) }
    }
}

/// Every type of events that there are words for, in the order of the documents.
pub const TYPES_WITH_WORDS: [&str; 20] = [
    "alert.fired",
    "alert.resolved",
    "endpoint.warning",
    "endpoint.disabled",
    "endpoint.recovered",
    "circuit.opened",
    "circuit.closed",
    "message.attempt.exhausted",
    "dlq.replay_failed",
    "operation.finished",
    "app.unhealthy",
    "app.healthy",
    "call.fallback",
    "canary.withdrawn",
    "approval.requested",
    "job.dead",
    "job.callback_failed",
    "connection.deregistered",
    "amqp.unreachable",
    "amqp.recovered",
];

/// Whether people are notified of events of this type.
pub fn has_words_for(event_type: &EventType) -> bool {
    TYPES_WITH_WORDS.contains(&event_type.as_str())
}

/// The notice about an event; `None` if there are no words for its type.
pub fn of_event(event_type: &EventType, data: &Value) -> Option<Notice> {
    let notice = match event_type.as_str() {
        "alert.fired" => alerts::fired(data),
        "alert.resolved" => alerts::resolved(data),
        "endpoint.disabled" if data["reason"] == "failing" => endpoints::failed(data),
        "endpoint.disabled" => endpoints::disabled(data),
        "endpoint.warning" => endpoints::warned(data),
        "endpoint.recovered" => endpoints::recovered(data),
        "circuit.opened" => endpoints::breaker_opened(data),
        "circuit.closed" => endpoints::breaker_closed(data),
        "message.attempt.exhausted" => deliveries::exhausted(data),
        "dlq.replay_failed" => deliveries::replay_failed(data),
        "operation.finished" => deliveries::operation_finished(data),
        "amqp.unreachable" => deliveries::queue_unreachable(data),
        "amqp.recovered" => deliveries::queue_recovered(data),
        "app.unhealthy" => apps::unhealthy(data),
        "app.healthy" => apps::healthy(data),
        "call.fallback" => apps::fallback(data),
        "canary.withdrawn" => apps::canary_withdrawn(data),
        "approval.requested" => apps::approval_requested(data),
        "job.dead" => apps::job_dead(data),
        "job.callback_failed" => apps::callback_failed(data),
        "connection.deregistered" => apps::connection_deregistered(data),
        TEST_EVENT_TYPE => test(data),
        _ => return None,
    };
    Some(notice.complete())
}

/// The notice that a channel test sends.
fn test(data: &Value) -> Notice {
    Notice {
        severity: NoticeSeverity::Info,
        state: NoticeState::Info,
        label: "Test",
        title: "Test Notification".to_owned(),
        summary: "This is a test of a notification channel. Nothing has happened.".to_owned(),
        facts: vec![("Channel", values::text(data, "channel")), ("Sent at", values::instant(data, "sent_at"))],
        steps: Vec::new(),
        dedupe_key: Some(format!("everhook:channel:{}:test", values::text(data, "channel_id"))),
    }
}
