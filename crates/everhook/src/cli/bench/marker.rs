//! The marker by which the sink recognizes an event in whatever body it arrives: `ehb:<run>:<number>:<sent_ns>;`.
//!
//! Plain ASCII without quotes or backslashes, so that it survives any JSON encoding; found by scanning, so that the sink does no more
//! work for an envelope than for a bare payload.

use std::{
    io::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

const PREFIX: &[u8] = b"ehb:";

/// Names one event of one run, and the instant before it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Tells arrivals of this run from late ones of another.
    pub run: u64,
    /// The event's number in the run, from 0.
    pub number: u64,
    /// When its publishing began. Publisher and sink share one machine and so one clock.
    pub sent_ns: u64,
}

impl Marker {
    /// Appends a JSON object of `size` bytes that holds the marker.
    pub fn write_payload(&self, size: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let _ = write!(out, r#"{{"id":"ehb:{}:{}:{};","data":""#, self.run, self.number, self.sent_ns);
        let written = out.len() - start + CLOSING.len();
        out.resize(out.len() + size.saturating_sub(written), b'x');
        out.extend_from_slice(CLOSING);
    }

    /// Finds the marker in a body.
    pub fn find(body: &[u8]) -> Option<Self> {
        let start = body.windows(PREFIX.len()).position(|window| window == PREFIX)? + PREFIX.len();
        let rest = &body[start..];
        let end = rest.iter().position(|&byte| byte == b';')?;
        let mut fields = std::str::from_utf8(&rest[..end]).ok()?.split(':').map(|field| field.parse().ok());
        let marker = Self { run: fields.next()??, number: fields.next()??, sent_ns: fields.next()?? };
        fields.next().is_none().then_some(marker)
    }
}

const CLOSING: &[u8] = br#""}"#;

/// Nanoseconds since 1970.
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_json_of_the_size_asked_for_and_its_marker_is_found_again() {
        let marker = Marker { run: 7, number: 42, sent_ns: 1_700_000_000_000_000_001 };
        let mut payload = Vec::new();
        marker.write_payload(1024, &mut payload);
        assert_eq!(payload.len(), 1024);
        assert!(serde_json::from_slice::<serde_json::Value>(&payload).is_ok());
        let body = [br#"{"type":"bench","data":"#.as_slice(), &payload, b"}"].concat();
        assert_eq!(Marker::find(&body), Some(marker));
    }

    #[test]
    fn a_damaged_marker_is_not_found() {
        for body in ["", "ehb:", "ehb:1:2;", "ehb:1:2:3:4;", "ehb:a:2:3;", "ehb:1:2:3"] {
            assert_eq!(Marker::find(body.as_bytes()), None, "{body}");
        }
    }
}
