//! Labels: what a publisher says about an event beside its data, and what an endpoint asks for. Checked when either is written, compared by
//! the publish flow.

use std::collections::BTreeMap;

use super::naming;

/// Names and values, each name once, in a fixed order.
pub type Labels = BTreeMap<String, String>;

/// How many labels an event or an endpoint may have.
pub const LABELS_MAX: usize = 16;
/// The longest name, in bytes.
pub const KEY_BYTES_MAX: usize = 64;
/// The longest value, in characters.
pub const VALUE_CHARS_MAX: usize = 256;

/// Checks labels.
///
/// # Errors
/// What is wrong with them, in words for their author: every wrong one is named.
pub fn check(labels: &Labels) -> Result<(), String> {
    if labels.len() > LABELS_MAX {
        return Err(format!("must be at most {LABELS_MAX} labels, and are {}", labels.len()));
    }
    let wrong_keys: Vec<&str> = labels.keys().map(String::as_str).filter(|key| !is_key(key)).collect();
    let has_wrong_value = |(key, value): &(&String, &String)| is_key(key) && !is_value(value);
    let wrong_values: Vec<&str> = labels.iter().filter(has_wrong_value).map(|(key, _)| key.as_str()).collect();
    let faults = [refused_keys(&wrong_keys), naming::refused(&wrong_values, &value_rule())];
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// Checks a label's name.
///
/// # Errors
/// What it should be.
pub fn check_key(key: &str) -> Result<(), String> {
    let wrong = if is_key(key) { None } else { refused_keys(&[key]) };
    wrong.map_or(Ok(()), Err)
}

fn refused_keys(keys: &[&str]) -> Option<String> {
    naming::refused(keys, &format!("is not a label key: use 1 to {KEY_BYTES_MAX} of the characters A-Z a-z 0-9 _ . / -"))
}

fn is_key(key: &str) -> bool {
    let is_key_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-');
    (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(is_key_byte)
}

fn value_rule() -> String {
    format!("must have a value of at most {VALUE_CHARS_MAX} characters, none of them a control character")
}

fn is_value(value: &str) -> bool {
    value.chars().count() <= VALUE_CHARS_MAX && !value.chars().any(char::is_control)
}

/// Whether an event with these labels has all that an endpoint asks for.
pub fn has_all(event: &Labels, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| event.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs = &'static [(&'static str, &'static str)];

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_event_needs_every_label_that_is_asked_for_and_may_have_more() {
        #[rustfmt::skip]
        let cases: &[(Pairs, Pairs, bool)] = &[
            // event, endpoint
            (&[], &[], true),
            (&[("region", "eu")], &[], true),
            (&[("region", "eu"), ("tier", "gold")], &[("region", "eu")], true),
            (&[("region", "eu")], &[("region", "us")], false),
            (&[("region", "eu")], &[("region", "eu"), ("tier", "gold")], false),
            (&[], &[("region", "")], false),
            (&[("region", "EU")], &[("region", "eu")], false),
        ];
        for (event, wanted, expected) in cases {
            assert_eq!(has_all(&labels(event), &labels(wanted)), *expected, "{event:?} and {wanted:?}");
        }
    }

    #[test]
    fn names_values_and_their_number_are_bounded() {
        let many = |n: usize| (0..n).map(|n| (format!("k{n}"), String::new())).collect::<Labels>();
        let cases = [
            (many(16), true),
            (many(17), false),
            (labels(&[("a.B/c-d_9", "any text: ü")]), true),
            (labels(&[("", "v")]), false),
            (labels(&[("a:b", "v")]), false),
            (labels(&[("k", "a\nb")]), false),
            (labels(&[(&"k".repeat(64), &"ü".repeat(256))]), true),
            (labels(&[(&"k".repeat(65), "v")]), false),
            (labels(&[("k", &"v".repeat(257))]), false),
        ];
        for (labels, taken) in cases {
            assert_eq!(check(&labels).is_ok(), taken, "{labels:?}");
        }
        let fault = check(&labels(&[("a b", "v"), ("c d", "v"), ("k", "a\nb"), ("l", "\0"), ("m", "v")])).unwrap_err();
        assert!(fault.starts_with("`a b`, `c d`: each is not a label key"), "{fault}");
        assert!(fault.contains("; `k`, `l`: each must have a value of"), "{fault}");
    }
}
