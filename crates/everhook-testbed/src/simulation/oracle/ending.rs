//! Rules about how deliveries end.

use std::collections::BTreeSet;

use everhook_core::{
    ids::{EndpointId, EventId},
    model::{CancelCause, DeathCause, Delivery, Stage},
    time::Timestamp,
};

use super::Evidence;
use crate::simulation::{
    log::{EndpointNo, Happening, Reply},
    settings::{Change, EndpointStatus},
};

pub(super) fn every_delivery_has_ended(evidence: &Evidence<'_>) -> Result<(), String> {
    each_delivery(evidence, |delivery| match delivery.stage {
        Stage::Waiting { due_at } => Err(format!("delivery {} still waits, for {due_at}", delivery.id)),
        Stage::Held => Err(format!("delivery {} is still held", delivery.id)),
        Stage::Parked(_) => Err(format!("delivery {} is still parked", delivery.id)),
        _ => Ok(()),
    })
}

pub(super) fn deliveries_end_in_time(evidence: &Evidence<'_>) -> Result<(), String> {
    each_delivery(evidence, |delivery| {
        let (Some(ended_at), Some(due)) = (ended_at(&delivery.stage), evidence.due_ends.get(&delivery.id)) else { return Ok(()) };
        if ended_at <= *due { Ok(()) } else { Err(format!("delivery {} ended at {ended_at}, not by {due}", delivery.id)) }
    })
}

pub(super) fn the_delivered_were_answered(evidence: &Evidence<'_>) -> Result<(), String> {
    let answered: BTreeSet<_> = evidence
        .requests
        .iter()
        .filter(|requested| requested.end.is_some_and(|(_, reply)| reply.is_success()))
        .map(|requested| requested.request.delivery)
        .collect();
    each_delivery(evidence, |delivery| match delivery.stage {
        Stage::Delivered { .. } if !answered.contains(&delivery.id) => Err(format!("delivery {} never was", delivery.id)),
        _ => Ok(()),
    })
}

pub(super) fn the_dead_had_a_reason(evidence: &Evidence<'_>) -> Result<(), String> {
    each_delivery(evidence, |delivery| {
        let Stage::Dead { cause, .. } = delivery.stage else { return Ok(()) };
        let Some(endpoint) = evidence.number_of(delivery.lane_id.endpoint()) else { return Ok(()) };
        let schedule = &evidence.facts(endpoint).schedule;
        let said = |wanted: &dyn Fn(u16) -> bool| {
            let replies = evidence.requests.iter().filter(|requested| requested.request.delivery == delivery.id);
            replies.filter_map(|requested| requested.end).any(|(_, reply)| matches!(reply, Reply::Status(status, _) if wanted(status)))
        };
        let has_reason = match cause {
            DeathCause::RetriesExhausted => delivery.attempts == schedule.max_attempts,
            DeathCause::Gone => said(&|status| status == 410),
            DeathCause::GivenUp => said(&|status| schedule.give_up_on.contains(&status)),
            DeathCause::TlsFailed => delivery.attempts >= 3,
        };
        if has_reason {
            Ok(())
        } else {
            Err(format!("delivery {} is dead ({}) after {} attempts", delivery.id, cause.as_str(), delivery.attempts))
        }
    })
}

pub(super) fn the_dead_are_listed(evidence: &Evidence<'_>) -> Result<(), String> {
    each_delivery(evidence, |delivery| match delivery.stage {
        // There is one for the first delivery and all that brought it back.
        Stage::Dead { .. } if !evidence.stored.dead_letters.contains(&delivery.replay_of.unwrap_or(delivery.id)) => {
            Err(format!("delivery {} is dead and not listed", delivery.id))
        }
        _ => Ok(()),
    })
}

pub(super) fn every_death_is_told_once(evidence: &Evidence<'_>) -> Result<(), String> {
    let dead = |delivery: &&Delivery| matches!(delivery.stage, Stage::Dead { .. }) && !evidence.operational.contains(&delivery.application);
    let deaths = evidence.stored.deliveries.iter().filter(dead).count();
    let exhausted = |event: &&everhook_core::ports::EventSummary| event.event_type.as_str() == "message.attempt.exhausted";
    let told = evidence.stored.events.values().filter(exhausted).count();
    if deaths == told { Ok(()) } else { Err(format!("{deaths} deliveries died, and {told} deaths were told")) }
}

pub(super) fn the_cancelled_had_a_closed_endpoint(evidence: &Evidence<'_>) -> Result<(), String> {
    let ever_closed: BTreeSet<EndpointNo> = evidence
        .entries
        .iter()
        .filter_map(|entry| match &entry.what {
            Happening::Changing(endpoint, Change::Disable | Change::Delete)
            | Happening::RequestEnded(_, endpoint, Reply::Status(410, _)) => Some(*endpoint),
            Happening::Found(endpoint, found) if found.status != EndpointStatus::Open => Some(*endpoint),
            _ => None,
        })
        .collect();
    let was_closed = |id: EndpointId| evidence.number_of(id).is_some_and(|endpoint| ever_closed.contains(&endpoint));
    let is_erased = |id: EventId| evidence.stored.events.get(&id).is_some_and(|event| event.erased_at.is_some());
    each_delivery(evidence, |delivery| match delivery.stage {
        Stage::Cancelled { cause: CancelCause::Erased, .. } if is_erased(delivery.event) => Ok(()),
        Stage::Cancelled { .. } if !was_closed(delivery.lane_id.endpoint()) => Err(format!("delivery {} is cancelled", delivery.id)),
        _ => Ok(()),
    })
}

fn ended_at(stage: &Stage) -> Option<Timestamp> {
    match *stage {
        Stage::Waiting { .. } | Stage::Held | Stage::Parked(_) => None,
        Stage::Delivered { at } | Stage::Dead { at, .. } | Stage::Cancelled { at, .. } => Some(at),
    }
}

fn each_delivery(evidence: &Evidence<'_>, check: impl Fn(&Delivery) -> Result<(), String>) -> Result<(), String> {
    evidence.stored.deliveries.iter().try_for_each(check)
}
