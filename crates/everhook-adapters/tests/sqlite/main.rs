//! The embedded store: the promises that every store makes, and what is true of this one alone.

#![allow(missing_docs, clippy::unwrap_used)]

mod backing;
#[path = "../conformance/mod.rs"]
mod conformance;

mod damage;
mod erasing;
mod interruptions;
mod opening;
mod plans;

use conformance::given;
