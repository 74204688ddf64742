//! Writes to the shared store, and reads back what is there.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use tokio_postgres::{binary_copy::BinaryCopyInWriter, types::Type};

use super::{MoveError, reading::Batch, sum::Sum, table::Table, value::Value};
use crate::postgres::{
    Fault,
    moving_in::{self, MovingIn, Part},
};

/// How many rows are checked between two reports.
const REPORT_EVERY: i64 = 10_000;

/// Writes a batch, and how far its table is with it, as one transaction.
pub(super) async fn write(target: &mut MovingIn, table: &Table, types: &[Type], batch: &Batch) -> Result<(), MoveError> {
    let part = Part {
        name: table.name.to_owned(),
        rows: batch.reached.sum.rows,
        sum: batch.reached.sum.bytes(),
        last_key: batch.reached.spelled_key(),
    };
    let writing = async {
        let tx = target.client().transaction().await?;
        let mut rows = pin!(BinaryCopyInWriter::new(tx.copy_in(&table.copy_into_target()).await?, types));
        for row in &batch.rows {
            rows.as_mut().write_raw(row).await?;
        }
        rows.finish().await?;
        moving_in::keep_part(&tx, &part).await?;
        Ok(tx.commit().await?)
    };
    writing.await.map_err(|fault: Fault| refused(table, &fault))
}

/// Adds up all rows of a table, and tells how many they are now and then.
pub(super) async fn sum(
    target: &mut MovingIn,
    table: &Table,
    mut tell: impl FnMut(i64) -> Result<(), MoveError>,
) -> Result<Sum, MoveError> {
    let fault = |error: tokio_postgres::Error| refused(table, &error.into());
    let none: [&Value; 0] = [];
    let mut rows = pin!(target.client().query_raw(&table.select_target(), none).await.map_err(fault)?);
    let mut sum = Sum::default();
    while let Some(row) = rows.try_next().await.map_err(fault)? {
        let values: Vec<Value> = (0..table.columns.len()).map(|place| row.try_get(place)).collect::<Result<_, _>>().map_err(fault)?;
        sum.add(&values);
        if sum.rows % REPORT_EVERY == 0 {
            tell(sum.rows)?;
        }
    }
    Ok(sum)
}

pub(super) fn refused(table: &Table, fault: &Fault) -> MoveError {
    MoveError::Target { table: table.name, reason: fault.describe() }
}
