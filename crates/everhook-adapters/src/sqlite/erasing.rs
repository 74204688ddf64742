//! Removes an event's data, and everything that repeats it, in as many commits as its deliveries take.
//!
//! The first commit removes the data and as many deliveries' answers as fit, and keeps a note if there are more; each further commit does one stretch. A
//! crash in between leaves the note, and the next opening completes it before anything else is done. Called by `event_store` and `operations`.
//!
//! What is removed is overwritten with zeros, not only unlinked: see decision 0021 for what that does and does not promise.

use std::sync::Arc;

use everhook_core::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OrganizationId},
    model::{CancelCause, DeadLetterStatus},
    ports::{Erased, Erasure, FreedInLane, StoreError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use uuid::Uuid;

use super::{
    audit_log,
    fault::Outcome,
    finishing::{self, Remainder},
    ordering,
    rows::{Columns, Key},
    settling,
    spelling::{HELD, PARKED, WAITING},
    transaction::Tx,
    writer::Writer,
};

const EVENT: &str = include_str!("queries/event_to_erase.sql");
const ERASE_EVENT: &str = include_str!("queries/erase_event.sql");
const ERASE_PAYLOAD: &str = include_str!("queries/erase_payload.sql");
const ERASE_EXTRAS: &str = include_str!("queries/erase_extras.sql");
const ERASE_RECEIVED: &str = include_str!("queries/erase_received.sql");
const ERASE_FINGERPRINT: &str = include_str!("queries/erase_fingerprint.sql");
const ERASE_JOB: &str = include_str!("queries/erase_job.sql");
const FORGET_FANOUT: &str = include_str!("queries/forget_fanout.sql");
const DELIVERIES: &str = include_str!("queries/deliveries_of_event.sql");
const CANCEL: &str = include_str!("queries/cancel_delivery.sql");
const ERASE_ORDER_KEY: &str = include_str!("queries/erase_order_key.sql");
const ERASE_RESPONSES: &str = include_str!("queries/erase_responses.sql");
const DISCARD: &str = include_str!("queries/discard_dead_letter_of.sql");
const KEEP_UNFINISHED: &str = include_str!("queries/keep_unfinished_erasure.sql");
const NEXT_UNFINISHED: &str = include_str!("queries/next_unfinished_erasure.sql");
const FORGET_UNFINISHED: &str = include_str!("queries/forget_unfinished_erasure.sql");

/// How many deliveries one commit does: each has a few attempts, and may free another.
pub(super) const DELIVERIES_A_STEP: usize = 400;
/// About how many rows that writes.
pub(super) const ROWS_A_STEP: usize = 2_000;

/// What a commit did about an event.
pub(super) enum Begun {
    /// It is not there.
    NotFound,
    /// It was erased before.
    Before {
        /// Whether deliveries are left for further commits.
        is_unfinished: bool,
    },
    /// Its data is gone.
    Erased(Step),
}

/// What was done about some deliveries of an event.
pub(super) struct Step {
    /// How many deliveries were looked at.
    pub(super) looked_at: usize,
    /// Whether some are left for further commits.
    pub(super) is_unfinished: bool,
    /// What was held behind them and waits now.
    pub(super) freed: Vec<FreedInLane>,
}

/// Erases one event and returns after the last commit.
pub(super) async fn erase(writer: &Arc<Writer>, erasure: Erasure) -> Result<Erased, StoreError> {
    let Erasure { organization, event, at, entry } = erasure;
    let begin = move |tx: &mut Tx<'_>| {
        let begun = begin(tx, Some(organization), event, at, DELIVERIES_A_STEP)?;
        if matches!(begun, Begun::Erased(_)) {
            audit_log::append(tx, &entry)?;
        }
        Ok(begun)
    };
    let (mut freed, is_unfinished) = match writer.write(ROWS_A_STEP, begin).await? {
        Begun::NotFound => return Ok(Erased::NotFound),
        Begun::Before { is_unfinished } => (Vec::new(), is_unfinished),
        Begun::Erased(step) => (step.freed, step.is_unfinished),
    };
    if is_unfinished {
        freed.extend(finish(writer, event).await?);
    }
    Ok(Erased::Erased(freed))
}

/// Removes an event's data and does its first deliveries.
pub(super) fn begin(tx: &Tx<'_>, of: Option<OrganizationId>, event: EventId, at: Timestamp, limit: usize) -> Outcome<Begun> {
    let found = |row: &Row<'_>| Ok((row.get::<_, i64>("payload")?, row.instant_opt("erased_at")?));
    let parameters = params![event.key(), of.as_ref().map(OrganizationId::key)];
    let (payload, before) = match tx.prepare(EVENT)?.query_row(parameters, found).optional()? {
        None => return Ok(Begun::NotFound),
        Some(found) => found,
    };
    if before.is_some() {
        return Ok(Begun::Before { is_unfinished: unfinished(tx, Some(event))?.is_some() });
    }
    overwriting(tx, |tx| {
        tx.prepare(ERASE_PAYLOAD)?.execute(params![payload, event.key()])?;
        tx.prepare(ERASE_EXTRAS)?.execute([event.key()])?;
        tx.prepare(ERASE_RECEIVED)?.execute([event.key()])?;
        tx.prepare(ERASE_FINGERPRINT)?.execute([event.key()])?;
        tx.prepare(ERASE_JOB)?.execute([event.key()])?;
        tx.prepare(ERASE_EVENT)?.execute(params![event.key(), at.as_micros()])?;
        // What was not made yet is not made any more.
        tx.prepare(FORGET_FANOUT)?.execute([event.key()])?;
        Ok(Begun::Erased(step(tx, &Unfinished { event, done_until: Uuid::nil(), at }, limit)?))
    })
}

/// Completes an event that was begun and returns after the last commit.
///
/// # Errors
/// [`StoreError::Unavailable`] if that takes too long; it goes on in the background.
pub(super) async fn finish(writer: &Arc<Writer>, event: EventId) -> Result<Vec<FreedInLane>, StoreError> {
    let rest = Remainder { event, rows: ROWS_A_STEP, to_be: "ended" };
    let steps = finishing::finish(writer, rest, move |tx| next_step(tx, Some(event))).await?;
    Ok(steps.into_iter().flat_map(|step| step.freed).collect())
}

/// Completes what a crash left over.
pub(super) fn resume_all(connection: &Connection) -> Outcome<()> {
    loop {
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        let done = next_step(&Tx::new(connection), None)?;
        transaction.commit()?;
        if done.is_none() {
            return Ok(());
        }
    }
}

/// An erased event that has deliveries left.
struct Unfinished {
    event: EventId,
    done_until: Uuid,
    at: Timestamp,
}

/// Does the next stretch of deliveries; `None` if nothing is left.
fn next_step(tx: &Tx<'_>, event: Option<EventId>) -> Outcome<Option<Step>> {
    match unfinished(tx, event)? {
        Some(unfinished) => Ok(Some(overwriting(tx, |tx| step(tx, &unfinished, DELIVERIES_A_STEP))?)),
        None => Ok(None),
    }
}

fn unfinished(tx: &Tx<'_>, event: Option<EventId>) -> Outcome<Option<Unfinished>> {
    let of_row = |row: &Row<'_>| Ok(Unfinished { event: row.id("event_id")?, done_until: row.id("done_until")?, at: row.instant("at")? });
    Ok(tx.prepare(NEXT_UNFINISHED)?.query_row([event.as_ref().map(EventId::key)], of_row).optional()?)
}

fn step(tx: &Tx<'_>, from: &Unfinished, limit: usize) -> Outcome<Step> {
    let deliveries = deliveries_after(tx, from, limit)?;
    let mut freed = Vec::new();
    for delivery in &deliveries {
        freed.extend(erase_delivery(tx, from, delivery)?);
    }
    // Fewer than asked for means that these were the last.
    let is_unfinished = deliveries.len() == limit;
    match deliveries.last().filter(|_| is_unfinished) {
        Some(last) => {
            tx.prepare(KEEP_UNFINISHED)?.execute(params![from.event.key(), last.id.key(), from.at.as_micros()])?;
        }
        None => {
            tx.prepare(FORGET_UNFINISHED)?.execute([from.event.key()])?;
        }
    }
    Ok(Step { looked_at: deliveries.len(), is_unfinished, freed })
}

/// A delivery of an erased event.
struct Traced {
    id: DeliveryId,
    is_open: bool,
    is_replay: bool,
    is_ordered: bool,
    attempts: u32,
    lane_id: LaneId,
    application: ApplicationId,
}

fn deliveries_after(tx: &Tx<'_>, from: &Unfinished, limit: usize) -> Outcome<Vec<Traced>> {
    let of_row = |row: &Row<'_>| {
        Ok(Traced {
            id: row.id("id")?,
            is_open: [WAITING, HELD, PARKED].contains(&row.get("stage")?),
            is_replay: row.id_opt::<DeliveryId>("replay_of")?.is_some(),
            is_ordered: row.get("ordered")?,
            attempts: row.get("attempts")?,
            lane_id: row.id("endpoint_id")?,
            application: row.id("application_id")?,
        })
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = tx.prepare(DELIVERIES)?;
    Ok(statement.query_map(params![from.event.key(), from.done_until.key(), limit], of_row)?.collect::<Result<_, _>>()?)
}

/// Ends a delivery if it is open, removes what was answered to it, and discards its dead letter: there is nothing left to bring back.
fn erase_delivery(tx: &Tx<'_>, of: &Unfinished, delivery: &Traced) -> Outcome<Option<FreedInLane>> {
    if delivery.attempts > 0 {
        tx.prepare(ERASE_RESPONSES)?.execute([delivery.id.key()])?;
    }
    let mut freed = None;
    if delivery.is_open {
        tx.prepare(CANCEL)?.execute(params![delivery.id.key(), of.at.as_micros(), CancelCause::Erased.as_str()])?;
        if delivery.is_replay {
            settling::end_retry(tx, delivery.id, DeadLetterStatus::Dead, delivery.attempts)?;
        }
        if delivery.is_ordered {
            freed = ordering::free_next(tx, delivery.id, of.at)?;
        }
    }
    if delivery.is_ordered {
        tx.prepare(ERASE_ORDER_KEY)?.execute([delivery.id.key()])?;
    }
    tx.prepare(DISCARD)?.execute(params![of.event.key(), delivery.lane_id.key()])?;
    let Traced { application, lane_id, .. } = *delivery;
    Ok(freed.map(|freed| FreedInLane { application, lane_id, freed }))
}

/// Runs `work` with everything that it removes overwritten with zeros, on pages that it frees, too. That only here, because every page that is freed is
/// then written once more; otherwise, what is removed from pages that stay is overwritten.
pub(super) fn overwriting<T>(tx: &Tx<'_>, work: impl FnOnce(&Tx<'_>) -> Outcome<T>) -> Outcome<T> {
    let connection = tx.connection();
    connection.pragma_update(None, "secure_delete", "ON")?;
    let outcome = work(tx);
    connection.pragma_update(None, "secure_delete", "FAST")?;
    tx.leave_traces();
    outcome
}
