//! Part of step 1: which of the endpoints that want an event's type also want its labels and its data.
//!
//! Most endpoints ask for neither, and then nothing is copied or parsed. The data is parsed once an event, and only if a filter asks.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    catalog::{ApplicationView, Destination},
    ids::EndpointId,
    limits::evaluations::{Busy, Evaluated, Evaluations, EventData, NotEvaluated, RequestWork},
    model::{ApplicationKind, Channel, Event, callback_lane},
    policy::{
        calls::job::CALLBACK_LABEL,
        filter::Filter,
        labels::{self, Labels},
        notice::routing,
        work::{FILTER_UNITS_MAX, INLINE_UNITS_MAX, WorkBudget},
    },
    ports::IncomingEvent,
};

/// The destinations that get an event.
pub(crate) type Matches = Arc<[Destination]>;

/// Finds the endpoints of its application that get an event, by their current settings.
///
/// # Errors
/// [`NotEvaluated`] if their filters take too much. Everhook's own events always find them.
pub(crate) async fn select(
    evaluations: &Evaluations,
    incoming: &IncomingEvent,
    view: &ApplicationView,
    data: &mut EventData,
    work: &mut RequestWork,
) -> Result<Matches, NotEvaluated> {
    let candidates = match candidates(incoming, view) {
        Candidates::Chosen(matches) => return Ok(matches),
        Candidates::Filtered(candidates) => candidates,
    };
    if view.application.kind == ApplicationKind::Operational {
        // They are small, and alerts of many organizations are published one after the other: none waits for the filters of another.
        let data = serde_json::from_slice(&incoming.event.data).ok();
        return Ok(filter_or_pass(&candidates, data.as_ref(), &mut WorkBudget::new(INLINE_UNITS_MAX)));
    }
    let filter = move |data: Option<&Value>, budget: &mut WorkBudget| filter(&candidates, data, budget);
    // On the heap, because most endpoints have no filter: publishers carry the room for it with every event.
    Box::pin(work.evaluate(evaluations, incoming.organization, data, FILTER_UNITS_MAX, filter)).await
}

/// As [`select`], for an event that was accepted before: an endpoint whose filter would take too much gets it, because too much is better than too
/// little.
///
/// # Errors
/// [`Busy`] if its filters could not be evaluated in time, which says nothing about them: it must be tried again.
pub(crate) async fn select_accepted(
    evaluations: &Evaluations,
    incoming: &IncomingEvent,
    view: &ApplicationView,
    work: &mut RequestWork,
) -> Result<Matches, Busy> {
    let candidates = match candidates(incoming, view) {
        Candidates::Chosen(matches) => return Ok(matches),
        Candidates::Filtered(candidates) => candidates,
    };
    let mut data = EventData::of(&incoming.event);
    let filter = {
        let candidates = candidates.clone();
        move |data: Option<&Value>, budget: &mut WorkBudget| {
            let is_last_try = budget.units() >= FILTER_UNITS_MAX;
            if is_last_try { Ok(filter_or_pass(&candidates, data, budget)) } else { filter(&candidates, data, budget) }
        }
    };
    match work.evaluate(evaluations, incoming.organization, &mut data, FILTER_UNITS_MAX, filter).await {
        Ok(matches) => Ok(matches),
        Err(NotEvaluated::TooCostly(_) | NotEvaluated::RequestTooCostly) => Ok(candidates),
        Err(NotEvaluated::Busy) => Err(Busy),
    }
}

enum Candidates {
    /// These get it.
    Chosen(Matches),
    /// Those of them whose filters it passes get it.
    Filtered(Matches),
}

fn candidates(incoming: &IncomingEvent, view: &ApplicationView) -> Candidates {
    if incoming.event.is_duplicate() {
        return Candidates::Chosen(Arc::new([]));
    }
    // Processors of a source get all its events: they select neither types nor labels.
    let processor = incoming.event.received.as_ref().and_then(|received| view.processor(received.source));
    if let Some(endpoint) = incoming.only {
        return Candidates::Chosen(view.enabled(endpoint.into()).into_iter().chain(processor).chain(callback(incoming, view)).collect());
    }
    let candidates = with_labels(view.matching(&incoming.event.event_type), &incoming.event.labels);
    let candidates = routed(candidates, &incoming.event);
    let candidates = match processor {
        None => candidates,
        Some(processor) => candidates.iter().cloned().chain([processor]).collect(),
    };
    let has_filter = candidates.iter().any(|destination| filter_of(destination).is_some());
    if has_filter { Candidates::Filtered(candidates) } else { Candidates::Chosen(candidates) }
}

/// Where the caller of a job is notified of its end, if the caller asked for that.
fn callback(incoming: &IncomingEvent, view: &ApplicationView) -> Option<Destination> {
    let is_wanted = incoming.event.labels.contains_key(CALLBACK_LABEL);
    if is_wanted { view.destination(callback_lane(incoming.event.application)) } else { None }
}

/// Without the channels that do not get this event of those that may get its type.
fn routed(candidates: Matches, event: &Event) -> Matches {
    let channel_of = |destination: &Destination| match destination {
        Destination::Channel(to) => Some(to.clone()),
        _ => None,
    };
    let channels: Vec<_> = candidates.iter().filter_map(channel_of).collect();
    if channels.is_empty() {
        return candidates;
    }
    let data = serde_json::from_slice(&event.data).unwrap_or_default();
    let channels: Vec<&Channel> = channels.iter().map(|to| &to.channel).collect();
    let chosen = routing::choose(&channels, &event.event_type, &data);
    let is_chosen =
        |destination: &&Destination| channel_of(destination).is_none_or(|to| chosen.iter().any(|channel| channel.id == to.channel.id));
    candidates.iter().filter(is_chosen).cloned().collect()
}

fn with_labels(by_type: Matches, labels: &Labels) -> Matches {
    if by_type.iter().all(|destination| labels_of(destination).is_none_or(Labels::is_empty)) {
        return by_type;
    }
    let wants = |destination: &&Destination| labels_of(destination).is_none_or(|wanted| labels::has_all(labels, wanted));
    by_type.iter().filter(wants).cloned().collect()
}

/// What an endpoint asks of an event's labels. Channels, processors and capabilities ask nothing.
fn labels_of(destination: &Destination) -> Option<&Labels> {
    destination.endpoint().map(|endpoint| &endpoint.labels)
}

fn filter_of(destination: &Destination) -> Option<(&Filter, EndpointId)> {
    match destination {
        Destination::Endpoint(to) => to.filter.as_deref().map(|filter| (filter, to.endpoint.id)),
        Destination::Channel(_) | Destination::Processor(_) | Destination::Capability(_) | Destination::Callback(_) => None,
    }
}

/// The endpoints whose filter data passes. Data that holds a number which no double can hold, or nests as deep as it may, cannot be looked into, and
/// passes: too much is better than too little.
fn filter(candidates: &Matches, data: Option<&Value>, budget: &mut WorkBudget) -> Evaluated<Matches> {
    let Some(data) = data else { return Ok(candidates.clone()) };
    let mut chosen = Vec::with_capacity(candidates.len());
    for destination in candidates.iter() {
        if passes(destination, data, budget).map_err(Some)? {
            chosen.push(destination.clone());
        }
    }
    Ok(chosen.into())
}

/// The same; what is left when the budget ends passes.
fn filter_or_pass(candidates: &Matches, data: Option<&Value>, budget: &mut WorkBudget) -> Matches {
    let Some(data) = data else { return candidates.clone() };
    candidates.iter().filter(|destination| passes(destination, data, budget).unwrap_or(true)).cloned().collect()
}

fn passes(destination: &Destination, data: &Value, budget: &mut WorkBudget) -> Result<bool, EndpointId> {
    filter_of(destination).map_or(Ok(true), |(filter, endpoint)| filter.passes(data, budget).map_err(|_| endpoint))
}
