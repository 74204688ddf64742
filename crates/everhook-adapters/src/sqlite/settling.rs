//! What one settlement writes: the attempt, the delivery's next stage, and everything that follows from it.

use everhook_core::{
    ids::DeliveryId,
    model::{Attempt, DeadLetter, DeadLetterStatus, DeathCause, FailureCategory, RetryAfter, Stage},
    ports::{AlertFacts, Disabling, Freed, Settled, Settlement},
    time::Timestamp,
};
use rusqlite::{OptionalExtension, params};

use super::{
    audit_log,
    fault::{Fault, Outcome},
    ordering, outbox, parking, response_headers,
    rows::{Columns, Key, micros},
    spelling::{attempt_status_number, breaker_number, cut_number, settled_columns},
    transaction::Tx,
};

const SETTLE_DELIVERY: &str = include_str!("queries/settle_delivery.sql");
const INSERT_ATTEMPT: &str = include_str!("queries/insert_attempt.sql");
const BURY_DELIVERY: &str = include_str!("queries/bury_delivery.sql");
const END_RETRY: &str = include_str!("queries/end_retry_of_dead_letter.sql");
const DISABLE_ENDPOINT: &str = include_str!("queries/disable_endpoint.sql");
const DIED_AUTOMATICALLY: &str = include_str!("queries/died_automatically.sql");
const IS_ERASED: &str = include_str!("queries/delivery_is_erased.sql");

/// Writes settlements; the answers are in the order given.
///
/// They are written in the order of their deliveries, which rows and pages are in as well: attempts are then appended, where in the order of landing
/// they would be put between each other and leave half-filled pages behind.
pub(super) fn settle_all(tx: &mut Tx<'_>, settlements: &[Settlement]) -> Outcome<Vec<Settled>> {
    let mut places: Vec<usize> = (0..settlements.len()).collect();
    places.sort_by_key(|place| settlements[*place].delivery);
    let mut answers: Vec<Settled> = settlements.iter().map(|_| Settled::Stale).collect();
    for place in places {
        answers[place] = settle(tx, &settlements[place])?;
    }
    Ok(answers)
}

/// Writes one settlement, or nothing if the delivery had moved on.
fn settle(tx: &mut Tx<'_>, settlement: &Settlement) -> Outcome<Settled> {
    if !move_on(tx, settlement)? {
        apply_gone(tx, settlement)?;
        return Ok(Settled::Stale);
    }
    insert_attempt(tx, settlement.delivery, &settlement.attempt)?;
    parking::park(tx, settlement)?;
    if let Stage::Dead { at, cause } = settlement.stage {
        record_deaths(tx, settlement, Death { at, cause })?;
    }
    if let Some(status) = settlement.end_of_retry() {
        end_retry(tx, settlement.delivery, status, settlement.attempt.number)?;
    }
    let freed = free_next(tx, settlement)?;
    let facts = AlertFacts {
        disabled_by_this: match &settlement.disables {
            Some(disabling) => disable(tx, settlement, disabling)?,
            None => false,
        },
        automatic_replay: settlement.asks_for_origin()
            && tx.prepare(DIED_AUTOMATICALLY)?.query_row([settlement.delivery.key()], |row| row.get(0))?,
    };
    settlement.alerts_given(facts).try_for_each(|alert| outbox::keep(tx, alert))?;
    Ok(Settled::Recorded { freed })
}

/// An endpoint that says it is gone means it, also if the event of that request was erased meanwhile.
fn apply_gone(tx: &mut Tx<'_>, settlement: &Settlement) -> Outcome<()> {
    let Some(disabling) = &settlement.disables else { return Ok(()) };
    let is_erased = tx.prepare(IS_ERASED)?.query_row([settlement.delivery.key()], |row| row.get(0))?;
    if is_erased && disable(tx, settlement, disabling)? {
        settlement.alerts_of_disabling().try_for_each(|alert| outbox::keep(tx, alert))?;
    }
    Ok(())
}

/// What was held behind a delivery waits once it has ended.
fn free_next(tx: &Tx<'_>, settlement: &Settlement) -> Outcome<Option<Box<Freed>>> {
    if !settlement.frees_next() {
        return Ok(None);
    }
    Ok(ordering::free_next(tx, settlement.delivery, settlement.settled_at())?.map(Box::new))
}

/// Notes on a dead letter, if there is one, that the delivery which brought it back has ended, after so many attempts.
pub(super) fn end_retry(tx: &Tx<'_>, delivery: DeliveryId, status: DeadLetterStatus, attempts: u32) -> Outcome<()> {
    tx.prepare(END_RETRY)?.execute(params![delivery.key(), status.as_str(), attempts])?;
    Ok(())
}

/// Says whether the delivery waited for this attempt as its next.
fn move_on(tx: &mut Tx<'_>, settlement: &Settlement) -> Outcome<bool> {
    let stage = settled_columns(settlement);
    let moved = tx.hot(SETTLE_DELIVERY)?.execute(params![
        settlement.delivery.key(),
        settlement.attempt.number,
        stage.stage,
        stage.due_at,
        stage.ended_at,
        stage.cause,
        settlement.attempt.failure_category.map(FailureCategory::as_str),
    ])?;
    Ok(moved > 0)
}

fn insert_attempt(tx: &mut Tx<'_>, delivery: DeliveryId, attempt: &Attempt) -> Outcome<()> {
    let response = attempt.response.as_ref();
    let retry_after = response.and_then(|response| response.retry_after);
    let (delay, at) = match retry_after {
        None => (None, None),
        Some(RetryAfter::Delay(delay)) => (Some(micros(delay)), None),
        Some(RetryAfter::At(at)) => (None, Some(at.as_micros())),
    };
    let node = tx.number_of_node(&attempt.node, &attempt.user_agent)?;
    let after = |at: Timestamp| at.as_micros() - attempt.scheduled_at.as_micros();
    tx.hot(INSERT_ATTEMPT)?.execute(params![
        delivery.key(),
        attempt.number,
        attempt_status_number(attempt.status),
        attempt.failure_category.map(FailureCategory::as_str),
        attempt.error,
        response.map(|response| response.status),
        response.map(|response| response_headers::pack(&response.headers)),
        response.map(|response| &*response.body_sample),
        delay,
        at,
        micros(attempt.duration),
        attempt.phases.dns.map(micros),
        attempt.phases.connect.map(micros),
        attempt.phases.tls.map(micros),
        attempt.phases.first_byte.map(micros),
        attempt.scheduled_at.as_micros(),
        after(attempt.picked_at),
        after(attempt.executed_at),
        attempt.next_retry_at.map(Timestamp::as_micros),
        node,
        breaker_number(attempt.breaker),
        attempt.revision.map(|revision| revision.0),
        response.map(|response| cut_number(response.cut)),
    ])?;
    Ok(())
}

/// When and why a delivery died.
struct Death {
    at: Timestamp,
    cause: DeathCause,
}

fn record_deaths(tx: &Tx<'_>, settlement: &Settlement, death: Death) -> Outcome<()> {
    let attempt = &settlement.attempt;
    let category =
        attempt.failure_category.ok_or_else(|| Fault::Impossible(format!("the delivery {} died of a success", settlement.delivery)))?;
    let buried = tx.prepare(BURY_DELIVERY)?.execute(params![
        settlement.delivery.key(),
        settlement.target,
        death.cause.as_str(),
        category.as_str(),
        attempt.error.as_deref().unwrap_or_default(),
        attempt.number,
        death.at.as_micros(),
        DeadLetter::is_recoverable(death.cause, category),
    ])?;
    if buried == 0 {
        return Err(Fault::Impossible(format!("the delivery {} died without its endpoint", settlement.delivery)));
    }
    Ok(())
}

/// Says whether it was enabled, and still at the URL that was asked.
fn disable(tx: &mut Tx<'_>, settlement: &Settlement, disabling: &Disabling) -> Outcome<bool> {
    let parameters = params![settlement.lane_id.key(), settlement.settled_at().as_micros(), disabling.reason.as_str(), settlement.target];
    let application = tx.prepare(DISABLE_ENDPOINT)?.query_row(parameters, |row| row.id("application_id")).optional()?;
    let Some(application) = application else { return Ok(false) };
    tx.endpoint_changed(application, settlement.lane_id.endpoint())?;
    audit_log::append(tx, &disabling.entry)?;
    Ok(true)
}
