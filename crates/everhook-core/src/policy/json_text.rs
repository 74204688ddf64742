//! Whether two JSON texts are the same but for blanks between their parts. Asked by imports, so that a document that an editor or `jq` has formatted
//! again changes nothing.
//!
//! Texts are compared, not values: reading them would lose digits of numbers and the order of members, which are kept as they were written.

/// Whether the texts are the same but for white space outside of strings.
pub fn is_same_but_blanks(one: &str, other: &str) -> bool {
    one == other || without_blanks(one).eq(without_blanks(other))
}

/// As the same, where either may be absent.
pub fn is_same_option(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same_but_blanks(one, other),
        (None, None) => true,
        _ => false,
    }
}

fn without_blanks(json: &str) -> impl Iterator<Item = u8> + '_ {
    let (mut in_string, mut escaped) = (false, false);
    json.bytes().filter(move |byte| {
        let is_inside = in_string;
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
        is_inside || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blanks_between_parts_make_no_difference() {
        let text = r#"{"a b":[1.0,"x \" y"],"c":null}"#;
        for same in ["{ \"a b\" : [ 1.0 ,\n\t\"x \\\" y\" ] ,\r\n \"c\": null }\n", text] {
            assert!(is_same_but_blanks(text, same), "{same}");
        }
        for other in
            [r#"{"ab":[1.0,"x \" y"],"c":null}"#, r#"{"a b":[1.0,"x \"  y"],"c":null}"#, r#"{"a b":[1,"x \" y"],"c":null}"#, "", "{"]
        {
            assert!(!is_same_but_blanks(text, other), "{other}");
        }
        assert!(is_same_option(None, None) && !is_same_option(Some("1"), None) && is_same_option(Some("1"), Some(" 1")));
    }
}
