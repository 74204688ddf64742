//! What both stores do alike about deliveries: which of those that were read want their events, and what one that is made later takes from its event.

use everhook_core::{
    model::{Due, EventType, OrderedBy, OrderingKey, Priority},
    ports::{DueRead, DueRequest},
};

/// The deliveries that whoever asked does not have yet, in the order of the queues.
pub(crate) fn unknown<'a>(request: &'a DueRequest, reads: &'a mut [DueRead]) -> impl Iterator<Item = &'a mut Due> {
    let queues = request.queues.iter().zip(reads);
    queues.flat_map(|(queue, read)| read.rows.iter_mut().filter(|due| !queue.known.contains(&due.delivery)))
}

/// What a delivery that is made later takes from its event.
pub(crate) struct EventFacts {
    pub(crate) event_type: EventType,
    pub(crate) ordering_key: Option<OrderingKey>,
    pub(crate) priority: Priority,
    pub(crate) sequence_number: i64,
    pub(crate) is_erased: bool,
}

impl EventFacts {
    /// What the event says about the order of its deliveries.
    pub(crate) fn ordered_by(&self) -> OrderedBy<'_> {
        OrderedBy { event_type: &self.event_type, key: self.ordering_key.as_ref() }
    }
}
