//! One delivery in the air: attempted, and its outcome decided. Runs as a task of its own, so that endpoints do not wait for each other.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;

use crate::{
    flow::{
        Line,
        attempt::{Attempted, attempt, equip},
        settle::{Ended, panic_report, settle},
    },
    model::InFlight,
    ports::{Settlement, StoreError},
    time::millis,
};

/// What came of a flight.
pub(super) enum Landing {
    /// An attempt was made: this is to be written. Boxed, because it passes through many hands before the store's.
    Settle(Box<Settlement>),
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
pub(super) async fn fly(line: Arc<Line>, flight: InFlight) -> (InFlight, Landing) {
    let landing = match AssertUnwindSafe(make(&line, &flight)).catch_unwind().await {
        Ok(made) => made,
        Err(_) => {
            tracing::error!(delivery.id = %flight.due.delivery, "an attempt panicked; it is recorded as failed");
            AssertUnwindSafe(bury(&line, &flight)).catch_unwind().await.unwrap_or(Ok(Landing::NotMade))
        }
    };
    let landing = landing.unwrap_or_else(|error| {
        line.tell_delay("an attempt", &error);
        Landing::NotMade
    });
    (flight, landing)
}

async fn make(line: &Line, flight: &InFlight) -> Result<Landing, StoreError> {
    match attempt(line, flight).await? {
        Attempted::Withheld => Ok(Landing::Withheld),
        Attempted::Erased => Ok(Landing::Erased),
        Attempted::OutOfResources => Ok(Landing::OutOfResources),
        Attempted::Sent { with, report, executed_at, revision } => {
            let settlement = settle(line, &Ended { flight, with: &with, executed_at, revision }, report);
            tracing::debug!(
                delivery.id = %flight.due.delivery,
                endpoint.id = %flight.endpoint,
                attempt = settlement.attempt.number,
                status = settlement.attempt.status.as_str(),
                duration_ms = millis(settlement.attempt.duration),
                error = settlement.attempt.error.as_deref(),
                "attempt {} ended: {}", settlement.attempt.number, settlement.attempt.status.as_str(),
            );
            Ok(Landing::Settle(Box::new(settlement)))
        }
    }
}

async fn bury(line: &Line, flight: &InFlight) -> Result<Landing, StoreError> {
    let Some(with) = equip(line, flight).await? else { return Ok(Landing::Withheld) };
    // Whether a request went out before the panic, and which, is not known.
    let ended = Ended { flight, with: &with, executed_at: flight.picked_at, revision: None };
    Ok(Landing::Settle(Box::new(settle(line, &ended, panic_report()))))
}
