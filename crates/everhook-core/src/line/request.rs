//! The request that goes out: body, headers and signatures. Pure, and built again for each attempt: signatures carry the time of sending.
//!
//! It is also built again, long after, for those who ask what was sent. Everything in it therefore comes from rows that are kept: to add
//! a header that does not, find a place for it first; if one changes, old attempts keep the old one, by their `user_agent`.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use uuid::Uuid;

use crate::{
    envelope,
    ids::{DeliveryId, OrganizationId},
    model::Event,
    policy::headers::is_same_name,
    ports::{OutgoingHeader, OutgoingMethod, OutgoingRequest, host_first},
    shape::Shape,
    signing::{self, Signable, Signatures},
    time::Timestamp,
};

/// How every request names its sender.
pub(crate) const USER_AGENT: &str = concat!("Everhook/", env!("CARGO_PKG_VERSION"));

/// How many headers of ours a request has, at most; so that the list is allocated once.
const HEADERS_OF_OURS: usize = 15;

/// What an attempt is made of.
pub struct Outgoing<'a> {
    /// Whose it is.
    pub organization: OrganizationId,
    /// Which delivery.
    pub delivery: DeliveryId,
    /// Which attempt of it.
    pub attempt_number: u32,
    /// The delivery that it does again.
    pub replay_of: Option<DeliveryId>,
    /// What is sent.
    pub event: &'a Event,
    /// Where to, and how.
    pub shape: &'a Shape,
    /// Who sends it.
    pub user_agent: Bytes,
    /// When it is sent and signed.
    pub at: Timestamp,
}

/// Builds the request, signed and complete, that may take so long.
pub fn build(outgoing: &Outgoing<'_>, timeout: Duration) -> OutgoingRequest {
    let Outgoing { organization, event, shape, at, .. } = *outgoing;
    let body = envelope::body(event, shape.payload_style);
    let signable = Signable { event: event.id, at, body: &body, style: shape.signature_style };
    let signatures = signing::sign(&shape.keys, &signable);
    let headers = headers(outgoing, Some(signatures));
    OutgoingRequest { organization, method: OutgoingMethod::Post, target: shape.target.clone(), headers, body, timeout }
}

/// What is left of a request whose event's data is gone: the headers as they went over the wire, but for the signatures and the length.
pub fn headers_without_body(outgoing: &Outgoing<'_>) -> Vec<(OutgoingHeader, Bytes)> {
    let headers = headers(outgoing, None);
    host_first(&outgoing.shape.target, &headers).map(|(name, value)| (name.clone(), value)).collect()
}

/// Every header but `host` and `content-length`, in the order of sending.
fn headers(outgoing: &Outgoing<'_>, signatures: Option<Signatures>) -> Vec<(OutgoingHeader, Bytes)> {
    let Outgoing { delivery, attempt_number, replay_of, event, shape, at, .. } = *outgoing;
    let (standard, ours, next) = match signatures {
        Some(made) => (Some(made.webhook_signature), Some(made.x_webhook_signature), made.x_webhook_signature_next),
        None => (None, None, None),
    };
    let mut values = Values::new();
    let mut headers = Vec::with_capacity(HEADERS_OF_OURS + shape.headers.len());
    let mut add = |name: &'static str, value: Bytes| headers.push((Cow::Borrowed(name), value));
    add(
        "content-type",
        match envelope::content_type(event, shape.payload_style).kept() {
            None => Bytes::from_static(b"application/json"),
            Some(other) => values.bytes(other.as_bytes()),
        },
    );
    add("user-agent", outgoing.user_agent.clone());
    add("webhook-id", values.uuid(event.id.as_uuid()));
    add("webhook-timestamp", values.text(at.as_secs()));
    if let Some(signature) = standard {
        add("webhook-signature", signature.into());
    }
    add("x-webhook-id", shape.id_text.clone());
    add("x-webhook-event", values.bytes(event.event_type.as_str().as_bytes()));
    add("x-webhook-delivery", values.uuid(delivery.as_uuid()));
    add("x-webhook-attempt", values.text(attempt_number));
    add("x-webhook-timestamp", values.text(at.floor_to_second()));
    if let Some(signature) = ours {
        add("x-webhook-signature", signature.into());
    }
    if let Some(signature) = next {
        add("x-webhook-signature-next", signature.into());
    }
    add("x-idempotency-key", values.bytes(event.idempotency_key.as_bytes()));
    add("traceparent", values.traceparent(event, span(delivery, attempt_number, at)));
    if let Some(original) = replay_of {
        add("x-webhook-replay", values.uuid(original.as_uuid()));
    }
    headers.extend(shape.headers.iter().cloned());
    add_event_headers(&event.headers, &mut headers);
    headers
}

/// Names this request in its trace. Mixed from what distinguishes it from every other request rather than drawn, so that it can be computed again.
pub(crate) fn span(delivery: DeliveryId, attempt_number: u32, at: Timestamp) -> u64 {
    let (high, low) = delivery.as_uuid().as_u64_pair();
    let mixed = [high, low, attempt_number.into(), at.as_micros().cast_unsigned()].into_iter().fold(0, |mixed, part| scatter(mixed ^ part));
    // All zeros is no span.
    mixed.max(1)
}

/// Spreads each bit of a number over all of it (the finalizer of SplitMix64), and no two numbers to the same.
pub(crate) const fn scatter(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Adds the publisher's own headers, but for those that the endpoint's owner set: an endpoint's credentials are not a publisher's to replace.
fn add_event_headers(of_event: &[(String, String)], headers: &mut Vec<(OutgoingHeader, Bytes)>) {
    for (name, value) in of_event {
        if headers.iter().all(|(known, _)| !is_same_name(known, name)) {
            headers.push((name.to_ascii_lowercase().into(), Bytes::copy_from_slice(value.as_bytes())));
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
    fn traceparent(&mut self, event: &Event, span: u64) -> Bytes {
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
    use std::sync::Arc;

    use super::*;
    use crate::{
        ids::{ApplicationId, EventId},
        model::{ContentType, EventType, PayloadStyle, Priority, SignatureStyle, SigningKey, Target},
        signing::Keys,
    };

    fn event() -> Event {
        Event {
            id: EventId::from_uuid(Uuid::from_u128(1)),
            application: ApplicationId::from_uuid(Uuid::nil()),
            event_type: EventType::parse("order.paid").unwrap(),
            data: Bytes::from_static(b"{}"),
            content_type: ContentType::JSON,
            sealed: false,
            timestamp: Timestamp::EPOCH,
            idempotency_key: "key".to_owned(),
            source: None,
            priority: Priority::Normal,
            sequence_number: 1,
            ordering_key: None,
            traceparent: None,
            labels: Default::default(),
            headers: vec![("X-Event".to_owned(), "1".to_owned())],
            received: None,
            created_at: Timestamp::EPOCH,
        }
    }

    fn shape() -> Shape {
        let url = "https://shop.example:8443/hook";
        Shape {
            target: Arc::new(Target { written: url.to_owned(), url: url.parse().unwrap() }),
            keys: Keys { current: SigningKey::hmac_from_random([7; 32]), previous: None },
            signature_style: SignatureStyle::Hex,
            payload_style: PayloadStyle::Raw,
            headers: vec![("x-own".to_owned().into(), Bytes::from_static(b"2"))],
            id_text: Bytes::from_static(b"endpoint"),
        }
    }

    #[test]
    fn a_request_whose_data_is_gone_keeps_every_header_that_does_not_come_from_it() {
        let (event, shape) = (event(), shape());
        let outgoing = Outgoing {
            organization: OrganizationId::from_uuid(Uuid::nil()),
            delivery: DeliveryId::from_uuid(Uuid::from_u128(2)),
            attempt_number: 1,
            replay_of: None,
            event: &event,
            shape: &shape,
            user_agent: Bytes::from_static(b"Everhook/1"),
            at: Timestamp::EPOCH,
        };
        let whole = build(&outgoing, Duration::ZERO);
        let from_data = ["webhook-signature", "x-webhook-signature", "content-length"];
        let rest: Vec<_> = whole.wire_headers().filter(|(name, _)| !from_data.contains(&name.as_ref())).collect();
        let kept = headers_without_body(&outgoing);
        assert_eq!(kept.iter().map(|(name, value)| (name, value.clone())).collect::<Vec<_>>(), rest);
        assert_eq!((kept.len(), header(&kept, "host")), (14, Some("shop.example:8443")));
    }

    #[test]
    fn an_event_cannot_replace_a_header_of_its_endpoint_under_a_name_that_receivers_take_for_the_same() {
        let mut headers = vec![("x-api-key".to_owned().into(), Bytes::from_static(b"of the endpoint"))];
        let of_event = ["X-Api-Key", "x_api_key", "X.API.KEY", "X-Api-Keys"].map(|name| (name.to_owned(), "of the event".to_owned()));
        add_event_headers(&of_event, &mut headers);
        let names: Vec<_> = headers.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(names, ["x-api-key", "x-api-keys"]);
    }

    #[test]
    fn requests_have_different_spans_and_each_always_the_same() {
        let one = (DeliveryId::from_uuid(Uuid::from_u128(1)), 1, Timestamp::EPOCH);
        let (delivery, number, at) = one;
        let others = [
            (DeliveryId::from_uuid(Uuid::from_u128(1 << 64)), number, at),
            (delivery, 2, at),
            (delivery, number, Timestamp::from_micros(1)),
        ];
        let span = |(delivery, number, at)| super::span(delivery, number, at);
        // Kept attempts are shown with these: a change of the mix would show them wrong.
        assert_eq!(span(one), 0xfaa6_282a_95da_9f89);
        let all: std::collections::BTreeSet<_> = others.into_iter().chain([one]).map(span).collect();
        assert_eq!(all.len(), 4);
    }

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
