//! What `data` must be: JSON Schema, draft 2020-12. Compiled when an event type is defined and once for publishing; asked for every event of it.
//!
//! Schemas come from tenants and run on the way of everybody's events, so that their cost is bounded before they run: references point
//! inside the schema and never in a circle, the whole unrolls to a bounded number of subschemas, and patterns are matched in linear time.

mod cost;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

/// The largest schema, in bytes.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// How many violations are told: the first few are what a publisher mends first.
const VIOLATIONS_MAX: usize = 10;

/// How large one compiled pattern may become, in bytes.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// The only dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A schema that is ready to be asked.
pub struct Schema(Validator);

/// Where data does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// A JSON pointer into the data; empty for the whole of it.
    pub path: String,
    /// What is wrong there, without showing the data.
    pub reason: String,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// What is wrong with it, in words for its author.
    pub fn compile(text: &str) -> Result<Self, String> {
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(format!("must be at most {SCHEMA_BYTES_MAX} bytes, and has {}", text.len()));
        }
        let schema: Value = serde_json::from_str(text).map_err(|error| format!("cannot be read: {error}"))?;
        if !schema.is_object() {
            return Err("must be a JSON object".to_owned());
        }
        if schema.get("$schema").is_some_and(|dialect| dialect.as_str().map(|uri| uri.trim_end_matches('#')) != Some(DIALECT)) {
            return Err(format!("must be of the draft 2020-12: leave `$schema` out or say `{DIALECT}`"));
        }
        cost::check(&schema)?;
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        let options = jsonschema::options().with_draft(Draft::Draft202012).with_pattern_options(patterns);
        options.build(&schema).map(Self).map_err(|error| format!("is not a schema: at `{}`: {error}", error.instance_path()))
    }

    /// Says where data, a JSON text, does not fit; nothing if it fits. Of repeated keys the last one counts.
    pub fn violations(&self, data: &[u8]) -> Vec<Violation> {
        let value: Value = match serde_json::from_slice(data) {
            Ok(value) => value,
            // The text is JSON, or it had not been taken.
            Err(_) => {
                let reason = "cannot be checked: it holds a number that is too large, or nests deeper than 127 levels";
                return vec![Violation { path: String::new(), reason: reason.to_owned() }];
            }
        };
        let violation = |error: jsonschema::ValidationError<'_>| Violation {
            path: error.instance_path().to_string(),
            reason: error.masked_with("the value").to_string(),
        };
        self.0.iter_errors(&value).take(VIOLATIONS_MAX).map(violation).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str = r##"{
        "type": "object",
        "properties": {
            "amount": { "type": "number", "minimum": 1 },
            "lines": { "type": "array", "items": { "$ref": "#/$defs/line" } },
            "a/b": { "pattern": "^[a-z]+$" }
        },
        "required": ["amount"],
        "$defs": { "line": { "type": "object", "required": ["sku"] } }
    }"##;

    #[test]
    fn data_fits_or_the_path_is_named() {
        let schema = Schema::compile(ORDER).ok().unwrap();
        #[rustfmt::skip]
        let cases: &[(&str, &[&str])] = &[
            (r#"{"amount": 1}"#, &[]),
            (r#"{"amount": 1, "amount": 0}"#, &["/amount"]),
            (r#"{"amount": "secret", "lines": [{"sku": 1}, {}]}"#, &["/amount", "/lines/1"]),
            (r#"{"amount": 12345678901234567890.10, "a/b": "A"}"#, &["/a~1b"]),
            (r#"{"amount": 1e999}"#, &[""]),
            ("null", &[""]),
        ];
        for (data, paths) in cases {
            let found: Vec<_> = schema.violations(data.as_bytes()).into_iter().map(|violation| violation.path).collect();
            assert_eq!(found, *paths, "{data}");
        }
    }

    #[test]
    fn the_data_itself_is_not_shown() {
        let schema = Schema::compile(ORDER).ok().unwrap();
        let found = schema.violations(br#"{"amount": "secret"}"#);
        assert_eq!(found[0].reason, r#"the value is not of type "number""#);
    }

    #[test]
    fn only_the_first_violations_are_told() {
        let schema = Schema::compile(r#"{"items": {"type": "number"}}"#).ok().unwrap();
        let data = format!("[{}\"\"]", "\"\",".repeat(100));
        assert_eq!(schema.violations(data.as_bytes()).len(), VIOLATIONS_MAX);
    }

    #[test]
    fn what_is_no_bounded_schema_of_the_draft_is_refused() {
        let doubling: String =
            (0..40).map(|n| format!(r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{m}"}},{{"$ref":"#/$defs/d{m}"}}]}},"##, m = n + 1)).collect();
        let cases = [
            ("1", "JSON object"),
            (r#"{"type": "nonsense"}"#, "is not a schema"),
            (r#"{"$schema": "http://json-schema.org/draft-07/schema#"}"#, "2020-12"),
            (r#"{"$ref": "https://example.com/schema.json"}"#, "inside the schema"),
            (r#"{"$ref": "file:///etc/passwd"}"#, "inside the schema"),
            (r##"{"$ref": "#/$defs/missing"}"##, "nothing at"),
            (r##"{"$ref": "#"}"##, "circle"),
            (r##"{"properties": {"child": {"$ref": "#"}}}"##, "circle"),
            (r##"{"$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}"##, "circle"),
            (r##"{"$dynamicRef": "#node"}"##, "`$dynamicRef`"),
            (r#"{"properties": {"a": {"$id": "https://example.com/a"}}}"#, "`$id`"),
            (r#"{"pattern": "(a+)+\\1"}"#, "is not a schema"),
            (&format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{doubling}"d40":{{}}}}}}"##), "unrolls"),
            (&format!(r#"{{"description": "{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX)), "at most 65536 bytes"),
        ];
        for (schema, words) in cases {
            let reason = Schema::compile(schema).err().unwrap_or_else(|| panic!("{schema} was taken"));
            assert!(reason.contains(words), "{schema}: {reason}");
        }
        // A property may be called like a keyword.
        assert!(Schema::compile(r#"{"properties": {"$ref": {"type": "string"}, "$id": {}}, "enum": [{"$ref": "x"}]}"#).is_ok());
    }
}
