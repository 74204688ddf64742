//! Events that outlived their day or never had one, by small deletes. An event goes with all that belongs to it in one transaction, which holds up
//! whoever would make something of it, as erasing does.

use everhook_core::{
    ids::{ApplicationId, EventId},
    ports::{Expiring, Place, Purge, Purged, RetentionClass},
};
use uuid::Uuid;

use super::{
    super::{
        PostgresStore, erasing,
        fault::Outcome,
        reader::Reader,
        rows::{Columns, Key},
        transaction::Tx,
    },
    Archived, days, expiring_event, oldest_id,
};

const KEPT_OF_AGE: &str = include_str!("../queries/kept_events_of_age.sql");
const REST_OF_AGE: &str = include_str!("../queries/rest_events_of_age.sql");
const MAY_GO: &str = include_str!("../queries/events_that_may_go.sql");
const OWNERS_OF_RECEIVED: &str = include_str!("../queries/owners_of_received_events.sql");
const DELIVERIES: &str = include_str!("../queries/deliveries_of_events.sql");
const FORGET_ATTEMPTS: &str = include_str!("../queries/forget_attempts.sql");
const FORGET_DELIVERIES: &str = include_str!("../queries/forget_deliveries.sql");
const FORGET_MADE_LATER: &str = include_str!("../queries/forget_made_later.sql");
const FORGET_ALIASES: &str = include_str!("../queries/forget_event_aliases.sql");
const FORGET_KEYS: &str = include_str!("../queries/forget_keys_of_old_events.sql");
const FORGET_EVENTS: &str = include_str!("../queries/forget_events.sql");

/// The stage of a pass that looks at events that outlived their day.
pub(super) const KEPT: u8 = 0;
/// The one that looks at those that never had one.
pub(super) const REST: u8 = 1;

/// What an event takes at the least: itself, a delivery, its attempt, its key. So many fewer events than rows are looked at in a step.
const ROWS_AN_EVENT: u32 = 4;

/// Looks at the next few events that are old enough, and removes those that may go, or their attempts. Where something is archived, what is not among it
/// stays, if it should be.
pub(super) async fn purge(store: &PostgresStore, purge: Purge, archived: Option<&Archived>) -> Outcome<Purged> {
    let ids = of_age(&store.reader().await?, purge).await?;
    let Some(last) = ids.last().copied() else { return Ok(Purged { removed: 0, next: Some(after(purge.from.stage)) }) };
    let removed = remove(store, &ids, purge, archived).await?;
    Ok(Purged { removed, next: Some(Place { id: last, ..purge.from }) })
}

/// Which of the next few events may go and came through a source.
pub(super) async fn expiring(store: &PostgresStore, purge: Purge) -> Outcome<Vec<Expiring>> {
    let reader = store.reader().await?;
    let ids = of_age(&reader, purge).await?;
    let found = reader.query(MAY_GO, &[&ids, &purge.before.as_micros()]).await?;
    let ids: Vec<Uuid> = found.iter().map(|row| row.value("id")).collect::<Outcome<_>>()?;
    reader.query(OWNERS_OF_RECEIVED, &[&ids]).await?.iter().map(expiring_event).collect()
}

/// Where a pass goes on when a stage is through.
fn after(stage: u8) -> Place {
    let next = if stage == KEPT { REST } else { days::FIRST };
    Place { stage: next, ..Place::default() }
}

async fn of_age(reader: &Reader, purge: Purge) -> Outcome<Vec<Uuid>> {
    let sql = if purge.from.stage == KEPT { KEPT_OF_AGE } else { REST_OF_AGE };
    let wanted = i64::from((purge.limit / ROWS_AN_EVENT).max(1));
    reader.query(sql, &[&purge.from.id, &oldest_id(purge), &wanted]).await?.iter().map(|row| row.value("id")).collect()
}

async fn remove(store: &PostgresStore, ids: &[Uuid], purge: Purge, archived: Option<&Archived>) -> Outcome<u32> {
    let before = purge.before.as_micros();
    let mut connection = store.connection().await?;
    let tx = Tx::begin(&mut connection).await?;
    // One event may have as many deliveries as there are endpoints.
    tx.take_longer().await?;
    // Most of what is kept stays for long: they are looked at without a lock first.
    let found = tx.query(MAY_GO, &[&ids, &before]).await?;
    if found.is_empty() {
        return Ok(0);
    }
    let mut applications: Vec<ApplicationId> = found.iter().map(|row| row.id("application_id")).collect::<Outcome<_>>()?;
    applications.sort_unstable();
    applications.dedup();
    let ids: Vec<Uuid> = found.iter().map(|row| row.value("id")).collect::<Outcome<_>>()?;
    tx.lock_counters(&applications).await?;
    // Somebody may have brought one back meanwhile.
    let mut events = tx.query(MAY_GO, &[&ids, &before]).await?.iter().map(|row| row.id("id")).collect::<Outcome<Vec<EventId>>>()?;
    if let Some(archived) = archived {
        let missing: Vec<Uuid> = events.iter().map(Key::key).filter(|id| !archived.contains(id)).collect();
        let missing = tx.query(OWNERS_OF_RECEIVED, &[&missing]).await?;
        let missing = missing.iter().map(|row| row.id("id")).collect::<Outcome<Vec<EventId>>>()?;
        events.retain(|event| !missing.contains(event));
    }
    let removed = match purge.what {
        RetentionClass::Attempts => forget_attempts(&tx, &events).await?,
        _ => forget_events(&tx, &events).await?,
    };
    tx.commit().await?;
    Ok(removed)
}

async fn forget_attempts(tx: &Tx<'_>, events: &[EventId]) -> Outcome<u32> {
    let (_, ids) = deliveries_of(tx, events).await?;
    Ok(u32::try_from(tx.execute(FORGET_ATTEMPTS, &[&ids]).await?).unwrap_or(u32::MAX))
}

async fn forget_events(tx: &Tx<'_>, events: &[EventId]) -> Outcome<u32> {
    let (lanes, ids) = deliveries_of(tx, events).await?;
    let events = erasing::keys(events);
    tx.execute(FORGET_ATTEMPTS, &[&ids]).await?;
    tx.execute(FORGET_DELIVERIES, &[&lanes, &ids]).await?;
    tx.execute(FORGET_MADE_LATER, &[&events]).await?;
    tx.execute(FORGET_KEYS, &[&events]).await?;
    tx.execute(FORGET_ALIASES, &[&events]).await?;
    Ok(u32::try_from(tx.execute(FORGET_EVENTS, &[&events]).await?).unwrap_or(u32::MAX))
}

/// All deliveries of events: their lanes and ids.
async fn deliveries_of(tx: &Tx<'_>, events: &[EventId]) -> Outcome<(Vec<i64>, Vec<Uuid>)> {
    let events: Vec<Uuid> = events.iter().map(Key::key).collect();
    let (mut lanes, mut ids) = (Vec::new(), Vec::new());
    for row in tx.query(DELIVERIES, &[&events]).await? {
        lanes.push(row.value("lane")?);
        ids.push(row.value("id")?);
    }
    Ok((lanes, ids))
}
