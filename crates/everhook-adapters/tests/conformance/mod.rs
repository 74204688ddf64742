//! What the store ports promise, as tests that hold for every store. Whoever writes a store runs them on it.
//!
//! An adapter's tests plug in with two modules side by side: `backing`, whose type `Backing` implements [`store::Backing`], and this one by its path.
//! Nothing here knows a database: what does belongs to the adapter's own tests.

pub mod given;
pub mod store;
mod walking;

mod alert_signals;
pub mod alerts;
mod app_health;
pub mod approvals;
pub mod archived;
mod at_once;
mod audit_log;
mod automatic;
mod backfills;
mod breakers;
mod call_records;
mod catalog_races;
pub mod channels;
mod configuration;
mod deletions;
mod delivery_control;
pub mod delivery_queue;
mod directory;
mod directory_changes;
mod directory_lists;
mod endpoint_health;
pub mod erasing;
pub mod event_store;
pub mod health;
mod history;
pub mod jobs;
mod lane_kinds;
mod lane_kinds_operations;
mod lane_kinds_reads;
pub mod manifests;
pub mod operations;
mod ordering;
mod owners;
mod parking;
pub mod received;
mod replaying;
mod resealing;
pub mod retention;
mod revisions;
mod rollups;
mod scanning;
mod sealed_headers;
mod settling;
pub mod sources;
mod statistics;
mod store_measurements;
