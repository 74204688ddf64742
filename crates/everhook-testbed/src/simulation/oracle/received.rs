//! Rules about what providers push.

use std::collections::BTreeMap;

use everhook_core::model::Stage;

use super::Evidence;
use crate::simulation::log::{Happening, Summary};

pub(super) fn every_accepted_push_is_one_event(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for event in evidence.stored.events.values() {
        // A push is recognized by the source's id and its own key; what repeats it has a key of its own.
        if let Some((_, key)) = event.idempotency_key.split_once(':') {
            *found.entry(key).or_default() += 1;
        }
    }
    for summary in accepted(evidence) {
        let count = found.get(summary.key().as_str()).copied().unwrap_or(0);
        if count != 1 {
            return Err(format!("the push {summary} was accepted, and is {count} events"));
        }
    }
    Ok(())
}

pub(super) fn no_push_is_given_up(evidence: &Evidence<'_>) -> Result<(), String> {
    let given_up = |stage: &Stage| matches!(stage, Stage::Dead { .. } | Stage::Cancelled { .. });
    match evidence.stored.processed.iter().find(|delivery| given_up(&delivery.stage)) {
        Some(delivery) => Err(format!("delivery {} to the processor: {:?}", delivery.id, delivery.stage)),
        None => Ok(()),
    }
}

pub(super) fn every_push_was_processed(evidence: &Evidence<'_>) -> Result<(), String> {
    match evidence.stored.processed.iter().find(|delivery| !matches!(delivery.stage, Stage::Delivered { .. })) {
        Some(delivery) => Err(format!("delivery {} to the processor: {:?}", delivery.id, delivery.stage)),
        None => Ok(()),
    }
}

pub(super) fn a_metric_says_what_was_pushed_last(evidence: &Evidence<'_>) -> Result<(), String> {
    // Pushes about a user come one after the other: the next one follows only the answer to the last.
    let expected: BTreeMap<(u32, u32), u32> = accepted(evidence).map(|summary| ((summary.user, summary.day), summary.steps)).collect();
    let mut found: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for summary in &evidence.stored.summaries {
        if found.insert((summary.user, summary.day), summary.steps).is_some() {
            return Err(format!("there are two metrics of user {} for day {}", summary.user, summary.day));
        }
    }
    for (of, steps) in &expected {
        if found.get(of) != Some(steps) {
            return Err(format!("user {}, day {}: {steps} steps were pushed last, the metric says {:?}", of.0, of.1, found.get(of)));
        }
    }
    match found.keys().find(|of| !expected.contains_key(of)) {
        Some(of) => Err(format!("nobody pushed day {} of user {}", of.1, of.0)),
        None => Ok(()),
    }
}

/// What was pushed and answered with a success, in order.
fn accepted<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = Summary> + use<'a> {
    evidence.entries.iter().filter_map(|entry| match entry.what {
        Happening::PushAnswered(summary, true) => Some(summary),
        _ => None,
    })
}
