//! Health data in a person's hand: connections are made and deleted, and profiles erased. Called by the API.

mod connections;
mod erasing;

pub use connections::{NewConnection, PROFILES_OF_A_USER_MAX, connect, delete, find};
pub use erasing::{ErasedProfile, erase_profile};
