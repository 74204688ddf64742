//! What providers push: bodies with a marker, signed as each provider signs.

use std::io::Write as _;

use aws_lc_rs::hmac;
use http::{HeaderName, HeaderValue};

use crate::cli::bench::marker::Marker;

/// What the sources of a bench are signed with.
pub const SECRET: &str = "the secret of a bench, which protects nothing";
/// The subscription that Strava's events name.
pub const SUBSCRIPTION: &str = "7";
/// How many athletes Strava's events are about.
pub const ATHLETES: u64 = 10;

/// A source, and who posts there.
#[derive(Clone, Debug)]
pub struct PushTarget {
    /// Where it is posted to.
    pub path: String,
    /// Who posts.
    pub provider: Provider,
}

/// A provider that a bench plays.
#[derive(Clone, Copy, Debug)]
pub enum Provider {
    /// Pushes one event, signed over the whole body.
    GitHub,
    /// Pushes so many items in one body, signed over the whole of it.
    Meta {
        /// How many.
        items: u64,
    },
    /// Pushes one event about an athlete, unsigned.
    Strava,
}

impl PushTarget {
    /// The one whose turn it is.
    pub fn of(targets: &[Self], number: u64) -> &Self {
        &targets[usize::try_from(number).unwrap_or(0) % targets.len()]
    }
}

impl Provider {
    /// How many events a push becomes.
    pub const fn events_a_push(self) -> u64 {
        match self {
            Self::GitHub | Self::Strava => 1,
            Self::Meta { items } => items,
        }
    }

    /// Appends the body of a push. `size` is that of GitHub's; the others have the size that they have.
    pub fn write_body(self, marker: &Marker, size: usize, body: &mut Vec<u8>) {
        match self {
            Self::GitHub => marker.write_payload(size, body),
            Self::Meta { items } => write_meta(marker, items, body),
            Self::Strava => {
                let (number, owner) = (marker.number, marker.number % ATHLETES);
                let _ = write!(
                    body,
                    r#"{{"object_type":"activity","aspect_type":"create","object_id":{number},"owner_id":{owner},"subscription_id":{SUBSCRIPTION},"event_time":{}}}"#,
                    marker.sent_ns / 1_000_000_000
                );
            }
        }
    }

    /// The headers of a push beside the usual ones.
    pub fn headers(self, number: u64, body: &[u8]) -> Vec<(HeaderName, HeaderValue)> {
        let signature = || (HeaderName::from_static("x-hub-signature-256"), value(&format!("sha256={}", signature_hex(body))));
        match self {
            Self::GitHub => vec![
                signature(),
                (HeaderName::from_static("x-github-event"), HeaderValue::from_static("push")),
                (HeaderName::from_static("x-github-delivery"), value(&format!("bench-{number}"))),
            ],
            Self::Meta { .. } => vec![signature()],
            Self::Strava => Vec::new(),
        }
    }
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("digits and letters are a header's value")
}

/// HMAC-SHA256 of the body, hexadecimal.
pub fn signature_hex(body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    hmac::sign(&key, body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A batch as Meta sends it: pages, each with one change.
fn write_meta(marker: &Marker, items: u64, body: &mut Vec<u8>) {
    body.extend_from_slice(br#"{"object":"page","entry":["#);
    for item in 0..items {
        let comma = if item == 0 { "" } else { "," };
        let (run, number) = (marker.run, marker.number);
        let _ = write!(
            body,
            r#"{comma}{{"id":"{run}-{number}-{item}","time":1700000000,"changes":[{{"field":"feed","value":{{"item":"post","verb":"add","message":"a message of some length, as people write them"}}}}]}}"#
        );
    }
    body.extend_from_slice(b"]}");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use everhook_core::{
        inbound::{Credentials, InboundRequest, Reading, Verifier, kind},
        time::Timestamp,
    };

    use super::*;

    #[test]
    fn every_push_is_one_that_its_kind_accepts() {
        let credentials =
            Credentials { secrets: vec![SECRET.to_owned()], subscription_id: Some(SUBSCRIPTION.to_owned()), ..Credentials::default() };
        for (name, provider) in [("github", Provider::GitHub), ("meta", Provider::Meta { items: 1_000 }), ("strava", Provider::Strava)] {
            let verifier = Verifier::new(Arc::new(kind(name).expect("a kind").compile()), &credentials, None).expect("a verifier");
            let mut body = Vec::new();
            provider.write_body(&Marker { run: 1, number: 3, sent_ns: 1 }, 1024, &mut body);
            let owned = provider.headers(3, &body);
            let headers: Vec<(&str, &[u8])> = owned.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
            let body = Bytes::from(body);
            let url = "https://hooks.example.com/in/a";
            let request = InboundRequest {
                method: "POST",
                url,
                query: "",
                path_type: None,
                headers: &headers,
                body: &body,
                awaiting_handshake: false,
            };
            let reading = verifier.read(&request, Timestamp::from_secs(1_700_000_000));
            let Reading::Accepted(accepted) = reading else { panic!("{name}: {reading:?}") };
            assert_eq!(accepted.items.len() as u64, provider.events_a_push(), "{name}");
        }
    }
}
