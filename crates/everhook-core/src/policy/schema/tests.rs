//! Which schemas are taken, what they say of data, and what that may cost.

use serde_json::json;

use super::*;
use crate::policy::work::SCHEMA_UNITS_MAX;

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

fn check(schema: &Schema, data: &str) -> Result<(), SchemaMismatch> {
    let Ok(data) = serde_json::from_str(data) else { return Err(SchemaMismatch::Violation(Violation::unreadable())) };
    schema.check(&data, &mut WorkBudget::new(SCHEMA_UNITS_MAX))
}

fn violation(schema: &Schema, data: &str) -> Option<Violation> {
    check(schema, data).err().map(|misfit| match misfit {
        SchemaMismatch::Violation(violation) => violation,
        SchemaMismatch::TooCostly => panic!("too costly: {}", &data[..data.len().min(100)]),
    })
}

#[test]
fn data_fits_or_the_first_path_is_named() {
    let schema = Schema::compile(ORDER).ok().unwrap();
    let cases = [
        (r#"{"amount": 1}"#, None),
        (r#"{"amount": 1, "amount": 0}"#, Some("/amount")),
        (r#"{"amount": 2, "lines": [{"sku": 1}, {}]}"#, Some("/lines/1")),
        (r#"{"amount": 12345678901234567890.10, "a/b": "A"}"#, Some("/a~1b")),
        (r#"{"amount": 1e999}"#, Some("")),
        ("null", Some("")),
    ];
    for (data, path) in cases {
        assert_eq!(violation(&schema, data).map(|violation| violation.path).as_deref(), path, "{data}");
    }
}

#[test]
fn the_data_itself_is_not_shown() {
    let schema = Schema::compile(ORDER).ok().unwrap();
    let found = violation(&schema, r#"{"amount": "secret"}"#).unwrap();
    assert_eq!(found.reason, r#"the value is not of type "number""#);
}

#[test]
fn long_paths_and_reasons_are_cut() {
    let schema = Schema::compile(&format!(r#"{{"additionalProperties": {{"const": "{}"}}}}"#, "x".repeat(10_000))).ok().unwrap();
    let found = violation(&schema, &format!(r#"{{"{}": 1}}"#, "y".repeat(10_000))).unwrap();
    assert_eq!((found.path.chars().count(), found.reason.chars().count()), (WORDS_MAX + 1, WORDS_MAX + 1));
}

#[test]
fn where_alternatives_fail_is_told_unless_that_would_take_too_much_memory() {
    let schema = |alternatives: &str| format!(r#"{{"items": {{"anyOf": [{alternatives}]}}}}"#);
    let few = Schema::compile(&schema(r#"{"const": 1}, {"type": "object", "required": ["a"]}"#)).ok().unwrap();
    let many_items = format!("[{}{{}}]", "1,".repeat(20_000));
    assert_eq!(violation(&few, &many_items).unwrap().path, "/20000");
    // Each item that does not fit clones what it must not be.
    let not = json!({"not": {"enum": vec![1; 2_000]}});
    let cloning = Schema::compile(&json!({"anyOf": [{"items": not}]}).to_string()).ok().unwrap();
    assert!(violation(&cloning, &json!(vec![1; 100]).to_string()).unwrap().reason.contains("too many alternatives"));
    // The path is in each error.
    let long_path = Schema::compile(r#"{"additionalProperties": {"anyOf": [{"items": {"const": 1}}]}}"#).ok().unwrap();
    let data = format!(r#"{{"{}": [{}0]}}"#, "x".repeat(100_000), "0,".repeat(1_000));
    assert!(violation(&long_path, &data).unwrap().reason.contains("too many alternatives"));
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
        (r##"{"$ref": "#/$defs/missing"}"##, "does not exist"),
        (r##"{"$ref": "#"}"##, "circular"),
        (r##"{"properties": {"child": {"$ref": "#"}}}"##, "circular"),
        (r##"{"$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}"##, "circular"),
        (r##"{"$dynamicRef": "#node"}"##, "`$dynamicRef`"),
        (r#"{"properties": {"a": {"$id": "https://example.com/a"}}}"#, "`$id`"),
        (r#"{"pattern": "(a+)+\\1"}"#, "back-references"),
        (r#"{"unevaluatedProperties": false}"#, "`additionalProperties`"),
        (r#"{"properties": {"a": {"unevaluatedItems": false}}}"#, "`prefixItems`"),
        (&json!({"anyOf": patterns("pattern", 201)}).to_string(), "at most 200 different patterns"),
        (&json!({"patternProperties": names(201)}).to_string(), "at most 200 different patterns"),
        (r#"{"pattern": "((a{100}){100}){10}"}"#, "too large compiled"),
        // `true` is a subschema, too: 5 references to 1,000 of them are 5,000.
        (&json!({"$defs": {"d": {"properties": names(1_000)}}, "allOf": vec![json!({"$ref": "#/$defs/d"}); 5]}).to_string(), "expands"),
        // Each level of `not` keeps what is in it.
        (&format!("{}{}{}", r#"{"not":"#.repeat(100), json!({"enum": vec![1; 25_000]}), "}".repeat(100)), "bytes compiled"),
        (
            &json!({"$defs": {"d": {"enum": vec![1; 20_000]}}, "allOf": vec![json!({"$ref": "#/$defs/d"}); 100]}).to_string(),
            "bytes compiled",
        ),
        (&format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{doubling}"d40":{{}}}}}}"##), "expands"),
        (&format!(r#"{{"description": "{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX)), "at most 65536 bytes"),
    ];
    for (schema, words) in cases {
        let reason = Schema::compile(schema).err().unwrap_or_else(|| panic!("{schema} was taken"));
        assert!(reason.contains(words), "{schema}: {reason}");
    }
    // A property may be called like a keyword.
    assert!(Schema::compile(r#"{"properties": {"$ref": {"type": "string"}, "$id": {}}, "enum": [{"$ref": "x"}]}"#).is_ok());
}

#[test]
fn the_schemas_of_a_manifest_have_one_budget() {
    let costly = |n: usize| {
        json!({ "allOf": (0..11).map(|m| json!({"pattern": format!("[ab]*a[ab]{{200}}c{n}x{m}")})).collect::<Vec<_>>() }).to_string()
    };
    let mut budget = CompileBudget::of_manifest();
    let compiled: Vec<_> = (0..100).map(|n| Schema::compile_within(&costly(n), &mut budget)).take_while(Result::is_ok).collect();
    assert!((1..10).contains(&compiled.len()), "{} were taken", compiled.len());
    let bytes: u64 = compiled.iter().flatten().map(Schema::memory_bytes).sum();
    assert!(bytes <= COMPILED_BYTES_MAX);
    // By itself each may be used, and small ones are many.
    assert!(Schema::compile(&costly(99)).is_ok());
    let mut budget = CompileBudget::of_manifest();
    assert!((0..100).all(|_| Schema::compile_within(ORDER, &mut budget).is_ok()));
}

/// So many subschemas with a pattern each.
fn patterns(keyword: &str, count: usize) -> Vec<Value> {
    (0..count).map(|n| json!({ keyword: format!("^a{n}[bc]*$") })).collect()
}

/// An object of so many names, which are patterns, too.
fn names(count: usize) -> Value {
    (0..count).map(|n| (format!("^a{n}[bc]*$"), json!(true))).collect()
}

/// A schema that nests as deep as this.
fn nested(depth: usize, around: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!({"type": "integer"}), |inner, _| around(inner))
}

#[test]
fn what_takes_too_much_work_is_refused_whatever_the_data_says() {
    let ones = |count: usize| json!(vec![1; count]);
    let members = |count: usize| -> Value { (0..count).map(|n| (format!("key{n}"), json!(n))).collect() };
    let consts = |count: usize| -> Vec<Value> { (0..count).map(|n| json!({"const": n + 2})).collect() };
    // Lists that differ in their brackets alone share a hash.
    let brackets: Vec<Value> = (0..4_000)
        .map(|n| (0..12).fold(json!([]), |list, bit| if (n >> bit) & 1 == 1 { json!([list]) } else { json!([list, 1]) }))
        .collect();
    let cases = [
        ("alternatives of constants", json!({"items": {"anyOf": consts(3_000)}}), ones(100_000)),
        ("few of them", json!({"items": {"anyOf": consts(40)}}), ones(100_000)),
        ("nested alternatives", nested(40, |inner| json!({"oneOf": [inner, {"items": {"type": "string"}}]})), ones(20_000)),
        ("patterns for names", json!({"propertyNames": {"allOf": patterns("pattern", 200)}}), members(10_000)),
        ("patterns of properties", json!({"patternProperties": names(200)}), members(10_000)),
        ("an enum of lists", json!({"items": {"enum": (0..3_000).map(|n| json!([n])).collect::<Vec<_>>()}}), json!(vec![[-1]; 1_000])),
        ("a large constant", json!({"items": {"const": vec![1; 20_000]}}), json!(vec![vec![1; 100]; 100])),
        ("unique lists", json!({"uniqueItems": true}), json!(brackets)),
        ("unique large numbers", json!({"uniqueItems": true}), json!((0..10_000).map(|n| u64::MAX - n).collect::<Vec<_>>())),
        ("contains", json!({"allOf": vec![json!({"contains": {"const": 2}}); 100]}), ones(10_000)),
        (
            "dependent schemas",
            json!({"dependentSchemas": (0..500).map(|n| (n.to_string(), json!({"maxProperties": 1, "additionalProperties": {"type": "string"}}))).collect::<Value>()}),
            members(2_000),
        ),
        (
            "conditions",
            nested(100, |inner| json!({"if": inner, "then": {"items": {"minimum": 0}}, "else": {"items": {"minimum": 0}}})),
            ones(10_000),
        ),
        ("a pattern of many states", json!({"items": {"pattern": "[ab]*a[ab]{200}c"}}), json!(["ab".repeat(100_000)])),
        ("a pattern read from the end", json!({"items": {"pattern": "[ab]{40}a[ab]*$"}}), json!(["ab".repeat(100_000)])),
    ];
    for (name, schema, data) in cases {
        let schema = Schema::compile(&schema.to_string()).unwrap_or_else(|reason| panic!("{name}: {reason}"));
        let mut budget = WorkBudget::new(SCHEMA_UNITS_MAX);
        assert_eq!(schema.check(&data, &mut budget), Err(SchemaMismatch::TooCostly), "{name}");
    }
}

#[test]
fn ordinary_schemas_take_large_data() {
    let line = json!({
        "type": "object", "required": ["id", "sku", "price", "currency"], "additionalProperties": false,
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
            "sku": {"type": "string", "minLength": 1, "maxLength": 50},
            "price": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+$"}]},
            "currency": {"enum": (0..200).map(|n| format!("C{n}")).collect::<Vec<_>>()},
            "tags": {"type": "array", "uniqueItems": true, "items": {"type": "string"}},
        },
    });
    let properties: Value = (0..200).map(|n| (format!("p{n}"), json!({"type": ["string", "null"]}))).collect();
    let schema = json!({"type": "object", "properties": {"lines": {"items": {"$ref": "#/$defs/line"}}}, "allOf": [{"properties": properties}], "$defs": {"line": line}});
    let line =
        json!({"id": "0123abcd-0123-0123-0123-0123456789ab", "sku": "A-1", "price": 12.5, "currency": "C199", "tags": ["a", "b", "c"]});
    let data = json!({"p1": "text", "lines": vec![line; 2_400]});
    assert!(data.to_string().len() > 256 * 1024);
    let mut budget = WorkBudget::new(SCHEMA_UNITS_MAX);
    assert_eq!(Schema::compile(&schema.to_string()).ok().unwrap().check(&data, &mut budget), Ok(()));
    assert!(budget.spent() < SCHEMA_UNITS_MAX / 2, "{budget:?}");
}
