//! The table of providers.

use super::{Need, RecipeFields, fields::NONE};

/// A provider whose webhooks are understood.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in the API.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// How its requests are verified, split and answered.
    pub recipe: RecipeFields<'static>,
    /// What the owner of a source must know.
    pub note: &'static str,
}

const KINDS: &[Kind] = &[Kind { name: "none", title: "Unsigned requests", recipe: NONE, note: "" }];

/// Every kind, by name.
pub fn kinds() -> &'static [Kind] {
    KINDS
}

/// The kind of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    kinds().iter().find(|kind| kind.name == name)
}

impl Kind {
    /// What a source of this kind needs beside it.
    pub fn needs(&self) -> Vec<Need> {
        Vec::new()
    }
}
