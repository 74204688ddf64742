//! How breakers stand: the port `BreakerStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::LaneId,
    model::{BreakerState, KeptBreaker, KeptStage},
    policy::breaker::Transition,
    ports::{BreakerChange, BreakerKept, BreakerRow, BreakerStore, Change, OpenPeriod, StoreError},
    time::Timestamp,
};
use rustc_hash::FxHashMap;
use tokio_postgres::Row;

use super::{
    PostgresStore, audit_log,
    fault::{Fault, Outcome},
    outbox::{AlertColumns, INSERT_ALERTS},
    rows::{Columns, Key, unreadable},
    transaction::Tx,
};

const ALL: &str = include_str!("queries/breakers.sql");
const OF_ENDPOINT: &str = include_str!("queries/breaker_of_endpoint.sql");
const KEEP: &str = include_str!("queries/keep_breaker.sql");
const BEGIN_PERIOD: &str = include_str!("queries/begin_open_period.sql");
const END_PERIOD: &str = include_str!("queries/end_open_period.sql");
const PERIODS: &str = include_str!("queries/open_periods.sql");

#[async_trait]
impl BreakerStore for PostgresStore {
    async fn breakers(&self) -> Result<Vec<BreakerRow>, StoreError> {
        let rows = self.line_reader().await?.query(ALL, &[]).await?;
        Ok(rows.iter().map(of_row).collect::<Outcome<_>>()?)
    }

    async fn breaker(&self, lane_id: LaneId) -> Result<Option<BreakerRow>, StoreError> {
        let row = self.line_reader().await?.query_opt(OF_ENDPOINT, &[&lane_id.key()]).await?;
        Ok(row.as_ref().map(of_row).transpose()?)
    }

    async fn keep(&self, changes: Vec<BreakerChange>) -> Result<Vec<BreakerKept>, StoreError> {
        let mut connection = self.pools.line().await?;
        let tx = Tx::begin(&mut connection).await?;
        let answers = keep_each(&tx, &changes).await?;
        tx.commit().await?;
        Ok(answers)
    }

    async fn open_periods(&self, lane_id: LaneId, since: Timestamp, limit: u32) -> Result<Vec<OpenPeriod>, StoreError> {
        let parameters = (lane_id.key(), since.as_micros(), i64::from(limit));
        let rows = self.reader().await?.query(PERIODS, &[&parameters.0, &parameters.1, &parameters.2]).await?;
        Ok(rows.iter().map(period_of_row).collect::<Outcome<_>>()?)
    }
}

/// Goes from endpoint to endpoint in the order of their ids, as every node does: rows are locked in that order. The changes of one endpoint stay
/// in theirs.
async fn keep_each(tx: &Tx<'_>, changes: &[BreakerChange]) -> Outcome<Vec<BreakerKept>> {
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by_key(|place| changes[*place].lane_id);
    let mut outdated: FxHashMap<LaneId, BreakerRow> = FxHashMap::default();
    let mut answers = vec![BreakerKept::Kept; changes.len()];
    for place in order {
        let change = &changes[place];
        // One that is outdated takes those of the same endpoint after it along: they were decided without what stands.
        let answer = match outdated.get(&change.lane_id) {
            Some(row) => BreakerKept::Outdated(*row),
            None => keep(tx, change).await?,
        };
        if let BreakerKept::Outdated(row) = answer
            && (row.revision, row.kept) != (change.revision, change.kept)
        {
            outdated.insert(change.lane_id, row);
        }
        answers[place] = answer;
    }
    Ok(answers)
}

async fn keep(tx: &Tx<'_>, change: &BreakerChange) -> Outcome<BreakerKept> {
    let (stage, until) = stage_columns(change.kept.stage);
    let written = tx
        .execute(
            KEEP,
            &[
                &change.lane_id.key(),
                &change.revision,
                &stage,
                &until.map(Timestamp::as_micros),
                &change.kept.since.as_micros(),
                &i64::from(change.kept.failed_recoveries),
            ],
        )
        .await?;
    if written == 0 {
        let row = tx.query_opt(OF_ENDPOINT, &[&change.lane_id.key()]).await?;
        let row = row.ok_or_else(|| Fault::Impossible("a breaker's row refused a change and is not there".to_owned()))?;
        return Ok(BreakerKept::Outdated(of_row(&row)?));
    }
    if let Some(transition) = change.transition {
        note_period(tx, change.lane_id, transition).await?;
    }
    if !change.alerts.is_empty() {
        let alerts: Vec<_> = change.alerts.iter().collect();
        tx.execute(INSERT_ALERTS, &AlertColumns::new(&alerts).parameters()).await?;
    }
    if let Some(entry) = &change.entry {
        tx.note_change(Change::Endpoint(change.application, change.lane_id.endpoint())).await?;
        audit_log::append(tx, entry).await?;
    }
    Ok(BreakerKept::Kept)
}

/// A recovery that failed goes on with the period that is open.
async fn note_period(tx: &Tx<'_>, lane_id: LaneId, transition: Transition) -> Outcome<()> {
    let sql = match transition.to {
        BreakerState::Open if transition.from == BreakerState::Closed => BEGIN_PERIOD,
        BreakerState::Closed => END_PERIOD,
        BreakerState::Open | BreakerState::HalfOpen => return Ok(()),
    };
    tx.execute(sql, &[&lane_id.key(), &transition.at.as_micros()]).await?;
    Ok(())
}

fn of_row(row: &Row) -> Outcome<BreakerRow> {
    let kept = KeptBreaker { stage: read_stage(row)?, since: row.instant("since")?, failed_recoveries: row.number("failed_recoveries")? };
    Ok(BreakerRow { lane_id: row.id("endpoint_id")?, revision: row.value("revision")?, kept })
}

fn period_of_row(row: &Row) -> Outcome<OpenPeriod> {
    Ok(OpenPeriod { opened_at: row.instant("opened_at")?, closed_at: row.instant_opt("closed_at")? })
}

const fn stage_columns(stage: KeptStage) -> (&'static str, Option<Timestamp>) {
    match stage {
        KeptStage::Closed => ("closed", None),
        KeptStage::ForcedClosed { until } => ("forced_closed", until),
        KeptStage::Open { until } => ("open", Some(until)),
        KeptStage::ForcedOpen { until } => ("forced_open", until),
        KeptStage::HalfOpen => ("half_open", None),
    }
}

fn read_stage(row: &Row) -> Outcome<KeptStage> {
    let until = row.instant_opt("until")?;
    Ok(match row.value("stage")? {
        "closed" => KeptStage::Closed,
        "forced_closed" => KeptStage::ForcedClosed { until },
        "open" => KeptStage::Open { until: until.ok_or_else(|| unreadable("until"))? },
        "forced_open" => KeptStage::ForcedOpen { until },
        "half_open" => KeptStage::HalfOpen,
        _ => return Err(unreadable("stage")),
    })
}
