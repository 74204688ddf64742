//! Step 2: what is due is read into its lane. Claiming writes nothing: the lane's owner remembers what it took.
//!
//! Most deliveries never pass here: those that were just published go straight into their lane. This reads the rest: retries whose time has
//! come, backlogs larger than a lane's window, and everything that waits when the process starts.

use rustc_hash::FxHashSet;

use crate::{
    ids::{DeliveryId, LaneId},
    model::Priority,
    ports::{DeliveryQueue, DueQueue, DueRead, DueRequest, StoreError},
    time::Timestamp,
};

/// How many deliveries one look brings into a lane beside those that it knows already.
pub const CLAIM_BATCH: usize = 1_000;

/// What some lanes want to know.
#[derive(Clone, Debug)]
pub struct DueReads {
    /// Which queues of which lanes.
    pub queues: Vec<QueueRead>,
    /// How many bytes of events may be brought along.
    pub event_bytes_max: usize,
}

/// What one lane wants to know.
#[derive(Clone, Debug)]
pub struct QueueRead {
    /// Which lane.
    pub lane_id: LaneId,
    /// Which of its queues.
    pub priority: Priority,
    /// What is due before this instant is known to the lane, or was found by no survey yet.
    pub due_from: Timestamp,
    /// What the lane has in memory already, and the read will find too.
    pub known: FxHashSet<DeliveryId>,
}

/// Reads what is due in these queues: an answer for each, in their order.
///
/// # Errors
/// [`StoreError`] if the store cannot be read; the lanes look again a little later.
pub async fn claim(deliveries: &dyn DeliveryQueue, look: DueReads, now: Timestamp) -> Result<Vec<DueRead>, StoreError> {
    let queue = |queue: QueueRead| DueQueue {
        lane_id: queue.lane_id,
        priority: queue.priority,
        due_from: queue.due_from,
        limit: u32::try_from(CLAIM_BATCH + queue.known.len()).unwrap_or(u32::MAX),
        known: queue.known,
    };
    let queues = look.queues.into_iter().map(queue).collect();
    let request = DueRequest { queues, due_by: now, event_bytes_max: look.event_bytes_max };
    deliveries.due(request).await
}
