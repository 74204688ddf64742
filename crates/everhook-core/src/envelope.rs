//! The body of a request: what the receiver reads and the signature covers. Called by the attempt flow, once a request.
//!
//! The publisher's `data` is copied byte for byte and never parsed: numbers keep their digits, and duplicate keys stay. What a provider sent that is not
//! JSON is shown as text, or in base64 where it is not text.

use std::io::{self, Write as _};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use uuid::Uuid;

use crate::model::{ContentType, Event, PayloadStyle};

/// Room for everything in the envelope whose length does not depend on the event: punctuation, names, id, timestamp, number.
const FIXED_BYTES: usize = 224;

/// An event's data as JSON can hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<'a> {
    /// It is a JSON value.
    Json(&'a [u8]),
    /// It is text.
    Text(&'a str),
    /// It is neither: shown in base64.
    Bytes(&'a [u8]),
}

/// How an event's data is shown in JSON.
pub fn shown(event: &Event) -> Shown<'_> {
    if event.has_json_data() {
        return Shown::Json(&event.data);
    }
    std::str::from_utf8(&event.data).map_or(Shown::Bytes(&event.data), Shown::Text)
}

/// The content type of the body that delivers an event in this style.
pub fn content_type(event: &Event, style: PayloadStyle) -> &ContentType {
    match style {
        PayloadStyle::Raw => &event.content_type,
        PayloadStyle::Envelope => &ContentType::JSON,
    }
}

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
    write!(out, r#"","timestamp":"{}","#, event.timestamp)?;
    write_data(out, event)?;
    out.extend_from_slice(br#","idempotency_key":"#);
    serde_json::to_writer(&mut *out, &event.idempotency_key)?;
    out.extend_from_slice(br#","source":"#);
    serde_json::to_writer(&mut *out, &event.source)?;
    write!(out, r#","sequence_number":{}}}"#, event.sequence_number)
}

fn write_data(out: &mut Vec<u8>, event: &Event) -> io::Result<()> {
    let shown = shown(event);
    if !matches!(shown, Shown::Json(_)) {
        out.extend_from_slice(br#""content_type":"#);
        serde_json::to_writer(&mut *out, event.content_type.as_str())?;
        out.push(b',');
    }
    match shown {
        Shown::Json(data) => {
            out.extend_from_slice(br#""data":"#);
            out.extend_from_slice(data);
        }
        Shown::Text(text) => {
            out.extend_from_slice(br#""data":"#);
            serde_json::to_writer(&mut *out, text)?;
        }
        Shown::Bytes(bytes) => write!(out, r#""data_base64":"{}""#, BASE64_STANDARD.encode(bytes))?,
    }
    Ok(())
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
            content_type: ContentType::JSON,
            sealed: false,
            timestamp: Timestamp::from_micros(1_649_367_553_000_250),
            idempotency_key: "order-17".to_owned(),
            source: Some("shop".to_owned()),
            priority: Priority::Normal,
            sequence_number: 42,
            ordering_key: None,
            traceparent: None,
            labels: Default::default(),
            headers: Vec::new(),
            received: None,
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
    fn what_is_not_json_is_text_or_base64_in_the_envelope_and_itself_when_raw() {
        let cases: [(&str, &'static [u8], &str); 4] = [
            ("text/xml", b"<a b=\"c\"/>", r#""content_type":"text/xml","data":"<a b=\"c\"/>","idempotency_key""#),
            ("application/json", b"{\"a\":", r#""content_type":"application/json","data":"{\"a\":","idempotency_key""#),
            ("application/json; charset=utf-8", b"{\"a\": 1.0}", r#"Z","data":{"a": 1.0},"idempotency_key""#),
            ("image/png", b"\xff\xd8", r#""content_type":"image/png","data_base64":"/9g=","idempotency_key""#),
        ];
        for (content_type, data, expected) in cases {
            let event = Event { data: Bytes::from_static(data), content_type: ContentType::parse(content_type).unwrap(), ..event("") };
            let envelope = body(&event, PayloadStyle::Envelope);
            serde_json::from_slice::<serde_json::Value>(&envelope).unwrap();
            let envelope = std::str::from_utf8(&envelope).unwrap();
            assert!(envelope.contains(expected), "{envelope}");
            assert_eq!(body(&event, PayloadStyle::Raw), data);
            assert_eq!(super::content_type(&event, PayloadStyle::Raw).as_str(), content_type);
            assert_eq!(super::content_type(&event, PayloadStyle::Envelope), &ContentType::JSON);
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
