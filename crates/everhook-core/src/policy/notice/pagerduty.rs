//! A notice as an event of PagerDuty's Events API, version 2: what begins something triggers an incident, what ends it resolves that.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{Notice, NoticeState};
use crate::model::EventType;

/// Where events go, unless the operator says otherwise.
pub const PAGERDUTY_URL: &str = "https://events.pagerduty.com/v2/enqueue";

/// The longest `dedup_key` and the longest `summary` that the API takes, in characters.
const DEDUP_KEY_CHARS_MAX: usize = 255;
const SUMMARY_CHARS_MAX: usize = 1_024;

/// What an event of the API is made of.
pub struct PagerDutyEvent<'a> {
    /// The integration that it goes to.
    pub routing_key: &'a str,
    /// What it is about.
    pub event_type: &'a EventType,
    /// The instant of the event, in RFC 3339.
    pub at: &'a str,
    /// Its id: what has no end is an incident of its own.
    pub event_id: &'a str,
}

/// Writes a notice as the body of a request.
pub fn write(notice: &Notice, brand: &str, of: &PagerDutyEvent<'_>) -> Bytes {
    let dedup_key = cut(notice.dedupe_key.as_deref().unwrap_or(of.event_id), DEDUP_KEY_CHARS_MAX);
    let details: Map<String, Value> = notice.facts.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let action = if notice.state == NoticeState::Resolved { "resolve" } else { "trigger" };
    let body = json!({
        "routing_key": of.routing_key,
        "event_action": action,
        "dedup_key": dedup_key,
        "client": brand,
        "payload": {
            "summary": cut(&notice.subject(brand), SUMMARY_CHARS_MAX),
            "source": brand,
            "severity": notice.severity.as_str(),
            "timestamp": of.at,
            "class": of.event_type.as_str(),
            "custom_details": { "summary": notice.summary, "facts": details },
        },
    });
    Bytes::from(body.to_string())
}

/// The event that ends the incident of a channel that was tried out.
pub fn resolve(routing_key: &str, dedupe_key: &str) -> Bytes {
    let body = json!({ "routing_key": routing_key, "event_action": "resolve", "dedup_key": cut(dedupe_key, DEDUP_KEY_CHARS_MAX) });
    Bytes::from(body.to_string())
}

fn cut(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}
