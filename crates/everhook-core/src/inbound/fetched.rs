//! Keys that stand on a provider's server: what to fetch, and what was fetched.

use super::RecipeFault;
use crate::time::Timestamp;

/// What must be fetched before a request can be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRequest {
    /// Where: always `https`, on a host that the recipe allows. Keys are cached by it and [`KeyRequest::key_id`].
    pub url: String,
    /// Which key of a set.
    pub key_id: Option<String>,
}

impl KeyRequest {
    /// Reads what the URL answered.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(&self, _answer: &[u8], _now: Timestamp) -> Result<FetchedKey, RecipeFault> {
        Err(RecipeFault::new("key_from", "cannot be read"))
    }
}

/// A key that was fetched.
#[derive(Clone, Debug)]
pub struct FetchedKey {
    /// Where it came from.
    pub request: KeyRequest,
}
