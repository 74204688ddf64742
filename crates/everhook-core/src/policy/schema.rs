//! What `data` must be: JSON Schema, draft 2020-12. Compiled when an event type is defined and once for publishing; asked for every event of it.
//!
//! Schemas come from tenants and run on the way of everybody's events, so that their cost is bounded before they run: references point
//! inside the schema and never in a circle, the whole unrolls to a bounded number of subschemas, patterns are matched in linear time, and what
//! checking one event's data takes is counted before it is checked.

mod cost;
mod meter;
mod patterns;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use self::{
    cost::COMPILED_BYTES_MAX,
    meter::Plan,
    patterns::{Explorer, PATTERN_BYTES_MAX, PATTERN_CACHE_BYTES},
};
use super::work::{BudgetExceeded, WorkBudget};

/// The largest schema, in bytes.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// What looking for the place of a failure may take in memory, in bytes. Of `anyOf` and `oneOf` the validator keeps all errors of all branches.
const EXPLANATION_BYTES_MAX: u64 = 8 << 20;

/// What the schemas of one manifest may take in memory together, compiled, in bytes: no more than one schema may.
const MANIFEST_BYTES_MAX: u64 = COMPILED_BYTES_MAX;

/// How many characters of a path and of a reason are shown: both may show what is in the schema or in names of the data, and a batch has many.
const WORDS_MAX: usize = 500;

/// The only dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A schema that is ready to be asked.
pub struct Schema {
    validator: Validator,
    plan: Plan,
    memory_bytes: u64,
}

/// Where data does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// A JSON pointer into the data; empty for the whole of it.
    pub path: String,
    /// What is wrong there, without showing the data.
    pub reason: String,
}

/// Why data is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaMismatch {
    /// It does not fit.
    Violation(Violation),
    /// Checking it would take more work than it may.
    TooCostly,
}

impl From<BudgetExceeded> for SchemaMismatch {
    fn from(BudgetExceeded: BudgetExceeded) -> Self {
        Self::TooCostly
    }
}

/// What schemas that are compiled together may still take. Who compiles them stops at the first that does not fit.
pub struct CompileBudget {
    explorer: Explorer,
    bytes_left: u64,
}

impl CompileBudget {
    /// For all schemas of a manifest.
    pub const fn of_manifest() -> Self {
        Self { explorer: Explorer::of_manifest(), bytes_left: MANIFEST_BYTES_MAX }
    }

    const fn of_one() -> Self {
        Self { explorer: Explorer::new(), bytes_left: COMPILED_BYTES_MAX }
    }
}

impl Schema {
    /// Compiles a schema. Takes up to some 100 ms for the largest ones.
    ///
    /// # Errors
    /// What is wrong with it, in words for its author.
    pub fn compile(text: &str) -> Result<Self, String> {
        Self::compile_within(text, &mut CompileBudget::of_one())
    }

    /// Compiles one of several schemas, which have a budget together.
    ///
    /// # Errors
    /// What is wrong with it, in words for its author.
    pub fn compile_within(text: &str, budget: &mut CompileBudget) -> Result<Self, String> {
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(format!("must be at most {SCHEMA_BYTES_MAX} bytes, and has {}", text.len()));
        }
        let schema: Value = serde_json::from_str(text).map_err(|error| format!("cannot be read: {error}"))?;
        if !schema.is_object() {
            return Err("must be a JSON object".to_owned());
        }
        if schema.get("$schema").is_some_and(|dialect| dialect.as_str().map(|uri| uri.trim_end_matches('#')) != Some(DIALECT)) {
            return Err(format!("must be of the draft 2020-12: omit `$schema` or set it to `{DIALECT}`"));
        }
        let unrolled_bytes = cost::check(&schema)?;
        let plan = Plan::new(&schema, &mut budget.explorer)?;
        let memory_bytes = unrolled_bytes + plan.patterns_bytes;
        if memory_bytes > COMPILED_BYTES_MAX {
            return Err(format!("takes more than {COMPILED_BYTES_MAX} bytes compiled: use fewer references and patterns"));
        }
        let Some(bytes_left) = budget.bytes_left.checked_sub(memory_bytes) else {
            return Err(format!(
                "takes, with the schemas of the capabilities before it, more than {MANIFEST_BYTES_MAX} bytes compiled: use fewer references and patterns"
            ));
        };
        budget.bytes_left = bytes_left;
        let patterns = PatternOptions::regex().size_limit(2 * PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_CACHE_BYTES);
        let options = jsonschema::options().with_draft(Draft::Draft202012).with_pattern_options(patterns);
        let validator =
            options.build(&schema).map_err(|error| format!("is not a schema: at `{}`: {}", error.instance_path(), shorten(&error)))?;
        Ok(Self { validator, plan, memory_bytes })
    }

    /// What it takes in memory, in bytes, roughly.
    pub const fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Checks data within a budget. Of repeated keys the last one counted when it was parsed. The first failure is returned.
    ///
    /// # Errors
    /// [`SchemaMismatch`] says where the data does not fit, or that finding out would take more than the budget has.
    pub fn check(&self, data: &Value, budget: &mut WorkBudget) -> Result<(), SchemaMismatch> {
        let explanation_bytes = meter::spend(&self.plan, data, budget)?;
        // Costs no memory, whatever the schema is; and most data fits.
        if self.validator.is_valid(data) {
            return Ok(());
        }
        Err(SchemaMismatch::Violation(if explanation_bytes > EXPLANATION_BYTES_MAX {
            let reason = "does not match its schema, which has too many alternatives to say where";
            Violation { path: String::new(), reason: reason.to_owned() }
        } else {
            self.validator.validate(data).map_or_else(Violation::from, |()| Violation::unreadable())
        }))
    }
}

impl Violation {
    /// What is reported of data that is JSON, or it had not been taken, and cannot be parsed all the same.
    pub fn unreadable() -> Self {
        let reason = "cannot be validated: it contains a number that is too large, or nests deeper than 127 levels";
        Self { path: String::new(), reason: reason.to_owned() }
    }
}

impl From<ValidationError<'_>> for Violation {
    fn from(error: ValidationError<'_>) -> Self {
        Self { path: shorten(error.instance_path()), reason: shorten(error.masked_with("the value")) }
    }
}

/// The first characters of a text.
fn shorten(text: impl std::fmt::Display) -> String {
    let mut text = text.to_string();
    if let Some((end, _)) = text.char_indices().nth(WORDS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
