//! A schema as the meter reads it: what each subschema costs by itself, and which subschemas it applies to which parts of the data.
//!
//! Places that are referred to several times are in it once: `cost` has made sure that no reference leads in a circle.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::{Part, text_units};
use crate::policy::schema::{
    cost::{memory_of, resolve},
    patterns::{Explorer, PatternCost},
};

/// How many patterns a schema may have: each has automata of its own in memory.
const PATTERNS_MAX: usize = 200;

/// What all patterns of a schema may take in memory, in bytes.
const PATTERNS_BYTES_MAX: u64 = 16 << 20;

/// The units of `multipleOf`, which divides decimal fractions.
const MULTIPLE_OF_UNITS: u64 = 10;

/// The place of a node in its plan.
pub(super) type NodeIndex = usize;

/// What the meter walks over.
pub(in crate::policy::schema) struct Plan {
    nodes: Vec<Node>,
    pub(super) root: NodeIndex,
    /// What its patterns take in memory, in bytes.
    pub(in crate::policy::schema) patterns_bytes: u64,
}

/// A subschema.
#[derive(Default)]
pub(super) struct Node {
    /// What its keywords cost wherever they are asked.
    pub(super) units: u64,
    /// What they cost besides where they are asked about an object.
    pub(super) object_units: u64,
    /// How many errors it can make by itself, and what these take in memory beside what all errors take.
    pub(super) errors: u64,
    pub(super) error_bytes: u64,
    /// Whether an error tells the names of properties.
    pub(super) names_are_told: bool,
    /// `enum` and `const`.
    pub(super) comparison: Option<Comparison>,
    pub(super) pattern: Option<PatternCost>,
    pub(super) counts_characters: bool,
    pub(super) is_unique: bool,
    /// Schemas that are applied to the same part, all of them.
    pub(super) same_part: Vec<NodeIndex>,
    /// Schemas that are applied to the same part, whose errors are kept.
    pub(super) alternatives: Vec<NodeIndex>,
    pub(super) prefix_items: Vec<NodeIndex>,
    pub(super) items: Option<NodeIndex>,
    /// Schemas that are asked about every item.
    pub(super) every_item: Vec<NodeIndex>,
    pub(super) properties: BTreeMap<String, NodeIndex>,
    pub(super) additional_properties: Option<NodeIndex>,
    pub(super) pattern_properties: Vec<(PatternCost, NodeIndex)>,
    pub(super) property_names: Option<NodeIndex>,
    pub(super) looks_at_all_members: bool,
}

/// What comparing with the values of an `enum` or a `const` costs.
pub(super) struct Comparison {
    /// Of all values.
    units: u64,
    /// Whether there are only texts, which are looked up by their hash, or only integers, which are sorted. Null may be among them.
    only_texts: bool,
    only_integers: bool,
    has_texts: bool,
    has_lists: bool,
    has_objects: bool,
    has_scalars: bool,
}

impl Comparison {
    fn of(values: &[Value]) -> Self {
        let any = |is: fn(&Value) -> bool| values.iter().any(is);
        let all = |is: fn(&Value) -> bool| values.iter().all(|value| value.is_null() || is(value));
        Self {
            units: values.iter().map(compare_units).sum(),
            only_texts: all(Value::is_string),
            only_integers: all(Value::is_i64),
            has_texts: any(Value::is_string),
            has_lists: any(Value::is_array),
            has_objects: any(Value::is_object),
            has_scalars: any(|value| value.is_number() || value.is_boolean() || value.is_null()),
        }
    }

    /// At most what comparing this part with all values costs.
    pub(super) fn units(&self, part: Part<'_>) -> u64 {
        let is_compared = match part {
            Part::Text(text) if self.only_texts => return (2 + text_units(text)).min(self.units),
            Part::Scalar(value) if self.only_integers && value.is_i64() => return self.units.min(4),
            Part::Text(_) => self.has_texts,
            Part::List(_) => self.has_lists,
            Part::Object(_) => self.has_objects,
            Part::Scalar(_) => self.has_scalars,
        };
        if is_compared { self.units } else { 1 }
    }
}

fn compare_units(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text_units(text),
        Value::Array(values) => 1 + values.iter().map(compare_units).sum::<u64>(),
        Value::Object(object) => 1 + object.iter().map(|(name, value)| 2 + text_units(name) + compare_units(value)).sum::<u64>(),
        _ => 1,
    }
}

impl Plan {
    /// Reads a schema that `cost` has found bounded.
    ///
    /// # Errors
    /// What to change, in words for its author.
    pub(in crate::policy::schema) fn new<'a>(root: &'a Value, explorer: &'a mut Explorer) -> Result<Self, String> {
        let mut planning = Planning { root, nodes: Vec::new(), known: FxHashMap::default(), patterns: FxHashMap::default(), explorer };
        let index = planning.add(root)?;
        let patterns_bytes = planning.patterns.values().map(|pattern| pattern.memory_bytes).sum();
        Ok(Self { nodes: planning.nodes, root: index, patterns_bytes })
    }

    pub(super) fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index]
    }
}

struct Planning<'a> {
    root: &'a Value,
    nodes: Vec<Node>,
    /// By the address of the subschema, which stays where it is.
    known: FxHashMap<*const Value, NodeIndex>,
    patterns: FxHashMap<&'a str, PatternCost>,
    explorer: &'a mut Explorer,
}

impl<'a> Planning<'a> {
    fn add(&mut self, schema: &'a Value) -> Result<NodeIndex, String> {
        let address = std::ptr::from_ref(schema);
        if let Some(known) = self.known.get(&address) {
            return Ok(*known);
        }
        let node = match schema {
            Value::Object(keywords) => self.read(keywords)?,
            _ => Node { units: 1, errors: 1, ..Node::default() },
        };
        self.nodes.push(node);
        let index = self.nodes.len() - 1;
        self.known.insert(address, index);
        Ok(index)
    }

    fn read(&mut self, keywords: &'a Map<String, Value>) -> Result<Node, String> {
        let required = names_units(keywords.get("required").into_iter())
            + ["dependentRequired", "dependencies"]
                .into_iter()
                .filter_map(|keyword| keywords.get(keyword)?.as_object())
                .map(|lists| names_units(lists.values()) + 2 * lists.len() as u64)
                .sum::<u64>();
        let mut node = Node {
            units: 1 + keywords.len() as u64 + if keywords.contains_key("multipleOf") { MULTIPLE_OF_UNITS } else { 0 },
            errors: 1 + keywords.len() as u64 + required,
            error_bytes: keywords.get("not").map_or(0, memory_of) + keywords.get("pattern").map_or(0, memory_of),
            names_are_told: keywords.get("additionalProperties") == Some(&Value::Bool(false)),
            counts_characters: keywords.contains_key("maxLength") || keywords.contains_key("minLength"),
            is_unique: keywords.get("uniqueItems") == Some(&Value::Bool(true)),
            ..Node::default()
        };
        node.comparison = match (keywords.get("enum"), keywords.get("const")) {
            (Some(Value::Array(values)), None) => Some(Comparison::of(values)),
            (Some(Value::Array(values)), Some(value)) => Some(Comparison::of(&[values.as_slice(), std::slice::from_ref(value)].concat())),
            (_, Some(value)) => Some(Comparison::of(std::slice::from_ref(value))),
            _ => None,
        };
        if let Some(Value::String(pattern)) = keywords.get("pattern") {
            node.pattern = Some(self.measure(pattern)?);
        }
        self.add_same_part(keywords, &mut node)?;
        self.add_lists(keywords, &mut node)?;
        self.add_objects(keywords, &mut node)?;
        node.object_units = required + node.properties.keys().map(|name| 2 + text_units(name)).sum::<u64>();
        Ok(node)
    }

    fn add_same_part(&mut self, keywords: &'a Map<String, Value>, node: &mut Node) -> Result<(), String> {
        if let Some(reference) = keywords.get("$ref") {
            let place = resolve(self.root, reference)?;
            node.same_part.push(self.add(place)?);
        }
        for keyword in ["not", "if", "then", "else"] {
            node.same_part.extend(self.add_if_there(keywords, keyword)?);
        }
        node.same_part.extend(self.add_each(keywords.get("allOf").and_then(Value::as_array))?);
        for keyword in ["dependentSchemas", "dependencies"] {
            for inner in
                keywords.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::values).filter(|inner| !inner.is_array())
            {
                node.same_part.push(self.add(inner)?);
            }
        }
        for keyword in ["anyOf", "oneOf"] {
            node.alternatives.extend(self.add_each(keywords.get(keyword).and_then(Value::as_array))?);
        }
        Ok(())
    }

    fn add_lists(&mut self, keywords: &'a Map<String, Value>, node: &mut Node) -> Result<(), String> {
        node.prefix_items = self.add_each(keywords.get("prefixItems").and_then(Value::as_array))?;
        node.items = self.add_if_there(keywords, "items")?;
        // `additionalItems` is of older drafts, but the validator may look at it.
        for keyword in ["contains", "additionalItems"] {
            node.every_item.extend(self.add_if_there(keywords, keyword)?);
        }
        Ok(())
    }

    fn add_objects(&mut self, keywords: &'a Map<String, Value>, node: &mut Node) -> Result<(), String> {
        for (name, inner) in keywords.get("properties").and_then(Value::as_object).into_iter().flatten() {
            node.properties.insert(name.clone(), self.add(inner)?);
        }
        for (pattern, inner) in keywords.get("patternProperties").and_then(Value::as_object).into_iter().flatten() {
            node.pattern_properties.push((self.measure(pattern)?, self.add(inner)?));
        }
        node.additional_properties = self.add_if_there(keywords, "additionalProperties")?;
        node.property_names = self.add_if_there(keywords, "propertyNames")?;
        node.looks_at_all_members =
            node.additional_properties.is_some() || node.property_names.is_some() || !node.pattern_properties.is_empty();
        Ok(())
    }

    fn add_if_there(&mut self, keywords: &'a Map<String, Value>, keyword: &str) -> Result<Option<NodeIndex>, String> {
        keywords.get(keyword).map(|inner| self.add(inner)).transpose()
    }

    fn add_each(&mut self, schemas: Option<&'a Vec<Value>>) -> Result<Vec<NodeIndex>, String> {
        schemas.into_iter().flatten().map(|inner| self.add(inner)).collect()
    }

    fn measure(&mut self, pattern: &'a str) -> Result<PatternCost, String> {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(*known);
        }
        if self.patterns.len() == PATTERNS_MAX {
            return Err(format!("may have at most {PATTERNS_MAX} different patterns in `pattern` and `patternProperties`"));
        }
        let cost = self.explorer.measure(pattern)?;
        self.patterns.insert(pattern, cost);
        if self.patterns.values().map(|pattern| pattern.memory_bytes).sum::<u64>() > PATTERNS_BYTES_MAX {
            return Err(format!("has patterns that take more than {PATTERNS_BYTES_MAX} bytes compiled: use fewer or simpler ones"));
        }
        Ok(cost)
    }
}

/// What looking up the names in these lists costs.
fn names_units<'v>(lists: impl Iterator<Item = &'v Value>) -> u64 {
    let names = lists.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
    names.map(|name| 2 + text_units(name)).sum()
}
