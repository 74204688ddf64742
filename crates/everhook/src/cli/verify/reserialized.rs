//! Whether a body that does not verify was parsed and serialized again, which is the most common mistake of receivers.
//!
//! Two ways to know: the text that was signed is guessed and verified, or the body is an envelope that is not written as Everhook writes it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The members of an envelope, in the order in which they are sent. `source` and the like are always there; only those below may be absent.
const MEMBERS: [&str; 9] =
    ["id", "type", "timestamp", "content_type", "data", "data_base64", "idempotency_key", "source", "sequence_number"];

/// Data that is JSON has no `content_type`, and is either text or base64.
const OPTIONAL_MEMBERS: [&str; 3] = ["content_type", "data", "data_base64"];

/// White space between the tokens of JSON, after colons and commas, as serializers write it: none (JavaScript, Rust, Go), or a blank (Python).
const BLANKS: [&[u8]; 2] = [b"", b" "];

/// Whether the body is another spelling of JSON that was signed. `is_right` verifies a text.
pub(super) fn is_reserialized(body: &[u8], is_right: &dyn Fn(&[u8]) -> bool) -> bool {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else { return false };
    is_envelope_of_somebody_else(body)
        || BLANKS.iter().any(|blank| is_right(&respaced(body, blank)))
        || is_right(value.to_string().as_bytes())
        || envelope(body, |data| respaced(data.as_bytes(), b" ")).is_some_and(|text| is_right(&text))
}

/// Envelopes are sent on one line, in one order, without blanks around their members: one that is not was written by somebody else, whatever was signed.
fn is_envelope_of_somebody_else(body: &[u8]) -> bool {
    envelope(body, |data| data.as_bytes().to_vec()).is_some_and(|sent| sent != body)
}

/// The body as Everhook would send it, if it has the members of an envelope and no others. The data inside is written by `data`: the publisher chose
/// its white space.
fn envelope(body: &[u8], data: impl Fn(&str) -> Vec<u8>) -> Option<Vec<u8>> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    let is_complete = MEMBERS.iter().all(|name| members.contains_key(*name) || OPTIONAL_MEMBERS.contains(name));
    if !is_complete || members.keys().any(|name| !MEMBERS.contains(&name.as_str())) {
        return None;
    }
    let mut text = Vec::with_capacity(body.len());
    for (name, value) in MEMBERS.iter().filter_map(|name| Some((name, members.get(*name)?))) {
        text.extend_from_slice(if text.is_empty() { b"{\"" } else { b",\"" });
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b"\":");
        match *name {
            "data" => text.extend(data(value.get())),
            _ => text.extend_from_slice(value.get().as_bytes()),
        }
    }
    text.push(b'}');
    Some(text)
}

/// The same JSON text with only these blanks between its tokens, after each colon and comma. Keys keep their order, and numbers and escapes their
/// spelling.
fn respaced(json: &[u8], blank: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in json {
        if !in_string && byte.is_ascii_whitespace() {
            continue;
        }
        out.push(*byte);
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b':' | b',' if !in_string => out.extend_from_slice(blank),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The envelope of an event whose data was published with blanks, as most people write it.
    const SENT: &str = r#"{"id":"01a1e138","type":"order.paid","timestamp":"2026-11-15T21:59:22Z","data":{"order": 17, "total": 49.90},"idempotency_key":"k","source":null,"sequence_number":7}"#;

    fn told(body: &str, signed: &str) -> bool {
        is_reserialized(body.as_bytes(), &|body| body == signed.as_bytes())
    }

    #[test]
    fn a_reprinted_body_is_recognized_whatever_the_order_of_its_keys() {
        let signed = r#"{"zeta":1.50,"alpha":"a, \": b\\","list":[1,{}]}"#;
        let pretty = "{\n  \"zeta\": 1.50,\n  \"alpha\": \"a, \\\": b\\\\\",\n  \"list\": [\n    1,\n    {}\n  ]\n}\n";
        let spaced = r#"{"zeta": 1.50, "alpha": "a, \": b\\", "list": [1, {}]}"#;
        for (body, signed) in [(pretty, signed), (spaced, signed), (signed, spaced), (pretty, spaced)] {
            assert!(told(body, signed), "{body}");
        }
        assert!(!told("{\"zeta\":2}", signed) && !told("no JSON", signed));
    }

    #[test]
    fn an_envelope_is_recognized_with_the_blanks_that_the_publisher_wrote() {
        let compact = respaced(SENT.as_bytes(), b"");
        let pretty = serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(SENT).unwrap()).unwrap();
        let spaced = String::from_utf8(respaced(SENT.as_bytes(), b" ")).unwrap();
        // `jq -c`, `jq .` and Python's `json.dumps`: the second also sorts, the third does not.
        for body in [std::str::from_utf8(&compact).unwrap(), &pretty, &spaced] {
            assert!(told(body, SENT), "{body}");
        }
        // What was sorted or indented was not sent like that, also if nobody can say what was: here numbers were rounded.
        let rounded = pretty.replace("49.90", "49.9");
        assert!(told(&rounded, SENT));
    }

    #[test]
    fn an_envelope_as_it_is_sent_is_not_blamed_for_a_wrong_secret() {
        assert!(!told(SENT, "another"));
        let binary = r#"{"id":"1","type":"t","timestamp":"2026-11-15T21:59:22Z","content_type":"image/png","data_base64":"AA==","idempotency_key":"k","source":null,"sequence_number":7}"#;
        assert!(!told(binary, "another") && told(&binary.replace(",\"id", ", \"id"), "another"));
        // Something else with members of these names is no envelope.
        assert!(!told(r#"{ "id": 1, "type": "t", "data": 2 }"#, "another"));
    }
}
