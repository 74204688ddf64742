//! The rule about how soon a request begins: whatever others do, an endpoint that is well and idle does not wait.

use std::time::Duration;

use super::Evidence;
use crate::simulation::log::{Entry, Happening};

/// How soon the first attempt of an event begins whose endpoint has nothing else to do.
const AT_ONCE: Duration = Duration::from_millis(100);

/// How long after a start everything is as before: the store was looked at once, also if that failed at first.
const STARTED_FOR: Duration = Duration::from_secs(10);

/// How long after a full disk or a jump of the clock outcomes are written again.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

pub(super) fn the_idle_are_served_at_once(evidence: &Evidence<'_>) -> Result<(), String> {
    for (line, entry) in evidence.entries.iter().enumerate() {
        let Happening::DueAtOnce(event) = &entry.what else { continue };
        let by = entry.lived + AT_ONCE;
        // What comes after it is not known yet.
        if evidence.entries.last().is_none_or(|last| last.lived <= by) || has_excuse(evidence.entries, line) {
            continue;
        }
        // The request may begin before its publisher is answered.
        let in_time = |requested: &&super::Requested<'_>| evidence.entries[requested.begun].lived <= by;
        let first = evidence.requests.iter().filter(in_time).find(|requested| requested.request.event == *event);
        if first.is_none() {
            return Err(format!("event {event}, accepted at {:?}, was not sent within {AT_ONCE:?}", entry.lived));
        }
    }
    Ok(())
}

/// Whether something was wrong with the process, its store or its clock just before, or went wrong before the time was over.
fn has_excuse(entries: &[Entry], line: usize) -> bool {
    let at = entries[line].lived;
    let mut before = entries[..line].iter().rev().take_while(|entry| entry.lived + STARTED_FOR >= at);
    let was_wrong = before.any(|entry| match &entry.what {
        Happening::Started => true,
        Happening::DiskFreed | Happening::ClockMoved(_) => entry.lived + SETTLED_AFTER >= at,
        what => what.is_interruption(),
    });
    let mut after = entries[line..].iter().take_while(|entry| entry.lived <= at + AT_ONCE);
    let goes_wrong = after.any(|entry| match &entry.what {
        Happening::FaultPlanned(_) | Happening::DiskFilled | Happening::DeathPlanned(_) | Happening::ClockMoved(_) => true,
        what => what.is_interruption(),
    });
    was_wrong || goes_wrong
}
