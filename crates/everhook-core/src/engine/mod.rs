//! The owner of the lanes: gives every delivery its turn, sends, and sees to it that every outcome is written.
//!
//! ```text
//!   hints ─►┌────────┐ next ┌─────────┐ landed ┌─────────┐ written
//!   looks ─►│ Board  ├─────►│ flights ├───────►│ settler ├────┐
//!           └────▲───┘      └─────────┘        └─────────┘    │
//!                └────────────────────────────────────────────┘
//! ```
//!
//! [`board`] is pure: what waits in memory and whose turn it is. [`owner`] moves it: it takes hints, starts flights, reads backlogs. [`settler`]
//! writes outcomes, many at once, and keeps them until they are written. One supervised task runs them; if it panics, everything in memory is
//! dropped and read again from the store, which alone says what is true. [`operations`] and [`retention`] run beside it, and, where nodes share
//! a store, so do [`keeper`] and [`exchange`].

mod board;
mod breakers;
mod errand;
mod exchange;
mod fair_queue;
mod flight;
mod gate;
mod hints;
mod keeper;
mod lane;
mod operations;
mod organizations;
mod owner;
mod paces;
mod retention;
mod settler;
mod shelf;
mod slots;
mod supervisor;
mod sweep;
mod tallies;
mod turns;
mod watch;

pub use hints::{Hints, hints};
pub use supervisor::{Engine, EngineSettings, EngineStatus};
