//! A recipe, compiled.

use super::{Need, RecipeFault, RecipeFields};

/// The shapes of handshakes.
pub const HANDSHAKES: [&str; 12] = [
    "get-echo-text",
    "get-echo-json",
    "get-hmac",
    "get-compare",
    "post-echo",
    "post-hmac",
    "header-echo",
    "capture",
    "head-ok",
    "options",
    "visit",
    "ping",
];

/// How requests are verified, split and answered; made once from texts.
#[derive(Debug)]
pub struct Recipe;

impl Recipe {
    /// Reads the fields.
    ///
    /// # Errors
    /// Everything that is wrong with them, at once.
    pub fn compile(_fields: &RecipeFields<'_>) -> Result<Self, Vec<RecipeFault>> {
        Ok(Self)
    }

    /// What a source needs beside it.
    pub fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// The largest body that is read.
    pub fn max_body(&self) -> usize {
        1 << 20
    }
}
