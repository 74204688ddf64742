//! The API through real HTTP: a server in this process, a folder of its own, real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access;
mod client;
mod endpoints;
mod events;
mod flow;
mod health;
mod openapi;
mod problems;
mod start;
