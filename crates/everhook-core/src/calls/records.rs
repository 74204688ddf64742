//! What calls leave to be written, gathered for a second: answers, statistics, and that fallbacks were used. No caller waits for it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;
use uuid::Uuid;

use super::{Calls, OpenCapability, answered::CallAnswer};
use crate::{
    ids::{ApplicationId, LaneId, OrganizationId},
    metrics::Metrics,
    model::{AnswerCount, CacheKey, CachedAnswer, EventType, FailingRule, FailureCategory, Tally, minute_of},
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

/// How often it is told that a fallback of one capability is used. What happens in between is counted.
const FALLBACKS_REPORTED_EVERY: Duration = Duration::from_secs(60);

/// How many rows are removed in one go.
const FORGET_BATCH: u32 = 500;
/// How often something is removed in one look: the rest waits for the next minute. More than all nodes together may write in one.
const FORGET_ROUNDS_MAX: u32 = 1_000;

/// What was gathered.
pub struct Records {
    state: Mutex<State>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct State {
    answers: FxHashMap<CacheKey, (OrganizationId, CachedAnswer)>,
    answers_waiting: Waiting,
    answers_of: FxHashMap<OrganizationId, Waiting>,
    /// Whose answers were written since somebody last looked whether they have too many.
    answers_written_for: FxHashSet<OrganizationId>,
    tallies: FxHashMap<(LaneId, Timestamp), Tally>,
    fallbacks: FxHashMap<LaneId, Fallbacks>,
    /// One for each version of a manifest at most, so that there are few.
    withdrawals: Vec<WithdrawnCanary>,
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

/// Uses of a capability's fallback that nobody was told of.
struct Fallbacks {
    organization: OrganizationId,
    application: ApplicationId,
    capability: String,
    counts: FxHashMap<(&'static str, FailureKind), u64>,
    last_request: Uuid,
    reported_at: Option<Timestamp>,
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

/// That fallbacks of a capability were used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackReport {
    /// Who is told.
    pub organization: OrganizationId,
    /// What: a JSON object.
    pub data: serde_json::Value,
}

impl Records {
    pub(super) fn counting_in(metrics: Arc<Metrics>) -> Self {
        Self { state: Mutex::default(), metrics }
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
        let minute = minute_of(now);
        let mut state = self.state();
        let tally = state.tallies.entry((lane_id, minute)).or_insert_with(|| Tally::new(lane_id, minute));
        tally.count(category, took, now);
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
        if answer.failure.is_some() && answer.result.is_ok() {
            self.count_one(lane_id, AnswerCount::Fallback, now);
        }
    }

    /// Counts one of something about answers.
    pub(super) fn count_one(&self, lane_id: LaneId, what: AnswerCount, now: Timestamp) {
        self.metrics.answered(what);
        let minute = minute_of(now);
        let mut state = self.state();
        let tally = state.tallies.entry((lane_id, minute)).or_insert_with(|| Tally::new(lane_id, minute));
        tally.statistics.answers.add(what, 1);
    }

    pub(super) fn note_fallback(&self, of: &OpenCapability, step: &'static str, kind: FailureKind, request: Uuid) {
        let mut state = self.state();
        let fallbacks = state.fallbacks.entry(of.lane_id).or_insert_with(|| Fallbacks {
            organization: of.organization,
            application: of.application,
            capability: of.name.as_str().to_owned(),
            counts: FxHashMap::default(),
            last_request: request,
            reported_at: None,
        });
        *fallbacks.counts.entry((step, kind)).or_default() += 1;
        fallbacks.last_request = request;
    }

    pub(super) fn note_withdrawal(&self, of: &OpenCapability, why: Withdrawal) {
        let withdrawn = WithdrawnCanary {
            organization: of.organization,
            application: of.application,
            capability: of.name.as_str().to_owned(),
            version: of.version,
            why,
        };
        self.state().withdrawals.push(withdrawn);
    }

    /// The canaries that are to be withdrawn from their manifests.
    pub fn take_withdrawals(&self) -> Vec<WithdrawnCanary> {
        std::mem::take(&mut self.state().withdrawals)
    }

    /// The uses of fallbacks that are to be told now: the first at once, then what gathered in a minute.
    pub fn take_fallbacks(&self, now: Timestamp) -> Vec<FallbackReport> {
        let mut state = self.state();
        let is_over = |reported_at: Option<Timestamp>| reported_at.is_none_or(|at| now.since(at) >= FALLBACKS_REPORTED_EVERY);
        state.fallbacks.retain(|_, fallbacks| !fallbacks.counts.is_empty() || !is_over(fallbacks.reported_at));
        let due = state.fallbacks.values_mut().filter(|fallbacks| !fallbacks.counts.is_empty() && is_over(fallbacks.reported_at));
        due.map(|fallbacks| fallbacks.take(now)).collect()
    }

    /// Writes what was gathered.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be written to: what was not written is lost, as every answer and figure may be.
    pub async fn write(&self, calls: &Calls, statistics: &dyn Statistics) -> Result<(), StoreError> {
        let (answers, tallies) = self.take();
        if !tallies.is_empty() {
            // Capabilities are never disabled: the rule means nothing to their tallies.
            statistics.add(tallies, FailingRule::default()).await?;
        }
        for some in answers.chunks(ANSWERS_WRITTEN_MAX) {
            calls.call_records.keep_answers(some.to_vec()).await?;
        }
        Ok(())
    }

    fn take(&self) -> (Vec<CachedAnswer>, Vec<Tally>) {
        let mut state = self.state();
        state.answers_waiting = Waiting::default();
        let written_for: Vec<_> = std::mem::take(&mut state.answers_of).into_keys().collect();
        state.answers_written_for.extend(written_for);
        let answers = std::mem::take(&mut state.answers).into_values().map(|(_, answer)| answer).collect();
        let mut tallies: Vec<Tally> = std::mem::take(&mut state.tallies).into_values().collect();
        tallies.sort_by_key(|tally| (tally.lane_id, tally.minute));
        (answers, tallies)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fallbacks {
    fn take(&mut self, now: Timestamp) -> FallbackReport {
        self.reported_at = Some(now);
        let counts = std::mem::take(&mut self.counts);
        let mut uses: Vec<_> = counts.into_iter().map(|((step, kind), count)| (step, kind.as_str(), count)).collect();
        uses.sort_unstable();
        let count: u64 = uses.iter().map(|(_, _, count)| count).sum();
        // The caller was let through without the app: who chose that should see how often it happens.
        let failed_open: u64 =
            uses.iter().filter(|(step, ..)| !matches!(*step, "error" | "cache" | "queue" | "manual")).map(|(_, _, count)| count).sum();
        let uses: Vec<_> = uses.iter().map(|(step, reason, count)| json!({"step": step, "reason": reason, "count": count})).collect();
        FallbackReport {
            organization: self.organization,
            data: json!({
                "organization_id": self.organization.to_string(),
                "application_id": self.application.to_string(),
                "capability": self.capability,
                "count": count,
                "failed_open": failed_open,
                "uses": uses,
                "last_request_id": self.last_request.to_string(),
                "reported_at": now.to_string(),
            }),
        }
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
        assert_eq!(records.take().0.len(), 1_510);
        assert_eq!(records.state().answers_written_for.len(), 3);
        assert_eq!(keep(1, 100, 256 << 10), 32, "half of the bytes");
    }
}
