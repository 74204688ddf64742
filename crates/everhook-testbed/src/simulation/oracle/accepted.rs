//! Rules about what publishers were told.

use std::collections::{BTreeMap, BTreeSet};

use everhook_core::{ids::EventId, model::Fingerprint};

use super::Evidence;
use crate::simulation::log::{Answered, EndpointNo, Happening, PublicationNo, Publishing};

pub(super) fn every_accepted_event_is_kept(evidence: &Evidence<'_>) -> Result<(), String> {
    for (asked, answer) in answers(evidence) {
        if let Some(event) = event_of(answer)
            && !evidence.stored.events.contains_key(&event)
        {
            return Err(format!("{} was told of {event}, which is not there", asked.publication));
        }
    }
    Ok(())
}

pub(super) fn every_match_has_one_delivery(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut made: BTreeMap<EventId, Vec<EndpointNo>> = BTreeMap::new();
    for delivery in evidence.stored.deliveries.iter().filter(|delivery| delivery.replay_of.is_none()) {
        let Some(endpoint) = evidence.number_of(delivery.lane_id.endpoint()) else {
            return Err(format!("{} goes to a stranger", delivery.id));
        };
        made.entry(delivery.event).or_default().push(endpoint);
    }
    for (asked, answer) in answers(evidence) {
        let Answered::Accepted(event, count) = answer else { continue };
        let made = made.get(&event).map_or(&[][..], Vec::as_slice);
        let endpoints: BTreeSet<EndpointNo> = made.iter().copied().collect();
        let as_told = endpoints.len() == made.len() && made.len() == count as usize;
        let complete = asked.wanted_by.iter().all(|endpoint| endpoints.contains(endpoint));
        let no_others = endpoints.iter().all(|endpoint| asked.wanted_by.contains(endpoint) || asked.perhaps_by.contains(endpoint));
        if !(as_told && complete && no_others) {
            let (publication, wanted, perhaps) = (asked.publication, &asked.wanted_by, &asked.perhaps_by);
            return Err(format!(
                "{publication} made {event}, was told of {count} deliveries, is wanted by {wanted:?}, perhaps {perhaps:?}, and there are {made:?}"
            ));
        }
    }
    Ok(())
}

pub(super) fn a_key_names_one_event(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for event in evidence.stored.events.values() {
        if let Some(other) = seen.insert((event.application, event.idempotency_key.as_str()), event.id) {
            return Err(format!("the key {} names {other} and {}", event.idempotency_key, event.id));
        }
    }
    Ok(())
}

pub(super) fn a_used_key_finds_its_event(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut known: BTreeMap<(usize, &str), (EventId, Fingerprint)> = BTreeMap::new();
    for (asked, answer) in answers(evidence) {
        let Some(key) = asked.key.as_deref() else { continue };
        let told = |event: EventId, original: EventId| {
            Err(format!("{} was told of {event} for the key {key}, which belongs to {original}", asked.publication))
        };
        let name = (asked.application, key);
        match (answer, known.get(&name)) {
            (Answered::NotAccepted, _) | (Answered::KeyReused(_), None) => {}
            (Answered::Accepted(event, _) | Answered::Duplicate(event), None) => _ = known.insert(name, (event, asked.fingerprint)),
            (Answered::Accepted(event, _), Some((original, _))) => return told(event, *original),
            (Answered::Duplicate(event) | Answered::KeyReused(event), Some((original, _))) if event != *original => {
                return told(event, *original);
            }
            (Answered::Duplicate(_), Some((_, said))) if *said != asked.fingerprint => {
                return Err(format!("{} says something else under the key {key} and was taken for a duplicate", asked.publication));
            }
            (Answered::KeyReused(original), Some((_, said))) if *said == asked.fingerprint && !is_erasing(evidence, original) => {
                return Err(format!("{} says the same under the key {key} and was refused", asked.publication));
            }
            (Answered::Duplicate(_) | Answered::KeyReused(_), Some(_)) => {}
        }
    }
    Ok(())
}

fn is_erasing(evidence: &Evidence<'_>, event: EventId) -> bool {
    evidence.entries.iter().any(|entry| matches!(entry.what, Happening::Erasing(erased) if erased == event))
}

pub(super) fn every_recall_is_kept(evidence: &Evidence<'_>) -> Result<(), String> {
    let brought_back: BTreeSet<_> = evidence.stored.deliveries.iter().filter(|row| row.replay_of.is_some()).map(|row| row.id).collect();
    for entry in evidence.entries {
        if let Happening::Recalled(delivery) = entry.what
            && !brought_back.contains(&delivery)
        {
            return Err(format!("delivery {delivery} is not there"));
        }
    }
    Ok(())
}

pub(super) fn the_erased_stay_erased(evidence: &Evidence<'_>) -> Result<(), String> {
    let (mut asked, mut done) = (BTreeSet::new(), BTreeSet::new());
    for entry in evidence.entries {
        match entry.what {
            Happening::Erasing(event) => _ = asked.insert(event),
            Happening::Erased(event) => _ = done.insert(event),
            _ => {}
        }
    }
    for event in evidence.stored.events.values() {
        match event.erased_at {
            None if done.contains(&event.id) => return Err(format!("event {} is not erased", event.id)),
            Some(_) if !asked.contains(&event.id) => return Err(format!("event {} is erased, and nobody asked for that", event.id)),
            _ => {}
        }
    }
    Ok(())
}

fn event_of(answer: Answered) -> Option<EventId> {
    match answer {
        Answered::Accepted(event, _) | Answered::Duplicate(event) => Some(event),
        Answered::KeyReused(_) | Answered::NotAccepted => None,
    }
}

/// What was asked and what was answered, in the order of the answers.
fn answers<'a>(evidence: &Evidence<'a>) -> Vec<(&'a Publishing, Answered)> {
    let mut asked: BTreeMap<PublicationNo, &Publishing> = BTreeMap::new();
    let mut answers = Vec::new();
    for entry in evidence.entries {
        match &entry.what {
            Happening::Publishing(publishing) => {
                asked.insert(publishing.publication, publishing);
            }
            Happening::Answered(publication, answer) => answers.push((asked[publication], *answer)),
            _ => {}
        }
    }
    answers
}
