//! Rules about signed pushes, and the secrets that they are signed with.

use std::collections::{BTreeMap, BTreeSet};

use everhook_core::ids::EventId;

use super::Evidence;
use crate::simulation::{
    log::{Happening, SignedAnswer},
    shop::key_of,
};

/// The secrets at one line of the log: those that are in force for certain, and those that may be.
#[derive(Default)]
struct Secrets {
    certain: BTreeSet<u32>,
    possible: BTreeSet<u32>,
}

pub(super) fn what_is_signed_with_a_secret_in_force_is_not_refused(evidence: &Evidence<'_>) -> Result<(), String> {
    each_answer(evidence, |push, signed_with, secrets, answer| {
        let is_wrong = answer == SignedAnswer::Refused && secrets.certain.contains(&signed_with);
        if is_wrong { Err(format!("push {push}, signed with secret {signed_with}, was refused")) } else { Ok(()) }
    })
}

pub(super) fn what_is_signed_with_a_former_secret_is_not_taken(evidence: &Evidence<'_>) -> Result<(), String> {
    each_answer(evidence, |push, signed_with, secrets, answer| {
        let is_wrong = answer == SignedAnswer::Taken && !secrets.possible.contains(&signed_with);
        if is_wrong { Err(format!("push {push}, signed with the former secret {signed_with}, was taken")) } else { Ok(()) }
    })
}

pub(super) fn every_signed_push_that_was_taken_has_one_effect(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut by_key: BTreeMap<&str, Vec<EventId>> = BTreeMap::new();
    for event in evidence.stored.events.values() {
        if let Some((_, key)) = event.idempotency_key.split_once(':') {
            by_key.entry(key).or_default().push(event.id);
        }
    }
    for entry in evidence.entries {
        let Happening::SignedAnswered(push, SignedAnswer::Taken) = entry.what else { continue };
        let events = by_key.get(key_of(push).as_str()).map_or(&[][..], Vec::as_slice);
        let deliveries =
            evidence.stored.deliveries.iter().filter(|delivery| events.contains(&delivery.event) && delivery.replay_of.is_none());
        let deliveries = deliveries.count();
        // It has none where its endpoint was disabled by then; that every match has its delivery is a rule of its own.
        if events.len() != 1 || deliveries > 1 {
            return Err(format!("push {push} was taken, and is {} events with {deliveries} deliveries", events.len()));
        }
    }
    Ok(())
}

/// Each answer with the push, the number of the secret that it was signed with, and the secrets at that moment.
fn each_answer(evidence: &Evidence<'_>, check: impl Fn(u32, u32, &Secrets, SignedAnswer) -> Result<(), String>) -> Result<(), String> {
    let (mut secrets, mut signed_with) = (Secrets::default(), None);
    for entry in evidence.entries {
        match &entry.what {
            Happening::SecretsChanging(next) => {
                secrets.possible.extend(next);
                secrets.certain.retain(|number| next.contains(number));
            }
            Happening::SecretsChanged(now) => {
                (secrets.certain, secrets.possible) = (now.iter().copied().collect(), now.iter().copied().collect());
            }
            Happening::SignedPushing(_, number) => signed_with = Some(*number),
            Happening::SignedAnswered(push, answer) => {
                if let Some(number) = signed_with.take() {
                    check(*push, number, &secrets, *answer)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
