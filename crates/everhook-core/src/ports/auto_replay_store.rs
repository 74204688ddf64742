//! Which dead letters come back by themselves.

use async_trait::async_trait;

use crate::{
    ids::OrganizationId,
    model::{AutoReplay, DeadLetter},
    ports::StoreError,
    time::Timestamp,
};

/// How organizations have their dead letters replayed, and which are due. Every method fails with [`StoreError::Unavailable`] if the store cannot be
/// reached; then nothing was written, as far as is known, and calling again is safe.
#[async_trait]
pub trait AutoReplayStore: Send + Sync {
    /// How an organization's dead letters come back by themselves; `None` if that was never set.
    async fn auto_replay(&self, organization: OrganizationId) -> Result<Option<AutoReplay>, StoreError>;

    /// Sets that.
    async fn set_auto_replay(&self, organization: OrganizationId, settings: AutoReplay) -> Result<(), StoreError>;

    /// The organizations that have it switched on.
    async fn auto_replays(&self) -> Result<Vec<(OrganizationId, AutoReplay)>, StoreError>;

    /// Dead letters that are recoverable, of enabled endpoints, the longest dead first.
    async fn due_dead_letters(&self, wanted: DueDeadLetters) -> Result<Vec<DeadLetter>, StoreError>;
}

/// Which dead letters are due to come back by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueDeadLetters {
    /// Whose.
    pub organization: OrganizationId,
    /// That died so often.
    pub failures: u32,
    /// That died last, and were tried last, at this instant or before.
    pub died_until: Timestamp,
    /// At most this many.
    pub limit: u32,
}
