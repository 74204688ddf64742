//! What is kept of jobs beside their events: the port `JobStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{JobAnswer, JobAttempt, JobOutcome, JobProgress, JobRecord},
    ports::{JobAnswered, JobProgressed, JobStore, StoreError},
    time::Timestamp,
};
use tokio_postgres::Row;

use super::{
    PostgresStore,
    fault::Outcome,
    rows::{Columns, Key, unreadable},
    transaction::Tx,
};
use crate::encoding::tokens;

const BY_ID: &str = include_str!("queries/job_by_id.sql");
const LOCK: &str = include_str!("queries/lock_job.sql");
const PUT: &str = include_str!("queries/put_job.sql");
const ANSWER: &str = include_str!("queries/answer_job.sql");
const NOTE_PROGRESS: &str = include_str!("queries/note_job_progress.sql");
const OPEN_PROGRESS: &str = include_str!("queries/open_job_progress.sql");
const END_TEST: &str = include_str!("queries/end_contract_test.sql");
const FORGET: &str = include_str!("queries/forget_jobs.sql");

#[async_trait]
impl JobStore for PostgresStore {
    async fn begin_job_attempt(&self, attempt: JobAttempt) -> Result<JobRecord, StoreError> {
        Ok(begin(self, &attempt).await?)
    }

    async fn job(&self, id: EventId) -> Result<Option<JobRecord>, StoreError> {
        let row = self.line_reader().await?.query_opt(BY_ID, &[&id.key()]).await?;
        Ok(row.as_ref().map(of_row).transpose()?)
    }

    async fn answer_job(&self, id: EventId, delivery: DeliveryId, answer: JobAnswer) -> Result<JobAnswered, StoreError> {
        let reader = self.line_reader().await?;
        let JobAnswer { outcome, data, hash, at, .. } = &answer;
        let kept =
            reader.execute(ANSWER, &[&id.key(), &delivery.key(), &outcome.as_str(), &&data[..], &&hash[..], &at.as_micros()]).await?;
        if kept == 1 {
            return Ok(JobAnswered::Kept);
        }
        let row = reader.query_opt(BY_ID, &[&id.key()]).await?;
        let record = row.as_ref().map(of_row).transpose()?.filter(|record| record.delivery == delivery);
        Ok(record.and_then(|record| record.answer).map_or(JobAnswered::Ended, JobAnswered::Before))
    }

    async fn note_job_progress(
        &self,
        id: EventId,
        delivery: DeliveryId,
        progress: JobProgress,
        last_at_most: Timestamp,
    ) -> Result<JobProgressed, StoreError> {
        let reader = self.line_reader().await?;
        let JobProgress { percent, message, at } = &progress;
        let (at, last_at_most) = (at.as_micros(), last_at_most.as_micros());
        let noted = reader.execute(NOTE_PROGRESS, &[&id.key(), &delivery.key(), &i16::from(*percent), message, &at, &last_at_most]).await?;
        if noted == 1 {
            return Ok(JobProgressed::Noted);
        }
        let row = reader.query_opt(OPEN_PROGRESS, &[&id.key(), &delivery.key()]).await?;
        let last = row.as_ref().map(progress_of_row).transpose()?.flatten();
        Ok(last.map_or(JobProgressed::Ended, JobProgressed::TooSoon))
    }

    async fn end_contract_test(&self, id: EventId) -> Result<(), StoreError> {
        self.reader().await?.execute(END_TEST, &[&id.key()]).await?;
        Ok(())
    }

    async fn forget_jobs(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let rows = self.reader().await?.execute(FORGET, &[&before.as_micros(), &i64::from(limit)]).await?;
        Ok(u32::try_from(rows).unwrap_or(u32::MAX))
    }
}

/// One attempt of a job is made at a time, so that nobody else makes its first record meanwhile; an answer may come at any moment.
async fn begin(store: &PostgresStore, attempt: &JobAttempt) -> Outcome<JobRecord> {
    let mut connection = store.connection().await?;
    let tx = Tx::begin(&mut connection).await?;
    let before = tx.query_opt(LOCK, &[&attempt.job.key()]).await?.as_ref().map(of_row).transpose()?;
    let record = JobRecord::begin(before, attempt);
    let (answer, progress) = (record.answer.as_ref(), record.progress.as_ref());
    let found_by = answer.and_then(|answer| answer.found_by).map(u32::cast_signed);
    tx.execute(
        PUT,
        &[
            &record.id.key(),
            &record.organization.key(),
            &record.application.key(),
            &record.lane_id.key(),
            &record.delivery.key(),
            &tokens::write(&record.tokens),
            &record.begun_at.as_micros(),
            &answer.map(|answer| answer.outcome.as_str()),
            &answer.map(|answer| &answer.data[..]),
            &answer.map(|answer| &answer.hash[..]),
            &answer.map(|answer| answer.at.as_micros()),
            &found_by,
            &progress.map(|progress| i16::from(progress.percent)),
            &progress.and_then(|progress| progress.message.as_deref()),
            &progress.map(|progress| progress.at.as_micros()),
        ],
    )
    .await?;
    tx.commit().await?;
    Ok(record)
}

fn progress_of_row(row: &Row) -> Outcome<Option<JobProgress>> {
    let percent: Option<i16> = row.value("progress")?;
    let Some(percent) = percent else { return Ok(None) };
    Ok(Some(JobProgress {
        percent: u8::try_from(percent).map_err(|_| unreadable("progress"))?,
        message: row.value("progress_message")?,
        at: row.instant("progress_at")?,
    }))
}

fn of_row(row: &Row) -> Outcome<JobRecord> {
    let outcome = row.spelled_opt("outcome", JobOutcome::parse)?;
    let answer = match outcome {
        None => None,
        Some(outcome) => Some(JobAnswer {
            outcome,
            data: row.value::<Vec<u8>>("answer")?.into(),
            hash: row.value::<Vec<u8>>("answer_hash")?.try_into().map_err(|_| unreadable("answer_hash"))?,
            at: row.instant("answered_at")?,
            found_by: row.number_opt("found_by")?,
        }),
    };
    Ok(JobRecord {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        lane_id: row.id("lane_id")?,
        delivery: row.id("delivery_id")?,
        tokens: tokens::read(&row.value::<Vec<u8>>("tokens")?).ok_or_else(|| unreadable("tokens"))?,
        answer,
        progress: progress_of_row(row)?,
        begun_at: row.instant("begun_at")?,
    })
}
