//! Which events an endpoint wants by what their `data` says. Parsed when an endpoint is made or prepared for sending, asked by the publish
//! flow for each event that its types and labels let through. `docs/filters.md` tells users the same.
//!
//! The language is small on purpose: conditions on values at paths, joined by `all`, `any` and `not`. Its one rule about absence: a condition
//! on what is not there does not hold, and `ne`, `nin` and `not` are the exact opposites of `eq`, `in` and what they negate.

mod number;

use std::cmp::Ordering;

use serde_json::{Map, Value};

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

    /// Whether data passes. Of repeated keys the last one counts.
    pub fn passes(&self, data: &Value) -> bool {
        self.0.holds(data)
    }
}

impl Rule {
    fn holds(&self, data: &Value) -> bool {
        match self {
            Self::All(rules) => rules.iter().all(|rule| rule.holds(data)),
            Self::Any(rules) => rules.iter().any(|rule| rule.holds(data)),
            Self::Not(rule) => !rule.holds(data),
            Self::Condition { path, test } => test.holds(look_up(data, path)),
        }
    }

    fn conditions(&self) -> usize {
        match self {
            Self::All(rules) | Self::Any(rules) => rules.iter().map(Self::conditions).sum(),
            Self::Not(rule) => rule.conditions(),
            Self::Condition { .. } => 1,
        }
    }
}

impl Test {
    fn holds(&self, found: Option<&Value>) -> bool {
        match self {
            Self::Eq(wanted) => found.is_some_and(|value| equal(value, wanted)),
            Self::Ne(wanted) => !found.is_some_and(|value| equal(value, wanted)),
            Self::In(wanted) => found.is_some_and(|value| wanted.iter().any(|one| equal(value, one))),
            Self::Nin(wanted) => !found.is_some_and(|value| wanted.iter().any(|one| equal(value, one))),
            Self::Exists(wanted) => found.is_some() == *wanted,
            Self::Compare(bound, wanted) => found.and_then(|value| compare(value, bound)).is_some_and(|order| wanted.contains(&order)),
            Self::Prefix(prefix) => found.and_then(Value::as_str).is_some_and(|text| text.starts_with(prefix.as_str())),
            Self::Contains(wanted) => match (found, wanted) {
                (Some(Value::String(text)), Value::String(part)) => text.contains(part.as_str()),
                (Some(Value::Array(values)), wanted) => values.iter().any(|value| equal(value, wanted)),
                _ => false,
            },
        }
    }
}

/// The value at a path; a step is a key of an object or an index of an array.
fn look_up<'a>(data: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(data, |value, step| match value {
        Value::Object(object) => object.get(step),
        Value::Array(values) => step.parse::<usize>().ok().and_then(|index| values.get(index)),
        _ => None,
    })
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
    let Value::Object(entries) = value else { return Err("must be a JSON object, and so must what it joins".to_owned()) };
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
    let fault = || format!("`{}` is no path: it begins with `data`, as in `data.order.total`, and no step is empty", path.escape_debug());
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
            _ => Err(wants("a number or a text")),
        };
        match operator.as_str() {
            "eq" => scalar(operand).map(Test::Eq).ok_or_else(|| wants("a text, a number, true, false or null")),
            "ne" => scalar(operand).map(Test::Ne).ok_or_else(|| wants("a text, a number, true, false or null")),
            "contains" => scalar(operand).map(Test::Contains).ok_or_else(|| wants("a text, a number, true, false or null")),
            "gt" => ordered(&[Ordering::Greater]),
            "gte" => ordered(&[Ordering::Greater, Ordering::Equal]),
            "lt" => ordered(&[Ordering::Less]),
            "lte" => ordered(&[Ordering::Less, Ordering::Equal]),
            "in" => list(operand).map(Test::In).ok_or_else(|| wants("a list of 1 to 100 texts, numbers, true, false or null")),
            "nin" => list(operand).map(Test::Nin).ok_or_else(|| wants("a list of 1 to 100 texts, numbers, true, false or null")),
            "exists" => operand.as_bool().map(Test::Exists).ok_or_else(|| wants("true or false")),
            "prefix" => operand.as_str().map(|text| Test::Prefix(text.to_owned())).ok_or_else(|| wants("a text")),
            _ => Err(format!(
                "`{}` at `{path}` is no operator: eq, ne, gt, gte, lt, lte, in, nin, exists, prefix, contains",
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
