//! What calls leave to be written, gathered for a second: answers, statistics, and that fallbacks were used. No caller waits for it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;
use tokio::sync::Notify;
use uuid::Uuid;

use super::{
    Calls, OpenCapability,
    answered::{AnswerSource, CallAnswer},
    fallback_uses::FallbackUses,
};
use crate::{
    ids::{ApplicationId, LaneId, OrganizationId},
    metrics::Metrics,
    model::{AnswerCount, CacheKey, CachedAnswer, EventType, FailureCategory, Tally, minute_of},
    policy::{
        breaker::Transition,
        calls::{answer::FailureKind, canary::Withdrawal, kept_answers},
    },
    ports::{Alert, Statistics, StoreError},
    time::Timestamp,
};

/// How often what was gathered is written.
pub const CALL_RECORDS_WRITTEN_EVERY: Duration = Duration::from_secs(1);

/// How many answers, and how many bytes of them, may wait to be written. An organization has at most half of what the others leave; what comes beyond is
/// in memory only.
const ANSWERS_MAX: usize = 2_000;
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How many answers are written in one go, so that no event waits long for its own write.
const ANSWERS_WRITTEN_MAX: usize = 200;

/// How many tallies one write adds, with what is told of them: a few milliseconds of it, between which events are written.
const TALLIES_PER_WRITE: usize = 500;
/// How many tallies, and how many alerts, are kept while they cannot be written. Past it, statistics are lost, and uses of fallbacks are counted on.
const TALLIES_KEPT_MAX: usize = 10_000;
const ALERTS_KEPT_MAX: usize = 1_000;

/// How many rows are removed in one go.
const FORGET_BATCH: u32 = 500;
/// How often something is removed in one look: the rest waits for the next minute. More than all nodes together may write in one.
const FORGET_ROUNDS_MAX: u32 = 1_000;

/// What was gathered.
pub struct Records {
    state: Mutex<State>,
    metrics: Arc<Metrics>,
    /// Rung when something was gathered after everything had been taken.
    pub(crate) gathered: Notify,
    /// Rung when something was recorded of which an organization is to be told.
    pub(crate) alerts_recorded: Notify,
}

#[derive(Default)]
struct State {
    answers: FxHashMap<CacheKey, (OrganizationId, CachedAnswer)>,
    answers_waiting: Waiting,
    answers_of: FxHashMap<OrganizationId, Waiting>,
    /// Whose answers were written since somebody last looked whether they have too many.
    answers_written_for: FxHashSet<OrganizationId>,
    tallies: FxHashMap<(LaneId, Timestamp), Tally>,
    fallbacks: FallbackUses,
    /// What could not be written: it comes before what was gathered since.
    unwritten: Unwritten,
    /// One for each version of a manifest at most, so that there are few.
    withdrawals: Vec<WithdrawnCanary>,
    /// Whether [`Records::gathered`] was rung since everything was taken.
    is_rung: bool,
}

/// What is written in one store call, or in several if it is much.
#[derive(Default)]
struct Unwritten {
    tallies: Vec<Tally>,
    /// What organizations are to be told of them.
    alerts: Vec<Alert>,
}

impl Unwritten {
    fn is_empty(&self) -> bool {
        self.tallies.is_empty() && self.alerts.is_empty()
    }

    /// What is written next. The alerts come with the last of the tallies.
    fn next(&self) -> (usize, Vec<Tally>, Vec<Alert>) {
        let count = self.tallies.len().min(TALLIES_PER_WRITE);
        let alerts = if count == self.tallies.len() { self.alerts.clone() } else { Vec::new() };
        (count, self.tallies[..count].to_vec(), alerts)
    }
}

/// Answers that wait to be written.
#[derive(Clone, Copy, Default)]
struct Waiting {
    answers: usize,
    bytes: usize,
}

impl Waiting {
    /// Whether one more answer is at most half of what others leave.
    fn has_room_for(self, bytes: usize, in_all: Self) -> bool {
        let left = |most: usize, all: usize, own: usize| most.saturating_sub(all - own) / 2;
        self.answers < left(ANSWERS_MAX, in_all.answers, self.answers)
            && self.bytes + bytes <= left(ANSWER_BYTES_MAX, in_all.bytes, self.bytes)
    }

    fn add(&mut self, bytes: usize) {
        self.answers += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.answers -= 1;
        self.bytes -= bytes;
    }
}

/// That the canary of a capability is to be withdrawn.
#[derive(Clone, Debug, PartialEq)]
pub struct WithdrawnCanary {
    /// The tenant.
    pub organization: OrganizationId,
    /// Whose capability.
    pub application: ApplicationId,
    /// Which.
    pub capability: String,
    /// The version of the manifest that it is in.
    pub version: i64,
    /// Why.
    pub why: Withdrawal,
}

impl Records {
    pub(super) fn counting_in(metrics: Arc<Metrics>) -> Self {
        Self { state: Mutex::default(), metrics, gathered: Notify::new(), alerts_recorded: Notify::new() }
    }

    pub(super) fn keep_answer(&self, organization: OrganizationId, answer: CachedAnswer) {
        let mut state = self.state();
        let State { answers, answers_waiting, answers_of, .. } = &mut *state;
        let (share, bytes) = (answers_of.entry(organization).or_default(), answer.data.len());
        if !share.has_room_for(bytes, *answers_waiting) {
            return;
        }
        for waiting in [&mut *share, &mut *answers_waiting] {
            waiting.add(bytes);
        }
        if let Some((_, old)) = answers.insert(answer.key, (organization, answer)) {
            for waiting in [share, answers_waiting] {
                waiting.remove(old.data.len());
            }
        }
        self.ring(&mut state);
    }

    pub(super) fn count(&self, lane_id: LaneId, failure: Option<FailureKind>, took: Duration, now: Timestamp) {
        // What was not sent says nothing about the app.
        let category = match failure {
            None => None,
            Some(FailureKind::Timeout) => Some(FailureCategory::Timeout),
            Some(FailureKind::AppError) => Some(FailureCategory::ClientError),
            Some(FailureKind::BadAnswer | FailureKind::Status) => Some(FailureCategory::ServerError),
            Some(FailureKind::RateLimit) => Some(FailureCategory::RateLimit),
            Some(FailureKind::Network) => Some(FailureCategory::Network),
            Some(
                FailureKind::OutOfResources | FailureKind::CircuitOpen | FailureKind::AtCapacity | FailureKind::Shadow | FailureKind::Off,
            ) => return,
        };
        let mut state = self.state();
        state.tally(lane_id, now).count(category, took, now);
        self.ring(&mut state);
    }

    /// Counts what a caller was answered with. Of a call that is answered later, that is known later ([`Calls::count_handover`]).
    pub(super) fn count_answer(&self, lane_id: LaneId, answer: &CallAnswer, now: Timestamp) {
        if answer.handed_over.is_some() {
            return;
        }
        let source = answer.result.as_ref().map_or("error", |answer| answer.source.as_str());
        for what in AnswerCount::SOURCES.into_iter().filter(|what| what.as_str() == source) {
            self.count_one(lane_id, what, now);
        }
        if let (Some(_), Ok(used)) = (&answer.failure, &answer.result) {
            self.count_one(lane_id, AnswerCount::Fallback, now);
            if used.source == AnswerSource::Default {
                self.count_one(lane_id, AnswerCount::FailedOpen, now);
            }
        }
    }

    /// Counts one of something about answers.
    pub(super) fn count_one(&self, lane_id: LaneId, what: AnswerCount, now: Timestamp) {
        self.metrics.answered(what);
        let mut state = self.state();
        state.tally(lane_id, now).statistics.answers.add(what, 1);
        self.ring(&mut state);
    }

    pub(super) fn note_fallback(&self, of: &OpenCapability, step: &'static str, kind: FailureKind, request: Uuid) {
        let mut state = self.state();
        state.fallbacks.note(of, step, kind, request);
        self.ring(&mut state);
    }

    pub(super) fn note_withdrawal(&self, of: &OpenCapability, why: Withdrawal) {
        let withdrawn = WithdrawnCanary {
            organization: of.organization,
            application: of.application,
            capability: of.name.as_str().to_owned(),
            version: of.version,
            why,
        };
        self.withdraw_later(withdrawn);
    }

    /// Notes that a canary is still to be withdrawn.
    pub(crate) fn withdraw_later(&self, withdrawn: WithdrawnCanary) {
        let mut state = self.state();
        state.withdrawals.push(withdrawn);
        self.ring(&mut state);
    }

    /// The canaries that are to be withdrawn from their manifests.
    pub(crate) fn take_withdrawals(&self) -> Vec<WithdrawnCanary> {
        std::mem::take(&mut self.state().withdrawals)
    }

    /// When something is to be written again, if something is.
    pub(crate) fn next_write_at(&self, now: Timestamp) -> Option<Timestamp> {
        let state = self.state();
        let is_due = !state.unwritten.is_empty() || !state.tallies.is_empty() || !state.answers.is_empty() || !state.withdrawals.is_empty();
        let soon = now + CALL_RECORDS_WRITTEN_EVERY;
        if is_due { Some(soon) } else { state.fallbacks.next_at().map(|at| at.max(soon)) }
    }

    /// Writes what was gathered: tallies together with what organizations are to be told of them, then answers.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be written to. Tallies and what is told of them are written the next time; answers are lost, as every answer may be.
    pub async fn write(&self, calls: &Calls, statistics: &dyn Statistics) -> Result<(), StoreError> {
        let (answers, unwritten) = self.take(calls);
        self.write_tallies(unwritten, statistics).await?;
        for some in answers.chunks(ANSWERS_WRITTEN_MAX) {
            calls.call_records.keep_answers(some.to_vec()).await?;
        }
        Ok(())
    }

    async fn write_tallies(&self, mut unwritten: Unwritten, statistics: &dyn Statistics) -> Result<(), StoreError> {
        while !unwritten.is_empty() {
            let (count, tallies, alerts) = unwritten.next();
            let are_told = !alerts.is_empty();
            match statistics.add_calls(tallies, alerts).await {
                Ok(()) if are_told => {
                    unwritten.alerts.clear();
                    self.alerts_recorded.notify_one();
                }
                Ok(()) => {}
                // Trying again would not heal that. What is told has its own try.
                Err(error @ StoreError::Corrupt(_)) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "cannot write the statistics of calls; those of {count} minutes are lost");
                    if count == 0 {
                        unwritten.alerts.clear();
                    }
                }
                Err(error) => {
                    self.put_back(unwritten);
                    return Err(error);
                }
            }
            unwritten.tallies.drain(..count);
        }
        Ok(())
    }

    /// These could not be written: they come before what was gathered since.
    fn put_back(&self, mut unwritten: Unwritten) {
        let mut state = self.state();
        unwritten.tallies.append(&mut state.unwritten.tallies);
        unwritten.alerts.append(&mut state.unwritten.alerts);
        let lost = unwritten.tallies.len().saturating_sub(TALLIES_KEPT_MAX);
        if lost > 0 {
            unwritten.tallies.truncate(TALLIES_KEPT_MAX);
            tracing::warn!(lost, "lost the statistics of {lost} minutes of calls because they could not be written for too long");
        }
        state.unwritten = unwritten;
    }

    fn take(&self, calls: &Calls) -> (Vec<CachedAnswer>, Unwritten) {
        let now = calls.clock.now();
        let mut state = self.state();
        state.is_rung = false;
        let mut unwritten = std::mem::take(&mut state.unwritten);
        let room = ALERTS_KEPT_MAX.saturating_sub(unwritten.alerts.len());
        unwritten.alerts.extend(state.fallbacks.take(room, now, || calls.entropy.uuid(now)));
        unwritten.tallies.extend(state.take_tallies());
        (state.take_answers(), unwritten)
    }

    fn ring(&self, state: &mut State) {
        if !state.is_rung {
            state.is_rung = true;
            self.gathered.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_answers(&mut self) -> Vec<CachedAnswer> {
        self.answers_waiting = Waiting::default();
        let written_for: Vec<_> = std::mem::take(&mut self.answers_of).into_keys().collect();
        self.answers_written_for.extend(written_for);
        std::mem::take(&mut self.answers).into_values().map(|(_, answer)| answer).collect()
    }

    fn take_tallies(&mut self) -> Vec<Tally> {
        let mut tallies: Vec<Tally> = std::mem::take(&mut self.tallies).into_values().collect();
        tallies.sort_by_key(|tally| (tally.lane_id, tally.minute));
        tallies
    }

    fn tally(&mut self, lane_id: LaneId, now: Timestamp) -> &mut Tally {
        let minute = minute_of(now);
        self.tallies.entry((lane_id, minute)).or_insert_with(|| Tally::new(lane_id, minute))
    }
}

impl Calls {
    /// Counts a call that became a job or waits for a person; `None`: it should have, and its caller was answered with an error.
    pub(crate) fn count_handover(&self, lane_id: LaneId, to: Option<AnswerCount>, is_fallback: bool) {
        let now = self.clock.now();
        self.records.count_one(lane_id, to.unwrap_or(AnswerCount::Error), now);
        if is_fallback && to.is_some() {
            self.records.count_one(lane_id, AnswerCount::Fallback, now);
        }
    }

    /// Removes answers that have expired, and draws that are older than `draws_before`. In small steps, by the node whose duty it is.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be written to.
    pub async fn clean_up(&self, now: Timestamp, draws_before: Timestamp) -> Result<(), StoreError> {
        self.forget_votes(now).await?;
        let records = &self.call_records;
        for _ in 0..FORGET_ROUNDS_MAX {
            let expired = records.forget_answers(now, FORGET_BATCH).await?;
            let draws = records.forget_draws(draws_before, FORGET_BATCH).await?;
            if expired.max(draws) < FORGET_BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Removes the oldest answers of organizations that have more than they may, in small steps. Each node looks at those for whom it has written.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be reached: who was not looked at is when something is written for them again.
    pub async fn trim_answers(&self) -> Result<(), StoreError> {
        let written_for = std::mem::take(&mut self.records.state().answers_written_for);
        let mut rounds = FORGET_ROUNDS_MAX;
        for organization in written_for {
            for (lane_id, mut excess) in kept_answers::excess(&self.call_records.answers_of(organization).await?) {
                while excess > 0 && rounds > 0 {
                    let count = u32::try_from(excess).unwrap_or(u32::MAX).min(FORGET_BATCH);
                    let forgotten = self.call_records.forget_oldest_answers(lane_id, count).await?;
                    (excess, rounds) = (excess - u64::from(forgotten.min(count)), rounds - 1);
                    if forgotten < count {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// What the organization is told about the breaker of a capability: that it opened, and that it closed again.
    pub(crate) fn alerts_of(&self, capability: &Arc<OpenCapability>, transition: Transition) -> Vec<Alert> {
        let (event_type, at_field) = match transition {
            _ if transition.opens() => ("circuit.opened", "opened_at"),
            _ if transition.closes() => ("circuit.closed", "closed_at"),
            _ => return Vec::new(),
        };
        let mut data = json!({
            "organization_id": capability.organization.to_string(),
            "application_id": capability.application.to_string(),
            "capability": capability.name.as_str(),
            "reason": transition.cause.as_str(),
        });
        data[at_field] = json!(transition.at.to_string());
        vec![Alert {
            id: self.entropy.uuid(transition.at),
            organization: capability.organization,
            event_type: EventType::parse(event_type).expect("our own event types are well-formed"),
            data: Bytes::from(data.to_string()),
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_many_answers_to_write_leaves_room_for_others() {
        let records = Records::counting_in(Arc::default());
        let organization = |n| OrganizationId::from_uuid(Uuid::from_u128(n));
        let keep = |of: u128, count: u16, bytes: usize| {
            for n in 0..count {
                let mut hash = [0; 32];
                hash[..2].copy_from_slice(&n.to_be_bytes());
                let key = CacheKey { lane_id: LaneId::from_uuid(Uuid::from_u128(of)), hash };
                let data = Bytes::from(vec![b'x'; bytes]);
                records
                    .keep_answer(organization(of), CachedAnswer { key, data, stored_at: Timestamp::EPOCH, expires_at: Timestamp::EPOCH });
            }
            records.state().answers_of[&organization(of)].answers
        };
        assert_eq!([keep(1, 5_000, 1), keep(2, 5_000, 1), keep(3, 10, 1)], [1_000, 500, 10]);
        // The same answers again take no more room.
        assert_eq!(keep(3, 10, 1), 10);
        assert_eq!(records.state().take_answers().len(), 1_510);
        assert_eq!(records.state().answers_written_for.len(), 3);
        assert_eq!(keep(1, 100, 256 << 10), 32, "half of the bytes");
    }
}
