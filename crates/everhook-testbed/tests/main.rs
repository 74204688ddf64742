//! What needs more than one crate: the API, the commands, the scenarios on a simulated clock, and the real binary, killed and crowded.
//!
//! One binary, because linking one costs seconds. `hostile` is another: it measures how others fare, so nothing may run beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop there")]

mod api;
mod commands;
mod killed;
mod nodes;
mod rabbitmq;
mod replay;
mod scenarios;
mod simulation;

// Shared with the tests of the adapters, which use more of it.
#[allow(dead_code)]
#[path = "../../everhook-adapters/tests/rabbitmq/broker.rs"]
mod broker;
#[allow(dead_code)]
#[path = "../../everhook-adapters/tests/rabbitmq/proxy.rs"]
mod proxy;
#[allow(dead_code)]
#[path = "../../everhook-adapters/tests/redis/server.rs"]
mod redis_server;
#[path = "../../everhook-adapters/tests/services/mod.rs"]
mod services;
