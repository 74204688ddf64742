//! Rules about deliveries that go one after the other.

use std::{collections::BTreeMap, time::Duration};

use everhook_core::{
    ids::{ApplicationId, DeliveryId, EndpointId},
    model::{Delivery, OrderingMode, Stage},
    time::Timestamp,
};

use super::Evidence;
use crate::simulation::{
    log::{Answered, EndpointNo, Happening, PublicationNo, RequestNo},
    settings::Change,
};

/// Within how much lived time the engine's look, every five seconds, frees what is held behind nothing, also if it fails a few times.
const FREED_WITHIN: Duration = Duration::from_secs(15);

/// Whatever was answered before something was asked for comes before it.
pub(super) fn places_follow_acceptance(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut last: BTreeMap<ApplicationId, i64> = BTreeMap::new();
    let mut last_when_asked: BTreeMap<PublicationNo, BTreeMap<ApplicationId, i64>> = BTreeMap::new();
    for entry in evidence.entries {
        let (application, position, floor) = match &entry.what {
            Happening::Publishing(asked) => {
                last_when_asked.insert(asked.publication, last.clone());
                continue;
            }
            Happening::Answered(publication, Answered::Accepted(event, _)) => {
                let Some(event) = evidence.stored.events.get(event) else { continue };
                let floor = last_when_asked.get(publication).and_then(|last| last.get(&event.application));
                (event.application, event.sequence_number, floor.copied())
            }
            Happening::Recalled(delivery) => {
                let (Some(place), Some(row)) = (evidence.stored.places.get(delivery), evidence.stored(*delivery)) else { continue };
                (row.application, place.position, last.get(&row.application).copied())
            }
            _ => continue,
        };
        if floor.is_some_and(|floor| position <= floor) {
            return Err(format!("{} has place {position} after {floor:?}", entry.what));
        }
        let last = last.entry(application).or_insert(position);
        *last = position.max(*last);
    }
    Ok(())
}

/// An endpoint's mode, as it was when a delivery was made, decides its key; its event decides its place.
pub(super) fn keys_follow_the_mode(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut modes: BTreeMap<EndpointNo, OrderingMode> = BTreeMap::new();
    let mut when_asked: BTreeMap<PublicationNo, (BTreeMap<EndpointNo, OrderingMode>, Option<&str>)> = BTreeMap::new();
    let mut by_event: BTreeMap<_, Vec<&Delivery>> = BTreeMap::new();
    for delivery in evidence.stored.deliveries.iter().filter(|delivery| delivery.replay_of.is_none()) {
        by_event.entry(delivery.event).or_default().push(delivery);
    }
    for entry in evidence.entries {
        if let Some((endpoint, mode)) = mode_of(&entry.what) {
            modes.insert(endpoint, mode);
        }
        match &entry.what {
            Happening::Publishing(asked) => _ = when_asked.insert(asked.publication, (modes.clone(), asked.ordering_key.as_deref())),
            Happening::Answered(publication, Answered::Accepted(event, _)) => {
                let Some((modes, ordering_key)) = when_asked.get(publication) else { continue };
                for delivery in by_event.get(event).into_iter().flatten() {
                    let endpoint = evidence.number_of(delivery.lane_id.endpoint());
                    let mode = endpoint.and_then(|endpoint| modes.get(&endpoint).copied());
                    check_place(evidence, delivery, mode.unwrap_or_default(), *ordering_key)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_place(evidence: &Evidence<'_>, delivery: &Delivery, mode: OrderingMode, ordering_key: Option<&str>) -> Result<(), String> {
    let of_event = evidence.stored.events.get(&delivery.event);
    let is_erased = of_event.is_some_and(|event| event.erased_at.is_some());
    let place = evidence.stored.places.get(&delivery.id);
    let is_right = match (mode, ordering_key, place) {
        (OrderingMode::None, _, None) | (OrderingMode::PerKey, None, None) => true,
        // Behind a barrier, it has a key to itself.
        (OrderingMode::None, _, Some(place)) | (OrderingMode::PerKey, None, Some(place)) => place.key.starts_with('#'),
        (OrderingMode::PerEventType, _, Some(place)) => place.key == delivery.event_type.as_str(),
        (OrderingMode::PerKey, Some(key), Some(place)) => place.key.strip_prefix('=') == Some(key),
        // An ordering key may say whom an event is about, and goes with its data.
        (OrderingMode::PerKey, Some(_), None) => is_erased,
        (OrderingMode::Strict, _, Some(place)) => place.key.is_empty(),
        (OrderingMode::PerEventType | OrderingMode::Strict, _, None) => false,
    };
    let of_event = of_event.map(|event| event.sequence_number);
    let is_at_its_place = place.is_none_or(|place| Some(place.position) == of_event);
    if is_right && is_at_its_place {
        return Ok(());
    }
    Err(format!("delivery {} was made under {mode:?} and has {place:?}, its event {of_event:?}", delivery.id))
}

fn mode_of(what: &Happening) -> Option<(EndpointNo, OrderingMode)> {
    match what {
        Happening::EndpointMade(endpoint, settings) | Happening::Found(endpoint, settings) => Some((*endpoint, settings.ordering)),
        Happening::Changed(endpoint, Change::Order(mode)) => Some((*endpoint, *mode)),
        _ => None,
    }
}

/// Those before a delivery, as they are known so far: what of them came last.
#[derive(Default)]
struct Predecessors {
    last_request: Option<(usize, RequestNo)>,
    last_end: Option<(Timestamp, DeliveryId)>,
}

impl Predecessors {
    fn add(&mut self, evidence: &Evidence<'_>, delivery: &Delivery) {
        let requests = evidence.by_delivery.get(&delivery.id).and_then(|numbers| numbers.last());
        let last = requests.map(|number| (evidence.requests[*number].begun, evidence.requests[*number].request.request));
        self.last_request = self.last_request.max(last);
        let ended_at = match delivery.stage {
            Stage::Waiting { .. } | Stage::Held | Stage::Parked(_) => Timestamp::FAR_FUTURE,
            Stage::Delivered { at } | Stage::Dead { at, .. } | Stage::Cancelled { at, .. } => at,
        };
        self.last_end = self.last_end.max(Some((ended_at, delivery.id)));
    }

    /// Whether all of them had ended when the delivery was first sent. A repeat of one of them would come after it.
    fn have_ended_before(&self, evidence: &Evidence<'_>, delivery: &Delivery) -> Result<(), String> {
        let Some(first) = evidence.by_delivery.get(&delivery.id).and_then(|numbers| numbers.first()) else { return Ok(()) };
        let first = evidence.requests[*first];
        match (self.last_request, self.last_end) {
            (Some((line, earlier)), _) if line > first.begun => {
                Err(format!("{earlier} is of a delivery before the one that {} is of", first.request.request))
            }
            (_, Some((ended_at, earlier))) if ended_at > evidence.shown[first.begun] => {
                Err(format!("{} began before delivery {earlier} had ended, at {ended_at}", first.request.request))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn nobody_overtakes(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut keys: BTreeMap<(EndpointId, &str), BTreeMap<i64, &Delivery>> = BTreeMap::new();
    for delivery in &evidence.stored.deliveries {
        let Some(place) = evidence.stored.places.get(&delivery.id) else { continue };
        let others = keys.entry((delivery.lane_id.endpoint(), &place.key)).or_default();
        if let Some(other) = others.insert(place.position, delivery) {
            return Err(format!("deliveries {} and {} have one place", other.id, delivery.id));
        }
    }
    for deliveries in keys.values() {
        let mut before = Predecessors::default();
        for delivery in deliveries.values() {
            before.have_ended_before(evidence, delivery)?;
            before.add(evidence, delivery);
        }
    }
    Ok(())
}

pub(super) fn one_at_a_time(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut under_way: BTreeMap<(EndpointNo, &str), RequestNo> = BTreeMap::new();
    for entry in evidence.entries {
        match &entry.what {
            Happening::RequestBegan(request) => {
                let Some(place) = evidence.stored.places.get(&request.delivery) else { continue };
                if let Some(other) = under_way.insert((request.endpoint, &place.key), request.request) {
                    return Err(format!("{} began while {other} was under way", request.request));
                }
            }
            Happening::RequestEnded(request, ..) => under_way.retain(|_, other| other != request),
            _ => {}
        }
    }
    Ok(())
}

/// A change of an endpoint's mode.
struct Turn {
    application: ApplicationId,
    endpoint: EndpointId,
    /// Positions up to this one were given before it was asked for.
    last_before: i64,
    /// Positions from this one on were given after it was made.
    first_after: i64,
}

/// What was made before a change of the mode ends before anything that was made after it is sent.
pub(super) fn new_ones_wait_for_a_change_of_mode(evidence: &Evidence<'_>) -> Result<(), String> {
    for turn in turns(evidence) {
        let position = |delivery: &Delivery| match evidence.stored.places.get(&delivery.id) {
            Some(place) => Some(place.position),
            None if delivery.replay_of.is_some() => None,
            None => evidence.stored.events.get(&delivery.event).map(|event| event.sequence_number),
        };
        let of_endpoint = || evidence.stored.deliveries.iter().filter(|delivery| delivery.lane_id.endpoint() == turn.endpoint);
        let mut before = Predecessors::default();
        let made_before = of_endpoint().filter(|delivery| position(delivery).is_some_and(|position| position <= turn.last_before));
        made_before.for_each(|delivery| before.add(evidence, delivery));
        for delivery in of_endpoint().filter(|delivery| position(delivery).is_some_and(|position| position >= turn.first_after)) {
            before.have_ended_before(evidence, delivery)?;
        }
    }
    Ok(())
}

fn turns(evidence: &Evidence<'_>) -> Vec<Turn> {
    let mut modes: BTreeMap<EndpointNo, OrderingMode> = BTreeMap::new();
    let mut last: BTreeMap<ApplicationId, i64> = BTreeMap::new();
    let mut turns: Vec<Turn> = Vec::new();
    for entry in evidence.entries {
        if let Some((endpoint, mode)) = mode_of(&entry.what)
            && modes.insert(endpoint, mode).is_some_and(|earlier| earlier != mode)
        {
            let facts = evidence.facts(endpoint);
            let (application, endpoint) = (facts.application, facts.id);
            let last_before = last.get(&application).copied().unwrap_or(0);
            turns.push(Turn { application, endpoint, last_before, first_after: i64::MAX });
        }
        if let Happening::Answered(_, Answered::Accepted(event, _)) = entry.what
            && let Some(event) = evidence.stored.events.get(&event)
        {
            let last = last.entry(event.application).or_default();
            *last = event.sequence_number.max(*last);
            // What the first try of a publisher made whose answer was lost may be from before: what has a lower place is left out.
            let later = turns.iter_mut().filter(|turn| turn.application == event.application && turn.first_after == i64::MAX);
            later.for_each(|turn| turn.first_after = event.sequence_number);
        }
    }
    turns
}

/// A held delivery that was seen with nothing before it stays so until it is freed.
pub(super) fn no_first_is_held_for_long(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut first_seen: BTreeMap<DeliveryId, Duration> = BTreeMap::new();
    let mut is_full = false;
    for entry in evidence.entries {
        match &entry.what {
            Happening::DiskFilled => is_full = true,
            Happening::DiskFreed => (is_full, first_seen) = (false, BTreeMap::new()),
            interruption if interruption.is_interruption() => first_seen.clear(),
            Happening::HeldFirst(deliveries) if !is_full => {
                for delivery in deliveries {
                    let since = first_seen.entry(*delivery).or_insert(entry.lived);
                    if *since + FREED_WITHIN < entry.lived {
                        return Err(format!("delivery {delivery} is held behind nothing since {since:?}"));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}
