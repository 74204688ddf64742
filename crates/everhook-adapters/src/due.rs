//! Which of the deliveries that were read want their events: shared by both stores, whose way to read events differs.

use everhook_core::{
    model::Due,
    ports::{DueRead, DueRequest},
};

/// The deliveries that whoever asked does not have yet, in the order of the queues.
pub(crate) fn unknown<'a>(request: &'a DueRequest, reads: &'a mut [DueRead]) -> impl Iterator<Item = &'a mut Due> {
    let queues = request.queues.iter().zip(reads);
    queues.flat_map(|(queue, read)| read.rows.iter_mut().filter(|due| !queue.known.contains(&due.delivery)))
}
