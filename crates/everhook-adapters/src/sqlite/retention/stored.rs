//! How much the file keeps, and giving back to the file system what it does not need: both without a look at more than some pages.

use std::path::Path;

use everhook_core::{
    ports::{Purge, Purged, RowCount, StoreError, Stored, StoredTable},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension};

use super::super::{SqliteStore, fault::Outcome, moving_out::log_of, transaction::Tx};

const ROWS: &str = include_str!("../queries/rows_of_table.sql");
const OLDEST_EVENT: &str = include_str!("../queries/oldest_event.sql");
const OLDEST_DEAD_LETTER: &str = include_str!("../queries/oldest_dead_letter.sql");

/// Tables that grow with what is done.
const TABLES: [&str; 18] = [
    "events",
    "payloads",
    "received_events",
    "deliveries",
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

/// Up to how many rows of a table are counted: some milliseconds. SQLite keeps no count of its own.
const ROWS_COUNTED_MAX: u64 = 20_000;

/// What share of the file may be free, to be used again: a file that is given back and taken again for each day's events is worse than one that is a little
/// too large.
const SPARE_SHARE: i64 = 10;
/// How many pages may be free in any case: 4 MiB.
const SPARE_PAGES_MIN: i64 = 1_024;
/// What `PRAGMA auto_vacuum` says of a file that can give pages back.
const INCREMENTAL: i64 = 2;

impl SqliteStore {
    pub(super) async fn read_stored(&self) -> Result<Stored, StoreError> {
        self.read_history(read_stored).await
    }

    /// Gives some free pages at the end of the file back, after moving what is there to free pages before it.
    pub(super) async fn give_back(&self, purge: Purge) -> Result<Purged, StoreError> {
        let limit = i64::from(purge.limit);
        let giving = move |tx: &mut Tx<'_>| {
            let connection = tx.connection();
            let (pages, free) = (number(connection, "page_count")?, number(connection, "freelist_count")?);
            let wanted = (free - (pages / SPARE_SHARE).max(SPARE_PAGES_MIN)).min(limit);
            if wanted <= 0 || number(connection, "auto_vacuum")? != INCREMENTAL {
                return Ok(Purged::default());
            }
            connection.pragma(None, "incremental_vacuum", wanted, |_| Ok(()))?;
            // One that gives nothing back would be asked for ever.
            let has_given = number(connection, "freelist_count")? < free;
            Ok(Purged { removed: 0, next: has_given.then_some(purge.from) })
        };
        self.write(purge.limit as usize, giving).await
    }
}

/// What a file keeps.
pub(in crate::sqlite) fn read_stored(connection: &Connection) -> Outcome<Stored> {
    let page_bytes = number(connection, "page_size")?;
    let bytes = number(connection, "page_count")? * page_bytes;
    let free = number(connection, "freelist_count")? * page_bytes;
    let mut tables = TABLES.iter().map(|table| read_table(connection, table)).collect::<Outcome<Vec<_>>>()?;
    tables.sort_by_key(|table| std::cmp::Reverse(table.rows.number()));
    Ok(Stored {
        bytes: u64::try_from(bytes).unwrap_or_default() + log_bytes(connection),
        free_bytes: u64::try_from(free).unwrap_or_default(),
        tables,
        oldest_event_at: instant(connection, OLDEST_EVENT)?,
        oldest_dead_letter_at: instant(connection, OLDEST_DEAD_LETTER)?,
    })
}

fn read_table(connection: &Connection, table: &str) -> Outcome<StoredTable> {
    let sql = ROWS.replace("{table}", table);
    let found: i64 = connection.prepare_cached(&sql)?.query_row([ROWS_COUNTED_MAX.cast_signed() + 1], |row| row.get("rows"))?;
    let found = u64::try_from(found).unwrap_or_default();
    let rows = if found > ROWS_COUNTED_MAX { RowCount::MoreThan(ROWS_COUNTED_MAX) } else { RowCount::Exactly(found) };
    Ok(StoredTable { name: table.to_owned(), rows, bytes: None })
}

/// The bytes of the log beside the file.
fn log_bytes(connection: &Connection) -> u64 {
    let log = connection.path().map(|path| log_of(Path::new(path)));
    log.and_then(|log| log.metadata().ok()).map_or(0, |log| log.len())
}

fn instant(connection: &Connection, sql: &'static str) -> Outcome<Option<Timestamp>> {
    let micros: Option<i64> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(micros.map(Timestamp::from_micros))
}

fn number(connection: &Connection, pragma: &str) -> Outcome<i64> {
    Ok(connection.pragma_query_value(None, pragma, |row| row.get(0))?)
}
