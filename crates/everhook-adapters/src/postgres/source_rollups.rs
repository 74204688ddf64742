//! What happened at sources, by the minute: the part of the port `Statistics` that is about sources.
//!
//! Several nodes may add to one row: the rows are locked in the order of their keys, added to here and written back, all in one transaction.

use std::{collections::BTreeMap, time::Duration};

use everhook_core::{
    ids::SourceId,
    model::{SourceStatistics, SourceTally},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    fault::Outcome,
    reader::Reader,
    rollups::number,
    rows::{Columns, Key, duration, micros},
    transaction::Tx,
};
use crate::encoding::{
    durations,
    rollup_span::{end_minute, minute_number},
    source_counts,
};

const MAKE_ROLLUPS: &str = include_str!("queries/make_source_rollups.sql");
const LOCK_ROLLUPS: &str = include_str!("queries/lock_source_rollups.sql");
const KEEP_ROLLUP: &str = include_str!("queries/keep_source_rollup.sql");
const ROLLUPS: &str = include_str!("queries/source_rollups.sql");

const MINUTE_SECS: i64 = 60;

/// The statistics of sources' minutes.
type Rollups = BTreeMap<(Uuid, i64), SourceStatistics>;

pub(super) async fn add(tx: &Tx<'_>, tallies: &[SourceTally]) -> Outcome<()> {
    let mut added = Rollups::new();
    for tally in tallies {
        added.entry((tally.source.key(), minute_number(tally.minute))).or_default().merge(&tally.statistics);
    }
    let (sources, minutes): (Vec<Uuid>, Vec<i64>) = added.keys().copied().unzip();
    tx.execute(MAKE_ROLLUPS, &[&sources, &minutes]).await?;
    for row in tx.query(LOCK_ROLLUPS, &[&sources, &minutes]).await? {
        added.entry((row.value("source_id")?, row.value("minute")?)).or_default().merge(&statistics_of_row(&row)?);
    }
    keep(tx, &added).await
}

async fn keep(tx: &Tx<'_>, rollups: &Rollups) -> Outcome<()> {
    let (sources, minutes): (Vec<Uuid>, Vec<i64>) = rollups.keys().copied().unzip();
    let numbers = |read: fn(&SourceStatistics) -> i64| rollups.values().map(read).collect::<Vec<i64>>();
    let texts = |read: fn(&SourceStatistics) -> String| rollups.values().map(read).collect::<Vec<String>>();
    let (accepted, handshakes) = (numbers(|statistics| number(statistics.accepted)), numbers(|statistics| number(statistics.handshakes)));
    let (rejected, events) = (texts(source_counts::rejected), texts(source_counts::events));
    let latency_sums = numbers(|statistics| micros(statistics.latency_sum));
    let latencies: Vec<_> = rollups.values().map(|statistics| durations::pack(&statistics.latencies)).collect();
    tx.execute(KEEP_ROLLUP, &[&sources, &minutes, &accepted, &handshakes, &rejected, &events, &latency_sums, &latencies]).await?;
    Ok(())
}

pub(super) async fn read(
    reader: &Reader,
    source: SourceId,
    (from, to): (Timestamp, Timestamp),
    step: Duration,
) -> Outcome<Vec<SourceTally>> {
    let mut steps = Vec::new();
    for row in reader.query(ROLLUPS, &[&source.key(), &minute_number(from), &end_minute(to)]).await? {
        let minute = Timestamp::from_secs(row.value::<i64>("minute")? * MINUTE_SECS);
        SourceTally::add_to_steps(&mut steps, &SourceTally { source, minute, statistics: statistics_of_row(&row)? }, step);
    }
    Ok(steps)
}

pub(super) fn statistics_of_row(row: &Row) -> Outcome<SourceStatistics> {
    let (events, other_events) = row.spelled("events", source_counts::read_events)?;
    Ok(SourceStatistics {
        accepted: row.number("accepted")?,
        handshakes: row.number("handshakes")?,
        rejected: row.spelled("rejected", source_counts::read_rejected)?,
        events,
        other_events,
        latency_sum: duration(row.value("latency_sum")?),
        latencies: row.spelled("latencies", |packed: &[u8]| durations::unpack(packed))?,
    })
}
