//! What the store ports promise, as tests that hold for every store. Whoever writes a store runs them on it.
//!
//! An adapter's test crate plugs in with two modules: `backing`, whose type `Backing` implements [`store::Backing`], and this one by its path.
//! Nothing here knows a database: what does belongs to the adapter's own tests.

pub mod given;
pub mod store;
mod walking;

mod at_once;
mod audit_log;
mod automatic;
mod breakers;
pub mod delivery_queue;
mod directory;
mod directory_changes;
mod directory_lists;
pub mod erasing;
pub mod event_store;
mod history;
pub mod operations;
mod ordering;
mod replaying;
pub mod retention;
mod revisions;
mod scanning;
mod sealed_headers;
mod settling;
mod statistics;
