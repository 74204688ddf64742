//! What a schema can cost before any data is seen: it is unrolled, reference by reference, and counted. Asked before a schema is compiled.
//!
//! A reference that leads back to itself, or two references to two references and so on, make a few lines run for ever. What unrolls to a
//! bounded tree costs at most that many checks for each part of the data, and `meter` counts these for each event.

use serde_json::{Map, Value};

/// How many subschemas a schema may unroll to.
const SUBSCHEMAS_MAX: usize = 5_000;

/// How deep references and subschemas may nest: what data may, and no walk over them can exhaust a stack.
const DEPTH_MAX: usize = 128;

/// What a schema may take in memory, compiled, in bytes: as much as 64 KiB of numbers in an `enum` take, which is the most of what is useful.
pub(super) const COMPILED_BYTES_MAX: u64 = 16 << 20;

/// What a subschema takes in memory beside what its keywords say, in bytes.
const SUBSCHEMA_BYTES: u64 = 1_024;

/// How often the compiled schema holds what a keyword says: as a check, and to explain a failure with.
const COPIES: u64 = 3;

/// Keywords whose value is a schema.
const ONE: [&str; 10] =
    ["additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas. `$defs` counts where it is referred to.
const MAPS: [&str; 4] = ["dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords that are not taken, and what to write instead. The first ones change what a reference means, or make one that is known only when it runs;
/// the last ones have what they stand beside checked again, and once more for each level that they nest.
const REFUSED: [(&str, &str); 8] = [
    ("$anchor", "references are written as `#/$defs/…`"),
    ("$dynamicAnchor", "references are written as `#/$defs/…`"),
    ("$dynamicRef", "references are written as `#/$defs/…`"),
    ("$recursiveAnchor", "references are written as `#/$defs/…`"),
    ("$recursiveRef", "references are written as `#/$defs/…`"),
    ("$vocabulary", "the vocabularies are those of the draft"),
    ("unevaluatedProperties", "its cost has no bound. List all properties in one place and use `additionalProperties`"),
    ("unevaluatedItems", "its cost has no bound. List all items in one place and use `prefixItems` and `items`"),
];

/// Refuses a schema whose cost has no bound, and says what it takes in memory without its patterns, in bytes.
///
/// # Errors
/// What to change, in words for its author.
pub(super) fn check(root: &Value) -> Result<u64, String> {
    let mut walk = Walk { root, subschemas: 0, memory_bytes: 0, path: Vec::new() };
    walk.visit(root)?;
    let definitions = ["$defs", "definitions"].into_iter().filter_map(|keyword| root.get(keyword)?.as_object());
    definitions.flat_map(Map::values).try_for_each(|definition| walk.visit(definition))?;
    Ok(walk.memory_bytes)
}

/// The place that a reference names.
///
/// # Errors
/// What to change, in words for its author.
pub(super) fn resolve<'a>(root: &'a Value, reference: &Value) -> Result<&'a Value, String> {
    let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
    let pointer = pointer.filter(|pointer| (pointer.is_empty() || pointer.starts_with('/')) && !pointer.contains('%'));
    let Some(pointer) = pointer else { return Err("must refer to places inside the schema only, as `#/$defs/…`".to_owned()) };
    root.pointer(pointer).ok_or_else(|| format!("refers to `#{pointer}`, which does not exist"))
}

/// What a value takes in memory, in bytes, as far as a bound needs to know. Its depth is that of a JSON text that was parsed.
pub(super) fn memory_of(value: &Value) -> u64 {
    match value {
        Value::String(text) => 64 + text.len() as u64,
        Value::Array(values) => 64 + values.iter().map(memory_of).sum::<u64>(),
        Value::Object(object) => 64 + object.iter().map(|(key, value)| 64 + key.len() as u64 + memory_of(value)).sum::<u64>(),
        _ => 64,
    }
}

struct Walk<'a> {
    root: &'a Value,
    subschemas: usize,
    memory_bytes: u64,
    /// The schemas that are being unrolled, the outermost first.
    path: Vec<&'a Value>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schema: &'a Value) -> Result<(), String> {
        // `true` and `false` are subschemas, too.
        self.subschemas += 1;
        if self.subschemas > SUBSCHEMAS_MAX {
            return Err(format!("expands to more than {SUBSCHEMAS_MAX} subschemas: use fewer references and alternatives"));
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        if self.path.iter().any(|outer| std::ptr::eq(*outer, schema)) {
            return Err("has circular references, which are not supported".to_owned());
        }
        if self.path.len() == DEPTH_MAX {
            return Err(format!("nests deeper than {DEPTH_MAX} levels"));
        }
        self.refuse_keywords(keywords)?;
        self.count_memory(keywords)?;
        self.path.push(schema);
        if let Some(reference) = keywords.get("$ref") {
            self.visit(resolve(self.root, reference)?)?;
        }
        for inner in inner_schemas(keywords) {
            self.visit(inner)?;
        }
        self.path.pop();
        Ok(())
    }

    fn refuse_keywords(&self, keywords: &Map<String, Value>) -> Result<(), String> {
        if let Some((refused, instead)) = REFUSED.into_iter().find(|(refused, _)| keywords.contains_key(*refused)) {
            return Err(format!("must not use `{refused}`: {instead}"));
        }
        if !self.path.is_empty() && keywords.contains_key("$id") {
            return Err("must not use `$id` except at its top: references are written as `#/$defs/…`".to_owned());
        }
        Ok(())
    }

    /// Inner schemas count when they are visited; `not` keeps its inner schema as it was written besides.
    fn count_memory(&mut self, keywords: &Map<String, Value>) -> Result<(), String> {
        let of_keyword = |(keyword, value): (&String, &Value)| match keyword.as_str() {
            "$defs" | "definitions" => 0,
            "not" => memory_of(value),
            keyword if is_applicator(keyword) => {
                value.as_object().map_or(64, |inner| inner.keys().map(|name| 64 + name.len() as u64).sum())
            }
            _ => COPIES * memory_of(value),
        };
        self.memory_bytes += SUBSCHEMA_BYTES + keywords.iter().map(of_keyword).sum::<u64>();
        if self.memory_bytes > COMPILED_BYTES_MAX {
            return Err(format!("takes more than {COMPILED_BYTES_MAX} bytes compiled: use fewer references, and shorter lists in them"));
        }
        Ok(())
    }
}

fn is_applicator(keyword: &str) -> bool {
    ONE.contains(&keyword) || LISTS.contains(&keyword) || MAPS.contains(&keyword)
}

fn inner_schemas(keywords: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let one = ONE.into_iter().filter_map(|keyword| keywords.get(keyword));
    let listed = LISTS.into_iter().filter_map(|keyword| keywords.get(keyword)?.as_array()).flatten();
    let mapped = MAPS.into_iter().filter_map(|keyword| keywords.get(keyword)?.as_object()).flat_map(Map::values);
    one.chain(listed).chain(mapped)
}
