//! Rules about calls of an app, and about the jobs that it does later.

use std::{collections::BTreeMap, time::Duration};

use everhook_core::{
    ids::EventId,
    model::{JobStatus, Stage},
};

use super::{Evidence, SETTLED_WITHIN};
use crate::simulation::{
    apps::ANSWERED_WITHIN,
    log::{CallNo, Entry, Happening, Result as JobResult, Taken},
};

/// A job keeps so many tokens; the oldest are forgotten.
const TOKENS_KEPT: usize = everhook_core::model::JOB_TOKENS_MAX;

pub(super) fn every_caller_is_answered_in_time(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut waiting: BTreeMap<CallNo, Duration> = BTreeMap::new();
    for Entry { lived, what, .. } in evidence.entries {
        match what {
            Happening::CallBegan(call, _) => _ = waiting.insert(*call, *lived),
            Happening::CallAnswered(call, _)
            | Happening::CallQueued(call, _)
            | Happening::CallPending(call, _)
            | Happening::CallRefused(call) => {
                if let Some(begun) = waiting.remove(call)
                    && *lived > begun + ANSWERED_WITHIN
                {
                    return Err(format!("{call} waited {:?} for its answer", *lived - begun));
                }
            }
            what if what.is_interruption() => waiting.clear(),
            _ => {}
        }
    }
    let now = evidence.entries.last().map(|entry| entry.lived).unwrap_or_default();
    match waiting.iter().find(|(_, begun)| now > **begun + ANSWERED_WITHIN) {
        Some((call, _)) => Err(format!("{call} was never answered")),
        None => Ok(()),
    }
}

pub(super) fn every_queued_call_is_one_job(evidence: &Evidence<'_>) -> Result<(), String> {
    for job in queued(evidence) {
        let deliveries = evidence.stored.asked.iter().filter(|delivery| delivery.event == job).count();
        if deliveries != 1 || !evidence.stored.events.contains_key(&job) {
            return Err(format!("a caller was told of job {job}, which has {deliveries} deliveries"));
        }
    }
    Ok(())
}

pub(super) fn only_the_first_callback_counts(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut first: BTreeMap<EventId, JobResult> = BTreeMap::new();
    for (job, result) in taken(evidence).map(|(_, job, result)| (job, result)) {
        let kept = *first.entry(job).or_insert(result);
        if kept != result {
            return Err(format!("job {job} was answered {kept:?}, then {result:?} was taken too"));
        }
    }
    Ok(())
}

pub(super) fn nothing_is_asked_after_its_callback(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut answered: BTreeMap<EventId, Duration> = BTreeMap::new();
    for Entry { lived, what, .. } in evidence.entries {
        match what {
            Happening::CalledBack(job, _, Taken::Yes) => _ = answered.entry(*job).or_insert(*lived),
            // The request may have been on its way.
            Happening::AppAsked(job) if answered.get(job).is_some_and(|at| *lived > *at + SETTLED_WITHIN) => {
                return Err(format!("the app was asked to do job {job} again, which it had done"));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn whoever_was_asked_may_answer(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut asked: BTreeMap<EventId, usize> = BTreeMap::new();
    for Entry { what, .. } in evidence.entries {
        match what {
            Happening::AppAsked(job) => *asked.entry(*job).or_default() += 1,
            Happening::CalledBack(job, _, Taken::Unknown) if asked.get(job).is_some_and(|count| *count <= TOKENS_KEPT) => {
                return Err(format!("the app was asked to do job {job}, and its callback found no such job"));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn every_job_has_ended_as_its_app_said(evidence: &Evidence<'_>) -> Result<(), String> {
    let first: BTreeMap<EventId, JobResult> = taken(evidence).map(|(_, job, result)| (job, result)).collect();
    for job in queued(evidence).chain(first.keys().copied()) {
        let Some(stored) = evidence.stored.jobs.get(&job) else { return Err(format!("job {job} is gone")) };
        let is_as_said = match first.get(&job) {
            Some(JobResult::Done(number)) => stored.status == JobStatus::Completed && stored.result == Some(*number),
            Some(JobResult::Failed) => stored.status == JobStatus::Failed,
            None => matches!(stored.status, JobStatus::Dead | JobStatus::Completed | JobStatus::Failed),
        };
        if !is_as_said {
            return Err(format!("the app said {:?} about job {job}, which is {stored:?}", first.get(&job)));
        }
    }
    Ok(())
}

pub(super) fn every_dead_job_is_told_once(evidence: &Evidence<'_>) -> Result<(), String> {
    let dead = evidence.stored.asked.iter().filter(|delivery| matches!(delivery.stage, Stage::Dead { .. })).count();
    let told = evidence.stored.events.values().filter(|event| event.event_type.as_str() == "job.dead").count();
    if dead == told { Ok(()) } else { Err(format!("{dead} jobs died, and {told} deaths were told")) }
}

fn queued<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = EventId> + use<'a> {
    evidence.entries.iter().filter_map(|entry| match entry.what {
        Happening::CallQueued(_, job) => Some(job),
        _ => None,
    })
}

/// The callbacks that were taken, in order.
fn taken<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = (Duration, EventId, JobResult)> + use<'a> {
    evidence.entries.iter().filter_map(|entry| match entry.what {
        Happening::CalledBack(job, result, Taken::Yes) => Some((entry.lived, job, result)),
        _ => None,
    })
}
