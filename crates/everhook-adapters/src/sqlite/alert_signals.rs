//! What alert rules are measured from: the port `AlertSignals`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, LaneId, OrganizationId},
    model::{AlertScope, AttemptStatistics, SourceTally},
    ports::{AlertSignals, LaneMinute, Signal, SignalPage, SignalPlace, SourceMinute, StoreError, WatchedLane},
    time::Timestamp,
};
use rusqlite::{Row, params};
use uuid::Uuid;

use super::{
    SqliteStore,
    rollups::statistics_of_row,
    rows::{Columns, Key},
    source_rollups,
};
use crate::encoding::rollup_span::{end_minute, minute_number};

const LANE_MINUTES: &str = include_str!("queries/lane_minutes.sql");
const SOURCE_MINUTES: &str = include_str!("queries/source_minutes.sql");
const OPEN_CIRCUITS: &str = include_str!("queries/open_circuits.sql");
const DEAD_LETTERS: &str = include_str!("queries/dead_letter_counts.sql");
const DEPTHS: &str = include_str!("queries/source_depths.sql");
const FAILING_APPS: &str = include_str!("queries/failing_apps.sql");
const MINUTES_OF_LANE: &str = include_str!("queries/minutes_of_lane.sql");

const MINUTE_SECS: i64 = 60;

/// Comes before every lane.
const NO_LANE: i64 = -1;

/// Rows, each with where to go on behind it.
type Placed<T> = Vec<(SignalPlace, T)>;

#[async_trait]
impl AlertSignals for SqliteStore {
    async fn lane_minutes(&self, since: Timestamp, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<LaneMinute>, StoreError> {
        let from = after.unwrap_or(SignalPlace { minute: minute_number(since), lane: NO_LANE, id: Uuid::nil() });
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(LANE_MINUTES)?;
            let rows = statement.query_map(params![from.minute, from.lane, limit], lane_minute)?;
            Ok(page(rows.collect::<Result<_, _>>()?, limit))
        })
        .await
    }

    async fn source_minutes(
        &self,
        since: Timestamp,
        after: Option<SignalPlace>,
        limit: u32,
    ) -> Result<SignalPage<SourceMinute>, StoreError> {
        let from = after.unwrap_or(SignalPlace { minute: minute_number(since), ..SignalPlace::default() });
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(SOURCE_MINUTES)?;
            let rows = statement.query_map(params![from.minute, from.id.key(), limit], source_minute)?;
            Ok(page(rows.collect::<Result<_, _>>()?, limit))
        })
        .await
    }

    async fn open_circuits(&self, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        let from = after.unwrap_or_default();
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(OPEN_CIRCUITS)?;
            let rows = statement.query_map(params![from.id.key(), limit], open_circuit)?;
            Ok(page(rows.collect::<Result<_, _>>()?, limit))
        })
        .await
    }

    async fn dead_letter_counts(&self, count_max: u32, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        let from = after.unwrap_or_default();
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(DEAD_LETTERS)?;
            let rows = statement.query_map(params![from.id.key(), count_max, limit], dead_letters)?;
            Ok(without_others(page(rows.collect::<Result<_, _>>()?, limit)))
        })
        .await
    }

    async fn source_depths(&self, count_max: u32, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        let from = after.map_or(NO_LANE, |place| place.lane);
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(DEPTHS)?;
            let rows = statement.query_map(params![from, count_max, limit], depth)?;
            Ok(without_others(page(rows.collect::<Result<_, _>>()?, limit)))
        })
        .await
    }

    async fn failing_apps(&self, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        let from = after.unwrap_or_default();
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(FAILING_APPS)?;
            let rows = statement.query_map(params![from.id.key(), limit], failing_app)?;
            Ok(page(rows.collect::<Result<_, _>>()?, limit))
        })
        .await
    }

    async fn minutes_of_lane(
        &self,
        lane_id: LaneId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, AttemptStatistics)>, StoreError> {
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(MINUTES_OF_LANE)?;
            let of_row = |row: &Row<'_>| Ok((minute(row)?, statistics_of_row(row)?));
            let rows = statement.query_map(params![lane_id.key(), minute_number(from), end_minute(to)], of_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }
}

fn page<T>(placed: Placed<T>, limit: u32) -> SignalPage<T> {
    let next = placed.last().filter(|_| placed.len() >= limit as usize).map(|(place, _)| *place);
    SignalPage { rows: placed.into_iter().map(|(_, row)| row).collect(), next }
}

/// What was looked at and is nothing to report is left out.
fn without_others(page: SignalPage<Option<Signal>>) -> SignalPage<Signal> {
    SignalPage { rows: page.rows.into_iter().flatten().collect(), next: page.next }
}

fn minute(row: &Row<'_>) -> rusqlite::Result<Timestamp> {
    Ok(Timestamp::from_secs(row.get::<_, i64>("minute")? * MINUTE_SECS))
}

fn by_id(id: Uuid) -> SignalPlace {
    SignalPlace { id, ..SignalPlace::default() }
}

fn lane_minute(row: &Row<'_>) -> rusqlite::Result<(SignalPlace, LaneMinute)> {
    let place = SignalPlace { minute: row.get("minute")?, lane: row.get("lane")?, id: Uuid::nil() };
    let lane = LaneMinute {
        lane_id: row.id("id")?,
        lane: row.spelled("kind", |kind: String| WatchedLane::parse(&kind))?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        minute: minute(row)?,
        statistics: statistics_of_row(row)?,
    };
    Ok((place, lane))
}

fn source_minute(row: &Row<'_>) -> rusqlite::Result<(SignalPlace, SourceMinute)> {
    let place = SignalPlace { minute: row.get("minute")?, id: row.id("id")?, lane: 0 };
    let tally = SourceTally { source: row.id("id")?, minute: minute(row)?, statistics: source_rollups::statistics_of_row(row)? };
    Ok((place, SourceMinute { organization: row.id("organization_id")?, application: row.id("application_id")?, tally }))
}

fn open_circuit(row: &Row<'_>) -> rusqlite::Result<(SignalPlace, Signal)> {
    let signal = Signal {
        target: row.id("id")?,
        scope: row.spelled("kind", |kind: String| AlertScope::parse(&kind))?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        value: 1,
    };
    Ok((by_id(signal.target), signal))
}

/// `None` where the application was deleted or is `operational`.
fn dead_letters(row: &Row<'_>) -> rusqlite::Result<(SignalPlace, Option<Signal>)> {
    let (application, organization) = (row.id::<ApplicationId>("id")?, row.id_opt::<OrganizationId>("organization_id")?);
    let kind: Option<String> = row.get("kind")?;
    let value = row.spelled("value", |count: i64| u64::try_from(count).ok())?;
    let watched = organization.filter(|_| kind.as_deref() != Some("operational"));
    let signal = watched.map(|organization| Signal {
        target: *application.as_uuid(),
        scope: AlertScope::Application,
        organization,
        application,
        value,
    });
    Ok((by_id(*application.as_uuid()), signal))
}

/// `None` where nothing waits.
fn depth(row: &Row<'_>) -> rusqlite::Result<(SignalPlace, Option<Signal>)> {
    let place = SignalPlace { lane: row.get("lane")?, ..SignalPlace::default() };
    let signal = Signal {
        target: row.id("id")?,
        scope: AlertScope::Source,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        value: row.spelled("value", |count: i64| u64::try_from(count).ok())?,
    };
    Ok((place, Some(signal).filter(|signal| signal.value > 0)))
}

fn failing_app(row: &Row<'_>) -> rusqlite::Result<(SignalPlace, Signal)> {
    let application: ApplicationId = row.id("id")?;
    let signal = Signal {
        target: *application.as_uuid(),
        scope: AlertScope::Application,
        organization: row.id("organization_id")?,
        application,
        value: row.spelled("value", |count: i64| u64::try_from(count).ok())?,
    };
    Ok((by_id(signal.target), signal))
}
