//! Reads the embedded store: a table from where it was left, in batches, on a thread of its own.

use rusqlite::{Connection, params_from_iter};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{MoveError, sum::Sum, table::Table, value::Value};
use crate::{
    postgres::{day_of_id, first_id},
    sqlite::MovingOut,
};

/// How much a batch holds before it is sent on: a few are in memory at a time. One row may be larger, and is a batch then.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The newest days that get partitions of their own: a year. Every read locks all partitions for a moment, and what is older goes to the rest.
const DAYS_MAX: usize = 366;

/// Rows that follow each other in a table.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) rows: Vec<Vec<Value>>,
    /// How far the table is with them.
    pub(super) reached: Reached,
    bytes: usize,
}

/// How far a table is: what was read of it, and its last key.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    pub(super) sum: Sum,
    pub(super) last_key: Vec<Value>,
}

impl Reached {
    /// The key of the last row, to be kept.
    pub(super) fn spelled_key(&self) -> Vec<u8> {
        let mut spelled = Vec::new();
        self.last_key.iter().for_each(|value| value.spell(&mut spelled));
        spelled
    }
}

/// How many rows a table has.
pub(super) fn count(connection: &Connection, table: &Table) -> Result<i64, MoveError> {
    connection.query_row(&table.count_source(), [], |row| row.get(0)).map_err(|error| unreadable(table.name, error))
}

/// The days of which there is anything that has a partition, the newest first.
pub(super) fn days(source: &MovingOut) -> Result<Vec<i64>, MoveError> {
    let mut days = Vec::new();
    let mut before = Uuid::max();
    while days.len() < DAYS_MAX {
        let Some(newest) = source.newest_before(before).map_err(|error| unreadable("events", error))? else { break };
        let day = day_of_id(newest);
        days.push(day);
        before = first_id(day);
    }
    Ok(days)
}

/// Sends the rows of a table that come after what was reached. Ends early if nobody takes them any more.
pub(super) fn read(
    connection: &Connection,
    table: &'static Table,
    reached: Reached,
    rows_max: usize,
    batches: &mpsc::Sender<Batch>,
) -> Result<(), MoveError> {
    let fault = |error| unreadable(table.name, error);
    let select = if reached.last_key.is_empty() { table.select_source() } else { table.select_source_after() };
    let mut statement = connection.prepare(&select).map_err(fault)?;
    let mut rows = statement.query(params_from_iter(&reached.last_key)).map_err(fault)?;
    let key_places = table.key_places();
    let mut batch = Batch { reached, ..Batch::default() };
    while let Some(row) = rows.next().map_err(fault)? {
        let row = values_of(row, table)?;
        batch.reached.sum.add(&row);
        batch.reached.last_key = key_places.iter().map(|place| row[*place].clone()).collect();
        batch.bytes += row.iter().map(Value::bytes).sum::<usize>();
        batch.rows.push(row);
        if batch.rows.len() >= rows_max || batch.bytes >= BATCH_BYTES_MAX {
            let next = Batch { reached: batch.reached.clone(), ..Batch::default() };
            if batches.blocking_send(std::mem::replace(&mut batch, next)).is_err() {
                return Ok(());
            }
        }
    }
    if !batch.rows.is_empty() {
        // Nobody takes it: then nobody waits for it either.
        let _ = batches.blocking_send(batch);
    }
    Ok(())
}

fn values_of(row: &rusqlite::Row<'_>, table: &Table) -> Result<Vec<Value>, MoveError> {
    let value = |place| {
        let value = row.get_ref(place).map_err(|error| unreadable(table.name, error))?;
        Value::of_sqlite(value).map_err(|error| MoveError::Source { table: table.name, reason: error.to_string() })
    };
    (0..table.columns.len()).map(value).collect()
}

fn unreadable(table: &'static str, error: rusqlite::Error) -> MoveError {
    MoveError::Source { table, reason: error.to_string() }
}
