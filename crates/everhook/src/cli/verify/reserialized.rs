//! Whether a body that does not verify was parsed and serialized again, which is the most common mistake of receivers.
//!
//! Two ways to know: the body is an envelope that is not written as Everhook writes it, or a spelling that publishers use verifies. Neither finds all: what
//! was lost with the parsing (blanks and zeros of an unusual kind, the order of members) cannot be guessed, and then nothing is claimed.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::RawValue;

/// The members of an envelope, in the order in which they are sent. `source` and the like are always there; only those below may be absent.
const MEMBERS: [&str; 9] =
    ["id", "type", "timestamp", "content_type", "data", "data_base64", "idempotency_key", "source", "sequence_number"];

/// Data that is JSON has no `content_type`, and is either text or base64.
const OPTIONAL_MEMBERS: [&str; 3] = ["content_type", "data", "data_base64"];

/// How the parts of a JSON text are set apart.
#[derive(Clone, Copy)]
enum Layout {
    /// Nothing between them, as JavaScript, Rust and Go write it.
    Compact,
    /// A blank after each colon and comma, as Python and people write it.
    Spaced,
    /// A line for each, indented so.
    Lines(&'static str),
}

/// How a publisher's JSON is commonly laid out.
const LAYOUTS: [Layout; 5] = [Layout::Compact, Layout::Spaced, Layout::Lines("  "), Layout::Lines("    "), Layout::Lines("\t")];

/// How the numbers and texts in it are written. What a parser read is written in the shortest way: `49.90` comes back as `49.9`.
#[derive(Clone, Copy)]
struct Spelling {
    /// Whether numbers with one decimal place get a second one: amounts of money.
    has_cents: bool,
    /// Whether texts are written without needless escapes, which Python (`\u00fc`) and PHP (`\/`) add.
    is_plain: bool,
}

const SPELLINGS: [Spelling; 4] = [
    Spelling { has_cents: false, is_plain: false },
    Spelling { has_cents: true, is_plain: false },
    Spelling { has_cents: false, is_plain: true },
    Spelling { has_cents: true, is_plain: true },
];

/// What a text may end with.
const ENDS: [&str; 2] = ["", "\n"];

/// Whether the body is another spelling of JSON that was signed. `is_right` verifies a text.
pub(super) fn is_reserialized(body: &[u8], is_right: &dyn Fn(&[u8]) -> bool) -> bool {
    let Some((text, value)) = std::str::from_utf8(body).ok().and_then(|text| Some((text, parse(text)?))) else { return false };
    if is_envelope_of_somebody_else(text) || is_right(value.to_string().as_bytes()) {
        return true;
    }
    let mut guesses = LAYOUTS.into_iter().flat_map(|layout| SPELLINGS.map(|spelling| (layout, spelling)));
    guesses.any(|(layout, spelling)| {
        let written = |json: &str| write(json, layout, spelling);
        let whole = written(text);
        ENDS.iter().any(|end| is_right(format!("{whole}{end}").as_bytes()))
            || envelope(text, written).is_some_and(|text| is_right(text.as_bytes()))
    })
}

/// Whether it is JSON at all: only then can it have been serialized again.
pub(super) fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).ok().and_then(parse).is_some_and(|value| value.is_object() || value.is_array())
}

fn parse(text: &str) -> Option<serde_json::Value> {
    serde_json::from_str(text).ok()
}

/// Envelopes are sent on one line, in one order, without blanks around their members: one that is not was written by somebody else, whatever was signed.
fn is_envelope_of_somebody_else(body: &str) -> bool {
    envelope(body, str::to_owned).is_some_and(|sent| sent != body)
}

/// The body as Everhook would send it, if it has the members of an envelope and no others. The data inside is written by `data`: the publisher chose
/// its white space.
fn envelope(body: &str, data: impl Fn(&str) -> String) -> Option<String> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(body).ok()?;
    let is_complete = MEMBERS.iter().all(|name| members.contains_key(*name) || OPTIONAL_MEMBERS.contains(name));
    if !is_complete || members.keys().any(|name| !MEMBERS.contains(&name.as_str())) {
        return None;
    }
    let mut text = String::with_capacity(body.len());
    for (name, value) in MEMBERS.iter().filter_map(|name| Some((name, members.get(*name)?))) {
        text.push_str(if text.is_empty() { "{\"" } else { ",\"" });
        text.push_str(name);
        text.push_str("\":");
        match *name {
            "data" => text.push_str(&data(value.get())),
            _ => text.push_str(&plain(value.get())),
        }
    }
    text.push('}');
    Some(text)
}

/// The same JSON, laid out and spelled so. Members keep their order.
fn write(json: &str, layout: Layout, spelling: Spelling) -> String {
    let mut out = String::with_capacity(json.len());
    let mut depth = 0;
    let mut rest = json.trim_start();
    while let Some(token) = next_token(rest) {
        rest = rest[token.len()..].trim_start();
        match token {
            "{" | "[" => {
                out.push_str(token);
                if !rest.starts_with(['}', ']']) {
                    depth += 1;
                    break_line(&mut out, layout, depth);
                }
            }
            "}" | "]" => {
                if !out.ends_with(['{', '[']) {
                    depth = depth.saturating_sub(1);
                    break_line(&mut out, layout, depth);
                }
                out.push_str(token);
            }
            "," => {
                out.push_str(if let Layout::Spaced = layout { ", " } else { "," });
                break_line(&mut out, layout, depth);
            }
            ":" => out.push_str(if let Layout::Compact = layout { ":" } else { ": " }),
            text if text.starts_with('"') && spelling.is_plain => out.push_str(&plain(text)),
            number if spelling.has_cents && has_one_decimal_place(number) => {
                out.push_str(number);
                out.push('0');
            }
            other => out.push_str(other),
        }
    }
    out
}

fn break_line(out: &mut String, layout: Layout, depth: usize) {
    if let Layout::Lines(indent) = layout {
        out.push('\n');
        out.push_str(&indent.repeat(depth));
    }
}

/// The token at the beginning of JSON that has no blanks there.
fn next_token(json: &str) -> Option<&str> {
    let first = json.chars().next()?;
    let len = match first {
        '{' | '}' | '[' | ']' | ',' | ':' => 1,
        '"' => {
            let mut is_escaped = false;
            let ends = |byte: &u8| {
                let is_end = *byte == b'"' && !is_escaped;
                is_escaped = *byte == b'\\' && !is_escaped;
                is_end
            };
            json.as_bytes()[1..].iter().position(ends).map_or(json.len(), |at| at + 2)
        }
        _ => json.find(|char: char| char.is_ascii_whitespace() || "{}[],:\"".contains(char)).unwrap_or(json.len()),
    };
    Some(&json[..len])
}

/// A text as Everhook writes it; anything else as it is.
fn plain(token: &str) -> Cow<'_, str> {
    match serde_json::from_str::<String>(token) {
        Ok(text) => serde_json::to_string(&text).map_or(Cow::Borrowed(token), Cow::Owned),
        Err(_) => Cow::Borrowed(token),
    }
}

fn has_one_decimal_place(token: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    token.split_once('.').is_some_and(|(whole, places)| is_digits(whole.trim_start_matches('-')) && places.len() == 1 && is_digits(places))
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
        let compact = write(SENT, Layout::Compact, SPELLINGS[0]);
        let pretty = serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(SENT).unwrap()).unwrap();
        let spaced = write(SENT, Layout::Spaced, SPELLINGS[0]);
        // `jq -c`, `jq .` and Python's `json.dumps`: the second also sorts, the third does not.
        for body in [&compact, &pretty, &spaced] {
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

    #[test]
    fn what_javascript_makes_of_a_body_is_recognized() {
        // `JSON.stringify(JSON.parse(body))`: no blanks, and the shortest numbers. Of the envelope, and of the data alone (`payload_style: raw`).
        let raw = r#"{"order": 17, "total": 49.90}"#;
        for (body, signed) in [
            (SENT.replace(raw, r#"{"order":17,"total":49.9}"#), SENT),
            (r#"{"order":17,"total":49.9}"#.to_owned(), raw),
            // `jq .` of it, from 1.7 on and before.
            ("{\n  \"order\": 17,\n  \"total\": 49.90\n}\n".to_owned(), raw),
            ("{\n  \"order\": 17,\n  \"total\": 49.9\n}".to_owned(), raw),
            (r#"{"order": 17, "total": 49.9}"#.to_owned(), raw),
        ] {
            assert!(told(&body, signed), "{body}");
        }
    }

    #[test]
    fn escapes_that_python_and_php_add_are_recognized() {
        let signed = r#"{"url":"https://a/b","name":"Grün","list":[[],{}]}"#;
        for body in [
            r#"{"url":"https:\/\/a\/b","name":"Gr\u00fcn","list":[[],{}]}"#,
            r#"{"url": "https://a/b", "name": "Gr\u00fcn", "list": [[], {}]}"#,
        ] {
            assert!(told(body, signed), "{body}");
        }
        let pretty = "{\n    \"a\": [\n        1,\n        {}\n    ]\n}\n";
        assert!(told(r#"{"a":[1,{}]}"#, pretty) && told(r#"{"a":[1,{}]}"#, pretty.trim_end()));
    }

    #[test]
    fn what_cannot_be_guessed_is_not_claimed() {
        for (body, signed) in [(r#"{"a":1}"#, r#"{"a" : 1.000}"#), (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1 }"#), ("not JSON", "\"")] {
            assert!(!told(body, signed), "{body}");
        }
        for odd in ["", "{", "\"", "\"\\", "{\"a\":", "[1,,]", "\u{feff}{}"] {
            assert!(!told(odd, "another"), "{odd}");
        }
        assert!(is_json(b"{}") && !is_json(b"1") && !is_json(b"no") && !is_json(b"\xff"));
    }
}
