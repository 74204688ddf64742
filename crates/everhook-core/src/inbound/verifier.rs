//! A recipe with the secrets of one source.

use std::{sync::Arc, time::Duration};

use super::{Credentials, FetchedKey, InboundRequest, Reading, Recipe, RecipeFault, Refusal};
use crate::time::Timestamp;

/// Reads the requests of one source.
#[derive(Debug)]
pub struct Verifier {
    recipe: Arc<Recipe>,
}

impl Verifier {
    /// Prepares the keys of a source.
    ///
    /// # Errors
    /// Everything that is missing or wrong, at once.
    pub fn new(recipe: Arc<Recipe>, _credentials: &Credentials, _tolerance: Option<Duration>) -> Result<Self, Vec<RecipeFault>> {
        Ok(Self { recipe })
    }

    /// What a request is.
    pub fn read(&self, _request: &InboundRequest<'_>, _now: Timestamp) -> Reading {
        Reading::Refused(Refusal::NoSecret)
    }

    /// What a request is, with the key that [`Reading::NeedsKey`] asked for.
    pub fn read_with_key(&self, _request: &InboundRequest<'_>, _now: Timestamp, _key: &FetchedKey) -> Reading {
        Reading::Refused(Refusal::NoSecret)
    }

    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }
}
