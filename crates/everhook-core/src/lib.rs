//! What is true and what to do next.
//!
//! This crate holds every decision of Everhook and does no I/O of its own: the outside is reached through [`ports`], time and
//! randomness included. Read it in the order of the modules below, which is also the order in which they may use each other.

pub mod ids;
pub mod time;

pub mod model;
pub mod policy;

pub mod envelope;
pub mod health;
pub mod inbound;
pub mod lifecycle;
pub mod metrics;
pub mod signing;

pub mod ports;

pub mod shape;

pub mod breakdowns;
pub mod catalog;
pub mod counted;
pub mod owned_tasks;
pub mod processors;
pub mod providers;
pub mod pruned;
mod reading;
pub mod repeated_failure;
pub mod sources;

pub mod gates;
pub mod limits;

pub mod calls;

pub mod line;
pub mod manage;
pub mod spool;

pub mod jobs;
pub mod lanes;
pub mod nodes;

pub mod engine;
