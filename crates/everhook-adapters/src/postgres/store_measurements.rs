//! How much is in the store: the port `StoreMeasurements`.

use async_trait::async_trait;
use everhook_core::{
    ids::OrganizationId,
    ports::{QueueMeasurements, StoreError, StoreMeasurements},
    time::Timestamp,
};
use tokio_postgres::Row;

use super::{PostgresStore, fault::Outcome, rows::Columns};

const QUEUES: &str = include_str!("queries/queue_measurements.sql");
const DEAD_LETTERS: &str = include_str!("queries/dead_letters_by_organization.sql");
const DISABLED: &str = include_str!("queries/count_disabled_endpoints.sql");

#[async_trait]
impl StoreMeasurements for PostgresStore {
    async fn queue_measurements(&self, now: Timestamp, rows_max: u32) -> Result<QueueMeasurements, StoreError> {
        let row = self.reader().await?.query_one(QUEUES, &[&now.as_micros(), &i64::from(rows_max)]).await?;
        Ok(queues_of_row(&row, now)?)
    }

    async fn dead_letters_by_organization(&self, organizations_max: u32) -> Result<Vec<(OrganizationId, u64)>, StoreError> {
        let rows = self.reader().await?.query(DEAD_LETTERS, &[&i64::from(organizations_max)]).await?;
        let read = |row: &Row| Ok((row.id("organization_id")?, row.value::<i64>("count")?.cast_unsigned()));
        Ok(rows.iter().map(read).collect::<Outcome<_>>()?)
    }

    async fn disabled_endpoint_count(&self) -> Result<u64, StoreError> {
        let row = self.reader().await?.query_one(DISABLED, &[]).await?;
        Ok(row.value::<i64>("count")?.cast_unsigned())
    }
}

fn queues_of_row(row: &Row, now: Timestamp) -> Outcome<QueueMeasurements> {
    let count = |column: &str| row.value::<i64>(column).map(i64::cast_unsigned);
    Ok(QueueMeasurements {
        waiting: [count("waiting_high")?, count("waiting_normal")?, count("waiting_low")?],
        due: [count("due_high")?, count("due_normal")?, count("due_low")?],
        oldest_due_at: row.instant_opt("oldest_due_at")?.filter(|due_at| *due_at <= now),
    })
}
