//! One delivery in flight: it is attempted, and its outcome is decided. Runs as a task of its own, so that endpoints do not wait for each other.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;

use crate::{
    line::{
        Line,
        attempt::{Attempted, attempt, equip},
        settle::{EndedAttempt, Outcome, panic_report, settle},
        spans::Attempting,
    },
    model::InFlight,
    ports::StoreError,
    time::millis,
};

/// What came of a flight.
pub(crate) enum Landing {
    /// An attempt was made, and this follows from it.
    Settle(Outcome),
    /// The endpoint gets no events now, or not from this node: it was disabled, deleted or paused, or its lane is another's.
    Withheld,
    /// The event was erased: no request was made, and the delivery has ended.
    Erased,
    /// No request was made, because the store could not be read: the delivery still waits.
    NotMade,
    /// No request was made, because this machine had nothing left to make one with: the delivery still waits, and so does its lane.
    OutOfResources,
}

/// Attempts a delivery and decides its outcome. Never panics, whatever the attempt does.
pub(crate) async fn fly(line: Arc<Line>, flight: InFlight) -> (InFlight, Landing) {
    let landing = match AssertUnwindSafe(make(&line, &flight)).catch_unwind().await {
        Ok(made) => made,
        Err(_) => {
            tracing::error!(delivery.id = %flight.due.delivery, "panic during an attempt; it is recorded as failed");
            AssertUnwindSafe(record_panic(&line, &flight)).catch_unwind().await.unwrap_or(Ok(Landing::NotMade))
        }
    };
    let landing = landing.unwrap_or_else(|error| {
        line.log_delay("an attempt", &error);
        Landing::NotMade
    });
    (flight, landing)
}

async fn make(line: &Line, flight: &InFlight) -> Result<Landing, StoreError> {
    match attempt(line, flight).await? {
        Attempted::Withheld => Ok(Landing::Withheld),
        Attempted::Erased => Ok(Landing::Erased),
        Attempted::OutOfResources => Ok(Landing::OutOfResources),
        Attempted::Sent { with, report, executed_at, revision, received, labels, event_type, span } => {
            let outcome = settle(line, &EndedAttempt { flight, with: &with, executed_at, revision }, report);
            let settlement = &outcome.settlement;
            line.metrics.attempted(&labels, &settlement.attempt);
            with.break_down(line, &settlement.attempt, event_type, received.as_ref().map(|received| received.source));
            if let Some(received) = received {
                received.count(line, flight, &settlement.stage);
            }
            tracing::debug!(
                delivery.id = %flight.due.delivery,
                endpoint.id = %flight.lane_id,
                attempt = settlement.attempt.number,
                status = settlement.attempt.status.as_str(),
                trace_id = span.as_ref().map(|span| span.trace_id()),
                span_id = span.as_ref().map(|_| Attempting::span_id(flight, settlement.attempt.executed_at)).map(|id| format!("{id:016x}")),
                duration_ms = millis(settlement.attempt.duration),
                error = settlement.attempt.error.as_deref(),
                "attempt {} ended: {}", settlement.attempt.number, settlement.attempt.status.as_str(),
            );
            if let Some(span) = span {
                span.end(line, flight, &settlement.attempt);
            }
            Ok(Landing::Settle(outcome))
        }
    }
}

async fn record_panic(line: &Line, flight: &InFlight) -> Result<Landing, StoreError> {
    let Some(with) = equip(line, flight).await? else { return Ok(Landing::Withheld) };
    // Whether a request went out before the panic, and which, is not known.
    let ended = EndedAttempt { flight, with: &with, executed_at: flight.picked_at, revision: None };
    let outcome = settle(line, &ended, panic_report());
    with.break_down(line, &outcome.settlement.attempt, None, None);
    Ok(Landing::Settle(outcome))
}
