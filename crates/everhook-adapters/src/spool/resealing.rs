//! Events that wait, sealed again with the key in use. What they were is overwritten with zeros, as everything that leaves the spool.

use everhook_core::{model::SealKeyId, ports::StoreError};
use rusqlite::{Row, params};

use super::SqliteSpool;
use crate::{
    encoding::{
        payload::Seals,
        resealing::{self, PayloadValues},
    },
    sqlite::{
        fault::Outcome,
        rows::{Columns as _, Key as _},
        transaction::Tx,
    },
};

const SEALED_OTHERWISE: &str = include_str!("queries/sealed_otherwise.sql");
const RESEAL: [&str; 2] = [include_str!("queries/reseal_spooled_event.sql"), include_str!("queries/reseal_unforwarded_event.sql")];
const KEYS: &str = include_str!("queries/spool_seal_keys.sql");

/// How many events one step seals again: some milliseconds of the writer's time, unless they are large.
const EVENTS_A_STEP: u32 = 50;
/// What a value begins with that is sealed with a key: the version of its format.
const KEY_AT: usize = 1;

impl SqliteSpool {
    /// The keys that events are sealed with which wait or were set aside.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the file cannot be read.
    pub async fn seal_keys(&self) -> Result<Vec<SealKeyId>, StoreError> {
        let read = |tx: &mut Tx<'_>| {
            let key = |row: &Row<'_>| row.get::<_, [u8; 4]>("key").map(SealKeyId);
            Ok(tx.prepare(KEYS)?.query_map([], key)?.collect::<Result<_, _>>()?)
        };
        self.writer.write(1, read).await
    }
}

/// One step behind a position. Says where the next one begins; `None` if there is nothing more.
pub(super) fn step(tx: &Tx<'_>, after: i64, in_use: SealKeyId, seals: &Seals) -> Outcome<Option<i64>> {
    debug_assert_eq!(KEY_AT, 1, "the statement compares the bytes behind the first");
    let of_row = |row: &Row<'_>| {
        let (number, body, headers) = (row.get("position")?, row.get("body")?, row.get("received_headers")?);
        Ok(PayloadValues { event: row.id("id")?, number, body, headers })
    };
    let mut statement = tx.prepare(SEALED_OTHERWISE)?;
    let found = statement.query_map(params![after, &in_use.0[..], EVENTS_A_STEP], of_row)?.collect::<Result<Vec<_>, _>>()?;
    let Some(last) = found.last().map(|row| row.number) else { return Ok(None) };
    for row in found {
        let resealing::Row { new, unreadable, .. } = row.reseal(seals).map_err(|_| rusqlite::Error::InvalidQuery)?;
        if unreadable > 0 {
            tracing::error!("a spooled event cannot be decrypted: it is damaged, or encrypted with a key that this node does not have");
        }
        let Some(new) = new else { continue };
        for sql in RESEAL {
            tx.prepare(sql)?.execute(params![new.number, new.event.key(), new.body, new.headers])?;
        }
    }
    tx.leave_traces();
    Ok(Some(last))
}
