//! The embedded store, through its ports.

#![allow(missing_docs, clippy::unwrap_used)]

mod given;

mod audit_log;
mod breakers;
mod delivery_queue;
mod directory;
mod erasing;
mod event_store;
mod history;
mod opening;
mod operations;
mod ordering;
mod replaying;
mod revisions;
mod statistics;
