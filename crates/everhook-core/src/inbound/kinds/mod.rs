//! The table of providers: one row a provider, in files by what they are about.
//!
//! A row says what is known of a provider. Where something could not be verified, the field is left out and the note says so; a security property is never
//! guessed. Adding a provider is a row here and a golden request in the tests.

mod business;
mod code;
mod generic;
mod health;
mod messaging;
mod payments;

use std::sync::LazyLock;

use super::{Need, Recipe, RecipeFields, fields::NONE};
use crate::model::EventType;

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

impl Kind {
    /// Its recipe, compiled. Items of which nothing says the type have the name of the kind.
    pub fn compile(&self) -> Recipe {
        let recipe = Recipe::compile(&self.recipe).expect("a test compiles every row");
        match EventType::parse(self.name) {
            Some(name) => recipe.with_default_type(name),
            None => recipe,
        }
    }

    /// What a source of this kind needs beside it.
    pub fn needs(&self) -> Vec<Need> {
        self.compile().needs()
    }

    /// Whether the source brings its own recipe.
    pub fn is_custom(&self) -> bool {
        self.name == "custom" || self.name == "hmac"
    }
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let mut kinds = [generic::KINDS, code::KINDS, payments::KINDS, messaging::KINDS, business::KINDS, health::KINDS].concat();
    kinds.sort_unstable_by_key(|kind| kind.name);
    kinds
});

/// Every kind, by name.
pub fn kinds() -> &'static [Kind] {
    &KINDS
}

/// The kind of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.binary_search_by_key(&name, |kind| kind.name).ok().map(|at| &KINDS[at])
}
