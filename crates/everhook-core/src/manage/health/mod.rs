//! Health data in a person's hand: connections are made and deleted, data of the past is asked for, and profiles erased. Called by the API.

mod backfills;
mod connections;
mod erasing;

pub use backfills::{NewBackfill, begin_backfill, find_backfill};
pub use connections::{NewConnection, PROFILES_OF_A_USER_MAX, connect, delete, find};
pub use erasing::{ErasedProfile, erase_profile, erase_user};
