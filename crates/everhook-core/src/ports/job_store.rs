//! What is kept of jobs beside their events: who may answer for an app, and what was answered.

use async_trait::async_trait;

use crate::{
    ids::{DeliveryId, EventId},
    model::{JobAnswer, JobAttempt, JobProgress, JobRecord},
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

    /// Keeps what the app said about a job, if it is the first to be said for this delivery and the delivery has not ended. What is said in a
    /// contract test ([`JobRecord::is_contract_test`]) is kept until that is over.
    async fn answer_job(&self, id: EventId, delivery: DeliveryId, answer: JobAnswer) -> Result<JobAnswered, StoreError>;

    /// Keeps how far an app says that it is with a job, in place of what it said before, if it has not said how it ended, the delivery has not ended, and it
    /// last said so at or before `last_at_most`.
    async fn note_job_progress(
        &self,
        id: EventId,
        delivery: DeliveryId,
        progress: JobProgress,
        last_at_most: Timestamp,
    ) -> Result<JobProgressed, StoreError>;

    /// Removes the record of a contract test; does nothing to any other.
    async fn end_contract_test(&self, id: EventId) -> Result<(), StoreError>;

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

/// What became of a progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobProgressed {
    /// It is durable.
    Noted,
    /// The app said something a moment ago: this.
    TooSoon(JobProgress),
    /// The delivery has ended, or another has taken its place, or the app has said how the job ended.
    Ended,
}
