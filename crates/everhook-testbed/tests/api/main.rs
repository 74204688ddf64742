//! The API through real HTTP: a server in this process, a folder of its own, real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access;
mod api_keys;
mod audit_log;
mod client;
mod endpoints;
mod erasing;
mod event_types;
mod events;
mod examples;
mod flow;
mod health;
mod limits;
mod matrix;
mod names;
mod openapi;
mod operations;
mod other_platforms;
mod problems;
mod retries;
mod routes;
mod schedules;
mod selection;
mod sent;
mod start;
mod transfer;
mod verification;
mod why;
