//! What calls leave behind: answers that later calls are answered with, and draws that somebody may want to check.

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::{LaneId, OrganizationId},
    model::{CacheKey, CachedAnswer, FairDraw, LaneAnswers},
    ports::StoreError,
    time::Timestamp,
};

/// Answers that are kept, and draws. No call depends on them: what cannot be written is lost, and what cannot be read is not there.
///
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be reached.
#[async_trait]
pub trait CallRecords: Send + Sync {
    /// The answer that is kept under a key, expired or not.
    async fn cached_answer(&self, key: CacheKey) -> Result<Option<CachedAnswer>, StoreError>;

    /// Keeps answers, each in place of an older one under its key. An older one does not replace a newer one. No key twice.
    async fn keep_answers(&self, answers: Vec<CachedAnswer>) -> Result<(), StoreError>;

    /// Removes some answers that have expired at `now`, at most `limit`. Says how many.
    async fn forget_answers(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError>;

    /// How many answers the capabilities of an organization have, those that have any.
    async fn answers_of(&self, organization: OrganizationId) -> Result<Vec<LaneAnswers>, StoreError>;

    /// Removes the oldest answers of one lane, so many. Says how many there were.
    async fn forget_oldest_answers(&self, lane_id: LaneId, count: u32) -> Result<u32, StoreError>;

    /// Keeps a draw. One of the same call stays as it is.
    async fn keep_draw(&self, draw: FairDraw) -> Result<(), StoreError>;

    /// The draw of a call of an organization.
    async fn draw(&self, organization: OrganizationId, request_id: Uuid) -> Result<Option<FairDraw>, StoreError>;

    /// Removes some draws that were made before an instant, at most `limit`. Says how many.
    async fn forget_draws(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError>;
}
