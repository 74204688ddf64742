//! What was erased lately: asked just before a request is made, so that nothing of an erased event is sent after its erasure was answered.
//!
//! The store says what is erased, and lanes drop what they keep. What remains is on its way between the two: a read of a backlog that began before the
//! erasure, a hint that is still in its channel, a flight that has its event and has not sent it. All of these pass within seconds, so that a minute of
//! memory covers them.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustc_hash::FxHashSet;

use crate::{
    ids::EventId,
    line::{Line, recall::open_destination},
    model::Due,
    ports::{Committed, FreedInLane},
    time::Timestamp,
};

/// How long an erased event is remembered: several times as long as a hint or a read may be under way. An operation erases some thousand a second at
/// most, so that this is a few megabytes.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// The events that were erased in the last minute. Costs one read of a flag while there are none.
#[derive(Default)]
pub struct Erasures {
    is_any: AtomicBool,
    recent: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    events: FxHashSet<EventId>,
    /// The same, in the order of their erasure.
    by_age: VecDeque<(Timestamp, EventId)>,
}

impl Erasures {
    /// Whether nothing of this event may be sent, because it was erased lately.
    pub fn has(&self, event: EventId, now: Timestamp) -> bool {
        if !self.is_any.load(Ordering::Acquire) {
            return false;
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.forget_old(now);
        self.is_any.store(!recent.events.is_empty(), Ordering::Release);
        recent.events.contains(&event)
    }

    /// Takes the data of an erased event from a delivery that is about to wait with it.
    pub(crate) fn unload(&self, due: &mut Due, now: Timestamp) {
        if due.loaded.is_some() && self.has(due.event, now) {
            due.loaded = None;
        }
    }

    pub(crate) fn remember(&self, events: &[EventId], now: Timestamp) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.forget_old(now);
        for event in events {
            if recent.events.insert(*event) {
                recent.by_age.push_back((now, *event));
            }
        }
        self.is_any.store(!recent.events.is_empty(), Ordering::Release);
    }
}

impl Recent {
    fn forget_old(&mut self, now: Timestamp) {
        while let Some((at, event)) = self.by_age.front().copied()
            && now.since(at) >= REMEMBERED_FOR
        {
            self.by_age.pop_front();
            self.events.remove(&event);
        }
    }
}

/// After events were erased in the store, and before anybody gets an answer: takes them out of memory, and hands what was held behind them to its lanes.
pub(crate) async fn withdraw(line: &Line, events: Vec<EventId>, freed: Vec<FreedInLane>) {
    line.erasures.remember(&events, line.ports.clock.now());
    line.wake_up.erased(events);
    hand_over(line, freed).await;
}

/// Hands deliveries that wait now to their lanes.
pub(crate) async fn hand_over(line: &Line, freed: Vec<FreedInLane>) {
    let mut committed = Vec::with_capacity(freed.len());
    for FreedInLane { application, lane_id, freed } in freed {
        // What cannot be looked up now is found by the lanes' periodic look.
        if let Ok(Some(destination)) = open_destination(line, application, lane_id).await {
            committed.push(Committed { lane: destination.lane().clone(), priority: freed.priority, due: freed.due });
        }
    }
    if !committed.is_empty() {
        line.wake_up.committed(committed);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_erased_event_is_remembered_for_a_minute() {
        let erasures = Erasures::default();
        let event = |n| EventId::from_uuid(Uuid::from_u128(n));
        let at = Timestamp::from_secs;
        assert!(!erasures.has(event(1), at(0)));
        erasures.remember(&[event(1), event(2)], at(0));
        erasures.remember(&[event(3)], at(30));
        // event, seconds → is it known
        let table = [(1, 0, true), (1, 59, true), (3, 59, true), (4, 59, false), (1, 60, false), (3, 89, true), (3, 90, false)];
        for (number, secs, expected) in table {
            assert_eq!(erasures.has(event(number), at(secs)), expected, "{number} after {secs} s");
        }
        assert!(!erasures.is_any.load(Ordering::Acquire), "nothing is left to ask about");
    }
}
