//! How much is in the store: the port `StoreMeasurements`.

use async_trait::async_trait;
use everhook_core::{
    ids::OrganizationId,
    ports::{QueueMeasurements, StoreError, StoreMeasurements},
    time::Timestamp,
};
use rusqlite::{Row, params};

use super::{SqliteStore, rows::Columns};

const QUEUES: &str = include_str!("queries/queue_measurements.sql");
const DEAD_LETTERS: &str = include_str!("queries/dead_letters_by_organization.sql");
const DISABLED: &str = include_str!("queries/count_disabled_endpoints.sql");

#[async_trait]
impl StoreMeasurements for SqliteStore {
    async fn queue_measurements(&self, now: Timestamp, rows_max: u32) -> Result<QueueMeasurements, StoreError> {
        self.read_history(move |connection| {
            let read = |row: &Row<'_>| queues_of_row(row, now);
            Ok(connection.prepare_cached(QUEUES)?.query_row(params![now.as_micros(), rows_max], read)?)
        })
        .await
    }

    async fn dead_letters_by_organization(&self, organizations_max: u32) -> Result<Vec<(OrganizationId, u64)>, StoreError> {
        let read = |row: &Row<'_>| Ok((row.id("organization_id")?, row.value::<i64>("count")?.cast_unsigned()));
        self.read_history(move |connection| {
            Ok(connection.prepare_cached(DEAD_LETTERS)?.query_map([organizations_max], read)?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn disabled_endpoint_count(&self) -> Result<u64, StoreError> {
        let read = |row: &Row<'_>| row.value::<i64>("count");
        let count = self.read_history(move |connection| Ok(connection.prepare_cached(DISABLED)?.query_row([], read)?)).await?;
        Ok(count.cast_unsigned())
    }
}

fn queues_of_row(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<QueueMeasurements> {
    let count = |column: &str| row.value::<i64>(column).map(i64::cast_unsigned);
    Ok(QueueMeasurements {
        waiting: [count("waiting_high")?, count("waiting_normal")?, count("waiting_low")?],
        due: [count("due_high")?, count("due_normal")?, count("due_low")?],
        oldest_due_at: row.instant_opt("oldest_due_at")?.filter(|due_at| *due_at <= now),
    })
}
