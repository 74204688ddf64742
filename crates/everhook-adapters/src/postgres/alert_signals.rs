//! What alert rules are measured from: the port `AlertSignals`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, LaneId, OrganizationId},
    model::{AlertScope, AttemptStatistics, SourceTally},
    ports::{AlertSignals, LaneMinute, Signal, SignalPage, SignalPlace, SourceMinute, StoreError, WatchedLane},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::Outcome,
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
impl AlertSignals for PostgresStore {
    async fn lane_minutes(&self, since: Timestamp, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<LaneMinute>, StoreError> {
        let from = after.unwrap_or(SignalPlace { minute: minute_number(since), lane: NO_LANE, id: Uuid::nil() });
        let rows = self.reader().await?.query(LANE_MINUTES, &[&from.minute, &from.lane, &i64::from(limit)]).await?;
        Ok(page(rows.iter().map(lane_minute).collect::<Outcome<_>>()?, limit))
    }

    async fn source_minutes(
        &self,
        since: Timestamp,
        after: Option<SignalPlace>,
        limit: u32,
    ) -> Result<SignalPage<SourceMinute>, StoreError> {
        let from = after.unwrap_or(SignalPlace { minute: minute_number(since), ..SignalPlace::default() });
        let rows = self.reader().await?.query(SOURCE_MINUTES, &[&from.minute, &from.id, &i64::from(limit)]).await?;
        Ok(page(rows.iter().map(source_minute).collect::<Outcome<_>>()?, limit))
    }

    async fn open_circuits(&self, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        let from = after.unwrap_or_default();
        let rows = self.reader().await?.query(OPEN_CIRCUITS, &[&from.id, &i64::from(limit)]).await?;
        Ok(page(rows.iter().map(open_circuit).collect::<Outcome<_>>()?, limit))
    }

    async fn dead_letter_counts(&self, count_max: u32, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        let from = after.unwrap_or_default();
        let rows = self.reader().await?.query(DEAD_LETTERS, &[&from.id, &i64::from(count_max), &i64::from(limit)]).await?;
        Ok(without_others(page(rows.iter().map(dead_letters).collect::<Outcome<_>>()?, limit)))
    }

    async fn source_depths(&self, count_max: u32, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        let from = after.map_or(NO_LANE, |place| place.lane);
        let rows = self.reader().await?.query(DEPTHS, &[&from, &i64::from(count_max), &i64::from(limit)]).await?;
        Ok(without_others(page(rows.iter().map(depth).collect::<Outcome<_>>()?, limit)))
    }

    async fn failing_apps(&self, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        let from = after.unwrap_or_default();
        let rows = self.reader().await?.query(FAILING_APPS, &[&from.id, &i64::from(limit)]).await?;
        Ok(page(rows.iter().map(failing_app).collect::<Outcome<_>>()?, limit))
    }

    async fn minutes_of_lane(
        &self,
        lane_id: LaneId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, AttemptStatistics)>, StoreError> {
        let parameters = (lane_id.key(), minute_number(from), end_minute(to));
        let rows = self.reader().await?.query(MINUTES_OF_LANE, &[&parameters.0, &parameters.1, &parameters.2]).await?;
        Ok(rows.iter().map(|row| Ok((minute(row)?, statistics_of_row(row)?))).collect::<Outcome<_>>()?)
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

fn minute(row: &Row) -> Outcome<Timestamp> {
    Ok(Timestamp::from_secs(row.value::<i64>("minute")? * MINUTE_SECS))
}

fn by_id(id: Uuid) -> SignalPlace {
    SignalPlace { id, ..SignalPlace::default() }
}

fn lane_minute(row: &Row) -> Outcome<(SignalPlace, LaneMinute)> {
    let place = SignalPlace { minute: row.value("minute")?, lane: row.value("lane")?, id: Uuid::nil() };
    let lane = LaneMinute {
        lane_id: row.id("id")?,
        lane: row.spelled("kind", WatchedLane::parse)?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        minute: minute(row)?,
        statistics: statistics_of_row(row)?,
    };
    Ok((place, lane))
}

fn source_minute(row: &Row) -> Outcome<(SignalPlace, SourceMinute)> {
    let place = SignalPlace { minute: row.value("minute")?, id: row.value("id")?, lane: 0 };
    let tally = SourceTally { source: row.id("id")?, minute: minute(row)?, statistics: source_rollups::statistics_of_row(row)? };
    Ok((place, SourceMinute { organization: row.id("organization_id")?, application: row.id("application_id")?, tally }))
}

fn open_circuit(row: &Row) -> Outcome<(SignalPlace, Signal)> {
    let signal = Signal {
        target: row.value("id")?,
        scope: row.spelled("kind", AlertScope::parse)?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        value: 1,
    };
    Ok((by_id(signal.target), signal))
}

/// `None` where the application was deleted or is `operational`.
fn dead_letters(row: &Row) -> Outcome<(SignalPlace, Option<Signal>)> {
    let (application, organization) = (row.id::<ApplicationId>("id")?, row.id_opt::<OrganizationId>("organization_id")?);
    let kind: Option<&str> = row.value("kind")?;
    let value = row.number("value")?;
    let watched = organization.filter(|_| kind != Some("operational"));
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
fn depth(row: &Row) -> Outcome<(SignalPlace, Option<Signal>)> {
    let place = SignalPlace { lane: row.value("lane")?, ..SignalPlace::default() };
    let signal = Signal {
        target: row.value("id")?,
        scope: AlertScope::Source,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        value: row.number("value")?,
    };
    Ok((place, Some(signal).filter(|signal| signal.value > 0)))
}

fn failing_app(row: &Row) -> Outcome<(SignalPlace, Signal)> {
    let application: ApplicationId = row.id("id")?;
    let signal = Signal {
        target: *application.as_uuid(),
        scope: AlertScope::Application,
        organization: row.id("organization_id")?,
        application,
        value: row.number("value")?,
    };
    Ok((by_id(signal.target), signal))
}
