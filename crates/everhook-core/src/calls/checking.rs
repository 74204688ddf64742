//! Whether what an app answers is what its manifest says: small answers at once, others off the threads that serve requests.

use bytes::Bytes;

use super::{Calls, OpenCapability};
use crate::{
    limits::evaluations::{Busy, EVALUATION_TIMEOUT},
    policy::{
        schema::{SchemaMismatch, Violation},
        work::{INLINE_BYTES_MAX, INLINE_UNITS_MAX, SCHEMA_UNITS_MAX, WorkBudget},
    },
};

impl Calls {
    /// Why data is not what the manifest says an answer is; `None` if it is.
    ///
    /// # Errors
    /// [`Busy`] if it could not be checked: that says nothing about the data.
    pub(crate) async fn misfit(&self, capability: &OpenCapability, data: &Bytes) -> Result<Option<String>, Busy> {
        let Some(schema) = capability.schema.clone() else { return Ok(None) };
        if data.len() <= INLINE_BYTES_MAX {
            match check(&schema, data, INLINE_UNITS_MAX) {
                Err(SchemaMismatch::TooCostly) => {}
                checked => return Ok(checked.err().map(in_words)),
            }
        }
        let data = data.clone();
        let run = self.evaluations.run(capability.organization, EVALUATION_TIMEOUT, move || check(&schema, &data, SCHEMA_UNITS_MAX));
        Ok(run.await?.err().map(in_words))
    }
}

/// What is said of an answer that could not be checked.
pub(crate) const NOT_CHECKED: &str = "the answer could not be checked against `response_schema`: too much is being evaluated";

fn check(schema: &crate::policy::schema::Schema, data: &[u8], units: u64) -> Result<(), SchemaMismatch> {
    let value = serde_json::from_slice(data).map_err(|_| SchemaMismatch::Violation(Violation::unreadable()))?;
    schema.check(&value, &mut WorkBudget::new(units))
}

fn in_words(misfit: SchemaMismatch) -> String {
    match misfit {
        SchemaMismatch::Violation(Violation { path, reason }) => {
            format!("the answer does not match `response_schema` at `{path}`: {reason}")
        }
        SchemaMismatch::TooCostly => "checking the answer against `response_schema` takes too much work".to_owned(),
    }
}
