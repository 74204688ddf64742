//! Partitions by time: what is old is dropped in one go, and what is new is written to tables and indexes that are small.
//!
//! Ids begin with the time, so that a stretch of ids is a stretch of time. A day's partitions are made some days ahead, so that a node that
//! sleeps over midnight finds them; what has none goes to the `…_rest` partitions, where it is found like everything else.

use everhook_core::{ports::StoreError, time::Timestamp};
use uuid::Uuid;

use super::{PostgresStore, connect::Connection, fault::Outcome, transaction::Tx};

const TAKE_TURN: &str = include_str!("queries/lock_partitions.sql");
const EXISTS: &str = include_str!("queries/partition_exists.sql");

/// How long whoever makes or drops a partition may wait for its table, and everybody else behind it.
pub(super) const PATIENCE: &str = "SET LOCAL lock_timeout = '100ms'";
/// The tables that are partitioned.
const TABLES: [&str; 3] = ["events", "deliveries", "attempts"];
/// How many days are prepared, today included.
const DAYS_AHEAD: i64 = 4;
const DAY_MILLIS: i64 = 86_400_000;

impl PostgresStore {
    /// Makes the partitions of today and the next days that are not there yet.
    ///
    /// A day for which something is in the `…_rest` partition already is left there: moving it would hold up everybody.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: some are not made, and what belongs there goes to the rest.
    pub async fn make_partitions(&self, now: Timestamp) -> Result<(), StoreError> {
        let today = day_of(now);
        for day in today..today + DAYS_AHEAD {
            for table in TABLES {
                make_partition(&mut self.connection().await?, table, day).await?;
            }
        }
        Ok(())
    }
}

/// Makes the partitions of one day that are not there yet, whatever day it is.
pub(super) async fn make_day(connection: &mut Connection, day: i64) -> Outcome<()> {
    for table in TABLES {
        make_partition(connection, table, day).await?;
    }
    Ok(())
}

async fn make_partition(connection: &mut Connection, table: &str, day: i64) -> Outcome<()> {
    let name = format!("{table}_{day}");
    let tx = Tx::begin(connection).await?;
    if tx.query_opt(EXISTS, &[&name]).await?.is_some() {
        return Ok(());
    }
    tx.query(TAKE_TURN, &[]).await?;
    // Publishers queue up behind whoever waits for the table: better no partition now than all of them waiting.
    tx.run(PATIENCE).await?;
    let (from, to) = (first_id(day), first_id(day + 1));
    // Security is the table's, and not inherited: asked directly, a partition would show everybody's rows to a role that may read it.
    let mut make = format!(
        "CREATE TABLE IF NOT EXISTS {name} PARTITION OF {table}_daily FOR VALUES FROM ('{from}') TO ('{to}'); \
        ALTER TABLE {name} ENABLE ROW LEVEL SECURITY"
    );
    if table == "events" {
        // Retention asks for the few events whose deliveries are of another day, once while everybody waits: `events_delivered_elsewhere.sql`.
        let elsewhere = format!("first_delivery_id < '{from}' OR last_delivery_id >= '{to}'");
        make += &format!("; CREATE INDEX IF NOT EXISTS {name}_elsewhere ON {name} (last_delivery_id) WHERE {elsewhere}");
    }
    let made = tx.run(&make).await;
    match made {
        Ok(()) => tx.commit().await,
        // Rows of that day are in the rest, and stay there; or somebody reads the table for long, and it is tried again.
        Err(fault) if fault.is_refused_by_rows() || fault.is_impatience() => {
            tracing::debug!(partition = name, ?fault, "cannot create a partition now; it is tried again within a minute");
            Ok(())
        }
        Err(fault) => Err(fault),
    }
}

/// The day that an instant is in, counted from the epoch's.
pub(super) fn day_of(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000).div_euclid(DAY_MILLIS)
}

/// The day that an id is of.
pub(crate) fn day_of_id(id: Uuid) -> i64 {
    let millis = i64::try_from(id.as_u128() >> 80).unwrap_or(0);
    millis.div_euclid(DAY_MILLIS)
}

/// The smallest id of a day.
pub(crate) fn first_id(day: i64) -> Uuid {
    let millis = u128::try_from(day * DAY_MILLIS).unwrap_or(0);
    Uuid::from_u128(millis << 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_days_ids_lie_between_its_first_and_the_next_days() {
        let day = 1_700_000_000_000 / DAY_MILLIS;
        for millis in [day * DAY_MILLIS, 1_700_000_000_000, (day + 1) * DAY_MILLIS - 1] {
            let seconds = u64::try_from(millis / 1_000).unwrap();
            let nanos = u32::try_from(millis % 1_000).unwrap() * 1_000_000;
            let id = Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, nanos));
            assert!(first_id(day) <= id && id < first_id(day + 1), "{millis}");
            assert_eq!(day_of_id(id), day);
        }
    }
}
