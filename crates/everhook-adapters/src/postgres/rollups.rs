//! What happened in lanes, by the minute, the hour and the day: the part of the port `Statistics` that is about rollups.
//!
//! Several nodes may add to one row: rows are locked in the order of their keys, added to here and written back, all in one transaction. When a minute of a
//! lane begins, its hour and its day count the one before, in the same transaction. Whether they have is said by the minute's row, so that whoever holds its
//! lock knows.

use std::collections::BTreeMap;

use everhook_core::{
    ids::{LaneId, OrganizationId},
    model::{AttemptStatistics, BreakdownKind, BreakdownTally, FailureCategory, FailureCounts},
    time::Timestamp,
};
use rustc_hash::FxHashMap;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    fault::Outcome,
    reader::Reader,
    rows::{Columns, Key, duration, micros},
    transaction::Tx,
};
use crate::encoding::{answers, deliveries, durations, rollup_span};

const MAKE_ROLLUPS: &str = include_str!("queries/make_rollups.sql");
const LOCK_ROLLUPS: &str = include_str!("queries/lock_rollups.sql");
const LOCK_LONGER: &str = include_str!("queries/lock_longer_rollups.sql");
const KEEP_ROLLUP: &str = include_str!("queries/keep_rollup.sql");
const ROLLUPS: &str = include_str!("queries/rollups_of_endpoint.sql");
const LANES: &str = include_str!("queries/lanes_of_breakdowns.sql");
const BREAKDOWNS: &str = include_str!("queries/breakdowns_of_organization.sql");
const INSERT_BREAKDOWN: &str = include_str!("queries/insert_breakdown_lane.sql");

/// What is to be added, by lane and minute.
pub(super) type Added = BTreeMap<(i64, i64), AttemptStatistics>;

/// A row: its lane, how many minutes it is of, and the first of them.
type RollupKey = (i64, i64, i64);

/// Rows, each with whether longer ones have counted it.
type Rollups = BTreeMap<RollupKey, (AttemptStatistics, bool)>;

/// Adds to the minutes of lanes, and to hours and days what these have not counted of earlier ones.
pub(super) async fn add_all(tx: &Tx<'_>, added: &Added) -> Outcome<()> {
    let (lanes, minutes): (Vec<i64>, Vec<i64>) = added.keys().copied().unzip();
    let spans = vec![rollup_span::MINUTE; lanes.len()];
    tx.execute(MAKE_ROLLUPS, &[&lanes, &spans, &minutes]).await?;
    // In the order of the keys, so that the last one of a lane stays.
    let newest: FxHashMap<i64, i64> = added.keys().copied().collect();
    let (mut rollups, mut longer) = (Rollups::new(), Rollups::new());
    for row in tx.query(LOCK_ROLLUPS, &[&lanes, &minutes]).await? {
        let (lane, minute): (i64, i64) = (row.value("lane")?, row.value("minute")?);
        let (mut statistics, was_folded) = (statistics_of_row(&row)?, row.value("folded")?);
        let more = added.get(&(lane, minute));
        more.into_iter().for_each(|more| statistics.merge(more));
        let is_over = newest.get(&lane).is_some_and(|newest| minute < *newest);
        match (was_folded, more) {
            (true, Some(more)) => fold(&mut longer, lane, minute, more),
            (false, _) if is_over => fold(&mut longer, lane, minute, &statistics),
            _ => {}
        }
        rollups.insert((lane, rollup_span::MINUTE, minute), (statistics, was_folded || is_over));
    }
    if !longer.is_empty() {
        add_to_longer(tx, &mut longer).await?;
        rollups.append(&mut longer);
    }
    keep(tx, &rollups).await
}

/// Adds what happened in parts of organizations.
pub(super) async fn add_breakdowns(tx: &Tx<'_>, tallies: &[BreakdownTally]) -> Outcome<()> {
    let mut parts: Vec<(LaneId, &BreakdownTally)> = tallies.iter().map(|tally| (tally.of.lane(tally.organization), tally)).collect();
    // Nodes that make the same numbers wait for each other in one order.
    parts.sort_by_key(|(lane_id, _)| *lane_id);
    let ids: Vec<LaneId> = parts.iter().map(|(lane_id, _)| *lane_id).collect();
    let mut lanes = lanes_of(tx, &ids).await?;
    let mut added = Added::new();
    for (lane_id, tally) in parts {
        let lane = match lanes.get(&lane_id) {
            Some(lane) => *lane,
            None => make_lane(tx, tally, &mut lanes).await?,
        };
        added.entry((lane, rollup_span::minute_number(tally.minute))).or_default().merge(&tally.statistics);
    }
    add_all(tx, &added).await
}

/// What happened in a lane, from one instant until before another, in whole minutes.
pub(super) async fn read(reader: &Reader, lane_id: LaneId, from: Timestamp, to: Timestamp) -> Outcome<AttemptStatistics> {
    let [first, first_hour, first_day, end_of_days, end_of_hours, end] = rollup_span::cuts(from, to);
    let rows = reader.query(ROLLUPS, &[&lane_id.key(), &first, &first_hour, &first_day, &end_of_days, &end_of_hours, &end]).await?;
    let mut all = AttemptStatistics::default();
    for row in &rows {
        all.merge(&statistics_of_row(row)?);
    }
    Ok(all)
}

/// Notes what the hour and the day of a minute are to count.
fn fold(longer: &mut Rollups, lane: i64, minute: i64, more: &AttemptStatistics) {
    for span in rollup_span::LONGER {
        let (statistics, is_folded) = longer.entry((lane, span, rollup_span::start(minute, span))).or_default();
        statistics.merge(more);
        *is_folded = true;
    }
}

/// Adds what is kept of hours and days, and keeps others from changing it.
async fn add_to_longer(tx: &Tx<'_>, longer: &mut Rollups) -> Outcome<()> {
    let [lanes, spans, minutes] = columns(longer);
    tx.execute(MAKE_ROLLUPS, &[&lanes, &spans, &minutes]).await?;
    for row in tx.query(LOCK_LONGER, &[&lanes, &spans, &minutes]).await? {
        let key = (row.value("lane")?, row.value("span")?, row.value("minute")?);
        longer.entry(key).or_default().0.merge(&statistics_of_row(&row)?);
    }
    Ok(())
}

fn columns(rollups: &Rollups) -> [Vec<i64>; 3] {
    let column = |read: fn(&RollupKey) -> i64| rollups.keys().map(read).collect();
    [column(|(lane, ..)| *lane), column(|(_, span, _)| *span), column(|(.., minute)| *minute)]
}

async fn keep(tx: &Tx<'_>, rollups: &Rollups) -> Outcome<()> {
    let [lanes, spans, minutes] = columns(rollups);
    let folded: Vec<bool> = rollups.values().map(|(_, is_folded)| *is_folded).collect();
    let column = |read: &dyn Fn(&AttemptStatistics) -> i64| rollups.values().map(|(statistics, _)| read(statistics)).collect::<Vec<i64>>();
    let packed = |pack: fn(&AttemptStatistics) -> Vec<u8>| rollups.values().map(|(statistics, _)| pack(statistics)).collect::<Vec<_>>();
    let instants = |read: fn(&AttemptStatistics) -> Option<Timestamp>| -> Vec<_> {
        rollups.values().map(|(statistics, _)| read(statistics).map(Timestamp::as_micros)).collect()
    };
    let successes = column(&|statistics| number(statistics.successes));
    // The statement names the categories in the order of the enum.
    let failures = FailureCategory::ALL.map(|category| column(&|statistics| number(statistics.failures[category])));
    let duration_sums = column(&|statistics| micros(statistics.duration_sum));
    let durations = packed(|statistics| durations::pack(&statistics.durations));
    let (success_at, failure_at) = (instants(|statistics| statistics.last_success_at), instants(|statistics| statistics.last_failure_at));
    let (answers, deliveries) =
        (packed(|statistics| answers::pack(&statistics.answers)), packed(|statistics| deliveries::pack(&statistics.deliveries)));
    let mut columns: Vec<&(dyn ToSql + Sync)> = vec![&lanes, &spans, &minutes, &folded, &successes];
    columns.extend(failures.iter().map(|counts| counts as &(dyn ToSql + Sync)));
    columns.extend([&duration_sums as &(dyn ToSql + Sync), &durations, &success_at, &failure_at, &answers, &deliveries]);
    tx.execute(KEEP_ROLLUP, &columns).await?;
    Ok(())
}

/// The number under which a part of an organization is counted from now on: its own if there is room for it, else that of all other parts of its kind. Nodes
/// that see new parts at the same moment may find room for one more each.
async fn make_lane(tx: &Tx<'_>, tally: &BreakdownTally, lanes: &mut FxHashMap<LaneId, i64>) -> Outcome<i64> {
    let (kind, organization) = (tally.of.kind(), tally.organization);
    let lane_id = if has_room(tx, kind, organization).await? { tally.of.lane(organization) } else { kind.others(organization) };
    if let Some(lane) = lanes.get(&lane_id) {
        return Ok(*lane);
    }
    tx.execute(INSERT_BREAKDOWN, &[&lane_id.key(), &kind.as_str(), &organization.key()]).await?;
    lanes.extend(lanes_of(tx, &[lane_id]).await?);
    Ok(lanes[&lane_id])
}

async fn has_room(tx: &Tx<'_>, kind: BreakdownKind, organization: OrganizationId) -> Outcome<bool> {
    let Some(told_apart_max) = kind.told_apart_max() else { return Ok(true) };
    let limits: [&(dyn ToSql + Sync); 3] = [&organization.key(), &kind.as_str(), &i64::from(told_apart_max)];
    let rows = tx.query(BREAKDOWNS, &limits).await?;
    let parts: i64 = rows.first().map_or(Ok(0), |row| row.value("parts"))?;
    Ok(parts < i64::from(told_apart_max))
}

async fn lanes_of(tx: &Tx<'_>, ids: &[LaneId]) -> Outcome<FxHashMap<LaneId, i64>> {
    let keys: Vec<Uuid> = ids.iter().map(Key::key).collect();
    tx.query(LANES, &[&keys]).await?.iter().map(|row| Ok((row.id("id")?, row.value("lane")?))).collect()
}

pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn statistics_of_row(row: &Row) -> Outcome<AttemptStatistics> {
    let mut failures = FailureCounts::default();
    for category in FailureCategory::ALL {
        failures.add(category, row.number(category.as_str())?);
    }
    Ok(AttemptStatistics {
        successes: row.number("successes")?,
        failures,
        duration_sum: duration(row.value("duration_sum")?),
        durations: row.spelled("durations", durations::unpack)?,
        answers: row.spelled("answers", answers::unpack)?,
        deliveries: row.spelled("deliveries", deliveries::unpack)?,
        last_success_at: row.instant_opt("last_success_at")?,
        last_failure_at: row.instant_opt("last_failure_at")?,
    })
}
