//! Which key values are sealed with, and sealing them with another one: the port `SealingStore`.
//!
//! Each step reads through a reader and seals on the caller's task; the writer only replaces what has not changed meanwhile. The steps are in `resealing`.

use async_trait::async_trait;
use everhook_core::{
    model::{AuditEntry, Rotation, SealKeyId, SealedKind, SealedPlace, Sealing},
    ports::{PassEnd, Resealed, RotationBegun, SealingStore, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{SqliteStore, audit_log, resealing, rows::Columns as _, transaction::Tx};

const SEALING: &str = include_str!("queries/sealing.sql");
const BEGIN: &str = include_str!("queries/begin_rotation.sql");
const NEXT_PASS: &str = include_str!("queries/begin_next_pass.sql");
const END: &str = include_str!("queries/end_rotation.sql");
const SET_CANCELLED: &str = include_str!("queries/set_rotation_cancelled.sql");

#[async_trait]
impl SealingStore for SqliteStore {
    async fn sealing(&self) -> Result<Option<Sealing>, StoreError> {
        self.read(|connection| Ok(read_sealing(connection)?)).await
    }

    async fn begin_rotation(&self, to: SealKeyId, at: Timestamp) -> Result<RotationBegun, StoreError> {
        let begun = self.write(1, move |tx| Ok(tx.prepare(BEGIN)?.execute(params![to.to_string(), at.as_micros()])?)).await?;
        Ok(if begun > 0 { RotationBegun::Begun } else { RotationBegun::NotNow })
    }

    async fn note_seals_with(&self, _key: SealKeyId) -> Result<(), StoreError> {
        Ok(())
    }

    async fn sealing_otherwise(&self, _key: SealKeyId) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn reseal(&self, from: SealedPlace) -> Result<Option<Resealed>, StoreError> {
        let in_use = self.seals.vault()?.keys().in_use;
        let step = self.read_history(move |connection| resealing::read(connection, from, in_use)).await?.reseal(&self.seals)?;
        self.write(resealing::rows_written(&step), move |tx| resealing::write(tx, &step, in_use)).await
    }

    async fn end_pass(&self, pass: u32, end: PassEnd) -> Result<(), StoreError> {
        let (sql, at) = match end {
            PassEnd::Again(at) => (NEXT_PASS, at),
            PassEnd::Finished(at) => (END, at),
        };
        self.write(1, move |tx| Ok(tx.prepare(sql)?.execute(params![pass, at.as_micros()])?)).await?;
        Ok(())
    }

    async fn set_rotation_cancelled(&self, is_cancelled: bool, entry: AuditEntry) -> Result<Option<Sealing>, StoreError> {
        let change = move |tx: &mut Tx<'_>| {
            if tx.prepare(SET_CANCELLED)?.execute([is_cancelled])? == 0 {
                return Ok(None);
            }
            audit_log::append(tx, &entry)?;
            Ok(read_sealing(tx.connection())?)
        };
        self.write(2, change).await
    }
}

pub(super) fn read_sealing(connection: &Connection) -> rusqlite::Result<Option<Sealing>> {
    connection.prepare_cached(SEALING)?.query_row([], sealing_of_row).optional()
}

fn sealing_of_row(row: &Row<'_>) -> rusqlite::Result<Sealing> {
    let key = |text: String| SealKeyId::parse(&text);
    let number = |column: &str| row.spelled(column, |number: i64| u64::try_from(number).ok());
    let rotation = match row.spelled_opt("from_key_id", key)? {
        None => None,
        Some(from) => Some(Rotation {
            from,
            is_cancelled: row.get("is_cancelled")?,
            pass: row.get("pass")?,
            place: SealedPlace {
                kind: row.spelled("kind", |name: String| SealedKind::parse(&name))?,
                id: row.id("after_id")?,
                number: row.get("after_number")?,
            },
            resealed_in_pass: number("resealed_in_pass")?,
            looked_at: number("looked_at")?,
            resealed: number("resealed")?,
            unreadable: number("unreadable")?,
            began_at: row.instant("began_at")?,
            not_before: row.instant("not_before")?,
        }),
    };
    Ok(Sealing { key: row.spelled("key_id", key)?, rotation, ended_at: row.instant_opt("ended_at")? })
}
