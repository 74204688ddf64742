//! What is wrong with a recipe or with what a source keeps for it. Told to its owner when the source is created or changed, all at once.

use std::fmt;

/// A field that was refused: which, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeFault {
    /// The field, as the API spells it.
    pub field: &'static str,
    /// The rest of a sentence that begins with the field.
    pub reason: String,
}

impl RecipeFault {
    pub(super) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

impl fmt::Display for RecipeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.reason)
    }
}
