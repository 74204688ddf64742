//! The partitions of one day: what is in them, and how they are dropped.
//!
//! Dropping takes the table for itself: statements that come meanwhile wait. So the drop waits a tenth of a second at most for those before it, and
//! is otherwise tried again in the next pass. Files are removed after the commit, when nobody waits any more.

use std::ops::Range;

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::{
    PostgresStore,
    fault::Outcome,
    partitions::{PATIENCE, day_of_id, first_id},
    reader::Reader,
    rows::{Columns, Params},
    transaction::Tx,
};

const EXISTS: &str = include_str!("../queries/partition_exists.sql");
const PAGES: &str = include_str!("../queries/pages_of_partition.sql");
const OPEN_MARK: &str = include_str!("../queries/open_mark.sql");
const NEXT_EVENTS: &str = include_str!("../queries/next_events_of_day.sql");
const ELSEWHERE: &str = include_str!("../queries/events_delivered_elsewhere.sql");
const IS_NEEDED: &str = include_str!("../queries/day_is_needed.sql");

/// A day, counted from the epoch's.
pub(super) struct Day(i64);

/// What became of a drop.
pub(super) enum Dropped {
    /// The partitions are gone.
    Gone,
    /// Something in them is needed again, or somebody reads them for long.
    NotNow,
}

impl Day {
    /// The day that an id is of.
    pub(super) fn of(id: Uuid) -> Self {
        Self(day_of_id(id))
    }

    /// Lower than its first id.
    pub(super) fn begin(&self) -> Uuid {
        first_id(self.0)
    }

    /// Above its last id.
    pub(super) fn end(&self) -> Uuid {
        first_id(self.0 + 1)
    }

    fn partition(&self, table: &str) -> String {
        format!("{table}_{}", self.0)
    }

    /// Whether a table has a partition for it.
    pub(super) async fn has(&self, reader: &Reader, table: &str) -> Outcome<bool> {
        Ok(reader.query_opt(EXISTS, &[&self.partition(table)]).await?.is_some())
    }

    /// How many pages its partition of a table has: none if there is no such partition.
    pub(super) async fn pages(&self, reader: &Reader, table: &str) -> Outcome<i64> {
        let pages: Option<i64> = reader.query_one(PAGES, &[&self.partition(table)]).await?.value("pages")?;
        Ok(pages.unwrap_or(0))
    }

    /// Asks about some pages of its deliveries.
    pub(super) async fn query_pages(&self, reader: &Reader, sql: &str, pages: &Range<i64>, parameters: Params<'_>) -> Outcome<Vec<Row>> {
        let sql = sql
            .replace("{deliveries}", &self.partition("deliveries"))
            .replace("{page}", &pages.start.to_string())
            .replace("{until}", &pages.end.to_string());
        reader.query_once(&sql, parameters).await
    }

    /// Some of its events whose deliveries are of other days: they waited in a node's spool, or midnight came between.
    pub(super) async fn delivered_elsewhere(&self, reader: &Reader, limit: i64) -> Outcome<Vec<Row>> {
        reader.query_once(&self.elsewhere(), &[&limit]).await
    }

    /// The next of its events after an id.
    pub(super) async fn next_events(&self, reader: &Reader, after: Uuid, limit: i64) -> Outcome<Vec<Row>> {
        reader.query_once(&NEXT_EVENTS.replace("{events}", &self.partition("events")), &[&after, &limit]).await
    }

    fn elsewhere(&self) -> String {
        let (begin, end) = (self.begin().to_string(), self.end().to_string());
        ELSEWHERE.replace("{events}", &self.partition("events")).replace("{begin}", &begin).replace("{end}", &end)
    }

    /// How many of its deliveries are open and how often they were tried, in one number: while it stays the same, none has ended or been tried.
    pub(super) async fn mark(&self, reader: &Reader) -> Outcome<i64> {
        mark_of_row(&reader.query_one(OPEN_MARK, &[&self.begin(), &self.end()]).await?)
    }
}

/// Deliveries only end, and attempts of one that is open only grow: neither sum comes back to what it was while the other stays.
fn mark_of_row(row: &Row) -> Outcome<i64> {
    let (deliveries, attempts): (i64, i64) = (row.value("deliveries")?, row.value("attempts")?);
    Ok(deliveries.wrapping_shl(32).wrapping_add(attempts))
}

/// Drops the day's events, unless one of them came to be needed, by a delivery that was made later or by an operation, or one came out of a spool. None
/// of it can happen any more once what they would write to is locked; whoever has read an event to do so holds up the drop, and is waited for in the
/// next pass.
pub(super) async fn drop_events(store: &PostgresStore, day: &Day, before: i64) -> Outcome<Dropped> {
    let mut connection = store.connection().await?;
    let tx = Tx::begin(&mut connection).await?;
    let events = day.partition("events");
    let dropping = async {
        tx.run(PATIENCE).await?;
        tx.run(&format!("LOCK TABLE made_later, operation_items, erasure_items, {events} IN SHARE MODE")).await?;
        if !tx.query_once(&day.elsewhere(), &[&1_i64]).await?.is_empty() {
            return Ok(false);
        }
        let needed = tx.query_once(&IS_NEEDED.replace("{events}", &events), &[&day.begin(), &day.end(), &before]).await?;
        if needed.first().map(|row| row.value("is_needed")).transpose()? != Some(false) {
            return Ok(false);
        }
        tx.run(&format!("DROP TABLE {events}")).await?;
        Ok(true)
    };
    let dropped = dropping.await;
    finish(tx, &events, dropped).await
}

/// Drops partitions of the day that hold what has ended, unless something of it has ended or was tried since the mark.
pub(super) async fn drop_rest(store: &PostgresStore, day: &Day, tables: &[&str], mark: i64) -> Outcome<Dropped> {
    let reader = store.reader().await?;
    let mut dropped = Vec::new();
    let mut locked = Vec::new();
    for table in ["deliveries", "attempts"] {
        if day.has(&reader, table).await? {
            locked.push(day.partition(table));
            dropped.extend(tables.contains(&table).then(|| day.partition(table)));
        }
    }
    drop(reader);
    if dropped.is_empty() {
        return Ok(Dropped::Gone);
    }
    let mut connection = store.connection().await?;
    let tx = Tx::begin(&mut connection).await?;
    let dropping = async {
        tx.run(PATIENCE).await?;
        // Whoever would end or try a delivery of the day waits from here on.
        tx.run(&format!("LOCK TABLE {} IN SHARE MODE", locked.join(", "))).await?;
        if mark_of_row(&tx.query_one(OPEN_MARK, &[&day.begin(), &day.end()]).await?)? != mark {
            return Ok(false);
        }
        tx.run(&format!("DROP TABLE {}", dropped.join(", "))).await?;
        Ok(true)
    };
    let outcome = dropping.await;
    finish(tx, &dropped.join(", "), outcome).await
}

async fn finish(tx: Tx<'_>, partitions: &str, dropped: Outcome<bool>) -> Outcome<Dropped> {
    match dropped {
        Ok(true) => {
            tx.commit().await?;
            tracing::info!(partitions, "dropped the expired partitions {partitions}");
            Ok(Dropped::Gone)
        }
        Ok(false) => Ok(Dropped::NotNow),
        Err(fault) if fault.is_impatience() => {
            tracing::debug!(partitions, "the partition is in use; it is dropped in a later pass");
            Ok(Dropped::NotNow)
        }
        Err(fault) => Err(fault),
    }
}
