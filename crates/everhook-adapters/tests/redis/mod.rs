//! Redis: what every store of counters promises, and what happens when it is away, forgets or lies. Against the server that `EVERHOOK_TEST_REDIS` names; those
//! that stop one start their own.

mod away;
mod counters;
mod expiry;
pub mod server;
#[path = "../conformance/throttle_store.rs"]
mod throttle_store;
mod tls;
mod windows;
