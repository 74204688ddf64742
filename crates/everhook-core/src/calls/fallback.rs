//! What a call is answered with when the app's answer cannot be used: the manifest's steps, in their order, within what is left of the time.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};

use super::{
    answered::{Answer, AnswerSource, Step},
    call::Call,
    request::Outgoing,
};
use crate::{
    model::{FairDraw, FallbackStep, PickCount},
    policy::calls::{
        answer::{self, AppAnswer, AppFailure},
        draw,
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
                FallbackStep::Queue => {
                    self.steps.push(Step { step: step.name(), outcome: "queued", took: Duration::ZERO, reason: None });
                    self.report(step.name(), failure);
                    self.is_queued = true;
                    return Err(failure.clone());
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

    fn report(&self, step: &'static str, failure: &AppFailure) {
        let capability = self.capability;
        tracing::debug!(lane.id = %capability.lane_id, step, reason = failure.kind.as_str(), "a call was answered by its fallback");
        self.calls.records.note_fallback(capability, step, failure.kind, self.request_id);
    }

    /// Draws from a list in the payload, and keeps what is needed to draw again.
    async fn pick(&self, from: &str, count: &PickCount) -> Result<Answer, String> {
        let payload = &*self.request.payload;
        let list = raw_at(payload, from).ok_or_else(|| format!("the payload has no list at `{from}`"))?;
        let items: Vec<&RawValue> = serde_json::from_str(list.get()).map_err(|_| format!("`{from}` in the payload is not a list"))?;
        let wanted = match count {
            PickCount::Number(number) => *number,
            PickCount::Pointer(pointer) => {
                counted(payload, pointer).ok_or_else(|| format!("`{pointer}` in the payload is neither a number nor a list"))?
            }
        };
        let seed = self.calls.entropy.secret_bytes();
        let list_length = u32::try_from(items.len()).map_err(|_| "the list is too long".to_owned())?;
        let picks = draw::draw(&seed, list_length, wanted);
        let list_hash = draw::list_hash(list.get().as_bytes());
        let record = FairDraw {
            request_id: self.request_id,
            organization: self.capability.organization,
            application: self.capability.application,
            capability: self.capability.name.clone(),
            drawn_at: self.now(),
            seed,
            list_hash,
            list_length,
            picks: picks.clone(),
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
        let picked: Vec<&str> = picks.iter().map(|place| items[*place as usize].get()).collect();
        Ok(of_default(Bytes::from(format!(r#"{{"picked":[{}],"from":{list_length},"draw":{proof}}}"#, picked.join(",")))))
    }

    /// Keeps a draw, and says whether it is durable. If that takes longer than the caller can wait, it goes on behind the answer.
    async fn keep_draw(&self, record: FairDraw) -> bool {
        let records = self.calls.call_records.clone();
        let keeping = tokio::spawn(async move {
            let kept = records.keep_draw(record).await;
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

/// The JSON text at a pointer. Only objects and lists on the way are parsed, and what they hold is left as it is.
fn raw_at<'a>(json: &'a [u8], pointer: &str) -> Option<&'a RawValue> {
    let mut here: &RawValue = serde_json::from_slice(json).ok()?;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        here = match here.get().as_bytes().first()? {
            b'{' => {
                let mut object: std::collections::BTreeMap<std::borrow::Cow<'a, str>, &'a RawValue> =
                    serde_json::from_str(here.get()).ok()?;
                object.remove(token.as_str())?
            }
            b'[' => {
                let list: Vec<&'a RawValue> = serde_json::from_str(here.get()).ok()?;
                list.get(token.parse::<usize>().ok()?).copied()?
            }
            _ => return None,
        };
    }
    Some(here)
}

/// A number at a pointer, or how many a list there has.
fn counted(json: &[u8], pointer: &str) -> Option<u32> {
    match serde_json::from_str(raw_at(json, pointer)?.get()).ok()? {
        Value::Number(number) => u32::try_from(number.as_u64()?).ok(),
        Value::Array(list) => u32::try_from(list.len()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_finds_the_text_as_it_came() {
        let json = br#"{"a": {"b/c": [1, {"d~": 1.0e5}]}, "n": 3, "list": [1,2]}"#;
        let table = [
            ("/a/b~1c/1/d~0", Some("1.0e5")),
            ("/n", Some("3")),
            ("/list", Some("[1,2]")),
            ("/x", None),
            ("/n/x", None),
            ("/list/9", None),
        ];
        for (pointer, expected) in table {
            assert_eq!(raw_at(json, pointer).map(RawValue::get), expected, "{pointer}");
        }
        assert_eq!([counted(json, "/n"), counted(json, "/list"), counted(json, "/a")], [Some(3), Some(2), None]);
        assert!(raw_at(b"[1]", "").is_some());
    }
}
