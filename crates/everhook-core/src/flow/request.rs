//! The request that goes out: body, headers and signatures. Pure, and built anew for each attempt: signatures carry the time of sending.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use uuid::Uuid;

use crate::{
    catalog::Destination,
    envelope,
    model::{Event, InFlight},
    ports::{OutgoingHeader, OutgoingRequest},
    signing::{self, Signable},
    time::Timestamp,
};

/// How every request names its sender.
pub(crate) const USER_AGENT: &str = concat!("Everhook/", env!("CARGO_PKG_VERSION"));

/// How many headers of ours a request has, at most; so that the list is allocated once.
const HEADERS_OF_OURS: usize = 15;

/// What an attempt is made of.
pub struct Outgoing<'a> {
    /// Which delivery, and which attempt of it.
    pub flight: &'a InFlight,
    /// What is sent.
    pub event: &'a Event,
    /// Where to.
    pub destination: &'a Destination,
    /// When it is sent and signed.
    pub at: Timestamp,
    /// Eight random bytes that name this request in its trace.
    pub span: [u8; 8],
    /// How long it may take.
    pub timeout: Duration,
}

/// Builds the request, signed and complete.
pub fn build(outgoing: &Outgoing<'_>) -> OutgoingRequest {
    let Outgoing { flight, event, destination, at, span, timeout } = *outgoing;
    let endpoint = &destination.endpoint;
    let body = envelope::body(event, endpoint.payload_style);
    let signable = Signable { event: event.id, at, body: &body, style: endpoint.signature_style };
    let signatures = signing::sign(&destination.keys, &signable);

    let mut values = Values::new();
    let mut headers = Vec::with_capacity(HEADERS_OF_OURS + destination.headers.len());
    let mut add = |name: &'static str, value: Bytes| headers.push((Cow::Borrowed(name), value));
    add("content-type", Bytes::from_static(b"application/json"));
    add("user-agent", Bytes::from_static(USER_AGENT.as_bytes()));
    add("webhook-id", values.uuid(event.id.as_uuid()));
    add("webhook-timestamp", values.text(at.as_secs()));
    add("webhook-signature", signatures.webhook_signature.into());
    add("x-webhook-id", destination.id_text.clone());
    add("x-webhook-event", values.bytes(event.event_type.as_str().as_bytes()));
    add("x-webhook-delivery", values.uuid(flight.due.delivery.as_uuid()));
    add("x-webhook-attempt", values.text(flight.attempt_number()));
    add("x-webhook-timestamp", values.text(at.floor_to_second()));
    add("x-webhook-signature", signatures.x_webhook_signature.into());
    if let Some(next) = signatures.x_webhook_signature_next {
        add("x-webhook-signature-next", next.into());
    }
    add("x-idempotency-key", values.bytes(event.idempotency_key.as_bytes()));
    add("traceparent", values.traceparent(event, span));
    if let Some(original) = flight.due.replay_of {
        add("x-webhook-replay", values.uuid(original.as_uuid()));
    }
    headers.extend(destination.headers.iter().cloned());
    add_event_headers(&event.headers, &mut headers);
    OutgoingRequest { target: destination.target.clone(), headers, body, timeout }
}

/// Adds the publisher's own headers, but for those that the endpoint's owner set: an endpoint's credentials are not a publisher's to replace.
fn add_event_headers(of_event: &[(String, String)], headers: &mut Vec<(OutgoingHeader, Bytes)>) {
    for (name, value) in of_event {
        let lower = name.to_ascii_lowercase();
        if headers.iter().all(|(known, _)| *known != lower) {
            headers.push((lower.into(), Bytes::copy_from_slice(value.as_bytes())));
        }
    }
}

/// Room for the values that are written for one request, unless its key or type is uncommonly long.
const VALUE_BYTES: usize = 384;

/// Writes the values of headers one after another into one piece of memory, which they share.
struct Values(BytesMut);

impl Values {
    fn new() -> Self {
        Self(BytesMut::with_capacity(VALUE_BYTES))
    }

    fn bytes(&mut self, value: &[u8]) -> Bytes {
        self.0.extend_from_slice(value);
        self.0.split().freeze()
    }

    fn text(&mut self, value: impl fmt::Display) -> Bytes {
        write!(self.0, "{value}").expect("memory takes every byte");
        self.0.split().freeze()
    }

    fn uuid(&mut self, value: &Uuid) -> Bytes {
        self.bytes(value.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes())
    }

    /// Names this request in the publisher's trace, or in a new one that the event's retries share.
    fn traceparent(&mut self, event: &Event, span: [u8; 8]) -> Bytes {
        let span = u64::from_be_bytes(span).max(1);
        match event.traceparent.as_deref().and_then(trace_and_flags) {
            Some((trace, flags)) => self.text(format_args!("00-{trace}-{span:016x}-{flags}")),
            None => self.text(format_args!("00-{}-{span:016x}-01", event.id.as_uuid().simple())),
        }
    }
}

/// Takes a `traceparent` apart; `None` if it is not one, which restarts the trace as the W3C asks.
pub fn trace_and_flags(traceparent: &str) -> Option<(&str, &str)> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut parts = traceparent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let lengths = (version.len(), trace.len(), span.len(), flags.len()) == (2, 32, 16, 2);
    let hex = [version, trace, span, flags].into_iter().all(is_hex);
    let zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    (lengths && hex && version != "ff" && !zero(trace) && !zero(span)).then_some((trace, flags))
}

/// A header's value, for tests and tools that look into a request.
pub fn header<'a>(headers: &'a [(OutgoingHeader, Bytes)], name: &str) -> Option<&'a str> {
    let (_, value) = headers.iter().find(|(known, _)| known == name)?;
    std::str::from_utf8(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_traceparent_is_continued() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let good = format!("00-{trace}-00f067aa0ba902b7-01");
        assert_eq!(trace_and_flags(&good), Some((trace, "01")));
        for bad in [
            "",
            "00",
            "00-4bf9-00f067aa0ba902b7-01",
            &format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
            &format!("ff-{trace}-00f067aa0ba902b7-01"),
            &format!("00-{trace}-0000000000000000-01"),
            &format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            &format!("00-{trace}-00f067aa0ba902b7-é"),
        ] {
            assert_eq!(trace_and_flags(bad), None, "{bad}");
        }
    }
}
