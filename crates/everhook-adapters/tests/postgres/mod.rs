//! The shared store: the promises that every store makes, and what is true of this one alone.

mod backing;
#[path = "../conformance/mod.rs"]
mod conformance;
mod counters;

mod among_nodes;
mod breaker_votes;
mod erasing;
mod late_commits;
mod leases;
mod locked_rows;
mod look_aside;
mod odd_texts;
mod plans;
mod pools;
mod reports;
mod retention;
mod sealing;
mod silence;
mod sockets;
#[path = "../conformance/throttle_store.rs"]
mod throttle_store;

use conformance::given;
