//! Receiving: from a provider's request to a decision about it, without touching the store or the network.
//!
//! A provider is a row of texts ([`RecipeFields`], the table of [`kinds`]). [`Recipe::compile`] reads the texts once, [`Verifier::new`] adds a source's secrets, and
//! [`Verifier::read`] says of each request what it is: a handshake to be answered, items to be stored, something to be refused, or something that needs a
//! key to be fetched first. The door of the binary calls it; sources are checked with it when they are created.
//!
//! Everything here fails closed: what cannot be read, or is there twice with different values, is refused.

mod credentials;
mod dedupe;
mod der;
mod document;
mod fault;
mod fetched;
mod fields;
mod kinds;
mod reading;
mod recipe;
mod refusal;
mod request;
mod text;
mod verifier;

pub use credentials::{Credentials, Need, SECRET_BYTES_MAX, SECRETS_MAX};
pub use dedupe::{DedupeBy, dedupe_key};
pub use fault::RecipeFault;
pub use fetched::{FETCHED_BYTES_MAX, FetchedKey, KeyAnswer, KeyRequest};
pub use fields::{HmacFields, RecipeFields};
pub use kinds::{Kind, kind, kinds};
pub use reading::{Accepted, Handshake, HandshakeEffect, Item, Reading, Reply};
pub use recipe::{HANDSHAKES, Recipe};
pub use refusal::Refusal;
pub use request::InboundRequest;
pub use verifier::Verifier;

#[cfg(test)]
mod tests;
