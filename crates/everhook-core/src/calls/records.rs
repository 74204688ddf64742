//! What calls leave to be written, gathered for a second: answers, statistics, and that fallbacks were used. No caller waits for it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde_json::json;
use uuid::Uuid;

use super::{Calls, OpenCapability, answered::CallAnswer};
use crate::{
    ids::{ApplicationId, LaneId, OrganizationId},
    model::{AnswerCount, CacheKey, CachedAnswer, EventType, FailingRule, FailureCategory, Tally, minute_of},
    policy::{
        breaker::Transition,
        calls::{answer::FailureKind, canary::Withdrawal},
    },
    ports::{Alert, Statistics, StoreError},
    time::Timestamp,
};

/// How often what was gathered is written.
pub const CALL_RECORDS_WRITTEN_EVERY: Duration = Duration::from_secs(1);

/// How many answers, and how many bytes of them, may wait to be written. What comes beyond is in memory only.
const ANSWERS_MAX: usize = 2_000;
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How many answers are written in one go, so that no event waits long for its own write.
const ANSWERS_WRITTEN_MAX: usize = 200;

/// How often it is told that a fallback of one capability is used. What happens in between is counted.
const FALLBACKS_REPORTED_EVERY: Duration = Duration::from_secs(60);

/// How many answers one capability may have in the store.
const ANSWERS_OF_LANE_MAX: u32 = 10_000;
/// How many rows are removed in one go.
const FORGET_BATCH: u32 = 500;
/// How often something is removed in one look: the rest waits for the next minute.
const FORGET_ROUNDS_MAX: u32 = 100;

/// What was gathered.
#[derive(Default)]
pub struct Records(Mutex<State>);

#[derive(Default)]
struct State {
    answers: FxHashMap<CacheKey, CachedAnswer>,
    answer_bytes: usize,
    tallies: FxHashMap<(LaneId, Timestamp), Tally>,
    fallbacks: FxHashMap<LaneId, Fallbacks>,
    /// One for each version of a manifest at most, so that there are few.
    withdrawals: Vec<WithdrawnCanary>,
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
    pub(super) fn keep_answer(&self, answer: CachedAnswer) {
        let mut state = self.state();
        if state.answers.len() >= ANSWERS_MAX || state.answer_bytes + answer.data.len() > ANSWER_BYTES_MAX {
            return;
        }
        state.answer_bytes += answer.data.len();
        if let Some(old) = state.answers.insert(answer.key, answer) {
            state.answer_bytes -= old.data.len();
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

    /// Counts what a caller was answered with.
    pub(super) fn count_answer(&self, lane_id: LaneId, answer: &CallAnswer, now: Timestamp) {
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
        state.answer_bytes = 0;
        let answers = std::mem::take(&mut state.answers).into_values().collect();
        let mut tallies: Vec<Tally> = std::mem::take(&mut state.tallies).into_values().collect();
        tallies.sort_by_key(|tally| (tally.lane_id, tally.minute));
        (answers, tallies)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
            uses.iter().filter(|(step, ..)| !matches!(*step, "error" | "cache" | "queue")).map(|(_, _, count)| count).sum();
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
    /// Removes answers that have expired or are too many, and draws that are older than `draws_before`. In small steps, by the node whose duty it is.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be written to.
    pub async fn clean_up(&self, now: Timestamp, draws_before: Timestamp) -> Result<(), StoreError> {
        let records = &self.call_records;
        for _ in 0..FORGET_ROUNDS_MAX {
            let expired = records.forget_answers(now, FORGET_BATCH).await?;
            let excess = records.forget_excess_answers(ANSWERS_OF_LANE_MAX, FORGET_BATCH).await?;
            let draws = records.forget_draws(draws_before, FORGET_BATCH).await?;
            if expired.max(excess).max(draws) < FORGET_BATCH {
                break;
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
