//! Values of an event's data as people may read them: in one line, bounded.

use serde_json::Value;

/// How much of one value is shown, in characters.
pub(super) const VALUE_CHARS_MAX: usize = 300;

/// A value as one line; empty if there is none.
pub(super) fn text(data: &Value, name: &str) -> String {
    one_line(data[name].as_str().unwrap_or_default())
}

/// An instant to the second, as people write it. Anything else stays as it is.
pub(super) fn instant(data: &Value, name: &str) -> String {
    let text = text(data, name);
    match (text.get(..10), text.get(11..19), text.ends_with('Z')) {
        (Some(date), Some(time), true) if text[10..].starts_with('T') => format!("{date} {time} UTC"),
        _ => text,
    }
}

/// A number, with two digits behind the point at most; empty if there is none.
pub(super) fn number(data: &Value, name: &str) -> String {
    match (&data[name], data[name].as_f64()) {
        (value, _) if value.is_i64() || value.is_u64() => value.to_string(),
        (_, Some(number)) => format!("{number:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => String::new(),
    }
}

/// A name with its id, as far as they are known.
pub(super) fn named(name: String, id: String) -> String {
    match (name.is_empty(), id.is_empty()) {
        (true, _) => id,
        (false, true) => name,
        (false, false) => format!("{name} ({id})"),
    }
}

/// The first of two that says something.
pub(super) fn either(first: String, second: String) -> String {
    if first.is_empty() { second } else { first }
}

/// The text without line breaks, without what changes the direction of the text around it, and not too long.
fn one_line(text: &str) -> String {
    let shown = |char: char| if char.is_control() || is_misleading(char) { ' ' } else { char };
    text.chars().take(VALUE_CHARS_MAX).map(shown).collect()
}

/// Characters that make others appear elsewhere, or a line of their own.
const fn is_misleading(char: char) -> bool {
    matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_one_short_line_that_stays_where_it_stands() {
        let data = json!({"a": "x\r\ny\u{202e}z\u{2028}", "b": "x".repeat(10_000), "c": 5, "d": 93.216, "e": 95.0, "f": {"deep": 1}});
        assert_eq!(text(&data, "a"), "x  y z ");
        assert_eq!(text(&data, "b").chars().count(), VALUE_CHARS_MAX);
        assert_eq!((text(&data, "c").as_str(), number(&data, "c").as_str()), ("", "5"));
        assert_eq!((number(&data, "d").as_str(), number(&data, "e").as_str()), ("93.22", "95"));
        assert_eq!((number(&data, "f").as_str(), text(&data, "f").as_str()), ("", ""));
    }

    #[test]
    fn an_instant_is_shown_to_the_second_and_what_is_none_stays_as_it_is() {
        let table = [
            ("2026-11-19T01:57:29.332029Z", "2026-11-19 01:57:29 UTC"),
            ("2026-11-19T01:57:29Z", "2026-11-19 01:57:29 UTC"),
            ("2026-11-19", "2026-11-19"),
            ("ends with Z", "ends with Z"),
            ("äöüäöüäöüäöüäöüZ", "äöüäöüäöüäöüäöüZ"),
            ("", ""),
        ];
        for (given, expected) in table {
            assert_eq!(instant(&json!({ "at": given }), "at"), expected);
        }
    }
}
