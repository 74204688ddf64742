//! Whether two JSON texts say the same. Asked by imports, so that a document that an editor or `jq` has written again changes nothing.
//!
//! The audit log compares values, too: what is the same here has no entry there, and what differs here is written.

use serde_json::{Number, Value};

/// The largest number up to which a float tells whole numbers apart.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_991.0;

/// Whether the texts differ in nothing but white space, the order of members, escapes in strings and the spelling of numbers (`1.0`, `1`).
/// Texts that cannot be read are the same if their bytes are.
pub fn is_same(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (serde_json::from_str(one), serde_json::from_str(other)) {
        (Ok(one), Ok(other)) => is_same_value(&one, &other),
        _ => false,
    }
}

/// As the same, where either may be absent.
pub fn is_same_option(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// The recursion is as deep as the texts, which their reader bounds.
fn is_same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_value(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| is_same_value(value, other)))
        }
        (Value::Number(one), Value::Number(other)) => is_same_number(one, other),
        _ => one == other,
    }
}

/// Two whole numbers are compared as such: as floats, large ones that differ would be the same.
fn is_same_number(one: &Number, other: &Number) -> bool {
    let is_exact = |number: &f64| number.abs() <= EXACT_FLOAT_MAX;
    one == other
        || (one.is_f64() != other.is_f64())
            && matches!((one.as_f64().filter(is_exact), other.as_f64().filter(is_exact)), (Some(one), Some(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_otherwise_is_the_same_and_what_says_otherwise_is_not() {
        let text = r#"{"a b":[1.0,"x \" ü",-2],"c":null,"n":49.90}"#;
        for same in [
            text,
            "{ \"a b\" : [ 1.0 ,\n\t\"x \\\" ü\" , -2 ] ,\r\n \"c\": null, \"n\": 49.90 }\n",
            r#"{"c":null,"n":49.9,"a b":[1,"x \u0022 \u00fc",-2.0]}"#,
        ] {
            assert!(is_same(text, same) && is_same(same, text), "{same}");
        }
        for other in [
            r#"{"ab":[1.0,"x \" ü",-2],"c":null,"n":49.90}"#,
            r#"{"a b":[1.0,"x \"  ü",-2],"c":null,"n":49.90}"#,
            r#"{"a b":[-2,"x \" ü",1.0],"c":null,"n":49.90}"#,
            r#"{"a b":[1.0,"x \" ü",-2],"n":49.90}"#,
            r#"{"a b":[1.0,"x \" ü",-2],"c":null,"n":49.91}"#,
            "",
            "{",
        ] {
            assert!(!is_same(text, other) && !is_same(other, text), "{other}");
        }
        assert!(is_same_option(None, None) && !is_same_option(Some("1"), None) && is_same_option(Some("1"), Some(" 1")));
    }

    #[test]
    fn large_whole_numbers_are_told_apart() {
        for (one, other, same) in [
            ("12345678901234567890", "12345678901234567891", false),
            ("9007199254740993", "9007199254740992.0", false),
            ("9007199254740991", "9007199254740991.0", true),
            ("0", "-0.0", true),
            ("1e2", "100", true),
        ] {
            assert_eq!(is_same(one, other), same, "{one} {other}");
        }
    }
}
