//! Rules about what calls become that the app does not answer: an answer of before, a job with its progress, or a decision.

use std::collections::{BTreeMap, BTreeSet};

use everhook_core::ids::{ApprovalId, EventId};

use super::Evidence;
use crate::simulation::{
    apps::KEPT,
    log::{CallNo, Decision, Entry, Happening, Taken},
};

pub(super) fn only_good_answers_are_kept(evidence: &Evidence<'_>) -> Result<(), String> {
    let (mut calls, mut has_answered) = (BTreeSet::<CallNo>::new(), false);
    for Entry { what, .. } in evidence.entries {
        match what {
            Happening::CallBegan(call, KEPT) => _ = calls.insert(*call),
            Happening::AppAnswered => has_answered = true,
            Happening::CallAnswered(call, "cache") if calls.contains(call) && !has_answered => {
                return Err(format!("{call} was answered by what is kept, before the app had answered anything"));
            }
            Happening::CallAnswered(call, source @ "default") if calls.contains(call) => {
                return Err(format!("{call} was answered by {source}, which its manifest does not name"));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn nothing_progresses_after_its_end(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut ended = BTreeSet::<EventId>::new();
    for Entry { what, .. } in evidence.entries {
        match what {
            Happening::CalledBack(job, _, Taken::Yes) => _ = ended.insert(*job),
            Happening::ProgressReported(job, percent, Taken::Yes) if ended.contains(job) => {
                return Err(format!("{percent} % of job {job} was taken after its app had ended it"));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn progress_is_what_the_app_reported(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut reported: BTreeMap<EventId, BTreeSet<u8>> = BTreeMap::new();
    for Entry { what, .. } in evidence.entries {
        if let Happening::ProgressReported(job, percent, Taken::Yes | Taken::Perhaps) = what {
            reported.entry(*job).or_default().insert(*percent);
        }
    }
    for (job, stored) in &evidence.stored.jobs {
        if let Some(percent) = stored.progress
            && !reported.get(job).is_some_and(|reported| reported.contains(&percent))
        {
            return Err(format!("job {job} shows {percent} %, which its app has not reported"));
        }
    }
    Ok(())
}

pub(super) fn only_the_first_decision_counts(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut first: BTreeMap<ApprovalId, Decision> = BTreeMap::new();
    for (approval, decision) in decided(evidence) {
        let kept = *first.entry(approval).or_insert(decision);
        if kept != decision {
            return Err(format!("approval {approval} was decided {kept:?}, then {decision:?} was taken too"));
        }
    }
    Ok(())
}

pub(super) fn every_approval_is_as_decided(evidence: &Evidence<'_>) -> Result<(), String> {
    let first: BTreeMap<ApprovalId, Decision> = decided(evidence).collect();
    let pending = |entry: &Entry| match entry.what {
        Happening::CallPending(_, approval) => Some(approval),
        _ => None,
    };
    let mut jobs = BTreeSet::new();
    for approval in evidence.entries.iter().filter_map(pending) {
        let Some(stored) = evidence.stored.approvals.get(&approval) else { return Err(format!("approval {approval} is gone")) };
        if first.get(&approval).is_some_and(|decision| stored.decision != Some(*decision)) {
            return Err(format!("approval {approval} was decided {:?}, and is {stored:?}", first.get(&approval)));
        }
        let Some(job) = stored.job else { continue };
        let deliveries = evidence.stored.asked.iter().filter(|delivery| delivery.event == job).count();
        if deliveries != 1 || !jobs.insert(job) {
            return Err(format!("approval {approval} became job {job}, which has {deliveries} deliveries"));
        }
    }
    Ok(())
}

/// The decisions that were taken, in order.
fn decided<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = (ApprovalId, Decision)> + use<'a> {
    evidence.entries.iter().filter_map(|entry| match entry.what {
        Happening::PersonDecided(approval, decision, Taken::Yes) => Some((approval, decision)),
        _ => None,
    })
}
