//! Removes what is past its time: the port `Retention`.
//!
//! Events, deliveries and attempts go by the day: `days` moves what something still needs out of a day's partitions, in small transactions, and drops
//! them when nothing needed is left. What was moved (`…_kept`) or never had a partition (`…_rest`) goes by small deletes: `events`. Everything else is
//! small, and goes by small deletes here.
//!
//! Called by one node at a time; two would only do some of it in vain.

mod days;
mod events;
mod partition;
mod stored;

use std::collections::BTreeSet;

use async_trait::async_trait;
use everhook_core::ports::{Expiring, ExpiringId, Place, Purge, Purged, Retention, RetentionClass, StoreError, Stored};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore,
    collisions::retry_on_conflict,
    fault::Outcome,
    reader::Reader,
    rows::{Columns, Params},
};
use crate::encoding::{page::first_id_at, rollup_span::minute_number};

const FORGET_DEAD_LETTERS: &str = include_str!("../queries/forget_dead_letters.sql");
const EXPIRING_DEAD_LETTERS: &str = include_str!("../queries/expiring_dead_letters.sql");
const FORGET_ARCHIVED_DEAD_LETTERS: &str = include_str!("../queries/forget_archived_dead_letters.sql");
const ENDPOINTS: &str = include_str!("../queries/endpoints_until.sql");
const ORGANIZATIONS: &str = include_str!("../queries/organizations_until.sql");
const OPERATIONS: &str = include_str!("../queries/operations_until.sql");
const FORGET_ROLLUPS: &str = include_str!("../queries/forget_rollups.sql");
const FORGET_SOURCE_ROLLUPS: &str = include_str!("../queries/forget_source_rollups.sql");
const FORGET_OPEN_PERIODS: &str = include_str!("../queries/forget_open_periods.sql");
const FORGET_REVISIONS: &str = include_str!("../queries/forget_revisions.sql");
const FORGET_LANES_OF_CHANNELS: &str = include_str!("../queries/forget_lanes_of_channels.sql");
const FORGET_DELETED_ENDPOINTS: &str = include_str!("../queries/forget_deleted_endpoints.sql");
const SCHEDULES: &str = include_str!("../queries/schedules_until.sql");
const NOTE_UNUSED_SCHEDULES: &str = include_str!("../queries/note_unused_schedules.sql");
const FORGET_SCHEDULES: &str = include_str!("../queries/forget_schedules.sql");
const FORGET_HEALTH_METRICS: &str = include_str!("../queries/forget_health_metrics.sql");
const FORGET_AUDIT_ENTRIES: &str = include_str!("../queries/forget_audit_entries.sql");
const FORGET_DELETED_ORGANIZATIONS: &str = include_str!("../queries/forget_deleted_organizations.sql");
const FORGET_OPERATIONS: &str = include_str!("../queries/forget_operations.sql");

/// How many endpoints or organizations a step looks at: for each, one look-up tells that it has nothing old.
const OWNERS_A_STEP: i64 = 100;

#[async_trait]
impl Retention for PostgresStore {
    async fn purge(&self, purge: Purge) -> Result<Purged, StoreError> {
        Ok(match purge.what {
            RetentionClass::Events | RetentionClass::Attempts => retry_on_conflict(|| self.purge_history(purge, None)).await?,
            RetentionClass::DeadLetters => self.purge_dead_letters(purge).await?,
            RetentionClass::Operations => self.purge_operations(purge).await?,
            RetentionClass::Rollups => self.purge_owned(purge, ENDPOINTS, FORGET_ROLLUPS, &minute_number(purge.before)).await?,
            RetentionClass::SourceRollups => self.purge_source_rollups(purge).await?,
            RetentionClass::HealthMetrics => self.purge_owned(purge, ORGANIZATIONS, FORGET_HEALTH_METRICS, &oldest_id(purge)).await?,
            RetentionClass::OpenPeriods => self.purge_owned(purge, ENDPOINTS, FORGET_OPEN_PERIODS, &purge.before.as_micros()).await?,
            RetentionClass::Revisions => self.purge_owned(purge, ENDPOINTS, FORGET_REVISIONS, &purge.before.as_micros()).await?,
            RetentionClass::DeletedEndpoints => self.purge_deleted_endpoints(purge).await?,
            RetentionClass::ScheduleVersions => self.purge_schedules(purge).await?,
            RetentionClass::AuditLog => self.purge_owned(purge, ORGANIZATIONS, FORGET_AUDIT_ENTRIES, &oldest_id(purge)).await?,
            RetentionClass::DeletedOrganizations => {
                self.purge_owned(purge, ORGANIZATIONS, FORGET_DELETED_ORGANIZATIONS, &purge.before.as_micros()).await?
            }
            // Days are dropped, which gives their files back; in other tables the server uses again what is free.
            RetentionClass::FreeSpace => Purged::default(),
        })
    }

    async fn expiring(&self, purge: Purge) -> Result<Vec<Expiring>, StoreError> {
        Ok(match purge.what {
            RetentionClass::Events => match purge.from.stage {
                events::KEPT | events::REST => events::expiring(self, purge).await?,
                _ => days::expiring(self, purge).await?,
            },
            RetentionClass::DeadLetters => self.expiring_dead_letters(purge).await?,
            _ => Vec::new(),
        })
    }

    async fn purge_archived(&self, purge: Purge, archived: Vec<Expiring>) -> Result<Purged, StoreError> {
        match purge.what {
            RetentionClass::Events => {
                let archived: Archived = archived.iter().map(|one| *one.id.as_uuid()).collect();
                Ok(retry_on_conflict(|| self.purge_history(purge, Some(&archived))).await?)
            }
            RetentionClass::DeadLetters => Ok(self.purge_archived_dead_letters(purge, &archived).await?),
            _ => self.purge(purge).await,
        }
    }

    async fn stored(&self) -> Result<Stored, StoreError> {
        Ok(stored::read(self).await?)
    }
}

/// Which events are in the archive.
type Archived = BTreeSet<Uuid>;

impl PostgresStore {
    /// Kept events, then those of the rest, then day by day.
    async fn purge_history(&self, purge: Purge, archived: Option<&Archived>) -> Outcome<Purged> {
        match purge.from.stage {
            events::KEPT | events::REST => events::purge(self, purge, archived).await,
            _ => days::purge(self, purge, archived).await,
        }
    }

    async fn expiring_dead_letters(&self, purge: Purge) -> Outcome<Vec<Expiring>> {
        let parameters: Params<'_> = &[&purge.before.as_micros(), &i64::from(purge.limit)];
        let rows = self.reader().await?.query(EXPIRING_DEAD_LETTERS, parameters).await?;
        let letter = |row: &Row| Ok(Expiring { organization: row.id("organization_id")?, id: ExpiringId::DeadLetter(row.id("id")?) });
        rows.iter().map(letter).collect()
    }

    /// The next step sees others, whether these have gone or are being retried.
    async fn purge_archived_dead_letters(&self, purge: Purge, archived: &[Expiring]) -> Outcome<Purged> {
        let ids: Vec<Uuid> = archived.iter().map(|letter| *letter.id.as_uuid()).collect();
        let removed = forget(&self.reader().await?, FORGET_ARCHIVED_DEAD_LETTERS, &[&ids, &purge.before.as_micros()]).await?;
        Ok(Purged { removed, next: (archived.len() >= purge.limit as usize).then_some(purge.from) })
    }

    async fn purge_dead_letters(&self, purge: Purge) -> Outcome<Purged> {
        let parameters: Params<'_> = &[&purge.before.as_micros(), &i64::from(purge.limit)];
        let removed = forget(&self.reader().await?, FORGET_DEAD_LETTERS, parameters).await?;
        Ok(Purged { removed, next: (removed == purge.limit).then_some(purge.from) })
    }

    async fn purge_source_rollups(&self, purge: Purge) -> Outcome<Purged> {
        let parameters: Params<'_> = &[&minute_number(purge.before), &i64::from(purge.limit)];
        let removed = forget(&self.reader().await?, FORGET_SOURCE_ROLLUPS, parameters).await?;
        Ok(Purged { removed, next: (removed == purge.limit).then_some(purge.from) })
    }

    async fn purge_operations(&self, purge: Purge) -> Outcome<Purged> {
        let (reader, after) = (self.reader().await?, purge.from.id);
        let limits: Params<'_> = &[&after, &i64::from(purge.limit), &oldest_id(purge)];
        let Some(until) = until(&reader, OPERATIONS, limits).await? else { return Ok(Purged::default()) };
        let removed = forget(&reader, FORGET_OPERATIONS, &[&after, &until, &purge.before.as_micros()]).await?;
        Ok(Purged { removed, next: Some(Place { id: until, ..purge.from }) })
    }

    /// Removes endpoints that were deleted and are named by nothing any more, with what belongs to each.
    async fn purge_deleted_endpoints(&self, purge: Purge) -> Outcome<Purged> {
        let (reader, after) = (self.reader().await?, purge.from.id);
        let Some(until) = until(&reader, ENDPOINTS, &[&after, &OWNERS_A_STEP]).await? else { return Ok(Purged::default()) };
        reader.query_one(FORGET_LANES_OF_CHANNELS, &[&after, &until]).await?;
        let limits: Params<'_> = &[&after, &until, &purge.before.as_micros(), &i64::from(purge.limit)];
        let removed = reader.query_one(FORGET_DELETED_ENDPOINTS, limits).await?.number("removed")?;
        let id = if removed == purge.limit { after } else { until };
        Ok(Purged { removed, next: Some(Place { id, ..purge.from }) })
    }

    /// Notes which versions of retry schedules nobody has, and removes those of which no delivery can be left.
    async fn purge_schedules(&self, purge: Purge) -> Outcome<Purged> {
        let (reader, after, now) = (self.reader().await?, purge.from.offset, purge.before.as_micros());
        let until: Option<i64> = reader.query_one(SCHEDULES, &[&after, &i64::from(purge.limit)]).await?.value("until")?;
        let Some(until) = until else { return Ok(Purged::default()) };
        reader.execute(NOTE_UNUSED_SCHEDULES, &[&after, &until, &now]).await?;
        let removed = forget(&reader, FORGET_SCHEDULES, &[&after, &until, &now]).await?;
        Ok(Purged { removed, next: Some(Place { offset: until, ..purge.from }) })
    }

    /// Removes rows that belong to endpoints or organizations, some owners at a time. `before` is how these rows spell their age.
    async fn purge_owned(&self, purge: Purge, owners: &'static str, rows: &'static str, before: &(dyn ToSql + Sync)) -> Outcome<Purged> {
        let (reader, after) = (self.reader().await?, purge.from.id);
        let Some(until) = until(&reader, owners, &[&after, &OWNERS_A_STEP]).await? else { return Ok(Purged::default()) };
        let removed = forget(&reader, rows, &[&after, &until, before, &i64::from(purge.limit)]).await?;
        // A full step may have left some of the same owners.
        let id = if removed == purge.limit { after } else { until };
        Ok(Purged { removed, next: Some(Place { id, ..purge.from }) })
    }
}

/// An event of a source, from a row of its id and its owner's.
fn expiring_event(row: &Row) -> Outcome<Expiring> {
    Ok(Expiring { organization: row.id("organization_id")?, id: ExpiringId::Event(row.id("id")?) })
}

/// The smallest id that is not older than what may go.
fn oldest_id(purge: Purge) -> Uuid {
    Uuid::from_bytes(first_id_at(purge.before))
}

/// Up to whom the next few are.
async fn until(reader: &Reader, sql: &'static str, parameters: Params<'_>) -> Outcome<Option<Uuid>> {
    reader.query_opt(sql, parameters).await?.map(|row| row.value("until")).transpose()
}

/// Runs a statement that removes rows; says how many.
async fn forget(reader: &Reader, sql: &'static str, parameters: Params<'_>) -> Outcome<u32> {
    Ok(u32::try_from(reader.execute(sql, parameters).await?).unwrap_or(u32::MAX))
}
