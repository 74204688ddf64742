//! What is kept of jobs beside their events: the port `JobStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{JobAnswer, JobAttempt, JobOutcome, JobRecord},
    ports::{JobAnswered, JobStore, StoreError},
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
    let answer = record.answer.as_ref();
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
        answer.and_then(|answer| answer.found_by)
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
        begun_at: row.instant("begun_at")?,
    })
}
