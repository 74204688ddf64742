//! The shared store: the promises that every store makes, and what is true of this one alone.

#![allow(missing_docs, clippy::unwrap_used)]

mod backing;
#[path = "../conformance/mod.rs"]
mod conformance;

mod among_nodes;
mod erasing;
mod leases;
mod odd_texts;

use conformance::given;
