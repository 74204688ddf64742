//! Events, deliveries and attempts, a day at a time: what is needed is moved out of the day's partitions, and then these are dropped.
//!
//! ```text
//!   KeepNeeded ──► KeepLate ──► KeepElsewhere ──► DropEvents ──► ForgetLater ──► Mark ──► Sweep ──► KeepKept ──► KeepOpen ──► DropRest
//!   events that something       those with        events are     notes on what   what     deliver-  attempts of those,      deliveries
//!   needs are moved             deliveries of     gone           is gone         is open  ies of    and of open ones        and attempts
//!                               other days too                                            what stayed
//! ```
//!
//! Where there is an archive, `Archive` comes before `DropEvents`: all that is still in the partition then is about to go, and those that came through a
//! source are read from it in the order of their ids.
//!
//! Each box is steps of one small transaction. Nothing is remembered between them but the place, so that a crash anywhere begins the day again, and
//! what was moved stays moved. What can come to be needed meanwhile is looked at once more in the transaction that drops, under locks that hold it up.

use everhook_core::ports::{Expiring, Place, Purge, Purged, RetentionClass};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        PostgresStore,
        fault::{Fault, Outcome},
        partitions::{day_of, first_id},
        reader::Reader,
        rows::{Columns, Params},
        transaction::Tx,
    },
    Archived, expiring_event,
    partition::{self, Day, Dropped},
};

const PARTITIONS: &str = include_str!("../queries/partitions.sql");
const NEEDED: &str = include_str!("../queries/events_needed.sql");
const KEEP_EVENTS: &str = include_str!("../queries/keep_events.sql");
const KEEP_DELIVERIES: &str = include_str!("../queries/keep_deliveries.sql");
const KEEP_ATTEMPTS: &str = include_str!("../queries/keep_attempts.sql");
const KEPT_OF_DAY: &str = include_str!("../queries/kept_deliveries_of_day.sql");
const OPEN_OF_DAY: &str = include_str!("../queries/open_deliveries_of_day.sql");
const FORGET_MADE_LATER: &str = include_str!("../queries/forget_made_later_of_day.sql");
const FORGET_ALIASES: &str = include_str!("../queries/forget_event_aliases_of_day.sql");
const LATE_ENDS: &str = include_str!("../queries/late_ends.sql");
const OF_EVENTS_THAT_STAY: &str = include_str!("../queries/deliveries_of_events_that_stay.sql");
const SIBLINGS: &str = include_str!("../queries/siblings_of_events.sql");
const WITH_KEPT_ATTEMPTS: &str = include_str!("../queries/deliveries_with_kept_attempts.sql");

/// Where a pass over days begins: with the first one at or after the place.
pub(super) const FIRST: u8 = Stage::FindDay as u8;

/// How many pages of a partition a step reads: a megabyte, with some thousand deliveries.
const PAGES_A_STEP: i64 = 128;

/// What a step does. The numbers are those of places, and follow on those of `events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    FindDay = 2,
    KeepNeeded,
    KeepLate,
    KeepElsewhere,
    DropEvents,
    ForgetLater,
    Mark,
    Sweep,
    KeepKept,
    KeepOpen,
    DropRest,
    /// Where a pass over attempts ends, and the next one begins.
    Through,
    /// Between [`Stage::KeepElsewhere`] and [`Stage::DropEvents`].
    Archive,
}

impl Stage {
    const ALL: [Self; 13] = [
        Self::FindDay,
        Self::KeepNeeded,
        Self::KeepLate,
        Self::KeepElsewhere,
        Self::DropEvents,
        Self::ForgetLater,
        Self::Mark,
        Self::Sweep,
        Self::KeepKept,
        Self::KeepOpen,
        Self::DropRest,
        Self::Through,
        Self::Archive,
    ];
}

impl TryFrom<u8> for Stage {
    type Error = Fault;

    /// Refuses a place that this store never gave: to guess could drop what is needed.
    fn try_from(number: u8) -> Outcome<Self> {
        let unknown = || Fault::Impossible(format!("retention has no stage {number}"));
        Self::ALL.into_iter().find(|stage| *stage as u8 == number).ok_or_else(unknown)
    }
}

/// Which events of the next step came through a source: some only where the step is one of `Archive`.
pub(super) async fn expiring(store: &PostgresStore, purge: Purge) -> Outcome<Vec<Expiring>> {
    let step = Step { store, purge, day: Day::of(purge.from.id) };
    if Stage::try_from(purge.from.stage)? != Stage::Archive {
        return Ok(Vec::new());
    }
    let mut found = step.next_events().await?;
    found.retain(is_received);
    found.iter().map(expiring_event).collect()
}

/// One step.
pub(super) async fn purge(store: &PostgresStore, purge: Purge, archived: Option<&Archived>) -> Outcome<Purged> {
    let step = Step { store, purge, day: Day::of(purge.from.id) };
    let next = match Stage::try_from(purge.from.stage)? {
        Stage::FindDay => step.find_day().await?.or(step.end()),
        Stage::Through => step.begin_again(),
        Stage::KeepNeeded => Some(step.keep_needed().await?),
        Stage::KeepLate => Some(step.keep_late().await?),
        Stage::KeepElsewhere => Some(step.keep_delivered_elsewhere().await?),
        Stage::Archive => Some(step.pass_archived(archived).await?),
        Stage::DropEvents => Some(step.drop_events().await?),
        Stage::ForgetLater => Some(step.forget_later().await?),
        Stage::Mark => Some(step.mark().await?),
        Stage::Sweep => Some(step.sweep().await?),
        Stage::KeepKept => Some(step.keep_attempts_of_kept().await?),
        Stage::KeepOpen => Some(step.keep_attempts_of_open().await?),
        Stage::DropRest => Some(step.drop_rest().await?),
    };
    Ok(Purged { removed: 0, next })
}

struct Step<'s> {
    store: &'s PostgresStore,
    purge: Purge,
    day: Day,
}

impl Step<'_> {
    /// The first day from the place on that has partitions to drop and ended before what may go.
    async fn find_day(&self) -> Outcome<Option<Place>> {
        let names = self.reader().await?.query(PARTITIONS, &[]).await?;
        let names = names.iter().map(|row| row.value("name")).collect::<Outcome<Vec<&str>>>()?;
        let wanted = |table: &str| self.purge.what == RetentionClass::Events || table == "attempts";
        let day = |name: &str| {
            let (table, number) = name.split_once('_')?;
            number.parse::<i64>().ok().filter(|_| wanted(table))
        };
        // A day is over when the next one has begun.
        let is_old = |day: &i64| *day < day_of(self.purge.before) && first_id(*day) >= self.purge.from.id;
        let first = names.into_iter().filter_map(day).filter(is_old).min();
        let stage = if self.purge.what == RetentionClass::Events { Stage::KeepNeeded } else { Stage::Mark };
        Ok(first.map(|day| Place { stage: stage as u8, id: first_id(day), ..Place::default() }))
    }

    /// Where the next pass begins, if it goes on from there: one over attempts does. It remembers which pass has ended.
    fn end(&self) -> Option<Place> {
        (self.purge.what == RetentionClass::Attempts).then(|| Place {
            stage: Stage::Through as u8,
            mark: self.before(),
            ..Place::default()
        })
    }

    /// The end of a pass; for the next one, which removes what is older than something later, the first day: one may be left that could not be dropped.
    fn begin_again(&self) -> Option<Place> {
        (self.purge.from.mark != self.before()).then(|| Place { stage: FIRST, ..Place::default() })
    }

    /// Moves events that a dead letter, an open delivery, something that was done again, or an operation needs.
    async fn keep_needed(&self) -> Outcome<Place> {
        if !self.day.has(&self.reader().await?, "events").await? {
            return Ok(self.at(Stage::ForgetLater));
        }
        let (begin, end) = (self.day.begin(), self.day.end());
        let parameters: Params<'_> = &[&self.purge.from.id, &end, &self.before(), &self.limit(), &begin];
        let mut connection = self.store.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        // Every lane is looked at.
        tx.take_longer().await?;
        let needed = ids(&tx.query(NEEDED, parameters).await?, "event_id")?;
        tx.execute(KEEP_EVENTS, &[&needed]).await?;
        tx.commit().await?;
        Ok(self.after(&needed, Stage::KeepLate))
    }

    /// Moves events whose deliveries ended too late, some pages at a time. After [`Self::keep_needed`]: what was open then is moved already,
    /// and what had ended is in these pages.
    async fn keep_late(&self) -> Outcome<Place> {
        let Some(pages) = self.pages().await? else { return Ok(self.at(Stage::KeepElsewhere)) };
        let late = self.day.query_pages(&self.reader().await?, LATE_ENDS, &pages, &[&self.before()]).await?;
        self.keep_events(&ids(&late, "event_id")?).await?;
        Ok(self.beyond(pages.end, Stage::KeepLate))
    }

    /// Moves events whose deliveries are of other days, needed or not: what became of those is not in this day's partitions. The next pass judges
    /// them one by one. What was moved is not found again, so that each step finds others.
    async fn keep_delivered_elsewhere(&self) -> Outcome<Place> {
        let found = self.day.delivered_elsewhere(&self.reader().await?, self.limit()).await?;
        self.keep_events(&ids(&found, "id")?).await?;
        let is_full = found.len() as u64 >= u64::from(self.purge.limit);
        Ok(self.at(if is_full { Stage::KeepElsewhere } else { Stage::Archive }))
    }

    /// Goes past the next events once those that came through a source are archived. One that is not is looked at again: it has come there meanwhile.
    async fn pass_archived(&self, archived: Option<&Archived>) -> Outcome<Place> {
        let Some(archived) = archived else { return Ok(self.at(Stage::DropEvents)) };
        let found = self.next_events().await?;
        for row in found.iter().filter(|row| is_received(row)) {
            if !archived.contains(&row.value::<Uuid>("id")?) {
                return Ok(self.purge.from);
            }
        }
        match found.last() {
            Some(last) => Ok(Place { id: last.value("id")?, ..self.purge.from }),
            None => Ok(self.at(Stage::DropEvents)),
        }
    }

    /// The next events that are in the day's partition; none if it is not there.
    async fn next_events(&self) -> Outcome<Vec<Row>> {
        let reader = self.reader().await?;
        if !self.day.has(&reader, "events").await? {
            return Ok(Vec::new());
        }
        self.day.next_events(&reader, self.purge.from.id, self.limit()).await
    }

    async fn drop_events(&self) -> Outcome<Place> {
        match partition::drop_events(self.store, &self.day, self.before()).await? {
            Dropped::Gone => Ok(self.at(Stage::ForgetLater)),
            Dropped::NotNow => Ok(self.next_day()),
        }
    }

    /// Forgets what was made later of events that are gone, and their other ids.
    async fn forget_later(&self) -> Outcome<Place> {
        let reader = self.reader().await?;
        for sql in [FORGET_MADE_LATER, FORGET_ALIASES] {
            let forgotten = reader.execute(sql, &[&self.day.begin(), &self.day.end(), &self.limit()]).await?;
            if forgotten == u64::from(self.purge.limit) {
                return Ok(self.at(Stage::ForgetLater));
            }
        }
        Ok(self.at(Stage::Mark))
    }

    /// Remembers what is open of the day: as long as that does not change, nobody adds to its partitions.
    async fn mark(&self) -> Outcome<Place> {
        let mark = self.day.mark(&self.reader().await?).await?;
        Ok(Place { mark, ..self.at(Stage::Sweep) })
    }

    /// Moves deliveries of events that stayed; or, if attempts go before their events, the attempts of deliveries that still need them.
    async fn sweep(&self) -> Outcome<Place> {
        let Some(pages) = self.pages().await? else { return Ok(self.at(Stage::KeepKept)) };
        let reader = self.reader().await?;
        if self.purge.what == RetentionClass::Attempts {
            let found = self.day.query_pages(&reader, WITH_KEPT_ATTEMPTS, &pages, &[&self.before()]).await?;
            self.keep_attempts(&ids(&found, "id")?).await?;
            let is_late = found.iter().map(|row| row.value("ended_late")).collect::<Outcome<Vec<bool>>>()?;
            self.keep_attempts_of_siblings(found.iter().zip(is_late).filter_map(|(row, is_late)| is_late.then_some(row))).await?;
        } else {
            let found = self.day.query_pages(&reader, OF_EVENTS_THAT_STAY, &pages, &[]).await?;
            let lanes = found.iter().map(|row| row.value("lane")).collect::<Outcome<Vec<i64>>>()?;
            let ids = ids(&found, "id")?;
            if !ids.is_empty() {
                reader.execute(KEEP_DELIVERIES, &[&lanes, &ids]).await?;
            }
        }
        Ok(self.beyond(pages.end, Stage::Sweep))
    }

    async fn keep_attempts_of_kept(&self) -> Outcome<Place> {
        let kept = self.reader().await?.query(KEPT_OF_DAY, &[&self.purge.from.id, &self.day.end(), &self.limit()]).await?;
        let kept = ids(&kept, "id")?;
        self.keep_attempts(&kept).await?;
        Ok(self.after(&kept, Stage::KeepOpen))
    }

    async fn keep_attempts_of_open(&self) -> Outcome<Place> {
        let open = self.reader().await?.query(OPEN_OF_DAY, &[&self.purge.from.id, &self.day.end(), &self.limit()]).await?;
        if self.purge.what == RetentionClass::Attempts {
            self.keep_attempts_of_siblings(&open).await?;
        }
        let open = ids(&open, "id")?;
        self.keep_attempts(&open).await?;
        Ok(self.after(&open, Stage::DropRest))
    }

    async fn drop_rest(&self) -> Outcome<Place> {
        let tables: &[&str] = if self.purge.what == RetentionClass::Events { &["deliveries", "attempts"] } else { &["attempts"] };
        partition::drop_rest(self.store, &self.day, tables, self.purge.from.mark).await?;
        Ok(self.next_day())
    }

    async fn keep_events(&self, events: &[Uuid]) -> Outcome<()> {
        if !events.is_empty() {
            self.reader().await?.execute(KEEP_EVENTS, &[&events]).await?;
        }
        Ok(())
    }

    async fn keep_attempts(&self, deliveries: &[Uuid]) -> Outcome<()> {
        if !deliveries.is_empty() {
            self.reader().await?.execute(KEEP_ATTEMPTS, &[&deliveries]).await?;
        }
        Ok(())
    }

    /// Moves the attempts of all deliveries that were made together with some: an event's attempts stay until its last delivery has ended long ago.
    async fn keep_attempts_of_siblings(&self, deliveries: impl IntoIterator<Item = &Row>) -> Outcome<()> {
        let mut events = deliveries.into_iter().map(|row| row.value("event_id")).collect::<Outcome<Vec<Uuid>>>()?;
        events.sort_unstable();
        events.dedup();
        for events in events.chunks(self.purge.limit.max(1) as usize) {
            let mut connection = self.store.connection().await?;
            let tx = Tx::begin(&mut connection).await?;
            // Every lane of their applications is looked at.
            tx.take_longer().await?;
            let siblings = ids(&tx.query(SIBLINGS, &[&events]).await?, "id")?;
            tx.execute(KEEP_ATTEMPTS, &[&siblings]).await?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// The next pages of the day's deliveries; `None` at their end.
    async fn pages(&self) -> Outcome<Option<std::ops::Range<i64>>> {
        let count = self.day.pages(&self.reader().await?, "deliveries").await?;
        let from = self.purge.from.offset;
        Ok((from < count).then_some(from..from + PAGES_A_STEP))
    }

    /// At another stage of the same day.
    fn at(&self, stage: Stage) -> Place {
        Place { stage: stage as u8, id: self.day.begin(), offset: 0, ..self.purge.from }
    }

    /// Some pages on.
    fn beyond(&self, page: i64, stage: Stage) -> Place {
        Place { stage: stage as u8, offset: page, ..self.purge.from }
    }

    /// Behind the last of the ids that were found; at the next stage if they were the last.
    fn after(&self, found: &[Uuid], next: Stage) -> Place {
        match found.last() {
            Some(last) if i64::try_from(found.len()).is_ok_and(|found| found >= self.limit()) => Place { id: *last, ..self.purge.from },
            _ => self.at(next),
        }
    }

    fn next_day(&self) -> Place {
        Place { stage: FIRST, id: self.day.end(), ..Place::default() }
    }

    fn before(&self) -> i64 {
        self.purge.before.as_micros()
    }

    fn limit(&self) -> i64 {
        i64::from(self.purge.limit)
    }

    async fn reader(&self) -> Outcome<Reader> {
        self.store.reader().await
    }
}

fn is_received(row: &Row) -> bool {
    row.value("is_received").unwrap_or(true)
}

fn ids(rows: &[Row], column: &str) -> Outcome<Vec<Uuid>> {
    rows.iter().map(|row| row.value(column)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::events, *};

    #[test]
    fn a_place_that_was_never_given_is_refused() {
        for number in 0..=u8::MAX {
            let is_known = (FIRST..=Stage::Archive as u8).contains(&number);
            assert_eq!(Stage::try_from(number).is_ok(), is_known, "{number}");
        }
        assert!([events::KEPT, events::REST].into_iter().all(|number| Stage::try_from(number).is_err()), "those are not of days");
    }
}
