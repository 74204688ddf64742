//! What makes two items the same.

use aws_lc_rs::digest::{SHA256, digest};

use super::{InboundRequest, Item};

/// How a source tells that an item came before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DedupeBy {
    /// By the id that the recipe finds.
    Id,
    /// By a header of the request, in lower case.
    Header(String),
    /// By a value of the item.
    Pointer(String),
    /// By the bytes of the item.
    Body,
}

/// The key of an item: two with the same are the same. `None` where the item does not have what it goes by.
pub fn dedupe_key(by: &DedupeBy, _request: &InboundRequest<'_>, item: &Item) -> Option<String> {
    match by {
        DedupeBy::Id => item.id.clone(),
        DedupeBy::Header(_) | DedupeBy::Pointer(_) => None,
        DedupeBy::Body => Some(format!("{:?}", digest(&SHA256, &item.body))),
    }
}
