//! The adapters against the real outside: files, sockets on the loopback address, and the servers that `scripts/services up` starts.
//!
//! One binary, because linking one costs seconds. A module for each outside thing; `conformance` is compiled once for each store.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test that cannot continue should stop there")]
#![allow(clippy::duplicate_mod, reason = "the conformance suites are compiled once for each adapter that passes them")]

// The testbed's, which depends on this crate and so cannot be depended on. Not all of it is needed here.
#[allow(dead_code)]
#[path = "../../everhook-testbed/src/database.rs"]
mod database;
mod services;

mod archive;
mod http;
mod moving;
mod otlp;
mod postgres;
#[cfg(feature = "amqp")]
mod rabbitmq;
mod redis;
mod spool;
mod sqlite;
