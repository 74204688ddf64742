//! What calls leave behind: the port `CallRecords`.

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::{
    ids::{LaneId, OrganizationId},
    model::{CacheKey, CachedAnswer, CapabilityName, FairDraw, LaneAnswers},
    ports::{CallRecords, StoreError},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::Outcome,
    rows::{Columns, Key, unreadable},
};

const CACHED: &str = include_str!("queries/cached_answer.sql");
const KEEP: &str = include_str!("queries/keep_answers.sql");
const FORGET_EXPIRED: &str = include_str!("queries/forget_expired_answers.sql");
const OF_ORGANIZATION: &str = include_str!("queries/answers_of_organization.sql");
const FORGET_OLDEST: &str = include_str!("queries/forget_oldest_answers.sql");
const KEEP_DRAW: &str = include_str!("queries/keep_draw.sql");
const DRAW: &str = include_str!("queries/draw_of_call.sql");
const FORGET_DRAWS: &str = include_str!("queries/forget_draws.sql");

#[async_trait]
impl CallRecords for PostgresStore {
    async fn cached_answer(&self, key: CacheKey) -> Result<Option<CachedAnswer>, StoreError> {
        let row = self.line_reader().await?.query_opt(CACHED, &[&key.lane_id.key(), &&key.hash[..]]).await?;
        Ok(row.as_ref().map(of_row).transpose()?)
    }

    async fn keep_answers(&self, answers: Vec<CachedAnswer>) -> Result<(), StoreError> {
        let lanes: Vec<Uuid> = answers.iter().map(|answer| answer.key.lane_id.key()).collect();
        let hashes: Vec<&[u8]> = answers.iter().map(|answer| &answer.key.hash[..]).collect();
        let data: Vec<&[u8]> = answers.iter().map(|answer| &answer.data[..]).collect();
        let stored: Vec<i64> = answers.iter().map(|answer| answer.stored_at.as_micros()).collect();
        let expire: Vec<i64> = answers.iter().map(|answer| answer.expires_at.as_micros()).collect();
        self.reader().await?.execute(KEEP, &[&lanes, &hashes, &data, &stored, &expire]).await?;
        Ok(())
    }

    async fn forget_answers(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let rows = self.reader().await?.execute(FORGET_EXPIRED, &[&now.as_micros(), &i64::from(limit)]).await?;
        Ok(counted(rows))
    }

    async fn answers_of(&self, organization: OrganizationId) -> Result<Vec<LaneAnswers>, StoreError> {
        let rows = self.reader().await?.query(OF_ORGANIZATION, &[&organization.key()]).await?;
        Ok(rows.iter().map(of_lane).collect::<Outcome<_>>()?)
    }

    async fn forget_oldest_answers(&self, lane_id: LaneId, count: u32) -> Result<u32, StoreError> {
        Ok(counted(self.reader().await?.execute(FORGET_OLDEST, &[&lane_id.key(), &i64::from(count)]).await?))
    }

    async fn keep_draw(&self, draw: FairDraw) -> Result<(), StoreError> {
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 9] = [
            &draw.request_id,
            &draw.organization.key(),
            &draw.application.key(),
            &draw.capability.as_str(),
            &draw.drawn_at.as_micros(),
            &&draw.seed[..],
            &&draw.list_hash[..],
            &i64::from(draw.list_length),
            &i64::from(draw.picked),
        ];
        self.reader().await?.execute(KEEP_DRAW, &parameters).await?;
        Ok(())
    }

    async fn draw(&self, organization: OrganizationId, request_id: Uuid) -> Result<Option<FairDraw>, StoreError> {
        let row = self.reader().await?.query_opt(DRAW, &[&organization.key(), &request_id]).await?;
        Ok(row.as_ref().map(draw_of_row).transpose()?)
    }

    async fn forget_draws(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let rows = self.reader().await?.execute(FORGET_DRAWS, &[&before.as_micros(), &i64::from(limit)]).await?;
        Ok(counted(rows))
    }
}

fn counted(rows: u64) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}

fn of_row(row: &Row) -> Outcome<CachedAnswer> {
    Ok(CachedAnswer {
        key: CacheKey { lane_id: row.id("lane_id")?, hash: bytes_of(row, "hash")? },
        data: Bytes::from(row.value::<Vec<u8>>("data")?),
        stored_at: row.instant("stored_at")?,
        expires_at: row.instant("expires_at")?,
    })
}

fn of_lane(row: &Row) -> Outcome<LaneAnswers> {
    let (answers, bytes): (i64, i64) = (row.value("answers")?, row.value("bytes")?);
    Ok(LaneAnswers { lane_id: row.id("lane_id")?, answers: answers.unsigned_abs(), bytes: bytes.unsigned_abs() })
}

fn draw_of_row(row: &Row) -> Outcome<FairDraw> {
    let (length, picked): (i64, i64) = (row.value("list_length")?, row.value("picked")?);
    Ok(FairDraw {
        request_id: row.value("request_id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        capability: row.spelled("capability", CapabilityName::parse)?,
        drawn_at: row.instant("drawn_at")?,
        seed: bytes_of(row, "seed")?,
        list_hash: bytes_of(row, "list_hash")?,
        list_length: u32::try_from(length).map_err(|_| unreadable("list_length"))?,
        picked: u32::try_from(picked).map_err(|_| unreadable("picked"))?,
    })
}

fn bytes_of(row: &Row, column: &'static str) -> Outcome<[u8; 32]> {
    row.value::<Vec<u8>>(column)?.try_into().map_err(|_| unreadable(column))
}
