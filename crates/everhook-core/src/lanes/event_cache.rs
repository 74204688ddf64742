//! The events that waiting deliveries keep in memory, each once, however many lanes it waits in. Pure, and bounded in bytes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{
    ids::{EventId, OrganizationId},
    model::{Due, Event},
};

/// How many bytes of events may be kept. What does not fit is read from the store at sending.
pub(super) const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// An organization may keep so many times as many bytes as are free: three quarters if it is alone, and there is always something for the next.
const OF_FREE_MAX: usize = 3;

/// Events that are kept for the deliveries that wait with them.
#[derive(Default)]
pub(super) struct EventCache {
    events: FxHashMap<EventId, Kept>,
    bytes: usize,
    bytes_by_organization: FxHashMap<OrganizationId, usize>,
}

struct Kept {
    organization: OrganizationId,
    event: Arc<Event>,
    deliveries: u32,
}

impl EventCache {
    /// How many more bytes fit.
    pub(super) fn room(&self) -> usize {
        EVENT_BYTES_MAX.saturating_sub(self.bytes)
    }

    /// A delivery begins to wait in memory. It shares the event if that is here, brings it if it fits, and does without otherwise.
    pub(super) fn put(&mut self, organization: OrganizationId, due: &mut Due) {
        if let Some(kept) = self.events.get_mut(&due.event) {
            kept.deliveries += 1;
            due.loaded = Some(kept.event.clone());
            return;
        }
        let Some(event) = due.loaded.take() else { return };
        let held = self.bytes_by_organization.get(&organization).copied().unwrap_or(0);
        if event.data.len() > self.room() || held + event.data.len() > self.room() * OF_FREE_MAX {
            return;
        }
        self.bytes += event.data.len();
        self.bytes_by_organization.insert(organization, held + event.data.len());
        due.loaded = Some(event.clone());
        self.events.insert(due.event, Kept { organization, event, deliveries: 1 });
    }

    /// Drops an event, whoever waits with it. Says whether it was here: then those that share it still hold it.
    pub(super) fn drop_event(&mut self, event: EventId) -> bool {
        let Some(dropped) = self.events.remove(&event) else { return false };
        let bytes = dropped.event.data.len();
        self.bytes -= bytes;
        if let Some(held) = self.bytes_by_organization.get_mut(&dropped.organization) {
            *held -= bytes;
            if *held == 0 {
                self.bytes_by_organization.remove(&dropped.organization);
            }
        }
        true
    }

    /// A delivery waits no longer. What it brought goes with the last one that shared it.
    pub(super) fn take(&mut self, due: &Due) {
        if due.loaded.is_none() {
            return;
        }
        let Some(kept) = self.events.get_mut(&due.event) else { return };
        kept.deliveries -= 1;
        if kept.deliveries == 0 {
            self.drop_event(due.event);
        }
    }
}
