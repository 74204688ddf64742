//! What was measured: the port `HealthMetrics`.

use async_trait::async_trait;
use everhook_core::{
    ids::OrganizationId,
    model::{
        AuditEntry, Page, PageRequest,
        health::{DedupeHash, Metric, MetricDraft, MetricType, ProfileId, Provider, RecordId},
    },
    ports::{HealthMetrics, MetricFilter, MetricWrite, MetricsWritten, ProfileErased, RecordOf, StoreError},
    time::Timestamp,
};
use rustc_hash::FxHashSet;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::{
    PostgresStore,
    audit_log::conclude,
    collisions::retry_on_conflict,
    fault::Outcome,
    page::{Between, List, list, rows_wanted},
    rows::{Columns, Key, unreadable},
    transaction::Tx,
};
use crate::encoding::{
    health::{PreparedMetric, is_same, open_raw, prepare, read_sport, sport_name},
    payload::Seals,
};

const LOCK_PROFILES: &str = include_str!("../queries/lock_health_profiles.sql");
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
impl HealthMetrics for PostgresStore {
    async fn write_metrics(&self, write: MetricWrite) -> Result<Option<MetricsWritten>, StoreError> {
        let metrics = prepare(&write, &self.seals)?;
        let connections: Vec<Uuid> = write.connections.iter().map(|(id, _)| id.key()).collect();
        let of = WriteOf { organization: write.organization, provider: write.provider, at: write.at };
        let written = retry_on_conflict(|| async {
            let mut database = self.connection().await?;
            let tx = Tx::begin(&mut database).await?;
            let written = write_all(&tx, &of, &connections, &metrics, &self.seals).await?;
            tx.commit().await?;
            Ok(written)
        });
        Ok(written.await?)
    }

    async fn delete_record(&self, of: RecordOf) -> Result<u32, StoreError> {
        let reader = self.line_reader().await?;
        let mut deleted = 0;
        for profile in &of.profiles {
            let (organization, provider) = (of.organization.key(), of.provider.as_str());
            deleted += reader.execute(DELETE_RECORD, &[&organization, &profile.as_str(), &provider, &of.record.as_str()]).await?;
        }
        Ok(u32::try_from(deleted).unwrap_or(u32::MAX))
    }

    async fn metrics(&self, organization: OrganizationId, filter: MetricFilter, page: PageRequest) -> Result<Page<Metric>, StoreError> {
        let (between, organization, wanted) = (Between::of(page), organization.key(), rows_wanted(page));
        let (profile, kind) = (filter.profile.as_ref().map(ProfileId::as_str), filter.metric_type.map(MetricType::as_str));
        let (from, to) = (filter.started.from.map(Timestamp::as_micros), filter.started.to.map(Timestamp::as_micros));
        let reader = self.reader().await?;
        let parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&organization, &between.after, &between.before, &wanted, &profile, &kind, &from, &to];
        let rows = LIST.read(&reader, page, parameters, |row| of_row(row, &self.seals)).await?;
        Ok(Page::from_read(rows, page, |metric| *metric.id.as_uuid()))
    }

    async fn erase_metrics(&self, organization: OrganizationId, profile: ProfileId, limit: u32) -> Result<u32, StoreError> {
        let reader = self.reader().await?;
        let erased = reader.execute(DELETE_OF_PROFILE, &[&organization.key(), &profile.as_str(), &i64::from(limit)]).await?;
        Ok(u32::try_from(erased).unwrap_or(u32::MAX))
    }

    async fn erase_connections(
        &self,
        organization: OrganizationId,
        profile: ProfileId,
        entry: AuditEntry,
    ) -> Result<ProfileErased, StoreError> {
        let erased = retry_on_conflict(|| async {
            let mut database = self.connection().await?;
            let tx = Tx::begin(&mut database).await?;
            tx.lock_organization(organization).await?;
            let gone = tx.execute(DELETE_CONNECTIONS, &[&organization.key(), &profile.as_str()]).await?;
            conclude(tx, ProfileErased { connections: u32::try_from(gone).unwrap_or(u32::MAX) }, &entry).await
        });
        Ok(erased.await?)
    }
}

/// What is the same for all metrics of a write.
struct WriteOf {
    organization: OrganizationId,
    provider: Provider,
    at: Timestamp,
}

async fn write_all(
    tx: &Tx<'_>,
    of: &WriteOf,
    connections: &[Uuid],
    metrics: &[PreparedMetric],
    seals: &Seals,
) -> Outcome<Option<MetricsWritten>> {
    let mut connected: FxHashSet<Uuid> = FxHashSet::default();
    for row in &tx.query(LOCK_PROFILES, &[&of.organization.key(), &connections]).await? {
        if row.value("is_connected")? {
            connected.insert(row.value("id")?);
        }
    }
    let mut written = None;
    for metric in metrics.iter().filter(|metric| connected.contains(&metric.connection.key())) {
        write_one(tx, of, metric, seals, written.get_or_insert_default()).await?;
    }
    Ok(written)
}

async fn write_one(tx: &Tx<'_>, of: &WriteOf, metric: &PreparedMetric, seals: &Seals, written: &mut MetricsWritten) -> Outcome<()> {
    let Some(before) = find(tx, of, metric, seals).await? else {
        insert(tx, of, metric).await?;
        written.inserted += 1;
        return Ok(());
    };
    if is_same(&before.measured, &metric.draft) {
        written.unchanged += 1;
        return Ok(());
    }
    let hash = &metric.hash.0[..];
    tx.execute(DELETE_BY_HASH, &[&of.organization.key(), &hash, &before.id.key()]).await?;
    let MetricDraft { sport, start, end, value, details, record_id, .. } = &metric.draft;
    tx.execute(
        UPDATE,
        &[
            &before.id.key(),
            &sport.map(sport_name),
            &start.as_micros(),
            &end.as_micros(),
            value,
            details,
            &record_id.as_ref().map(RecordId::as_str),
            &metric.raw.as_ref().map(|(encoding, _)| *encoding),
            &metric.raw.as_ref().map(|(_, raw)| &raw[..]),
            &hash,
            &of.at.as_micros(),
        ],
    )
    .await?;
    written.updated += 1;
    Ok(())
}

/// The row of a metric: by the provider's record, else by its hash.
async fn find(tx: &Tx<'_>, of: &WriteOf, metric: &PreparedMetric, seals: &Seals) -> Outcome<Option<Metric>> {
    let organization = of.organization.key();
    if let Some(record) = &metric.draft.record_id {
        let (profile, provider, kind) = (metric.profile.as_str(), of.provider.as_str(), metric.draft.metric_type.as_str());
        if let Some(row) = tx.query_opt(BY_RECORD, &[&organization, &profile, &provider, &kind, &record.as_str()]).await? {
            return of_row(&row, seals).map(Some);
        }
    }
    let row = tx.query_opt(BY_HASH, &[&organization, &&metric.hash.0[..]]).await?;
    row.as_ref().map(|row| of_row(row, seals)).transpose()
}

async fn insert(tx: &Tx<'_>, of: &WriteOf, metric: &PreparedMetric) -> Outcome<()> {
    let MetricDraft { metric_type, sport, start, end, value, details, record_id, raw: _ } = &metric.draft;
    tx.execute(
        INSERT,
        &[
            &metric.new_id.key(),
            &of.organization.key(),
            &metric.profile.as_str(),
            &of.provider.as_str(),
            &metric_type.as_str(),
            &sport.map(sport_name),
            &start.as_micros(),
            &end.as_micros(),
            value,
            details,
            &record_id.as_ref().map(RecordId::as_str),
            &metric.raw.as_ref().map(|(encoding, _)| *encoding),
            &metric.raw.as_ref().map(|(_, raw)| &raw[..]),
            &&metric.hash.0[..],
            &of.at.as_micros(),
        ],
    )
    .await?;
    Ok(())
}

fn of_row(row: &Row, seals: &Seals) -> Outcome<Metric> {
    let organization: OrganizationId = row.id("organization_id")?;
    let profile = row.spelled("profile_id", |name: &str| ProfileId::parse(name))?;
    let raw = match row.value::<Option<i64>>("raw_encoding")? {
        None => None,
        Some(encoding) => Some(open_raw(encoding, row.value("raw")?, (organization, &profile), seals).ok_or_else(|| unreadable("raw"))?),
    };
    let hash = |bytes: &[u8]| bytes.try_into().ok().map(DedupeHash);
    Ok(Metric {
        id: row.id("id")?,
        organization,
        provider: row.spelled("provider", |name: &str| Provider::parse(name))?,
        measured: MetricDraft {
            metric_type: row.spelled("metric_type", |name: &str| MetricType::parse(name))?,
            sport: row.spelled_opt("sport", |name: &str| read_sport(name))?,
            start: row.instant("start_at")?,
            end: row.instant("end_at")?,
            value: row.value("value")?,
            details: row.value("details")?,
            record_id: row.spelled_opt("record_id", |text: &str| RecordId::of(text))?,
            raw,
        },
        profile,
        dedupe_hash: row.spelled("dedupe_hash", hash)?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}
