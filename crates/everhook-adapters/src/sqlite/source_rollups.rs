//! What happened at sources, by the minute: the part of the port `Statistics` that is about sources.

use std::time::Duration;

use everhook_core::{
    ids::SourceId,
    model::{SourceStatistics, SourceTally},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    fault::Outcome,
    rows::{Columns, Key, duration, micros},
    transaction::Tx,
};
use crate::encoding::{
    durations,
    rollup_span::{end_minute, minute_number},
    source_counts,
};

const ROLLUP: &str = include_str!("queries/source_rollup_of_minute.sql");
const ROLLUPS: &str = include_str!("queries/source_rollups.sql");
const KEEP_ROLLUP: &str = include_str!("queries/keep_source_rollup.sql");

const MINUTE_SECS: i64 = 60;

pub(super) fn add(tx: &Tx<'_>, tally: &SourceTally) -> Outcome<()> {
    let (source, minute) = (tally.source, minute_number(tally.minute));
    let kept = tx.prepare(ROLLUP)?.query_row(params![source.key(), minute], statistics_of_row).optional()?;
    let mut statistics = kept.unwrap_or_default();
    statistics.merge(&tally.statistics);
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    tx.prepare(KEEP_ROLLUP)?.execute(params![
        source.key(),
        minute,
        count(statistics.accepted),
        count(statistics.handshakes),
        source_counts::rejected(&statistics),
        source_counts::events(&statistics),
        micros(statistics.latency_sum),
        durations::pack(&statistics.latencies),
    ])?;
    Ok(())
}

pub(super) fn read(
    connection: &Connection,
    source: SourceId,
    (from, to): (Timestamp, Timestamp),
    step: Duration,
) -> Outcome<Vec<SourceTally>> {
    let mut statement = connection.prepare_cached(ROLLUPS)?;
    let of_row = |row: &Row<'_>| {
        let minute = Timestamp::from_secs(row.get::<_, i64>("minute")? * MINUTE_SECS);
        Ok(SourceTally { source, minute, statistics: statistics_of_row(row)? })
    };
    let mut steps = Vec::new();
    for minute in statement.query_map(params![source.key(), minute_number(from), end_minute(to)], of_row)? {
        SourceTally::add_to_steps(&mut steps, &minute?, step);
    }
    Ok(steps)
}

pub(super) fn statistics_of_row(row: &Row<'_>) -> rusqlite::Result<SourceStatistics> {
    let count = |column: &str| row.spelled(column, |count: i64| u64::try_from(count).ok());
    let (events, other_events) = row.spelled("events", |text: String| source_counts::read_events(&text))?;
    Ok(SourceStatistics {
        accepted: count("accepted")?,
        handshakes: count("handshakes")?,
        rejected: row.spelled("rejected", |text: String| source_counts::read_rejected(&text))?,
        events,
        other_events,
        latency_sum: row.get("latency_sum").map(duration)?,
        latencies: row.spelled("latencies", |packed: Vec<u8>| durations::unpack(&packed))?,
    })
}
