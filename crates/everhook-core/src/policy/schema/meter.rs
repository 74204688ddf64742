//! What checking an event's data against a schema costs at most, counted before it is checked.
//!
//! The meter walks over schema and data together, as the validator does, but takes every branch: what it counts is the most that the validator can
//! do. It stops at the first unit that is too many, so that it is itself bounded by the budget. Its depth is that of the schema, which
//! `cost` bounds. Where the weights come from is in `docs/decisions/0034-bounded-evaluation.md`.

mod plan;

use serde_json::{Map, Value};

pub(super) use self::plan::Plan;
use self::plan::{Node, NodeIndex};
use crate::policy::work::{BudgetExceeded, WorkBudget};

/// What one error of the validator takes in memory beside the path that it names, in bytes.
const ERROR_BYTES: u64 = 400;
/// How many bytes of text are counted, compared or hashed in a unit.
const TEXT_BYTES_A_UNIT: u64 = 32;
/// The largest whole number that all doubles tell from its neighbors. Larger ones may share a hash.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// Up to here the validator compares all items of a list with each other.
const PAIRWISE_MAX: u64 = 15;

/// Counts what checking `data` costs, and takes it from the budget. Says how much memory an explanation of a failure can take, in bytes.
///
/// # Errors
/// [`BudgetExceeded`] if the budget does not suffice.
pub(super) fn spend(plan: &Plan, data: &Value, budget: &mut WorkBudget) -> Result<u64, BudgetExceeded> {
    let mut walk = Walk { plan, budget, explanation: 0, explanation_most: 0 };
    walk.visit(plan.root, Part::of(data), Place::default())?;
    Ok(walk.explanation_most)
}

/// A part of the data; the name of a property is checked as if it were a text.
#[derive(Clone, Copy)]
enum Part<'a> {
    Text(&'a str),
    List(&'a [Value]),
    Object(&'a Map<String, Value>),
    Scalar(&'a Value),
}

impl<'a> Part<'a> {
    fn of(value: &'a Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text),
            Value::Array(values) => Self::List(values),
            Value::Object(object) => Self::Object(object),
            scalar => Self::Scalar(scalar),
        }
    }
}

/// Where the walk is.
#[derive(Clone, Copy, Default)]
struct Place {
    /// How many `anyOf` and `oneOf` it is in: all errors of their branches are kept to explain that none fits, level by level.
    alternatives: u64,
    /// How long the path is that an error here would name.
    path_bytes: u64,
}

impl Place {
    fn below(self, name: &str) -> Self {
        Self { path_bytes: self.path_bytes + 2 * name.len() as u64 + 1, ..self }
    }

    const fn at_index(self) -> Self {
        Self { path_bytes: self.path_bytes + 7, ..self }
    }
}

struct Walk<'a> {
    plan: &'a Plan,
    budget: &'a mut WorkBudget,
    /// What the errors of the outermost alternatives take in memory. The validator stops at the first that fails, so that the largest counts.
    explanation: u64,
    explanation_most: u64,
}

impl Walk<'_> {
    fn visit(&mut self, index: NodeIndex, part: Part<'_>, place: Place) -> Result<(), BudgetExceeded> {
        let plan = self.plan;
        let node = plan.node(index);
        self.budget.take(node.units)?;
        if place.alternatives > 0 {
            self.explain(node, part, place);
        }
        if let Some(comparison) = &node.comparison {
            self.budget.take(comparison.units(part))?;
        }
        match part {
            Part::Text(text) => self.visit_text(node, text)?,
            Part::List(values) => self.visit_list(node, values, place)?,
            Part::Object(object) => self.visit_object(node, object, place)?,
            Part::Scalar(_) => {}
        }
        for inner in &node.same_part {
            self.visit(*inner, part, place)?;
        }
        if !node.alternatives.is_empty() {
            let inside = Place { alternatives: place.alternatives + 1, ..place };
            for inner in &node.alternatives {
                self.visit(*inner, part, inside)?;
            }
            if place.alternatives == 0 {
                self.explanation_most = self.explanation_most.max(std::mem::take(&mut self.explanation));
            }
        }
        Ok(())
    }

    /// Counts the errors that this node can make here, at each level of alternatives: each looks for them again.
    fn explain(&mut self, node: &Node, part: Part<'_>, place: Place) {
        let names_bytes = match part {
            Part::Object(object) if node.names_are_told => object.keys().map(|name| name.len() as u64 + 32).sum(),
            Part::Text(text) => text.len() as u64,
            _ => 0,
        };
        let bytes = node.errors * (ERROR_BYTES + place.path_bytes) + node.error_bytes + names_bytes;
        self.explanation = self.explanation.saturating_add(bytes.saturating_mul(place.alternatives));
    }

    fn visit_text(&mut self, node: &Node, text: &str) -> Result<(), BudgetExceeded> {
        if node.counts_characters {
            self.budget.take(text_units(text))?;
        }
        node.pattern.map_or(Ok(()), |pattern| self.budget.take(pattern.units(text.len())))
    }

    fn visit_list(&mut self, node: &Node, values: &[Value], place: Place) -> Result<(), BudgetExceeded> {
        if node.is_unique {
            self.take_unique(values)?;
        }
        let below = place.at_index();
        for (inner, value) in node.prefix_items.iter().zip(values) {
            self.visit(*inner, Part::of(value), below)?;
        }
        if let Some(inner) = node.items {
            for value in values.iter().skip(node.prefix_items.len()) {
                self.visit(inner, Part::of(value), below)?;
            }
        }
        for inner in &node.every_item {
            for value in values {
                self.visit(*inner, Part::of(value), below)?;
            }
        }
        Ok(())
    }

    fn visit_object(&mut self, node: &Node, object: &Map<String, Value>, place: Place) -> Result<(), BudgetExceeded> {
        self.budget.take(node.object_units)?;
        for (name, inner) in &node.properties {
            if let Some(value) = object.get(name) {
                self.visit(*inner, Part::of(value), place.below(name))?;
            }
        }
        if !node.looks_at_all_members {
            return Ok(());
        }
        for (name, value) in object {
            self.budget.take(2 + text_units(name))?;
            if let Some(inner) = node.additional_properties.filter(|_| !node.properties.contains_key(name)) {
                self.visit(inner, Part::of(value), place.below(name))?;
            }
            for (pattern, inner) in &node.pattern_properties {
                self.budget.take(pattern.units(name.len()))?;
                self.visit(*inner, Part::of(value), place.below(name))?;
            }
            if let Some(inner) = node.property_names {
                self.visit(inner, Part::Text(name), place)?;
            }
        }
        Ok(())
    }

    /// The validator hashes items, but nested lists that differ in their brackets alone, and large numbers, share a hash: such items are compared with
    /// each other.
    fn take_unique(&mut self, values: &[Value]) -> Result<(), BudgetExceeded> {
        let (count, mut units, mut may_collide) = (values.len() as u64, 0, false);
        for value in values {
            let before = self.budget.spent();
            self.take_weight(value, &mut may_collide)?;
            units += self.budget.spent() - before;
        }
        if may_collide || count <= PAIRWISE_MAX { self.budget.take(units.saturating_mul(count) / 2) } else { Ok(()) }
    }

    fn take_weight(&mut self, value: &Value, may_collide: &mut bool) -> Result<(), BudgetExceeded> {
        match value {
            Value::String(text) => self.budget.take(2 + text_units(text)),
            Value::Number(number) => {
                *may_collide |= number.as_f64().is_none_or(|number| number.abs() >= EXACT_MAX);
                self.budget.take(2)
            }
            Value::Array(values) => {
                *may_collide = true;
                self.budget.take(2)?;
                values.iter().try_for_each(|value| self.take_weight(value, may_collide))
            }
            Value::Object(object) => {
                self.budget.take(2)?;
                object.iter().try_for_each(|(name, value)| {
                    self.budget.take(2 + text_units(name))?;
                    self.take_weight(value, may_collide)
                })
            }
            Value::Null | Value::Bool(_) => self.budget.take(2),
        }
    }
}

const fn text_units(text: &str) -> u64 {
    text.len() as u64 / TEXT_BYTES_A_UNIT
}
