//! The body of a request: what the receiver reads and the signature covers. Called by the attempt flow, once a request.
//!
//! The publisher's `data` is copied byte for byte and never parsed: numbers keep their digits, and duplicate keys stay.

use std::io::{self, Write as _};

use bytes::Bytes;
use uuid::Uuid;

use crate::model::{Event, PayloadStyle};

/// Room for everything in the envelope whose length does not depend on the event: punctuation, names, id, timestamp, number.
const FIXED_BYTES: usize = 224;

/// Writes the body that delivers `event`. Raw data is shared, not copied.
pub fn body(event: &Event, style: PayloadStyle) -> Bytes {
    match style {
        PayloadStyle::Raw => event.data.clone(),
        PayloadStyle::Envelope => {
            let texts = event.event_type.as_str().len() + event.idempotency_key.len() + event.source.as_ref().map_or(0, String::len);
            let mut out = Vec::with_capacity(FIXED_BYTES + texts + event.data.len());
            write_envelope(&mut out, event).expect("memory takes every byte, and text is always JSON");
            out.into()
        }
    }
}

/// An id, a type name and an instant are written as they are: none of them can hold a character that JSON escapes.
fn write_envelope(out: &mut Vec<u8>, event: &Event) -> io::Result<()> {
    out.extend_from_slice(br#"{"id":""#);
    out.extend_from_slice(event.id.as_uuid().hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
    out.extend_from_slice(br#"","type":""#);
    out.extend_from_slice(event.event_type.as_str().as_bytes());
    write!(out, r#"","timestamp":"{}","data":"#, event.timestamp)?;
    out.extend_from_slice(&event.data);
    out.extend_from_slice(br#","idempotency_key":"#);
    serde_json::to_writer(&mut *out, &event.idempotency_key)?;
    out.extend_from_slice(br#","source":"#);
    serde_json::to_writer(&mut *out, &event.source)?;
    write!(out, r#","sequence_number":{}}}"#, event.sequence_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{ApplicationId, EventId},
        model::{EventType, Priority},
        time::Timestamp,
    };

    fn event(data: &'static str) -> Event {
        Event {
            id: EventId::from_uuid(Uuid::from_u128(0x018f_3a2b_7c4d_7e5f_8a6b_0123_4567_89ab)),
            application: ApplicationId::from_uuid(Uuid::nil()),
            event_type: EventType::parse("order.paid").unwrap(),
            data: Bytes::from_static(data.as_bytes()),
            timestamp: Timestamp::from_micros(1_649_367_553_000_250),
            idempotency_key: "order-17".to_owned(),
            source: Some("shop".to_owned()),
            priority: Priority::Normal,
            sequence_number: 42,
            ordering_key: None,
            traceparent: None,
            labels: Default::default(),
            headers: Vec::new(),
            created_at: Timestamp::EPOCH,
        }
    }

    #[test]
    fn the_envelope_tells_what_happened() {
        let expected = concat!(
            r#"{"id":"018f3a2b-7c4d-7e5f-8a6b-0123456789ab","type":"order.paid","timestamp":"2022-04-07T21:39:13.00025Z","#,
            r#""data":{"total":12},"idempotency_key":"order-17","source":"shop","sequence_number":42}"#
        );
        assert_eq!(body(&event(r#"{"total":12}"#), PayloadStyle::Envelope), expected);
    }

    #[test]
    fn data_is_carried_byte_for_byte() {
        for data in [r#"{"a":1.0e400, "a":"\u00e9"}"#, "[ ]", "null", "12345678901234567890.10", r#""text""#] {
            let envelope = body(&event(data), PayloadStyle::Envelope);
            let envelope = std::str::from_utf8(&envelope).unwrap();
            assert!(envelope.contains(&format!(r#""data":{data},"idempotency_key""#)), "{envelope}");
            assert_eq!(body(&event(data), PayloadStyle::Raw), data);
        }
    }

    #[test]
    fn text_is_escaped_and_an_absent_source_is_null() {
        let quoted = Event { idempotency_key: "a\"b\\c\nd".to_owned(), source: None, ..event("{}") };
        let envelope = body(&quoted, PayloadStyle::Envelope);
        let parsed: serde_json::Value = serde_json::from_slice(&envelope).unwrap();
        assert_eq!(parsed["idempotency_key"], "a\"b\\c\nd");
        assert!(parsed["source"].is_null());
        assert!(parsed.as_object().unwrap().contains_key("source"));
    }

    #[test]
    fn the_first_allocation_is_large_enough_for_the_longest_fixed_parts() {
        let longest = Event { timestamp: Timestamp::from_micros(-9_999_999_999_999_999), sequence_number: i64::MIN, ..event("") };
        let variable = longest.event_type.as_str().len() + longest.idempotency_key.len() + "shop".len();
        assert!(body(&longest, PayloadStyle::Envelope).len() <= FIXED_BYTES + variable);
    }
}
