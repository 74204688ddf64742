//! Removes what is past its time, in small writes: the port `Retention`. What it frees is used again, and given back to the file system where it is much.
//!
//! Each step looks through a reader, where deliveries do not wait behind it, and writes at most as many rows as it was told.

mod events;
pub(super) mod stored;

use async_trait::async_trait;
use everhook_core::{
    ids::{DeliveryId, LaneId, OrganizationId},
    ports::{Expiring, ExpiringId, Place, Purge, Purged, Retention, RetentionClass, StoreError, Stored},
};
use rusqlite::{Connection, Row, ToSql, params};
use uuid::Uuid;

use super::{
    SqliteStore,
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
};
use crate::encoding::{page::first_id_at, rollup_span::minute_number};

const FORGET_DEAD_LETTERS: &str = include_str!("../queries/forget_dead_letters.sql");
const EXPIRING_DEAD_LETTERS: &str = include_str!("../queries/expiring_dead_letters.sql");
const FORGET_ARCHIVED_DEAD_LETTER: &str = include_str!("../queries/forget_archived_dead_letter.sql");
const ENDPOINTS: &str = include_str!("../queries/endpoints_until.sql");
const ORGANIZATIONS: &str = include_str!("../queries/organizations_until.sql");
const OPERATIONS: &str = include_str!("../queries/operations_until.sql");
const FORGET_ROLLUPS: &str = include_str!("../queries/forget_rollups.sql");
const FORGET_SOURCE_ROLLUPS: &str = include_str!("../queries/forget_source_rollups.sql");
const FORGET_OPEN_PERIODS: &str = include_str!("../queries/forget_open_periods.sql");
const FORGET_REVISIONS: &str = include_str!("../queries/forget_revisions.sql");
const UNUSED_ENDPOINTS: &str = include_str!("../queries/unused_deleted_endpoints.sql");
/// What is removed with an endpoint that was deleted: by its id, and by its lane.
const FORGET_BY_ID: [&str; 6] = [
    include_str!("../queries/forget_revisions_of_endpoint.sql"),
    include_str!("../queries/forget_open_periods_of_endpoint.sql"),
    include_str!("../queries/forget_breaker_of_endpoint.sql"),
    include_str!("../queries/note_purged_endpoint.sql"),
    include_str!("../queries/forget_endpoint.sql"),
    include_str!("../queries/forget_lane.sql"),
];
const FORGET_LANES_OF_CHANNELS: &str = include_str!("../queries/forget_lanes_of_channels.sql");
const FORGET_BREAKER: &str = include_str!("../queries/forget_breaker_of_endpoint.sql");
const FORGET_ACTIVITY: &str = include_str!("../queries/forget_activity_of_lane.sql");
const SCHEDULES: &str = include_str!("../queries/schedules_until.sql");
const NOTE_UNUSED_SCHEDULES: &str = include_str!("../queries/note_unused_schedules.sql");
const FORGET_SCHEDULES: &str = include_str!("../queries/forget_schedules.sql");
const FORGET_HEALTH_METRICS: &str = include_str!("../queries/forget_health_metrics.sql");
const FORGET_AUDIT_ENTRIES: &str = include_str!("../queries/forget_audit_entries.sql");
const FORGET_DELETED_ORGANIZATIONS: &str = include_str!("../queries/forget_deleted_organizations.sql");
const FORGET_OPERATIONS: &str = include_str!("../queries/forget_operations.sql");

/// How many endpoints or organizations a step looks at: for each, one look-up tells that it has nothing old.
const OWNERS_A_STEP: u32 = 100;

#[async_trait]
impl Retention for SqliteStore {
    async fn purge(&self, purge: Purge) -> Result<Purged, StoreError> {
        match purge.what {
            RetentionClass::Events => self.purge_events(purge, None).await,
            RetentionClass::Attempts => self.purge_attempts(purge).await,
            RetentionClass::DeadLetters => self.purge_dead_letters(purge).await,
            RetentionClass::Operations => self.purge_operations(purge).await,
            RetentionClass::Rollups => self.purge_owned(purge, ENDPOINTS, FORGET_ROLLUPS, minute_number(purge.before)).await,
            RetentionClass::SourceRollups => self.purge_source_rollups(purge).await,
            RetentionClass::HealthMetrics => self.purge_owned(purge, ORGANIZATIONS, FORGET_HEALTH_METRICS, first_id_at(purge.before)).await,
            RetentionClass::OpenPeriods => self.purge_owned(purge, ENDPOINTS, FORGET_OPEN_PERIODS, purge.before.as_micros()).await,
            RetentionClass::Revisions => self.purge_owned(purge, ENDPOINTS, FORGET_REVISIONS, purge.before.as_micros()).await,
            RetentionClass::DeletedEndpoints => self.purge_deleted_endpoints(purge).await,
            RetentionClass::ScheduleVersions => self.purge_schedules(purge).await,
            RetentionClass::AuditLog => self.purge_owned(purge, ORGANIZATIONS, FORGET_AUDIT_ENTRIES, first_id_at(purge.before)).await,
            RetentionClass::DeletedOrganizations => {
                self.purge_owned(purge, ORGANIZATIONS, FORGET_DELETED_ORGANIZATIONS, purge.before.as_micros()).await
            }
            RetentionClass::FreeSpace => self.give_back(purge).await,
        }
    }

    async fn expiring(&self, purge: Purge) -> Result<Vec<Expiring>, StoreError> {
        match purge.what {
            RetentionClass::Events => self.expiring_events(purge).await,
            RetentionClass::DeadLetters => self.expiring_dead_letters(purge).await,
            _ => Ok(Vec::new()),
        }
    }

    async fn purge_archived(&self, purge: Purge, archived: Vec<Expiring>) -> Result<Purged, StoreError> {
        match purge.what {
            RetentionClass::Events => self.purge_events(purge, Some(archived)).await,
            RetentionClass::DeadLetters => self.purge_archived_dead_letters(purge, archived).await,
            _ => self.purge(purge).await,
        }
    }

    async fn stored(&self) -> Result<Stored, StoreError> {
        self.read_stored().await
    }
}

impl SqliteStore {
    async fn purge_dead_letters(&self, purge: Purge) -> Result<Purged, StoreError> {
        let forget = move |tx: &mut Tx<'_>| forget(tx, FORGET_DEAD_LETTERS, params![purge.before.as_micros(), purge.limit]);
        let removed = self.write(purge.limit as usize, forget).await?;
        Ok(Purged { removed, next: (removed == purge.limit).then_some(purge.from) })
    }

    async fn expiring_dead_letters(&self, purge: Purge) -> Result<Vec<Expiring>, StoreError> {
        let of_row = |row: &Row<'_>| {
            let (organization, id) = (row.id::<OrganizationId>("organization_id")?, row.id::<DeliveryId>("id")?);
            Ok(Expiring { organization, id: ExpiringId::DeadLetter(id) })
        };
        let look = move |connection: &Connection| {
            let limits = params![purge.before.as_micros(), purge.limit];
            Ok(connection.prepare_cached(EXPIRING_DEAD_LETTERS)?.query_map(limits, of_row)?.collect::<Result<_, _>>()?)
        };
        self.read_history(look).await
    }

    /// The next step sees others, whether these have gone or are being retried.
    async fn purge_archived_dead_letters(&self, purge: Purge, archived: Vec<Expiring>) -> Result<Purged, StoreError> {
        let is_full = archived.len() >= purge.limit as usize;
        let forget = move |tx: &mut Tx<'_>| {
            let mut removed = 0;
            for letter in &archived {
                removed += forget(tx, FORGET_ARCHIVED_DEAD_LETTER, params![letter.id.as_uuid().key(), purge.before.as_micros()])?;
            }
            Ok(removed)
        };
        let removed = self.write(purge.limit as usize, forget).await?;
        Ok(Purged { removed, next: is_full.then_some(purge.from) })
    }

    async fn purge_source_rollups(&self, purge: Purge) -> Result<Purged, StoreError> {
        let forget = move |tx: &mut Tx<'_>| forget(tx, FORGET_SOURCE_ROLLUPS, params![minute_number(purge.before), purge.limit]);
        let removed = self.write(purge.limit as usize, forget).await?;
        Ok(Purged { removed, next: (removed == purge.limit).then_some(purge.from) })
    }

    async fn purge_operations(&self, purge: Purge) -> Result<Purged, StoreError> {
        let (after, before) = (purge.from.id, purge.before);
        let forget = move |tx: &mut Tx<'_>| {
            let limits = params![after.key(), purge.limit, first_id_at(before)];
            let Some(until) = until(tx, OPERATIONS, limits)? else { return Ok(Purged::default()) };
            let removed = forget(tx, FORGET_OPERATIONS, params![after.key(), until.key(), before.as_micros()])?;
            Ok(Purged { removed, next: Some(Place { id: until, ..purge.from }) })
        };
        self.write(purge.limit as usize, forget).await
    }

    /// Removes rows that belong to endpoints or organizations, some owners at a time. `before` is how these rows spell their age.
    async fn purge_owned<T>(&self, purge: Purge, owners: &'static str, rows: &'static str, before: T) -> Result<Purged, StoreError>
    where
        T: ToSql + Send + 'static,
    {
        let after = purge.from.id;
        let forget = move |tx: &mut Tx<'_>| {
            let Some(until) = until(tx, owners, params![after.key(), OWNERS_A_STEP])? else { return Ok(Purged::default()) };
            let removed = forget(tx, rows, params![after.key(), until.key(), before, purge.limit])?;
            // A full step may have left some of the same owners.
            let id = if removed == purge.limit { after } else { until };
            Ok(Purged { removed, next: Some(Place { id, ..purge.from }) })
        };
        self.write(purge.limit as usize, forget).await
    }
}

impl SqliteStore {
    /// Removes endpoints that were deleted and are named by nothing any more, with what belongs to each.
    async fn purge_deleted_endpoints(&self, purge: Purge) -> Result<Purged, StoreError> {
        let after = purge.from.id;
        let forget = move |tx: &mut Tx<'_>| {
            let Some(until) = until(tx, ENDPOINTS, params![after.key(), OWNERS_A_STEP])? else { return Ok(Purged::default()) };
            forget_lanes_of_channels(tx, after, until)?;
            let limits = params![after.key(), until.key(), purge.before.as_micros(), purge.limit];
            let unused = |row: &Row<'_>| Ok((row.id::<LaneId>("id")?, row.get::<_, i64>("lane")?));
            let unused = tx.prepare(UNUSED_ENDPOINTS)?.query_map(limits, unused)?.collect::<Result<Vec<_>, _>>()?;
            for (lane_id, lane) in &unused {
                for forget in FORGET_BY_ID {
                    tx.prepare(forget)?.execute([lane_id.key()])?;
                }
                tx.prepare(FORGET_ACTIVITY)?.execute([lane])?;
            }
            let removed = u32::try_from(unused.len()).unwrap_or(u32::MAX);
            let id = if removed == purge.limit { after } else { until };
            Ok(Purged { removed, next: Some(Place { id, ..purge.from }) })
        };
        self.write(purge.limit as usize, forget).await
    }
}

impl SqliteStore {
    /// Notes which versions of retry schedules nobody has, and removes those of which no delivery can be left.
    async fn purge_schedules(&self, purge: Purge) -> Result<Purged, StoreError> {
        let (after, now) = (purge.from.offset, purge.before.as_micros());
        let forget = move |tx: &mut Tx<'_>| {
            let until = tx.prepare(SCHEDULES)?.query_row(params![after, purge.limit], |row| row.get::<_, Option<i64>>("until"))?;
            let Some(until) = until else { return Ok(Purged::default()) };
            tx.prepare(NOTE_UNUSED_SCHEDULES)?.execute(params![after, until, now])?;
            let removed = forget(tx, FORGET_SCHEDULES, params![after, until, now])?;
            Ok(Purged { removed, next: Some(Place { offset: until, ..purge.from }) })
        };
        self.write(purge.limit as usize, forget).await
    }
}

/// Removes those of some lanes that are of channels that were removed.
fn forget_lanes_of_channels(tx: &Tx<'_>, after: Uuid, until: Uuid) -> Outcome<()> {
    let gone = |row: &Row<'_>| Ok((row.id::<LaneId>("id")?, row.get::<_, i64>("lane")?));
    let gone = tx.prepare(FORGET_LANES_OF_CHANNELS)?.query_map([after.key(), until.key()], gone)?.collect::<Result<Vec<_>, _>>()?;
    for (lane_id, lane) in gone {
        tx.prepare(FORGET_BREAKER)?.execute([lane_id.key()])?;
        tx.prepare(FORGET_ACTIVITY)?.execute([lane])?;
    }
    Ok(())
}

/// Up to whom the next few are.
fn until(tx: &Tx<'_>, sql: &'static str, parameters: &[&dyn ToSql]) -> Outcome<Option<Uuid>> {
    Ok(tx.prepare(sql)?.query_row(parameters, |row| row.id_opt("until"))?)
}

/// Runs a statement that removes rows; says how many.
fn forget(tx: &Tx<'_>, sql: &'static str, parameters: &[&dyn ToSql]) -> Outcome<u32> {
    Ok(u32::try_from(tx.prepare(sql)?.execute(parameters)?).unwrap_or(u32::MAX))
}
