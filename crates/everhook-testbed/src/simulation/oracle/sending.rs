//! Rules about when a request may begin. Each walks through the log and keeps what it needs to know of every endpoint.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use everhook_core::{policy::retry_after::HOLD_MAX, time::Timestamp};

use super::Evidence;
use crate::simulation::{
    log::{EndpointNo, Entry, Happening, Reply},
    settings::{Change, EndpointStatus, Order},
};

/// For how long an outcome may be unwritten before nothing new is sent.
const STALLED_AFTER: Duration = Duration::from_millis(1_500);

pub(super) fn nothing_goes_to_a_closed_endpoint(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut is_closed: BTreeMap<EndpointNo, bool> = BTreeMap::new();
    for entry in evidence.entries {
        match &entry.what {
            Happening::Changed(endpoint, Change::Disable | Change::Delete) => {
                is_closed.insert(*endpoint, true);
            }
            // From the moment that it is asked for, nobody outside knows whether it is open.
            Happening::Changing(endpoint, Change::Enable) => {
                is_closed.insert(*endpoint, false);
            }
            Happening::Found(endpoint, found) => {
                is_closed.insert(*endpoint, found.status != EndpointStatus::Open);
            }
            Happening::RequestBegan(request) if is_closed.get(&request.endpoint) == Some(&true) => {
                return Err(format!("{} went to {}", request.request, request.endpoint));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A request that was on the wire may end, but none begins.
pub(super) fn nothing_of_an_erased_event_is_sent(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut erased = BTreeSet::new();
    for entry in evidence.entries {
        match &entry.what {
            Happening::Erased(event) => _ = erased.insert(*event),
            Happening::RequestBegan(request) if erased.contains(&request.event) => {
                return Err(format!("{} carries event {}", request.request, request.event));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn nothing_goes_to_a_paused_endpoint(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut is_paused: BTreeMap<EndpointNo, bool> = BTreeMap::new();
    for entry in evidence.entries {
        match &entry.what {
            Happening::Changed(endpoint, Change::Pause) => {
                is_paused.insert(*endpoint, true);
            }
            Happening::Changing(endpoint, Change::Resume(_)) => {
                is_paused.insert(*endpoint, false);
            }
            Happening::Found(endpoint, found) => {
                is_paused.insert(*endpoint, found.paused);
            }
            Happening::RequestBegan(request) if is_paused.get(&request.endpoint) == Some(&true) => {
                return Err(format!("{} went to {}", request.request, request.endpoint));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn the_gone_are_left_alone(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut gone: BTreeMap<EndpointNo, &Entry> = BTreeMap::new();
    for entry in evidence.entries {
        match &entry.what {
            Happening::RequestEnded(_, endpoint, Reply::Status(410, _)) => {
                gone.insert(*endpoint, entry);
            }
            Happening::Changing(endpoint, Change::Enable) => {
                gone.remove(endpoint);
            }
            // What was said just before is perhaps not written.
            interruption if interruption.is_interruption() => gone.retain(|_, said| evidence.written_by(said.lived) < entry.lived),
            // Requests that were decided on at the same instant are under way already.
            Happening::RequestBegan(request) if gone.get(&request.endpoint).is_some_and(|said| said.at < entry.at) => {
                return Err(format!("{} went to {}", request.request, request.endpoint));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A request to be left alone (`Retry-After`).
struct Hold {
    said_at: Timestamp,
    until: Timestamp,
}

pub(super) fn retry_after_holds_the_endpoint(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut holds: BTreeMap<EndpointNo, Hold> = BTreeMap::new();
    for entry in evidence.entries {
        match &entry.what {
            Happening::RequestEnded(_, endpoint, reply) => {
                if let Some(asked) = reply.retry_after() {
                    holds.insert(*endpoint, Hold { said_at: entry.at, until: entry.at + asked.min(HOLD_MAX) });
                } else if reply.is_success() {
                    holds.remove(endpoint);
                }
            }
            Happening::Changing(endpoint, Change::Enable | Change::Breaker(Order::Reset)) => {
                holds.remove(endpoint);
            }
            // The hold is the owner's memory, and gone with it; each delivery's own wait is in the store.
            interruption if interruption.is_interruption() => holds.clear(),
            Happening::RequestBegan(request) => {
                if let Some(hold) = holds.get(&request.endpoint)
                    && hold.said_at < entry.at
                    && entry.at < hold.until
                {
                    return Err(format!("{} went to {}, {:?} too early", request.request, request.endpoint, hold.until.since(entry.at)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Otherwise a disk that is full for long would have the same events sent again after every restart.
pub(super) fn nothing_is_sent_while_outcomes_pile_up(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut is_full = false;
    let mut first_unwritten: Option<Duration> = None;
    for entry in evidence.entries {
        match &entry.what {
            Happening::DiskFilled => is_full = true,
            Happening::DiskFreed => (is_full, first_unwritten) = (false, None),
            interruption if interruption.is_interruption() => first_unwritten = None,
            Happening::RequestEnded(_, _, reply) if is_full && *reply != Reply::Abandoned => {
                first_unwritten.get_or_insert(entry.lived);
            }
            Happening::RequestBegan(request) if first_unwritten.is_some_and(|since| since + STALLED_AFTER < entry.lived) => {
                return Err(format!("{} began", request.request));
            }
            _ => {}
        }
    }
    Ok(())
}
