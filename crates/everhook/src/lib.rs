//! The product, as a library so that tests can run it in their own process. Read in this order: what it is told (`config`), how it is put
//! together (`wiring`), how requests come in (`server`, `api`), what people type (`cli`).

pub mod announce;
pub mod api;
pub mod cli;
pub mod config;
pub mod counters;
pub mod descriptors;
pub mod disk_space;
pub mod memory;
pub mod metrics;
pub mod sealing;
pub mod server;
pub mod server_alerts;
pub mod span_log;
pub mod store;
pub mod telemetry;
pub mod waiting;
pub mod wiring;
