//! The embedded store: the promises that every store makes, and what is true of this one alone.

pub mod backing;
#[path = "../conformance/mod.rs"]
pub mod conformance;

mod damage;
mod erasing;
mod interruptions;
mod opening;
mod plans;
mod rollups;
mod sealing;
mod space;

use conformance::given;
