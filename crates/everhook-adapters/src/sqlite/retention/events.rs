//! Events with all that belongs to them, and attempts that go before their events.
//!
//! What belongs to an event goes before it: attempts, then deliveries, then data, key and other ids, then the event. So a crash leaves an event with fewer
//! deliveries, never a delivery without its event; the next pass finds the event again.

use std::collections::BTreeSet;

use everhook_core::{
    ids::{DeliveryId, EventId, OrganizationId},
    ports::{Expiring, ExpiringId, Place, Purge, Purged, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::super::{
    SqliteStore,
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
};
use crate::encoding::page::first_id_at;

const OF_AGE: &str = include_str!("../queries/events_of_age.sql");
const MAY_GO: &str = include_str!("../queries/event_may_go.sql");
const OWNER_OF_RECEIVED: &str = include_str!("../queries/owner_of_received_event.sql");
const DELIVERIES: &str = include_str!("../queries/deliveries_of_event.sql");
const FORGET_ATTEMPTS: &str = include_str!("../queries/forget_attempts.sql");
const FORGET_DELIVERY: &str = include_str!("../queries/forget_delivery.sql");
const ERASE_PAYLOAD: &str = include_str!("../queries/erase_payload.sql");
const ERASE_EXTRAS: &str = include_str!("../queries/erase_extras.sql");
const FORGET_RECEIVED: &str = include_str!("../queries/forget_received.sql");
const FORGET_KEY: &str = include_str!("../queries/forget_key_of_event.sql");
const FORGET_ALIASES: &str = include_str!("../queries/forget_event_aliases.sql");
const FORGET_EVENT: &str = include_str!("../queries/forget_event.sql");

/// What an event takes at the least: itself, its data, a delivery and its attempt. So many fewer events than rows are looked at in a step.
const ROWS_AN_EVENT: u32 = 4;

/// What a look at some events found.
struct Looked {
    /// Those that may go, in order.
    gone: Vec<EventId>,
    /// The last one that was looked at; `None` if there was none.
    last: Option<Uuid>,
}

impl SqliteStore {
    /// Where something is archived, what is not among it stays, if it should be.
    pub(super) async fn purge_events(&self, purge: Purge, archived: Option<Vec<Expiring>>) -> Result<Purged, StoreError> {
        let Looked { gone, last } = self.look(purge).await?;
        let Some(last) = last else { return Ok(Purged::default()) };
        let before = purge.before;
        let archived: Option<BTreeSet<Uuid>> = archived.map(|archived| archived.iter().map(|one| *one.id.as_uuid()).collect());
        let removing = move |tx: &mut Tx<'_>| {
            let mut left = purge.limit.max(ROWS_AN_EVENT);
            let (mut done, mut stayed) = (0, 0);
            while let Some(event) = gone.get(done) {
                let is_missing = archived.as_ref().is_some_and(|archived| !archived.contains(event.as_uuid()));
                if is_missing && owner_of_received(tx.connection(), *event)?.is_some() {
                    stayed += 1;
                } else if !remove(tx, *event, before, &mut left)? {
                    break;
                }
                done += 1;
            }
            // Where the rows ran out, the next step begins with the event that has some left.
            let place = if done == gone.len() { last } else { just_before(&gone[done]) };
            Ok(Purged { removed: u32::try_from(done - stayed).unwrap_or(u32::MAX), next: Some(Place { id: place, ..purge.from }) })
        };
        self.write(purge.limit as usize, removing).await
    }

    /// Which of the next few events may go and came through a source.
    pub(super) async fn expiring_events(&self, purge: Purge) -> Result<Vec<Expiring>, StoreError> {
        let Looked { gone, .. } = self.look(purge).await?;
        let owners = move |connection: &Connection| {
            let mut expiring = Vec::new();
            for event in gone {
                let owner = owner_of_received(connection, event)?;
                expiring.extend(owner.map(|organization| Expiring { organization, id: ExpiringId::Event(event) }));
            }
            Ok(expiring)
        };
        self.read_history(owners).await
    }

    pub(super) async fn purge_attempts(&self, purge: Purge) -> Result<Purged, StoreError> {
        let Looked { gone, last } = self.look(purge).await?;
        let Some(last) = last else { return Ok(Purged::default()) };
        let mut removed = 0;
        for event in gone {
            removed += self.forget_attempts(event, purge).await?;
        }
        Ok(Purged { removed, next: Some(Place { id: last, ..purge.from }) })
    }

    /// Looks at the next few events that are old enough.
    async fn look(&self, purge: Purge) -> Result<Looked, StoreError> {
        let look = move |connection: &Connection| {
            let wanted = (purge.limit / ROWS_AN_EVENT).max(1);
            let parameters = params![purge.from.id.key(), first_id_at(purge.before), wanted];
            let ids: Vec<EventId> =
                connection.prepare_cached(OF_AGE)?.query_map(parameters, |row| row.id("id"))?.collect::<Result<_, _>>()?;
            let last = ids.last().map(|id| *id.as_uuid());
            let mut gone = Vec::new();
            for id in ids {
                if may_go(connection, id, purge.before)?.is_some() {
                    gone.push(id);
                }
            }
            Ok(Looked { gone, last })
        };
        self.read_history(look).await
    }

    /// Forgets the attempts of an event, however many deliveries it has: some in each write. Says how many went.
    async fn forget_attempts(&self, event: EventId, purge: Purge) -> Result<u32, StoreError> {
        let (mut after, mut removed) = (Uuid::nil(), 0);
        loop {
            let forgetting = move |tx: &mut Tx<'_>| {
                // Somebody may have brought it back since it was looked at.
                if may_go(tx.connection(), event, purge.before)?.is_none() {
                    return Ok((0, None));
                }
                let deliveries = deliveries_of(tx, event, after, purge.limit)?;
                let mut forgotten = 0;
                for delivery in &deliveries {
                    forgotten += tx.prepare(FORGET_ATTEMPTS)?.execute([delivery.key()])?;
                }
                let is_full = deliveries.len() == purge.limit as usize;
                Ok((u32::try_from(forgotten).unwrap_or(u32::MAX), deliveries.last().filter(|_| is_full).map(|id| *id.as_uuid())))
            };
            let (forgotten, next) = self.write(purge.limit as usize, forgetting).await?;
            removed += forgotten;
            match next {
                Some(next) => after = next,
                None => return Ok(removed),
            }
        }
    }
}

/// What must be known of an event to remove it.
struct ExpiredEvent {
    payload: i64,
    application: Uuid,
    key: Option<String>,
}

/// `None` if it must stay, or is gone.
fn may_go(connection: &Connection, event: EventId, before: Timestamp) -> Outcome<Option<ExpiredEvent>> {
    let of_row = |row: &Row<'_>| {
        Ok(ExpiredEvent { payload: row.get("payload")?, application: row.id("application_id")?, key: row.get("idempotency_key")? })
    };
    Ok(connection.prepare_cached(MAY_GO)?.query_row(params![event.key(), before.as_micros()], of_row).optional()?)
}

/// Whose an event is that came through a source; `None` if it came otherwise, or is gone.
fn owner_of_received(connection: &Connection, event: EventId) -> Outcome<Option<OrganizationId>> {
    Ok(connection.prepare_cached(OWNER_OF_RECEIVED)?.query_row([event.key()], |row| row.id("organization_id")).optional()?)
}

/// Removes an event with what belongs to it. Says `false` if that would be more rows than are left, and then some of it stays.
fn remove(tx: &Tx<'_>, event: EventId, before: Timestamp, left: &mut u32) -> Outcome<bool> {
    let Some(going) = may_go(tx.connection(), event, before)? else { return Ok(true) };
    loop {
        if *left < ROWS_AN_EVENT {
            return Ok(false);
        }
        let wanted = *left / ROWS_AN_EVENT;
        let deliveries = deliveries_of(tx, event, Uuid::nil(), wanted)?;
        for delivery in &deliveries {
            let attempts = tx.prepare(FORGET_ATTEMPTS)?.execute([delivery.key()])?;
            tx.prepare(FORGET_DELIVERY)?.execute([delivery.key()])?;
            *left = left.saturating_sub(1 + u32::try_from(attempts).unwrap_or(u32::MAX));
        }
        if deliveries.len() < wanted as usize {
            break;
        }
    }
    tx.prepare(ERASE_PAYLOAD)?.execute(params![going.payload, event.key()])?;
    tx.prepare(ERASE_EXTRAS)?.execute([event.key()])?;
    tx.prepare(FORGET_RECEIVED)?.execute([event.key()])?;
    if let Some(key) = going.key {
        tx.prepare(FORGET_KEY)?.execute(params![going.application.key(), key, event.key()])?;
    }
    // A node's spool gives one in each outage at most, so that they are few.
    tx.prepare(FORGET_ALIASES)?.execute([event.key()])?;
    tx.prepare(FORGET_EVENT)?.execute([event.key()])?;
    *left = left.saturating_sub(2);
    Ok(true)
}

fn deliveries_of(tx: &Tx<'_>, event: EventId, after: Uuid, limit: u32) -> Outcome<Vec<DeliveryId>> {
    let mut statement = tx.prepare(DELIVERIES)?;
    Ok(statement.query_map(params![event.key(), after.key(), limit], |row| row.id("id"))?.collect::<Result<_, _>>()?)
}

/// The id before this one.
fn just_before(event: &EventId) -> Uuid {
    Uuid::from_u128(event.as_uuid().as_u128().saturating_sub(1))
}
