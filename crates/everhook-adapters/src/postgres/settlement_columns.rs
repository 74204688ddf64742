//! Settlements and what follows from them, as the columns of statements.

use everhook_core::{
    ids::EventId,
    model::{Attempt, DeadLetter, DeadLetterStatus, DeathCause, FailureCategory, RetryAfter},
    ports::Settlement,
    time::Timestamp,
};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    fault::{Fault, Outcome},
    making::small,
    rows::{Key, micros},
    transaction::Tx,
};
use crate::encoding::{
    response_headers,
    spelling::{attempt_status_number, breaker_number, cut_number, settled_columns},
};

const BURY: &str = include_str!("queries/bury_deliveries.sql");
const END_RETRIES: &str = include_str!("queries/end_retries_of_dead_letters.sql");

/// Settlements, column by column.
#[derive(Default)]
pub(super) struct SettlementColumns<'s> {
    lanes: Vec<i64>,
    ids: Vec<Uuid>,
    numbers: Vec<i32>,
    stages: Vec<i16>,
    due: Vec<Option<i64>>,
    ended: Vec<Option<i64>>,
    causes: Vec<Option<&'s str>>,
    categories: Vec<Option<&'s str>>,
    statuses: Vec<i16>,
    breakers: Vec<i16>,
    nodes: Vec<i32>,
    response_statuses: Vec<Option<i16>>,
    response_cuts: Vec<Option<i16>>,
    revisions: Vec<Option<i32>>,
    errors: Vec<Option<&'s str>>,
    response_headers: Vec<Option<Vec<u8>>>,
    response_bodies: Vec<Option<&'s [u8]>>,
    retry_after_delays: Vec<Option<i64>>,
    retry_after_instants: Vec<Option<i64>>,
    durations: Vec<i64>,
    dns: Vec<Option<i64>>,
    connect: Vec<Option<i64>>,
    tls: Vec<Option<i64>>,
    first_byte: Vec<Option<i64>>,
    scheduled: Vec<i64>,
    picked_after: Vec<i64>,
    executed_after: Vec<i64>,
    next_retries: Vec<Option<i64>>,
    /// Whose attempts they are.
    boot: Option<Uuid>,
}

impl<'s> SettlementColumns<'s> {
    pub(super) fn new(settlements: impl Iterator<Item = (&'s Settlement, i64)>, node: i32, boot: Option<Uuid>) -> Self {
        let mut columns = Self { boot, ..Self::default() };
        for (settlement, lane) in settlements {
            columns.push_stage(settlement, lane);
            columns.push_attempt(&settlement.attempt, node);
            columns.push_response(&settlement.attempt);
        }
        columns
    }

    fn push_stage(&mut self, settlement: &'s Settlement, lane: i64) {
        let stage = settled_columns(settlement);
        self.lanes.push(lane);
        self.ids.push(settlement.delivery.key());
        self.stages.push(small(stage.stage));
        self.due.push(stage.due_at);
        self.ended.push(stage.ended_at);
        self.causes.push(stage.cause);
    }

    fn push_attempt(&mut self, attempt: &'s Attempt, node: i32) {
        let after = |at: Timestamp| at.as_micros() - attempt.scheduled_at.as_micros();
        self.numbers.push(i32::try_from(attempt.number).unwrap_or(i32::MAX));
        self.categories.push(attempt.failure_category.map(FailureCategory::as_str));
        self.statuses.push(small(attempt_status_number(attempt.status)));
        self.breakers.push(small(breaker_number(attempt.breaker)));
        self.nodes.push(node);
        self.revisions.push(attempt.revision.map(|revision| i32::try_from(revision.0).unwrap_or(i32::MAX)));
        self.errors.push(attempt.error.as_deref());
        self.durations.push(micros(attempt.duration));
        self.dns.push(attempt.phases.dns.map(micros));
        self.connect.push(attempt.phases.connect.map(micros));
        self.tls.push(attempt.phases.tls.map(micros));
        self.first_byte.push(attempt.phases.first_byte.map(micros));
        self.scheduled.push(attempt.scheduled_at.as_micros());
        self.picked_after.push(after(attempt.picked_at));
        self.executed_after.push(after(attempt.executed_at));
        self.next_retries.push(attempt.next_retry_at.map(Timestamp::as_micros));
    }

    fn push_response(&mut self, attempt: &'s Attempt) {
        let response = attempt.response.as_ref();
        let (delay, at) = match response.and_then(|response| response.retry_after) {
            None => (None, None),
            Some(RetryAfter::Delay(delay)) => (Some(micros(delay)), None),
            Some(RetryAfter::At(at)) => (None, Some(at.as_micros())),
        };
        self.response_statuses.push(response.map(|response| i16::try_from(response.status).unwrap_or(i16::MAX)));
        self.response_cuts.push(response.map(|response| small(cut_number(response.cut))));
        self.response_headers.push(response.map(|response| response_headers::pack(&response.headers)));
        self.response_bodies.push(response.map(|response| &*response.body_sample));
        self.retry_after_delays.push(delay);
        self.retry_after_instants.push(at);
    }

    /// The parameters of `settle_deliveries.sql`.
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 29] {
        [
            &self.lanes,
            &self.ids,
            &self.numbers,
            &self.stages,
            &self.due,
            &self.ended,
            &self.causes,
            &self.categories,
            &self.statuses,
            &self.breakers,
            &self.nodes,
            &self.response_statuses,
            &self.errors,
            &self.response_headers,
            &self.response_bodies,
            &self.retry_after_delays,
            &self.retry_after_instants,
            &self.durations,
            &self.dns,
            &self.connect,
            &self.tls,
            &self.first_byte,
            &self.scheduled,
            &self.picked_after,
            &self.executed_after,
            &self.next_retries,
            &self.boot,
            &self.response_cuts,
            &self.revisions,
        ]
    }
}

/// Deliveries that died, column by column.
#[derive(Default)]
pub(super) struct Deaths<'s> {
    ids: Vec<Uuid>,
    lanes: Vec<i64>,
    events: Vec<Uuid>,
    targets: Vec<&'s str>,
    causes: Vec<&'s str>,
    categories: Vec<&'s str>,
    errors: Vec<&'s str>,
    attempts: Vec<i64>,
    at: Vec<i64>,
    recoverable: Vec<bool>,
}

impl<'s> Deaths<'s> {
    pub(super) fn push(
        &mut self,
        settlement: &'s Settlement,
        lane: i64,
        event: EventId,
        (at, cause): (Timestamp, DeathCause),
    ) -> Outcome<()> {
        let attempt = &settlement.attempt;
        let category =
            attempt.failure_category.ok_or_else(|| Fault::Impossible(format!("the delivery {} died of a success", settlement.delivery)))?;
        self.ids.push(settlement.delivery.key());
        self.lanes.push(lane);
        self.events.push(event.key());
        self.targets.push(&settlement.target);
        self.causes.push(cause.as_str());
        self.categories.push(category.as_str());
        self.errors.push(attempt.error.as_deref().unwrap_or_default());
        self.attempts.push(attempt.number.into());
        self.at.push(at.as_micros());
        self.recoverable.push(DeadLetter::is_recoverable(cause, category));
        Ok(())
    }

    /// Makes their dead letters, or adds another death to those that are there.
    pub(super) async fn write(&self, tx: &Tx<'_>) -> Outcome<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let buried = tx
            .execute(
                BURY,
                &[
                    &self.ids,
                    &self.lanes,
                    &self.events,
                    &self.targets,
                    &self.causes,
                    &self.categories,
                    &self.errors,
                    &self.attempts,
                    &self.at,
                    &self.recoverable,
                ],
            )
            .await?;
        if buried < self.ids.len() as u64 {
            return Err(Fault::Impossible("a delivery died without its endpoint".to_owned()));
        }
        Ok(())
    }
}

/// Deliveries that had brought dead letters back and have ended, column by column.
#[derive(Default)]
pub(super) struct EndedRetries {
    ids: Vec<Uuid>,
    lanes: Vec<i64>,
    events: Vec<Uuid>,
    statuses: Vec<&'static str>,
    attempts: Vec<i64>,
}

impl EndedRetries {
    pub(super) fn push(&mut self, delivery: Uuid, lane: i64, event: EventId, status: DeadLetterStatus, attempts: u32) {
        self.ids.push(delivery);
        self.lanes.push(lane);
        self.events.push(event.key());
        self.statuses.push(status.as_str());
        self.attempts.push(attempts.into());
    }

    /// Notes it on the dead letters, where there are any.
    pub(super) async fn write(&self, tx: &Tx<'_>) -> Outcome<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        tx.execute(END_RETRIES, &[&self.ids, &self.lanes, &self.events, &self.statuses, &self.attempts]).await?;
        Ok(())
    }
}
