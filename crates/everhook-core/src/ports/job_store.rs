//! What is kept of jobs beside their events: who may answer for an app, and what was answered.

use async_trait::async_trait;

use crate::{
    ids::{DeliveryId, EventId},
    model::{JobAnswer, JobAttempt, JobRecord},
    ports::StoreError,
    time::Timestamp,
};

/// Records of jobs. Deleting or erasing a job's event needs no call of this port: [`EventStore::erase`](crate::ports::EventStore::erase) removes the record in its
/// own write.
///
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be reached; then nothing was written, as far as is known, and calling again is
/// safe.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Notes that an attempt at a job is about to be made, and returns the record as [`JobRecord::begin`] makes it. Durable when it returns: the app may
    /// call back before its request has ended.
    async fn begin_job_attempt(&self, attempt: JobAttempt) -> Result<JobRecord, StoreError>;

    /// The record of a job; `None` if the app was never asked, or it is gone.
    async fn job(&self, id: EventId) -> Result<Option<JobRecord>, StoreError>;

    /// Keeps what the app said about a job, if it is the first to be said for this delivery and the delivery has not ended.
    async fn answer_job(&self, id: EventId, delivery: DeliveryId, answer: JobAnswer) -> Result<JobAnswered, StoreError>;

    /// Removes some records of jobs whose app was last asked before an instant, at most `limit`. Says how many.
    async fn forget_jobs(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError>;
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobAnswered {
    /// It is durable.
    Kept,
    /// The app said this before.
    Before(JobAnswer),
    /// The delivery has ended, or another has taken its place.
    Ended,
}
