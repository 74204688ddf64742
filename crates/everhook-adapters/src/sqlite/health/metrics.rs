//! What was measured: the port `HealthMetrics`.

use async_trait::async_trait;
use everhook_core::{
    ids::{HealthConnectionId, OrganizationId},
    model::{
        AuditEntry, Page, PageRequest,
        health::{DedupeHash, Metric, MetricDraft, MetricType, ProfileId, Provider, RecordId},
    },
    ports::{HealthMetrics, MetricFilter, MetricWrite, MetricsWritten, ProfileErased, RecordOf, StoreError},
    time::Timestamp,
};
use rusqlite::{OptionalExtension, Row, params};

use super::super::{
    SqliteStore,
    fault::Outcome,
    page::{Between, List, list, rows_wanted},
    rows::{Columns, Key, unreadable},
    transaction::Tx,
};
use crate::encoding::{
    health::{PreparedMetric, is_same, open_raw, prepare, read_sport, sport_name},
    payload::Seals,
};

const CONNECTION: &str = include_str!("../queries/health_connection_by_id.sql");
const BY_RECORD: &str = include_str!("../queries/health_metric_by_record.sql");
const BY_HASH: &str = include_str!("../queries/health_metric_by_hash.sql");
const INSERT: &str = include_str!("../queries/insert_health_metric.sql");
const UPDATE: &str = include_str!("../queries/update_health_metric.sql");
const DELETE_BY_HASH: &str = include_str!("../queries/delete_health_metric_by_hash.sql");
const DELETE_RECORD: &str = include_str!("../queries/delete_health_record.sql");
const LIST: List = list!("../queries/health_metrics_page.sql");
const DELETE_OF_PROFILE: &str = include_str!("../queries/delete_health_metrics_of_profile.sql");
const DELETE_CONNECTIONS: &str = include_str!("../queries/delete_health_connections_of_profile.sql");

#[async_trait]
impl HealthMetrics for SqliteStore {
    async fn write_metrics(&self, write: MetricWrite) -> Result<Option<MetricsWritten>, StoreError> {
        let (metrics, seals) = (prepare(&write, &self.seals)?, self.seals.clone());
        let of = WriteOf { organization: write.organization, provider: write.provider, at: write.at };
        self.write(metrics.len(), move |tx| write_all(tx, &of, &metrics, &seals)).await
    }

    async fn delete_record(&self, of: RecordOf) -> Result<u32, StoreError> {
        self.write(of.profiles.len(), move |tx| {
            let mut deleted = 0;
            for profile in &of.profiles {
                let record = params![of.organization.key(), profile.as_str(), of.provider.as_str(), of.record.as_str()];
                deleted += tx.prepare(DELETE_RECORD)?.execute(record)?;
            }
            Ok(u32::try_from(deleted).unwrap_or(u32::MAX))
        })
        .await
    }

    async fn metrics(&self, organization: OrganizationId, filter: MetricFilter, page: PageRequest) -> Result<Page<Metric>, StoreError> {
        let seals = self.seals.clone();
        self.read_history(move |database| {
            let between = Between::of(page);
            let parameters = params![
                organization.key(),
                between.after,
                between.before,
                rows_wanted(page),
                filter.profile.as_ref().map(ProfileId::as_str),
                filter.metric_type.map(MetricType::as_str),
                filter.started.from.map(Timestamp::as_micros),
                filter.started.to.map(Timestamp::as_micros)
            ];
            let rows = LIST.read(database, page, parameters, |row| of_row(row, &seals))?;
            Ok(Page::from_read(rows, page, |metric| *metric.id.as_uuid()))
        })
        .await
    }

    async fn erase_metrics(&self, organization: OrganizationId, profile: ProfileId, limit: u32) -> Result<u32, StoreError> {
        self.write(limit as usize, move |tx| {
            let erased = tx.prepare(DELETE_OF_PROFILE)?.execute(params![organization.key(), profile.as_str(), limit])?;
            tx.leave_traces();
            Ok(u32::try_from(erased).unwrap_or(u32::MAX))
        })
        .await
    }

    async fn erase_connections(
        &self,
        organization: OrganizationId,
        profile: ProfileId,
        entry: AuditEntry,
    ) -> Result<ProfileErased, StoreError> {
        self.change(2, entry, move |tx| {
            let gone = tx.prepare(DELETE_CONNECTIONS)?.execute(params![organization.key(), profile.as_str()])?;
            tx.leave_traces();
            Ok(ProfileErased { connections: u32::try_from(gone).unwrap_or(u32::MAX) })
        })
        .await
    }
}

/// What is the same for all metrics of a write.
struct WriteOf {
    organization: OrganizationId,
    provider: Provider,
    at: Timestamp,
}

fn write_all(tx: &Tx<'_>, of: &WriteOf, metrics: &[PreparedMetric], seals: &Seals) -> Outcome<Option<MetricsWritten>> {
    let (mut written, mut connected): (_, Option<(HealthConnectionId, bool)>) = (None, None);
    for metric in metrics {
        let is_connected = match connected.filter(|(known, _)| *known == metric.connection) {
            Some((_, is_connected)) => is_connected,
            None => {
                tx.prepare(CONNECTION)?.query_row([metric.connection.key()], |row| row.get("is_connected")).optional()?.unwrap_or(false)
            }
        };
        connected = Some((metric.connection, is_connected));
        if is_connected {
            write_one(tx, of, metric, seals, written.get_or_insert_default())?;
        }
    }
    Ok(written)
}

fn write_one(tx: &Tx<'_>, of: &WriteOf, metric: &PreparedMetric, seals: &Seals, written: &mut MetricsWritten) -> Outcome<()> {
    let Some(before) = find(tx, of, metric, seals)? else {
        insert(tx, of, metric)?;
        written.inserted += 1;
        return Ok(());
    };
    if is_same(&before.measured, &metric.draft) {
        written.unchanged += 1;
        return Ok(());
    }
    tx.prepare(DELETE_BY_HASH)?.execute(params![of.organization.key(), metric.hash.0, before.id.key()])?;
    let MetricDraft { sport, start, end, value, details, record_id, .. } = &metric.draft;
    tx.prepare(UPDATE)?.execute(params![
        before.id.key(),
        sport.map(sport_name),
        start.as_micros(),
        end.as_micros(),
        value,
        details,
        record_id.as_ref().map(RecordId::as_str),
        metric.raw.as_ref().map(|(encoding, _)| encoding),
        metric.raw.as_ref().map(|(_, raw)| raw),
        metric.hash.0,
        of.at.as_micros()
    ])?;
    written.updated += 1;
    Ok(())
}

/// The row of a metric: by the provider's record, else by its hash.
fn find(tx: &Tx<'_>, of: &WriteOf, metric: &PreparedMetric, seals: &Seals) -> Outcome<Option<Metric>> {
    if let Some(record) = &metric.draft.record_id {
        let (profile, kind) = (metric.profile.as_str(), metric.draft.metric_type.as_str());
        let by_record = params![of.organization.key(), profile, of.provider.as_str(), kind, record.as_str()];
        if let Some(found) = tx.prepare(BY_RECORD)?.query_row(by_record, |row| of_row(row, seals)).optional()? {
            return Ok(Some(found));
        }
    }
    let by_hash = params![of.organization.key(), metric.hash.0];
    Ok(tx.prepare(BY_HASH)?.query_row(by_hash, |row| of_row(row, seals)).optional()?)
}

fn insert(tx: &Tx<'_>, of: &WriteOf, metric: &PreparedMetric) -> Outcome<()> {
    let MetricDraft { metric_type, sport, start, end, value, details, record_id, raw: _ } = &metric.draft;
    tx.prepare(INSERT)?.execute(params![
        metric.new_id.key(),
        of.organization.key(),
        metric.profile.as_str(),
        of.provider.as_str(),
        metric_type.as_str(),
        sport.map(sport_name),
        start.as_micros(),
        end.as_micros(),
        value,
        details,
        record_id.as_ref().map(RecordId::as_str),
        metric.raw.as_ref().map(|(encoding, _)| encoding),
        metric.raw.as_ref().map(|(_, raw)| raw),
        metric.hash.0,
        of.at.as_micros()
    ])?;
    Ok(())
}

fn of_row(row: &Row<'_>, seals: &Seals) -> rusqlite::Result<Metric> {
    let organization: OrganizationId = row.id("organization_id")?;
    let profile = row.spelled("profile_id", |name: String| ProfileId::parse(&name))?;
    let raw = match row.get::<_, Option<i64>>("raw_encoding")? {
        None => None,
        Some(encoding) => Some(open_raw(encoding, row.get("raw")?, (organization, &profile), seals).ok_or_else(|| unreadable("raw"))?),
    };
    Ok(Metric {
        id: row.id("id")?,
        organization,
        provider: row.spelled("provider", |name: String| Provider::parse(&name))?,
        measured: MetricDraft {
            metric_type: row.spelled("metric_type", |name: String| MetricType::parse(&name))?,
            sport: row.spelled_opt("sport", |name: String| read_sport(&name))?,
            start: row.instant("start_at")?,
            end: row.instant("end_at")?,
            value: row.get("value")?,
            details: row.get("details")?,
            record_id: row.spelled_opt("record_id", |text: String| RecordId::of(&text))?,
            raw,
        },
        profile,
        dedupe_hash: DedupeHash(row.get("dedupe_hash")?),
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}
