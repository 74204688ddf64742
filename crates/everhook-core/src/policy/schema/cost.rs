//! What a schema can cost: it is unrolled, reference by reference, and counted. Asked before a schema is compiled.
//!
//! A reference that leads back to itself, or two references to two references and so on, make a few lines run for ever. What unrolls to a
//! bounded tree costs at most that many checks for each part of the data.

use serde_json::{Map, Value};

/// How many subschemas a schema may unroll to.
const SUBSCHEMAS_MAX: usize = 5_000;

/// How deep references and subschemas may nest: what data may, and no walk over them can exhaust a stack.
const DEPTH_MAX: usize = 128;

/// Keywords whose value is a schema.
const ONE: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas. `$defs` counts where it is referred to.
const MAPS: [&str; 4] = ["dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords that change what a reference means, or make one that is known only when it runs.
const REFUSED: [&str; 6] = ["$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef", "$vocabulary"];

/// Refuses a schema whose cost has no bound.
///
/// # Errors
/// What to change, in words for its author.
pub(super) fn check(root: &Value) -> Result<(), String> {
    let mut walk = Walk { root, subschemas: 0, path: Vec::new() };
    walk.visit(root)?;
    let definitions = ["$defs", "definitions"].into_iter().filter_map(|keyword| root.get(keyword)?.as_object());
    definitions.flat_map(Map::values).try_for_each(|definition| walk.visit(definition))
}

struct Walk<'a> {
    root: &'a Value,
    subschemas: usize,
    /// The schemas that are being unrolled, the outermost first.
    path: Vec<&'a Value>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schema: &'a Value) -> Result<(), String> {
        let Value::Object(keywords) = schema else { return Ok(()) };
        self.subschemas += 1;
        if self.subschemas > SUBSCHEMAS_MAX {
            return Err(format!("unrolls to more than {SUBSCHEMAS_MAX} subschemas: use fewer references and alternatives"));
        }
        if self.path.iter().any(|outer| std::ptr::eq(*outer, schema)) {
            return Err("has references that lead in a circle, which are not taken".to_owned());
        }
        if self.path.len() == DEPTH_MAX {
            return Err(format!("nests deeper than {DEPTH_MAX} levels"));
        }
        self.refuse_keywords(keywords)?;
        self.path.push(schema);
        if let Some(reference) = keywords.get("$ref") {
            self.visit(self.resolve(reference)?)?;
        }
        for inner in inner_schemas(keywords) {
            self.visit(inner)?;
        }
        self.path.pop();
        Ok(())
    }

    fn refuse_keywords(&self, keywords: &Map<String, Value>) -> Result<(), String> {
        if let Some(refused) = REFUSED.into_iter().find(|refused| keywords.contains_key(*refused)) {
            return Err(format!("must not use `{refused}`: references are written as `#/$defs/…`"));
        }
        if !self.path.is_empty() && keywords.contains_key("$id") {
            return Err("must not use `$id` but at its top: references are written as `#/$defs/…`".to_owned());
        }
        Ok(())
    }

    fn resolve(&self, reference: &Value) -> Result<&'a Value, String> {
        let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
        let pointer = pointer.filter(|pointer| (pointer.is_empty() || pointer.starts_with('/')) && !pointer.contains('%'));
        let Some(pointer) = pointer else { return Err("must refer to places inside the schema only, as `#/$defs/…`".to_owned()) };
        self.root.pointer(pointer).ok_or_else(|| format!("refers to `#{pointer}`, and there is nothing at that place"))
    }
}

fn inner_schemas(keywords: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let one = ONE.into_iter().filter_map(|keyword| keywords.get(keyword));
    let listed = LISTS.into_iter().filter_map(|keyword| keywords.get(keyword)?.as_array()).flatten();
    let mapped = MAPS.into_iter().filter_map(|keyword| keywords.get(keyword)?.as_object()).flat_map(Map::values);
    one.chain(listed).chain(mapped)
}
