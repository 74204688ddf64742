//! Which events an endpoint wants by what their `data` says. Parsed when an endpoint is made or prepared for sending, asked by the publish
//! flow for each event that its types and labels let through. `docs/filters.md` tells users the same.
//!
//! The language is small on purpose: conditions on values at paths, joined by `all`, `any` and `not`. Its one rule about absence: a condition
//! on what is not there does not hold, and `ne`, `nin` and `not` are the exact opposites of `eq`, `in` and what they negate.

mod number;

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::work::{BudgetExceeded, WorkBudget};

/// The largest filter, in bytes.
pub const FILTER_BYTES_MAX: usize = 16 * 1024;
/// How many conditions a filter may have: each costs a look-up for every event.
const CONDITIONS_MAX: usize = 100;
/// How deep `all`, `any` and `not` may nest.
const DEPTH_MAX: usize = 8;
/// How many values `in` and `nin` may list.
const LIST_MAX: usize = 100;
/// How many steps a path may have.
const STEPS_MAX: usize = 32;

/// How many bytes of text are compared in a unit of work, and how many are searched.
const COMPARED_BYTES_A_UNIT: usize = 64;
const SEARCHED_BYTES_A_UNIT: usize = 16;

/// What a text takes in memory beside its bytes.
const TEXT_BYTES: usize = 32;

/// A filter that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(Rule);

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    All(Vec<Rule>),
    Any(Vec<Rule>),
    Not(Box<Rule>),
    Condition { path: Vec<String>, test: Test },
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Eq(Value),
    Ne(Value),
    Compare(Value, &'static [Ordering]),
    In(Vec<Value>),
    Nin(Vec<Value>),
    Exists(bool),
    Prefix(String),
    Contains(Value),
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// What is wrong with it, in words for its author.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(format!("must be at most {FILTER_BYTES_MAX} bytes, and has {}", text.len()));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| format!("cannot be read: {error}"))?;
        let rule = read_rule(&value, 0)?;
        let conditions = rule.conditions();
        if conditions > CONDITIONS_MAX {
            return Err(format!("may have at most {CONDITIONS_MAX} conditions, and has {conditions}"));
        }
        Ok(Self(rule))
    }

    /// Whether data passes, as far as the budget goes. Of repeated keys the last one counted when it was parsed.
    ///
    /// # Errors
    /// [`BudgetExceeded`] if finding out would take more than the budget has.
    pub fn passes(&self, data: &Value, budget: &mut WorkBudget) -> Result<bool, BudgetExceeded> {
        self.0.holds(data, budget)
    }

    /// How many bytes it takes in memory, about.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

impl Rule {
    fn holds(&self, data: &Value, budget: &mut WorkBudget) -> Result<bool, BudgetExceeded> {
        match self {
            Self::All(rules) => {
                for rule in rules {
                    if !rule.holds(data, budget)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(rules) => {
                for rule in rules {
                    if rule.holds(data, budget)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(rule) => rule.holds(data, budget).map(|holds| !holds),
            Self::Condition { path, test } => test.holds(look_up(data, path, budget)?, budget),
        }
    }

    fn conditions(&self) -> usize {
        match self {
            Self::All(rules) | Self::Any(rules) => rules.iter().map(Self::conditions).sum(),
            Self::Not(rule) => rule.conditions(),
            Self::Condition { .. } => 1,
        }
    }

    fn memory_bytes(&self) -> usize {
        let below: usize = match self {
            Self::All(rules) | Self::Any(rules) => rules.iter().map(Self::memory_bytes).sum(),
            Self::Not(rule) => rule.memory_bytes(),
            Self::Condition { path, test } => path.iter().map(|step| TEXT_BYTES + step.len()).sum::<usize>() + test.memory_bytes(),
        };
        size_of::<Self>() + below
    }
}

impl Test {
    /// What it takes beside its own size.
    fn memory_bytes(&self) -> usize {
        let of_value = |value: &Value| size_of::<Value>() + value.as_str().map_or(0, |text| TEXT_BYTES + text.len());
        match self {
            Self::Eq(value) | Self::Ne(value) | Self::Compare(value, _) | Self::Contains(value) => of_value(value),
            Self::In(values) | Self::Nin(values) => values.iter().map(of_value).sum(),
            Self::Exists(_) => 0,
            Self::Prefix(prefix) => TEXT_BYTES + prefix.len(),
        }
    }

    fn holds(&self, found: Option<&Value>, budget: &mut WorkBudget) -> Result<bool, BudgetExceeded> {
        let Some(value) = found else { return Ok(matches!(self, Self::Ne(_) | Self::Nin(_) | Self::Exists(false))) };
        Ok(match self {
            Self::Eq(wanted) => equals_any(value, std::slice::from_ref(wanted), budget)?,
            Self::Ne(wanted) => !equals_any(value, std::slice::from_ref(wanted), budget)?,
            Self::In(wanted) => equals_any(value, wanted, budget)?,
            Self::Nin(wanted) => !equals_any(value, wanted, budget)?,
            Self::Exists(wanted) => *wanted,
            Self::Compare(bound, wanted) => {
                budget.take(comparison_units(value, bound))?;
                compare(value, bound).is_some_and(|order| wanted.contains(&order))
            }
            Self::Prefix(prefix) => {
                budget.take(text_units(prefix, COMPARED_BYTES_A_UNIT))?;
                value.as_str().is_some_and(|text| text.starts_with(prefix.as_str()))
            }
            Self::Contains(wanted) => contains(value, wanted, budget)?,
        })
    }
}

fn equals_any(value: &Value, wanted: &[Value], budget: &mut WorkBudget) -> Result<bool, BudgetExceeded> {
    for one in wanted {
        budget.take(comparison_units(value, one))?;
        if equal(value, one) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains(value: &Value, wanted: &Value, budget: &mut WorkBudget) -> Result<bool, BudgetExceeded> {
    match (value, wanted) {
        (Value::String(text), Value::String(part)) => {
            budget.take(text_units(text, SEARCHED_BYTES_A_UNIT) + text_units(part, SEARCHED_BYTES_A_UNIT))?;
            Ok(text.contains(part.as_str()))
        }
        (Value::Array(values), wanted) => {
            for value in values {
                budget.take(comparison_units(value, wanted))?;
                if equal(value, wanted) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Ok(false),
    }
}

/// What comparing two values costs, of which one is neither a list nor an object: texts are compared byte by byte.
fn comparison_units(left: &Value, right: &Value) -> u64 {
    match (left, right) {
        (Value::String(left), Value::String(right)) => {
            let shorter = if left.len() < right.len() { left } else { right };
            text_units(shorter, COMPARED_BYTES_A_UNIT)
        }
        _ => 1,
    }
}

const fn text_units(text: &str, bytes_a_unit: usize) -> u64 {
    1 + (text.len() / bytes_a_unit) as u64
}

/// The value at a path; a step is a key of an object or an index of an array.
fn look_up<'a>(data: &'a Value, path: &[String], budget: &mut WorkBudget) -> Result<Option<&'a Value>, BudgetExceeded> {
    budget.take(1)?;
    let mut found = data;
    for step in path {
        // A look-up compares with as many keys as the depth of the object's tree.
        budget.take(1 + text_units(step, COMPARED_BYTES_A_UNIT))?;
        let below = match found {
            Value::Object(object) => object.get(step),
            Value::Array(values) => step.parse::<usize>().ok().and_then(|index| values.get(index)),
            _ => None,
        };
        match below {
            Some(below) => found = below,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Numbers are equal by what they mean (`1` and `1.0`), everything else by what it is.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => number::compare(left, right) == Some(Ordering::Equal),
        _ => left == right,
    }
}

/// Numbers and texts have an order among themselves, texts by code points; nothing else has.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => number::compare(left, right),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

fn read_rule(value: &Value, depth: usize) -> Result<Rule, String> {
    if depth > DEPTH_MAX {
        return Err(format!("nests `all`, `any` and `not` deeper than {DEPTH_MAX} levels"));
    }
    let Value::Object(entries) = value else { return Err("must be a JSON object, and so must each combined filter".to_owned()) };
    if entries.is_empty() {
        return Err("must have at least one condition".to_owned());
    }
    let mut rules = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        match key.as_str() {
            "all" => rules.push(Rule::All(read_rules(key, value, depth)?)),
            "any" => rules.push(Rule::Any(read_rules(key, value, depth)?)),
            "not" => rules.push(Rule::Not(Box::new(read_rule(value, depth + 1)?))),
            path => read_conditions(path, value, &mut rules)?,
        }
    }
    Ok(if rules.len() == 1 { rules.remove(0) } else { Rule::All(rules) })
}

fn read_rules(key: &str, value: &Value, depth: usize) -> Result<Vec<Rule>, String> {
    match value {
        Value::Array(rules) if !rules.is_empty() => rules.iter().map(|rule| read_rule(rule, depth + 1)).collect(),
        _ => Err(format!("`{key}` must be a list of at least one filter")),
    }
}

fn read_conditions(path: &str, value: &Value, rules: &mut Vec<Rule>) -> Result<(), String> {
    let steps = read_path(path)?;
    let condition = |test| Rule::Condition { path: steps.clone(), test };
    match value {
        Value::Object(tests) if tests.is_empty() => return Err(format!("`{path}` must have at least one operator")),
        Value::Object(tests) => {
            for test in read_tests(path, tests) {
                rules.push(condition(test?));
            }
        }
        Value::Array(_) => return Err(format!("`{path}` must be a value or an object of operators; `in` takes a list")),
        plain => rules.push(condition(Test::Eq(plain.clone()))),
    }
    Ok(())
}

/// `data`, then keys and indexes after dots; a backslash before a dot or a backslash makes it part of a key.
fn read_path(path: &str) -> Result<Vec<String>, String> {
    let fault =
        || format!("`{}` is not a path: a path begins with `data`, as in `data.order.total`, and has no empty step", path.escape_debug());
    let mut steps = vec![String::new()];
    let mut chars = path.chars();
    while let Some(char) = chars.next() {
        let step = steps.last_mut().expect("there is always a last step");
        match char {
            '.' => steps.push(String::new()),
            '\\' => step.push(chars.next().filter(|next| matches!(next, '.' | '\\')).ok_or_else(fault)?),
            other => step.push(other),
        }
    }
    if steps[0] != "data" || steps.iter().any(String::is_empty) || steps.len() > STEPS_MAX {
        return Err(fault());
    }
    steps.remove(0);
    Ok(steps)
}

fn read_tests<'a>(path: &'a str, tests: &'a Map<String, Value>) -> impl Iterator<Item = Result<Test, String>> + 'a {
    tests.iter().map(move |(operator, operand)| {
        let wants = |what: &str| format!("`{operator}` at `{path}` must be {what}");
        let ordered = |orders| match operand {
            Value::Number(_) | Value::String(_) => Ok(Test::Compare(operand.clone(), orders)),
            _ => Err(wants("a number or a string")),
        };
        match operator.as_str() {
            "eq" => scalar(operand).map(Test::Eq).ok_or_else(|| wants("a string, a number, true, false or null")),
            "ne" => scalar(operand).map(Test::Ne).ok_or_else(|| wants("a string, a number, true, false or null")),
            "contains" => scalar(operand).map(Test::Contains).ok_or_else(|| wants("a string, a number, true, false or null")),
            "gt" => ordered(&[Ordering::Greater]),
            "gte" => ordered(&[Ordering::Greater, Ordering::Equal]),
            "lt" => ordered(&[Ordering::Less]),
            "lte" => ordered(&[Ordering::Less, Ordering::Equal]),
            "in" => list(operand).map(Test::In).ok_or_else(|| wants("a list of 1 to 100 strings, numbers, true, false or null")),
            "nin" => list(operand).map(Test::Nin).ok_or_else(|| wants("a list of 1 to 100 strings, numbers, true, false or null")),
            "exists" => operand.as_bool().map(Test::Exists).ok_or_else(|| wants("true or false")),
            "prefix" => operand.as_str().map(|text| Test::Prefix(text.to_owned())).ok_or_else(|| wants("a string")),
            _ => Err(format!(
                "`{}` at `{path}` is not an operator: eq, ne, gt, gte, lt, lte, in, nin, exists, prefix, contains",
                operator.escape_debug()
            )),
        }
    })
}

fn scalar(value: &Value) -> Option<Value> {
    (!value.is_object() && !value.is_array()).then(|| value.clone())
}

fn list(value: &Value) -> Option<Vec<Value>> {
    let values = value.as_array().filter(|values| (1..=LIST_MAX).contains(&values.len()))?;
    values.iter().map(scalar).collect()
}

#[cfg(test)]
mod tests;
