//! What nodes tell each other about the apps that they call: the port `BreakerVotes`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, LaneId},
    model::VoteCount,
    ports::{BreakerVote, BreakerVotes, Change, StoreError},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
};

const NOTE_CALLERS: &str = include_str!("queries/note_callers.sql");
const KEEP: &str = include_str!("queries/keep_breaker_vote.sql");
const OF_LANE: &str = include_str!("queries/breaker_votes_of_lane.sql");
const FORGET: &str = include_str!("queries/forget_breaker_votes.sql");

#[async_trait]
impl BreakerVotes for PostgresStore {
    async fn note_callers(&self, node: Uuid, lanes: Vec<LaneId>, at: Timestamp) -> Result<(), StoreError> {
        let lanes: Vec<Uuid> = lanes.iter().map(Key::key).collect();
        self.line_reader().await?.execute(NOTE_CALLERS, &[&node, &lanes, &at.as_micros()]).await?;
        Ok(())
    }

    async fn vote(&self, vote: BreakerVote) -> Result<(), StoreError> {
        let (at, until) = (vote.at.as_micros(), vote.until.as_micros());
        self.line_reader().await?.execute(KEEP, &[&vote.lane_id.key(), &vote.node, &at, &until, &vote.has_answers]).await?;
        Ok(())
    }

    async fn votes(&self, lane_id: LaneId, callers_since: Timestamp, now: Timestamp) -> Result<VoteCount, StoreError> {
        let reader = self.line_reader().await?;
        let row = reader.query_opt(OF_LANE, &[&lane_id.key(), &callers_since.as_micros(), &now.as_micros()]).await?;
        Ok(row.as_ref().map(of_row).transpose()?.unwrap_or_default())
    }

    async fn report_breaker(&self, application: ApplicationId, lane_id: LaneId) -> Result<(), StoreError> {
        let mut connection = self.pools.line().await?;
        let tx = Tx::begin(&mut connection).await?;
        tx.note_change(Change::Endpoint(application, lane_id.endpoint())).await?;
        Ok(tx.commit().await?)
    }

    async fn forget_votes(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let rows = self.reader().await?.execute(FORGET, &[&before.as_micros(), &i64::from(limit)]).await?;
        Ok(u32::try_from(rows).unwrap_or(u32::MAX))
    }
}

fn of_row(row: &Row) -> Outcome<VoteCount> {
    Ok(VoteCount {
        callers: row.number("callers")?,
        with_answers: row.number("with_answers")?,
        without_answers: row.number("without_answers")?,
    })
}
