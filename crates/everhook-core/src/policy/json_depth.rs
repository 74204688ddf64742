//! How deep a JSON text nests, counted without parsing it.
//!
//! Parsers and evaluators use stack by depth: texts of strangers are measured before they are parsed.

/// How deep a JSON text nests. A text that is no JSON has some depth, too.
pub fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_outside_of_strings_only() {
        let table = [
            ("1".to_owned(), 0),
            ("[]".to_owned(), 1),
            (r#"{"a": [[1]], "b": [2]}"#.to_owned(), 3),
            (format!("{:?}", "[".repeat(1_000)), 0),
            (format!("[{}1]", "[],".repeat(1_000)), 2),
            (format!(r#"["\"{}"]"#, "{".repeat(1_000)), 1),
            ("[".repeat(129), 129),
        ];
        for (json, expected) in table {
            assert_eq!(depth(&json), expected, "{json}");
        }
    }
}
