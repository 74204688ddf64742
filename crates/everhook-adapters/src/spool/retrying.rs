//! What could not be forwarded is tried again at each start: whatever was in the way may be gone, and it was accepted. Called when the spool is opened,
//! before anybody else has it.

use rusqlite::{Connection, Transaction, TransactionBehavior};

const LAST_OF_NEXT: &str = include_str!("queries/last_of_next_unforwarded.sql");
const PUT_BACK: &str = include_str!("queries/put_back_unforwarded.sql");
const REMOVE_PUT_BACK: &str = include_str!("queries/remove_put_back.sql");

/// How many are put back in one commit: each may have as many bytes as an event may have, and the log holds all of them.
const BATCH: u32 = 64;

/// Puts what was set aside behind what waits, in its order, and says how much that was. What was put back before an error stays so.
pub(super) fn put_back(connection: &Connection) -> rusqlite::Result<usize> {
    let (mut put_back, mut after) = (0, i64::MIN);
    while let Some(last) = connection.query_row(LAST_OF_NEXT, (after, BATCH), |row| row.get::<_, Option<i64>>("last"))? {
        let tx = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        tx.execute(PUT_BACK, (after, last))?;
        put_back += tx.execute(REMOVE_PUT_BACK, (after, last))?;
        tx.commit()?;
        after = last;
    }
    Ok(put_back)
}
