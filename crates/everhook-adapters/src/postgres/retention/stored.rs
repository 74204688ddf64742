//! How much the database keeps: what the server knows of its tables, without a look into any.

use everhook_core::{
    ports::{RowCount, Stored, StoredTable},
    time::Timestamp,
};
use tokio_postgres::Row;

use super::super::{PostgresStore, fault::Outcome, reader::Reader, rows::Columns};

const SIZES: &str = include_str!("../queries/sizes_of_tables.sql");
const SIZE: &str = include_str!("../queries/size_of_database.sql");
const OLDEST_EVENT: &str = include_str!("../queries/oldest_event.sql");
const OLDEST_DEAD_LETTER: &str = include_str!("../queries/oldest_dead_letter.sql");

/// Tables that grow with what is done. Those of days are counted with all their partitions. The data of events is in their own rows.
const TABLES: [&str; 17] = [
    "events",
    "deliveries",
    "open_deliveries",
    "attempts",
    "dead_letters",
    "idempotency_keys",
    "jobs",
    "approvals",
    "draws",
    "cached_answers",
    "health_metrics",
    "operation_items",
    "rollups",
    "source_rollups",
    "alerts",
    "endpoint_revisions",
    "audit_log",
];

pub(super) async fn read(store: &PostgresStore) -> Outcome<Stored> {
    let reader = store.reader().await?;
    let tables = reader.query(SIZES, &[&&TABLES[..]]).await?.iter().map(read_table).collect::<Outcome<_>>()?;
    let bytes: i64 = reader.query_one(SIZE, &[]).await?.value("bytes")?;
    Ok(Stored {
        bytes: u64::try_from(bytes).unwrap_or_default(),
        // The server does not say, and uses it again by itself.
        free_bytes: 0,
        tables,
        oldest_event_at: instant(&reader, OLDEST_EVENT, "created_at").await?,
        oldest_dead_letter_at: instant(&reader, OLDEST_DEAD_LETTER, "last_failure_at").await?,
    })
}

fn read_table(row: &Row) -> Outcome<StoredTable> {
    let (rows, bytes): (i64, i64) = (row.value("rows")?, row.value("bytes")?);
    Ok(StoredTable {
        name: row.value("name")?,
        rows: RowCount::About(u64::try_from(rows).unwrap_or_default()),
        bytes: Some(u64::try_from(bytes).unwrap_or_default()),
    })
}

async fn instant(reader: &Reader, sql: &'static str, column: &str) -> Outcome<Option<Timestamp>> {
    let micros: Option<i64> = reader.query_opt(sql, &[]).await?.map(|row| row.value(column)).transpose()?;
    Ok(micros.map(Timestamp::from_micros))
}
