//! A world to test in: the real core on the real embedded store, with simulated time, a scripted network and seeded dice.
//!
//! Five days pass in milliseconds, and the same seed gives the same run. [`simulation`] lets whole lives happen from a seed, on a [`disk`] that loses
//! power, and judges them. A [`cluster`] is several nodes on one store. Nothing of the product depends on this crate.

pub mod clock;
pub mod cluster;
pub mod database;
pub mod dice;
pub mod disk;
pub mod faults;
pub mod mail_server;
pub mod network;
pub mod node;
pub mod postgres_server;
pub mod scripted_mail_server;
pub mod simulation;
pub mod skipped;
pub mod world;

pub use network::{Answer, waited_for};
pub use world::{Receiver, World};

use std::time::Duration;

/// Seconds, for tables of delays.
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Minutes, for tables of delays.
pub const fn mins(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// Hours, for tables of delays.
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(3_600 * n)
}
