//! The events that waiting deliveries keep in memory, each once, however many lanes it waits in. Pure, and bounded in bytes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{
    ids::EventId,
    model::{Due, Event},
};

/// How many bytes of events may be kept. What does not fit is read from the store at sending.
pub(super) const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Events that are kept for the deliveries that wait with them.
#[derive(Default)]
pub(super) struct Shelf {
    events: FxHashMap<EventId, Kept>,
    bytes: usize,
}

struct Kept {
    event: Arc<Event>,
    deliveries: u32,
}

impl Shelf {
    /// How many more bytes fit.
    pub(super) fn room(&self) -> usize {
        EVENT_BYTES_MAX.saturating_sub(self.bytes)
    }

    /// A delivery begins to wait in memory. It shares the event if that is here, brings it if it fits, and does without otherwise.
    pub(super) fn put(&mut self, due: &mut Due) {
        if let Some(kept) = self.events.get_mut(&due.event) {
            kept.deliveries += 1;
            due.loaded = Some(kept.event.clone());
            return;
        }
        let Some(event) = due.loaded.take() else { return };
        if event.data.len() > self.room() {
            return;
        }
        self.bytes += event.data.len();
        due.loaded = Some(event.clone());
        self.events.insert(due.event, Kept { event, deliveries: 1 });
    }

    /// Drops an event, whoever waits with it. Says whether it was here: then those that share it still hold it.
    pub(super) fn drop_event(&mut self, event: EventId) -> bool {
        let dropped = self.events.remove(&event);
        self.bytes -= dropped.as_ref().map_or(0, |kept| kept.event.data.len());
        dropped.is_some()
    }

    /// A delivery waits no longer. What it brought goes with the last one that shared it.
    pub(super) fn take(&mut self, due: &Due) {
        if due.loaded.is_none() {
            return;
        }
        let Some(kept) = self.events.get_mut(&due.event) else { return };
        kept.deliveries -= 1;
        if kept.deliveries == 0 {
            self.bytes -= kept.event.data.len();
            self.events.remove(&due.event);
        }
    }
}
