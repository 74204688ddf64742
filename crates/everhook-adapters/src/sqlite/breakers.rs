//! How breakers stand: the port `BreakerStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::LaneId,
    model::{BreakerState, KeptBreaker, KeptStage},
    policy::breaker::Transition,
    ports::{BreakerChange, BreakerKept, BreakerRow, BreakerStore, OpenPeriod, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustc_hash::FxHashMap;

use super::{
    SqliteStore, audit_log,
    fault::{Fault, Outcome},
    outbox,
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
impl BreakerStore for SqliteStore {
    async fn breakers(&self) -> Result<Vec<BreakerRow>, StoreError> {
        self.read(|connection| Ok(connection.prepare_cached(ALL)?.query_map([], of_row)?.collect::<Result<_, _>>()?)).await
    }

    async fn breaker(&self, lane_id: LaneId) -> Result<Option<BreakerRow>, StoreError> {
        self.read(move |connection| find(connection, lane_id)).await
    }

    async fn keep(&self, changes: Vec<BreakerChange>) -> Result<Vec<BreakerKept>, StoreError> {
        self.write(changes.len() * 2, move |tx| keep_each(tx, &changes)).await
    }

    async fn open_periods(&self, lane_id: LaneId, since: Timestamp, limit: u32) -> Result<Vec<OpenPeriod>, StoreError> {
        let period = |row: &Row<'_>| Ok(OpenPeriod { opened_at: row.instant("opened_at")?, closed_at: row.instant_opt("closed_at")? });
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(PERIODS)?;
            let periods = statement.query_map(params![lane_id.key(), since.as_micros(), limit], period)?;
            Ok(periods.collect::<Result<_, _>>()?)
        })
        .await
    }
}

fn find(connection: &Connection, lane_id: LaneId) -> Outcome<Option<BreakerRow>> {
    Ok(connection.prepare_cached(OF_ENDPOINT)?.query_row([lane_id.key()], of_row).optional()?)
}

/// One that is outdated takes those of the same endpoint after it along: they were decided without what stands.
fn keep_each(tx: &Tx<'_>, changes: &[BreakerChange]) -> Outcome<Vec<BreakerKept>> {
    let mut outdated: FxHashMap<LaneId, BreakerRow> = FxHashMap::default();
    let mut answers = Vec::with_capacity(changes.len());
    for change in changes {
        let answer = match outdated.get(&change.lane_id) {
            Some(row) => BreakerKept::Outdated(*row),
            None => keep(tx, change)?,
        };
        if let BreakerKept::Outdated(row) = answer
            && (row.revision, row.kept) != (change.revision, change.kept)
        {
            outdated.insert(change.lane_id, row);
        }
        answers.push(answer);
    }
    Ok(answers)
}

fn keep(tx: &Tx<'_>, change: &BreakerChange) -> Outcome<BreakerKept> {
    let (stage, until) = stage_columns(change.kept.stage);
    let written = tx.prepare(KEEP)?.execute(params![
        change.lane_id.key(),
        change.revision,
        stage,
        until.map(Timestamp::as_micros),
        change.kept.since.as_micros(),
        change.kept.failed_recoveries,
    ])?;
    if written == 0 {
        let row = find(tx.connection(), change.lane_id)?;
        return row
            .map(BreakerKept::Outdated)
            .ok_or_else(|| Fault::Impossible("a breaker's row refused a change and is not there".to_owned()));
    }
    if let Some(transition) = change.transition {
        note_period(tx, change.lane_id, transition)?;
    }
    change.alerts.iter().try_for_each(|alert| outbox::keep(tx, alert))?;
    change.entry.iter().try_for_each(|entry| audit_log::append(tx, entry))?;
    Ok(BreakerKept::Kept)
}

/// A recovery that failed goes on with the period that is open.
fn note_period(tx: &Tx<'_>, lane_id: LaneId, transition: Transition) -> Outcome<()> {
    let sql = match transition.to {
        BreakerState::Open if transition.from == BreakerState::Closed => BEGIN_PERIOD,
        BreakerState::Closed => END_PERIOD,
        BreakerState::Open | BreakerState::HalfOpen => return Ok(()),
    };
    tx.prepare(sql)?.execute(params![lane_id.key(), transition.at.as_micros()])?;
    Ok(())
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<BreakerRow> {
    let kept = KeptBreaker { stage: read_stage(row)?, since: row.instant("since")?, failed_recoveries: row.get("failed_recoveries")? };
    Ok(BreakerRow { lane_id: row.id("endpoint_id")?, revision: row.get("revision")?, kept })
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

fn read_stage(row: &Row<'_>) -> rusqlite::Result<KeptStage> {
    let until = row.instant_opt("until")?;
    Ok(match row.get::<_, String>("stage")?.as_str() {
        "closed" => KeptStage::Closed,
        "forced_closed" => KeptStage::ForcedClosed { until },
        "open" => KeptStage::Open { until: until.ok_or_else(|| unreadable("until"))? },
        "forced_open" => KeptStage::ForcedOpen { until },
        "half_open" => KeptStage::HalfOpen,
        _ => return Err(unreadable("stage")),
    })
}
