//! The shared store: the promises that every store makes, and what is true of this one alone.

#![allow(missing_docs, clippy::unwrap_used)]

mod backing;
#[path = "../conformance/mod.rs"]
mod conformance;
mod counters;
// The testbed's, not all of which is needed here.
#[allow(dead_code)]
#[path = "../../../everhook-testbed/src/database.rs"]
mod database;

mod among_nodes;
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
#[allow(dead_code)]
#[path = "../redis/server.rs"]
mod server;
#[path = "../services/mod.rs"]
mod services;
mod silence;
mod sockets;
#[path = "../conformance/throttle_store.rs"]
mod throttle_store;

use conformance::given;
