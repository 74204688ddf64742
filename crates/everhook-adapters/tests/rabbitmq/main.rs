//! RabbitMQ against a real server, which `scripts/services up` starts. Without one, every test says loudly that it was skipped.
#![cfg(feature = "amqp")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod broker;
mod destination;
mod hints;
mod proxy;
#[path = "../services/mod.rs"]
mod services;
mod source;
mod tls;
