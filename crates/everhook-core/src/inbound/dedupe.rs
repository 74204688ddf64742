//! What makes two items the same.

use aws_lc_rs::digest::{SHA256, digest};

use super::{
    InboundRequest, Item, RecipeFault,
    document::{Plan, Pointer, Values},
    fields::shown,
    text::{header_name, hex},
};

/// How a source tells that an item came before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DedupeBy {
    /// By the id that the recipe finds.
    Id,
    /// By a header of the request, in lower case.
    Header(String),
    /// By a value of the item, which is JSON.
    Pointer(String),
    /// By the bytes of the item.
    Body,
}

impl DedupeBy {
    /// Reads `id`, `body`, `header:Name` or `pointer:/path`.
    ///
    /// # Errors
    /// What would be right.
    pub fn parse(text: &str) -> Result<Self, RecipeFault> {
        let fault = || RecipeFault::new("dedupe", format!("is `{}`; write id, body, header:Name or pointer:/path", shown(text)));
        match text.split_once(':') {
            None if text == "id" => Ok(Self::Id),
            None if text == "body" => Ok(Self::Body),
            Some(("header", name)) => header_name(name).map(Self::Header).ok_or_else(fault),
            Some(("pointer", pointer)) if !pointer.is_empty() => {
                Pointer::parse(pointer).map(|_| Self::Pointer(pointer.to_owned())).ok_or_else(fault)
            }
            _ => Err(fault()),
        }
    }
}

/// The key of an item: two with the same are the same. `None` where the item does not have what it goes by, and nothing may be taken for its repetition.
///
/// A header belongs to the request: with it, all items of a batch but the first would look like repetitions, so that the item's place is part of the key.
pub fn dedupe_key(by: &DedupeBy, request: &InboundRequest<'_>, item: &Item, index: usize) -> Option<String> {
    match by {
        DedupeBy::Id => item.id.clone(),
        DedupeBy::Header(name) => request.header(name).ok().flatten().map(|value| hashed(&[value.as_bytes(), &index.to_be_bytes()])),
        DedupeBy::Pointer(pointer) => value_at(pointer, item).map(|value| hashed(&[value.as_bytes()])),
        DedupeBy::Body => Some(hashed(&[&item.body])),
    }
}

fn value_at(pointer: &str, item: &Item) -> Option<String> {
    let mut plan = Plan::default();
    let slot = plan.add(&Pointer::parse(pointer)?);
    Values::read(std::str::from_utf8(&item.body).ok()?, &plan).ok()?.raw(slot).map(str::to_owned)
}

/// Bounded, and plain text whatever was sent.
fn hashed(parts: &[&[u8]]) -> String {
    hex(digest(&SHA256, &parts.concat()).as_ref())
}
