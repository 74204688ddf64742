//! What a closed breaker has counted, for the next owner when its lane changes hands. The state of a breaker is in [`BreakerStore`](super::BreakerStore); this is what was
//! too little to open it.
//!
//! Written by the owner of a lane, at most once a second; read by the next. Whatever is lost here costs a few failures that count anew.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    ids::LaneId,
    model::{KeptWindow, ShardSet},
};

/// What is older is not gone on with: it speaks of an endpoint as it was then.
pub const WINDOW_GOOD_FOR: Duration = Duration::from_secs(300);

/// Keeps what closed breakers have counted, as well as it can.
#[async_trait]
pub trait BreakerWindows: Send + Sync {
    /// Whether anybody keeps them. If not, nothing is handed over.
    fn are_kept(&self) -> bool;

    /// Whether they should be kept, and cannot be now.
    fn are_away(&self) -> bool;

    /// Keeps these, sometime soon, or not at all. Never waits.
    fn keep(&self, windows: Vec<LaneWindow>);

    /// What is kept of the lanes of these shards and not older than [`WINDOW_GOOD_FOR`], as far as that can be had in a moment.
    async fn windows(&self, shards: ShardSet) -> Vec<LaneWindow>;
}

/// What an endpoint's breaker has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneWindow {
    /// Whose breaker.
    pub lane_id: LaneId,
    /// What it has counted.
    pub window: KeptWindow,
}
