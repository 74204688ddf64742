//! What makes two items the same.

use aws_lc_rs::digest::{SHA256, digest};

use super::{
    InboundRequest, Item,
    document::{Plan, Pointer, Values},
    text::hex,
};
use crate::model::DedupeBy;

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
