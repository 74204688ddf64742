//! What calls leave behind: the port `CallRecords`.

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::{
    ids::{LaneId, OrganizationId},
    model::{CacheKey, CachedAnswer, CapabilityName, FairDraw, LaneAnswers},
    ports::{CallRecords, StoreError},
    time::Timestamp,
};
use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

use super::{
    SqliteStore,
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
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
impl CallRecords for SqliteStore {
    async fn cached_answer(&self, key: CacheKey) -> Result<Option<CachedAnswer>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(CACHED)?;
            Ok(statement.query_row(params![key.lane_id.key(), key.hash], of_row).optional()?)
        })
        .await
    }

    async fn keep_answers(&self, answers: Vec<CachedAnswer>) -> Result<(), StoreError> {
        self.write(answers.len(), move |tx| keep(tx, &answers)).await
    }

    async fn forget_answers(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.write(limit as usize, move |tx| counted(tx.prepare(FORGET_EXPIRED)?.execute(params![now.as_micros(), limit])?)).await
    }

    async fn answers_of(&self, organization: OrganizationId) -> Result<Vec<LaneAnswers>, StoreError> {
        let of_lane = |row: &Row<'_>| {
            Ok(LaneAnswers {
                lane_id: row.id("lane_id")?,
                answers: row.get::<_, i64>("answers")?.unsigned_abs(),
                bytes: row.get::<_, i64>("bytes")?.unsigned_abs(),
            })
        };
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(OF_ORGANIZATION)?;
            let lanes = statement.query_map([organization.key()], of_lane)?.collect::<Result<_, _>>()?;
            Ok(lanes)
        })
        .await
    }

    async fn forget_oldest_answers(&self, lane_id: LaneId, count: u32) -> Result<u32, StoreError> {
        self.write(count as usize, move |tx| counted(tx.prepare(FORGET_OLDEST)?.execute(params![lane_id.key(), count])?)).await
    }

    async fn keep_draw(&self, draw: FairDraw) -> Result<(), StoreError> {
        self.write(1, move |tx| keep_draw(tx, &draw)).await
    }

    async fn draw(&self, organization: OrganizationId, request_id: Uuid) -> Result<Option<FairDraw>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(DRAW)?;
            Ok(statement.query_row(params![organization.key(), request_id.as_bytes()], draw_of_row).optional()?)
        })
        .await
    }

    async fn forget_draws(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.write(limit as usize, move |tx| counted(tx.prepare(FORGET_DRAWS)?.execute(params![before.as_micros(), limit])?)).await
    }
}

fn counted(rows: usize) -> Outcome<u32> {
    Ok(u32::try_from(rows).unwrap_or(u32::MAX))
}

fn keep(tx: &Tx<'_>, answers: &[CachedAnswer]) -> Outcome<()> {
    let mut statement = tx.prepare(KEEP)?;
    for answer in answers {
        let CachedAnswer { key, data, stored_at, expires_at } = answer;
        statement.execute(params![key.lane_id.key(), key.hash, &data[..], stored_at.as_micros(), expires_at.as_micros()])?;
    }
    Ok(())
}

fn keep_draw(tx: &Tx<'_>, draw: &FairDraw) -> Outcome<()> {
    tx.prepare(KEEP_DRAW)?.execute(params![
        draw.request_id.as_bytes(),
        draw.organization.key(),
        draw.application.key(),
        draw.capability.as_str(),
        draw.drawn_at.as_micros(),
        draw.seed,
        draw.list_hash,
        draw.list_length,
        draw.picked
    ])?;
    Ok(())
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<CachedAnswer> {
    Ok(CachedAnswer {
        key: CacheKey { lane_id: row.id("lane_id")?, hash: row.get("hash")? },
        data: Bytes::from(row.get::<_, Vec<u8>>("data")?),
        stored_at: row.instant("stored_at")?,
        expires_at: row.instant("expires_at")?,
    })
}

fn draw_of_row(row: &Row<'_>) -> rusqlite::Result<FairDraw> {
    let id: [u8; 16] = row.get("request_id")?;
    Ok(FairDraw {
        request_id: Uuid::from_bytes(id),
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        capability: row.spelled("capability", |name: String| CapabilityName::parse(&name))?,
        drawn_at: row.instant("drawn_at")?,
        seed: row.get("seed")?,
        list_hash: row.get("list_hash")?,
        list_length: row.get("list_length")?,
        picked: row.get("picked")?,
    })
}
