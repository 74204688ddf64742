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
//! writes outcomes, many at once, and keeps them until they are written. [`crate::engine`] supervises them: if the owner panics, everything in memory
//! is dropped and read again from the store, which alone says what is true.

mod background_task;
mod board;
mod breakers;
mod event_cache;
mod fair_queue;
mod flight;
mod gate;
mod hints;
mod lane;
mod organizations;
pub(crate) mod owner;
mod paces;
mod settings;
pub(crate) mod settler;
mod slots;
mod sweep;
mod tallies;
mod turns;

pub use hints::{Hints, hints};
pub use settings::{EngineSettings, EngineStatus};
