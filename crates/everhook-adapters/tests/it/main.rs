//! The adapters against the real outside: sockets on the loopback address. One binary, to link once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod http;
