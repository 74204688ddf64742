//! The request that an app gets: the payload as it came, signed, with what is left of the time.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use aws_lc_rs::hmac;
use bytes::Bytes;
use uuid::Uuid;

use super::{Calls, OpenCapability};
use crate::{
    ids::OrganizationId,
    model::{SigningKey, Target, TraceParent},
    ports::{OutgoingHeader, OutgoingMethod, OutgoingRequest},
    time::Timestamp,
};

/// What a request says.
pub(super) struct Outgoing<'a> {
    pub(super) capability: &'a OpenCapability,
    pub(super) target: Arc<Target>,
    pub(super) request_id: Uuid,
    pub(super) payload: Bytes,
    /// The caller's trace, continued.
    pub(super) trace: Option<&'a TraceParent>,
    /// Which request of the call it is, from 1.
    pub(super) attempt: u32,
    /// What is left for the app, as it is told.
    pub(super) left: Duration,
    /// When it is given up.
    pub(super) timeout: Duration,
    pub(super) at: Timestamp,
}

impl Calls {
    /// The request of a health check.
    pub(crate) fn health_request(&self, organization: OrganizationId, target: Arc<Target>, timeout: Duration) -> OutgoingRequest {
        let headers = vec![("accept".into(), Bytes::from_static(b"application/json")), ("user-agent".into(), self.user_agent.clone())];
        OutgoingRequest { organization, method: OutgoingMethod::Get, target, headers, body: Bytes::new(), timeout }
    }

    pub(super) fn build(&self, outgoing: &Outgoing<'_>) -> OutgoingRequest {
        let Outgoing { capability, request_id, attempt, left, at, .. } = *outgoing;
        let keys = &capability.keys;
        let mut headers: Vec<(OutgoingHeader, Bytes)> = Vec::with_capacity(11);
        let mut add = |name: &'static str, value: Bytes| headers.push((name.into(), value));
        add("content-type", Bytes::from_static(b"application/json"));
        add("accept", Bytes::from_static(b"application/json"));
        add("user-agent", self.user_agent.clone());
        // While a rotation's grace lasts, the app may know either secret.
        match &keys.previous {
            Some((old, until)) if at < *until => {
                add("x-platform-signature", signature(old, &outgoing.payload));
                add("x-platform-signature-next", signature(&keys.current, &outgoing.payload));
            }
            _ => add("x-platform-signature", signature(&keys.current, &outgoing.payload)),
        }
        add("x-request-id", text(request_id));
        add("x-capability", text(&capability.name));
        add("x-timeout-ms", text(left.as_millis()));
        add("x-retry-attempt", text(attempt));
        add("x-max-attempts", text(capability.spec.attempts_max));
        add("traceparent", self.traceparent(outgoing));
        OutgoingRequest {
            organization: capability.organization,
            method: OutgoingMethod::Call,
            target: outgoing.target.clone(),
            headers,
            body: outgoing.payload.clone(),
            timeout: outgoing.timeout,
        }
    }

    /// Names this request in the caller's trace, or in a new one that the call's requests share.
    fn traceparent(&self, outgoing: &Outgoing<'_>) -> Bytes {
        // Version 7 ids are random in their last 64 bits but two.
        let span = self.entropy.uuid(outgoing.at).as_u64_pair().1.max(1);
        match outgoing.trace {
            Some(TraceParent { trace, flags, .. }) => text(format_args!("00-{trace}-{span:016x}-{flags}")),
            None => text(format_args!("00-{}-{span:016x}-01", outgoing.request_id.simple())),
        }
    }
}

fn text(value: impl std::fmt::Display) -> Bytes {
    Bytes::from(value.to_string())
}

/// `sha256=` and the HMAC of the body in hexadecimal digits.
pub(super) fn signature(key: &SigningKey, body: &[u8]) -> Bytes {
    let SigningKey::Hmac { key, .. } = key else { return Bytes::new() };
    let mut written = String::with_capacity(71);
    written.push_str("sha256=");
    for byte in hmac::sign(key, body).as_ref() {
        write!(written, "{byte:02x}").expect("memory takes every byte");
    }
    Bytes::from(written)
}
