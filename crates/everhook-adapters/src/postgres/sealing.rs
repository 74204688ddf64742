//! Which key values are sealed with, and sealing them with another one: the port `SealingStore`.
//!
//! A rotation begins while no node begins or lives that is to use another key: both are rows of `boots`. The steps of a pass are in `resealing`.

use async_trait::async_trait;
use everhook_core::{
    model::{AuditEntry, Rotation, SealKeyId, SealedKind, SealedPlace, Sealing},
    ports::{PassEnd, Resealed, RotationBegun, SealingStore, StoreError},
    time::Timestamp,
};
use tokio_postgres::Row;

use super::{
    PostgresStore, audit_log,
    fault::{Fault, Outcome},
    resealing,
    rows::{Columns as _, unreadable},
    transaction::Tx,
};

const SEALING: &str = include_str!("queries/sealing.sql");
const LOCK: &str = include_str!("queries/lock_sealing.sql");
const LOCK_BOOTS: &str = include_str!("queries/lock_boots_alone.sql");
const WANTING_OTHERWISE: &str = include_str!("queries/boots_wanting_otherwise.sql");
const SEALING_OTHERWISE: &str = include_str!("queries/boots_sealing_otherwise.sql");
const NOTE_SEALS_WITH: &str = include_str!("queries/note_seals_with.sql");
const BEGIN: &str = include_str!("queries/begin_rotation.sql");
const NEXT_PASS: &str = include_str!("queries/begin_next_pass.sql");
const END: &str = include_str!("queries/end_rotation.sql");
const SET_CANCELLED: &str = include_str!("queries/set_rotation_cancelled.sql");

#[async_trait]
impl SealingStore for PostgresStore {
    async fn sealing(&self) -> Result<Option<Sealing>, StoreError> {
        let row = self.reader().await?.query_opt(SEALING, &[]).await?;
        Ok(row.as_ref().map(sealing_of_row).transpose()?)
    }

    async fn begin_rotation(&self, to: SealKeyId, at: Timestamp) -> Result<RotationBegun, StoreError> {
        Ok(self.begin_rotation_to(&to.to_string(), at).await?)
    }

    async fn note_seals_with(&self, key: SealKeyId) -> Result<(), StoreError> {
        if let Some(boot) = self.boot.get() {
            self.reader().await?.execute(NOTE_SEALS_WITH, &[&boot, &key.to_string()]).await?;
        }
        Ok(())
    }

    async fn sealing_otherwise(&self, key: SealKeyId) -> Result<Vec<String>, StoreError> {
        Ok(names(&self.reader().await?.query(SEALING_OTHERWISE, &[&key.to_string()]).await?)?)
    }

    async fn reseal(&self, from: SealedPlace) -> Result<Option<Resealed>, StoreError> {
        let in_use = self.seals.vault()?.keys().in_use;
        let step = resealing::read(&self.reader().await?, from, in_use).await?.reseal(&self.seals)?;
        Ok(resealing::write(self, &step, in_use).await?)
    }

    async fn end_pass(&self, pass: u32, end: PassEnd) -> Result<(), StoreError> {
        let (sql, at) = match end {
            PassEnd::Again(at) => (NEXT_PASS, at),
            PassEnd::Finished(at) => (END, at),
        };
        self.reader().await?.execute(sql, &[&i64::from(pass), &at.as_micros()]).await?;
        Ok(())
    }

    async fn set_rotation_cancelled(&self, is_cancelled: bool, entry: AuditEntry) -> Result<Option<Sealing>, StoreError> {
        Ok(self.cancel_rotation(is_cancelled, &entry).await?)
    }
}

impl PostgresStore {
    async fn begin_rotation_to(&self, to: &str, at: Timestamp) -> Outcome<RotationBegun> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        tx.query_one(LOCK_BOOTS, &[]).await?;
        tx.query_opt(LOCK, &[]).await?;
        let awaited = names(&tx.query(WANTING_OTHERWISE, &[&to]).await?)?;
        if !awaited.is_empty() {
            return Ok(RotationBegun::Awaits(awaited));
        }
        if tx.execute(BEGIN, &[&to, &at.as_micros()]).await? == 0 {
            return Ok(RotationBegun::NotNow);
        }
        tx.commit().await?;
        Ok(RotationBegun::Begun)
    }

    async fn cancel_rotation(&self, is_cancelled: bool, entry: &AuditEntry) -> Outcome<Option<Sealing>> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        if tx.execute(SET_CANCELLED, &[&is_cancelled]).await? == 0 {
            return Ok(None);
        }
        audit_log::append(&tx, entry).await?;
        let sealing = sealing_of_row(&tx.query_one(SEALING, &[]).await?)?;
        tx.commit().await?;
        Ok(Some(sealing))
    }
}

fn names(rows: &[Row]) -> Outcome<Vec<String>> {
    rows.iter().map(|row| row.value("node")).collect()
}

fn key_of(row: &Row, column: &str) -> Outcome<Option<SealKeyId>> {
    let Some(text) = row.value::<Option<String>>(column)? else { return Ok(None) };
    SealKeyId::parse(&text).map(Some).ok_or_else(|| unreadable(column))
}

fn sealing_of_row(row: &Row) -> Outcome<Sealing> {
    let number = |column: &str| Ok::<u64, Fault>(u64::try_from(row.value::<i64>(column)?).unwrap_or(0));
    let rotation = match key_of(row, "from_key_id")? {
        None => None,
        Some(from) => Some(Rotation {
            from,
            is_cancelled: row.value("is_cancelled")?,
            pass: row.number("pass")?,
            place: SealedPlace {
                kind: SealedKind::parse(&row.value::<String>("kind")?).ok_or_else(|| unreadable("kind"))?,
                id: row.value("after_id")?,
                number: row.value("after_number")?,
            },
            resealed_in_pass: number("resealed_in_pass")?,
            looked_at: number("looked_at")?,
            resealed: number("resealed")?,
            unreadable: number("unreadable")?,
            began_at: row.instant("began_at")?,
            not_before: row.instant("not_before")?,
        }),
    };
    let key = key_of(row, "key_id")?.ok_or_else(|| unreadable("key_id"))?;
    Ok(Sealing { key, rotation, ended_at: row.instant_opt("ended_at")? })
}
