//! What a call is answered with when the app's answer cannot be used: the manifest's steps, in their order, within what is left of the time.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::json;

use super::{
    answered::{Answer, AnswerSource, Handover, Step},
    call::Call,
    flight::NO_SLOT,
    request::Outgoing,
};
use crate::{
    limits::evaluations::EVALUATION_TIMEOUT,
    model::{FairDraw, FallbackStep, PickCount},
    policy::{
        calls::{
            answer::{self, AppAnswer, AppFailure},
            draw,
            pick::{self, INLINE_PICKS_MAX, NotPicked, PICKS_MAX, Picked},
        },
        work::INLINE_BYTES_MAX,
    },
    ports::within,
};

/// How long the store may take to keep a draw before the answer is given: past it the answer says that it is not recorded yet.
const DRAW_PATIENCE: Duration = Duration::from_millis(15);

/// What is left to write the answer.
const WRITE_RESERVE: Duration = Duration::from_millis(5);

impl Call<'_> {
    /// Goes through the fallback. The app's failure stands if no step has an answer.
    pub(super) async fn fall_back(&mut self, failure: &AppFailure) -> Result<Answer, AppFailure> {
        let capability = self.capability.clone();
        for (place, step) in capability.spec.fallback.iter().enumerate() {
            let begun_at = self.now();
            let tried = match step {
                FallbackStep::Cache => self.kept_for_errors().await.ok_or_else(|| "no answer is kept under this `cache_key`".to_owned()),
                FallbackStep::Static(text) => Ok(of_default(Bytes::copy_from_slice(text.as_bytes()))),
                FallbackStep::RandomPick { from, count } => self.pick(from, count).await,
                FallbackStep::Http { timeout, .. } => self.ask_other(place, *timeout).await,
                FallbackStep::Queue => return Err(self.hand_over(step, "queued", Handover::Queue, failure)),
                FallbackStep::Manual { expires_after } => {
                    let handover = Handover::Manual { expires_after: *expires_after };
                    return Err(self.hand_over(step, "pending", handover, failure));
                }
                FallbackStep::Error => Err("the manifest ends here".to_owned()),
            };
            let took = self.now().since(begun_at);
            let (outcome, reason) = match &tried {
                Ok(_) => ("answered", None),
                Err(reason) => ("failed", Some(reason.clone())),
            };
            self.steps.push(Step { step: step.name(), outcome, took, reason });
            match tried {
                Ok(answer) => {
                    self.report(step.name(), failure);
                    let warning = format!("{}: {}", failure.kind.as_str(), failure.reason);
                    return Ok(Answer { warning: Some(warning), ..answer });
                }
                Err(_) if *step == FallbackStep::Error => break,
                Err(_) => {}
            }
        }
        self.report("error", failure);
        Err(failure.clone())
    }

    /// The caller has an answer later: whoever made the call sees to that.
    fn hand_over(&mut self, step: &FallbackStep, outcome: &'static str, to: Handover, failure: &AppFailure) -> AppFailure {
        self.steps.push(Step { step: step.name(), outcome, took: Duration::ZERO, reason: None });
        self.report(step.name(), failure);
        self.handed_over = Some(to);
        failure.clone()
    }

    fn report(&self, step: &'static str, failure: &AppFailure) {
        let capability = self.capability;
        tracing::debug!(lane.id = %capability.lane_id, step, reason = failure.kind.as_str(), "a call was answered by its fallback");
        self.calls.records.note_fallback(capability, step, failure.kind, self.request_id);
    }

    /// Draws from a list in the payload, and keeps what is needed to draw again.
    async fn pick(&self, from: &str, count: &PickCount) -> Result<Answer, String> {
        let seed = self.calls.entropy.secret_bytes();
        let Picked { items, list_hash, list_length, picks } = self.picked(from, count, seed).await?;
        let record = FairDraw {
            request_id: self.request_id,
            organization: self.capability.organization,
            application: self.capability.application,
            capability: self.capability.name.clone(),
            drawn_at: self.now(),
            seed,
            list_hash,
            list_length,
            picked: u32::try_from(picks.len()).unwrap_or(u32::MAX),
        };
        let recorded = self.keep_draw(record).await;
        let proof = json!({
            "algorithm": draw::ALGORITHM,
            "seed": BASE64_STANDARD.encode(seed),
            "list_sha256": BASE64_STANDARD.encode(list_hash),
            "list_length": list_length,
            "picks": picks,
            "recorded": recorded,
        });
        Ok(of_default(Bytes::from(format!(r#"{{"picked":[{items}],"from":{list_length},"draw":{proof}}}"#))))
    }

    /// Picks at once if that is quick, else off the threads that serve requests.
    async fn picked(&self, from: &str, count: &PickCount, seed: [u8; 32]) -> Result<Picked, String> {
        // Others have a turn: a batch may have many such steps, each of which is quick.
        tokio::task::yield_now().await;
        let payload = &self.request.payload;
        if payload.len() <= INLINE_BYTES_MAX {
            match pick::pick(payload, from, count, &seed, INLINE_PICKS_MAX) {
                Ok(picked) => return Ok(picked),
                Err(NotPicked::Unfit(reason)) => return Err(reason),
                Err(NotPicked::TooMany) => {}
            }
        }
        let (payload, from, count) = (payload.clone(), from.to_owned(), count.clone());
        let timeout = EVALUATION_TIMEOUT.min(self.deadline.since(self.now()).saturating_sub(WRITE_RESERVE));
        let picking = move || pick::pick(&payload, &from, &count, &seed, PICKS_MAX);
        let picked = self.calls.evaluations.run(self.capability.organization, timeout, picking).await;
        picked.map_err(|busy| busy.to_string())?.map_err(|not_picked| match not_picked {
            NotPicked::Unfit(reason) => reason,
            NotPicked::TooMany => format!("more than {PICKS_MAX} would have to be picked"),
        })
    }

    /// Keeps a draw, and says whether it is durable. If that takes longer than the caller can wait, it goes on behind the answer. Beyond what an organization
    /// may write, only the answer has it.
    async fn keep_draw(&self, record: FairDraw) -> bool {
        let Some(write) = self.calls.draw_writes.begin(record.organization, self.now()) else { return false };
        let records = self.calls.call_records.clone();
        let keeping = tokio::spawn(async move {
            let kept = records.keep_draw(record).await;
            drop(write);
            if let Err(error) = &kept {
                tracing::warn!(error = error as &dyn std::error::Error, "cannot store the record of a draw; the answer to the call has it");
            }
            kept.is_ok()
        });
        let patience = DRAW_PATIENCE.min(self.deadline.since(self.now()));
        within(&*self.calls.clock, patience, keeping).await.is_some_and(|kept| kept.unwrap_or(false))
    }

    /// Asks another URL.
    async fn ask_other(&self, place: usize, timeout: Duration) -> Result<Answer, String> {
        let target = self.capability.fallback_targets[place].clone().ok_or("the step has no URL")?;
        let now = self.now();
        let left = timeout.min(self.deadline.since(now).saturating_sub(WRITE_RESERVE));
        if left.is_zero() {
            return Err("no time is left".to_owned());
        }
        // It takes as much as a request to an app, whose place is given back by now or held beside it.
        let Some(_slot) = self.calls.gates.slots.take(self.capability.organization) else { return Err(NO_SLOT.to_owned()) };
        let request = self.calls.build(&Outgoing {
            capability: self.capability,
            target,
            request_id: self.request_id,
            payload: self.request.payload.clone(),
            trace: self.request.trace.as_ref(),
            attempt: 1,
            left,
            timeout: left,
            at: now,
        });
        match answer::read(&self.calls.transport.send(request).await) {
            AppAnswer::Success { data, .. } => Ok(of_default(data)),
            AppAnswer::Failure(failure) => Err(format!("{}: {}", failure.kind.as_str(), failure.reason)),
        }
    }
}

fn of_default(data: Bytes) -> Answer {
    Answer { source: AnswerSource::Default, data, age: None, warning: None }
}
