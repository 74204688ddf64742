//! What is kept of jobs beside their events: the port `JobStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{JobAnswer, JobAttempt, JobOutcome, JobProgress, JobRecord},
    ports::{JobAnswered, JobProgressed, JobStore, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    SqliteStore,
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
};
use crate::encoding::tokens;

const BY_ID: &str = include_str!("queries/job_by_id.sql");
const PUT: &str = include_str!("queries/put_job.sql");
const ANSWER: &str = include_str!("queries/answer_job.sql");
const NOTE_PROGRESS: &str = include_str!("queries/note_job_progress.sql");
const OPEN_PROGRESS: &str = include_str!("queries/open_job_progress.sql");
const END_TEST: &str = include_str!("queries/end_contract_test.sql");
const FORGET: &str = include_str!("queries/forget_jobs.sql");

#[async_trait]
impl JobStore for SqliteStore {
    async fn begin_job_attempt(&self, attempt: JobAttempt) -> Result<JobRecord, StoreError> {
        self.write(1, move |tx| begin(tx, &attempt)).await
    }

    async fn job(&self, id: EventId) -> Result<Option<JobRecord>, StoreError> {
        self.read(move |connection| find(connection, id)).await
    }

    async fn answer_job(&self, id: EventId, delivery: DeliveryId, answer: JobAnswer) -> Result<JobAnswered, StoreError> {
        self.write(1, move |tx| keep_answer(tx, id, delivery, &answer)).await
    }

    async fn note_job_progress(
        &self,
        id: EventId,
        delivery: DeliveryId,
        progress: JobProgress,
        last_at_most: Timestamp,
    ) -> Result<JobProgressed, StoreError> {
        self.write(1, move |tx| note_progress(tx, (id, delivery), &progress, last_at_most)).await
    }

    async fn end_contract_test(&self, id: EventId) -> Result<(), StoreError> {
        self.write(1, move |tx| {
            tx.prepare(END_TEST)?.execute([id.key()])?;
            Ok(())
        })
        .await
    }

    async fn forget_jobs(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.write(limit as usize, move |tx| {
            let rows = tx.prepare(FORGET)?.execute(params![before.as_micros(), limit])?;
            Ok(u32::try_from(rows).unwrap_or(u32::MAX))
        })
        .await
    }
}

fn find(connection: &Connection, id: EventId) -> Outcome<Option<JobRecord>> {
    Ok(connection.prepare_cached(BY_ID)?.query_row([id.key()], of_row).optional()?)
}

fn begin(tx: &Tx<'_>, attempt: &JobAttempt) -> Outcome<JobRecord> {
    let record = JobRecord::begin(find(tx.connection(), attempt.job)?, attempt);
    let (answer, progress) = (record.answer.as_ref(), record.progress.as_ref());
    tx.prepare(PUT)?.execute(params![
        record.id.key(),
        record.organization.key(),
        record.application.key(),
        record.lane_id.key(),
        record.delivery.key(),
        tokens::write(&record.tokens),
        record.begun_at.as_micros(),
        answer.map(|answer| answer.outcome.as_str()),
        answer.map(|answer| &answer.data[..]),
        answer.map(|answer| answer.hash),
        answer.map(|answer| answer.at.as_micros()),
        answer.and_then(|answer| answer.found_by),
        progress.map(|progress| progress.percent),
        progress.and_then(|progress| progress.message.as_deref()),
        progress.map(|progress| progress.at.as_micros())
    ])?;
    Ok(record)
}

fn keep_answer(tx: &Tx<'_>, id: EventId, delivery: DeliveryId, answer: &JobAnswer) -> Outcome<JobAnswered> {
    let JobAnswer { outcome, data, hash, at, .. } = answer;
    let kept = tx.prepare(ANSWER)?.execute(params![id.key(), delivery.key(), outcome.as_str(), &data[..], hash, at.as_micros()])?;
    if kept == 1 {
        return Ok(JobAnswered::Kept);
    }
    let before = find(tx.connection(), id)?.filter(|record| record.delivery == delivery).and_then(|record| record.answer);
    Ok(before.map_or(JobAnswered::Ended, JobAnswered::Before))
}

fn note_progress(
    tx: &Tx<'_>,
    (id, delivery): (EventId, DeliveryId),
    progress: &JobProgress,
    last_at_most: Timestamp,
) -> Outcome<JobProgressed> {
    let JobProgress { percent, message, at } = progress;
    let values = params![id.key(), delivery.key(), percent, message, at.as_micros(), last_at_most.as_micros()];
    if tx.prepare(NOTE_PROGRESS)?.execute(values)? == 1 {
        return Ok(JobProgressed::Noted);
    }
    let last = tx.prepare(OPEN_PROGRESS)?.query_row(params![id.key(), delivery.key()], progress_of_row).optional()?.flatten();
    Ok(last.map_or(JobProgressed::Ended, JobProgressed::TooSoon))
}

fn progress_of_row(row: &Row<'_>) -> rusqlite::Result<Option<JobProgress>> {
    let percent: Option<u8> = row.get("progress")?;
    let at = row.instant_opt("progress_at")?;
    let message = row.get("progress_message")?;
    Ok(percent.zip(at).map(|(percent, at)| JobProgress { percent, message, at }))
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<JobRecord> {
    let outcome = row.get::<_, Option<String>>("outcome")?;
    let answer = match outcome {
        None => None,
        Some(_) => Some(JobAnswer {
            outcome: row.spelled("outcome", |name: String| JobOutcome::parse(&name))?,
            data: row.get::<_, Vec<u8>>("answer")?.into(),
            hash: row.get("answer_hash")?,
            at: row.instant("answered_at")?,
            found_by: row.get("found_by")?,
        }),
    };
    Ok(JobRecord {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        lane_id: row.id("lane_id")?,
        delivery: row.id("delivery_id")?,
        tokens: row.spelled("tokens", |tokens: Vec<u8>| tokens::read(&tokens))?,
        answer,
        progress: progress_of_row(row)?,
        begun_at: row.instant("begun_at")?,
    })
}
