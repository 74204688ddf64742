//! A notice as a JSON object for programs: the words, and the event as it was published.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Notice;

/// What the object is made of.
pub struct WebhookEvent<'a> {
    /// The channel's name.
    pub channel: &'a str,
    /// The event's id.
    pub id: &'a str,
    /// Its type.
    pub event_type: &'a str,
    /// When it happened, in RFC 3339.
    pub at: &'a str,
    /// Its data, byte for byte.
    pub data: &'a [u8],
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    timestamp: &'a str,
    channel: &'a str,
    severity: &'a str,
    state: &'a str,
    title: &'a str,
    summary: &'a str,
    dedupe_key: Option<&'a str>,
    data: Option<&'a RawValue>,
}

/// Writes a notice as the body of a request.
pub fn write(notice: &Notice, of: &WebhookEvent<'_>) -> Bytes {
    let body = Body {
        id: of.id,
        event_type: of.event_type,
        timestamp: of.at,
        channel: of.channel,
        severity: notice.severity.as_str(),
        state: notice.state.as_str(),
        title: &notice.title,
        summary: &notice.summary,
        dedupe_key: notice.dedupe_key.as_deref(),
        data: serde_json::from_slice(of.data).ok(),
    };
    Bytes::from(serde_json::to_vec(&body).expect("texts and JSON can be written as JSON"))
}
