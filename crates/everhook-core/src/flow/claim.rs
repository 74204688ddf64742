//! Step 2: what is due is read into its lane. Claiming writes nothing: the lane's owner remembers what it took.
//!
//! Most deliveries never pass here: those that were just published go straight into their lane. This reads the rest: retries whose time has
//! come, backlogs larger than a lane's window, and everything that waits when the process starts.

use crate::{
    flow::Line,
    ids::EndpointId,
    model::Priority,
    ports::{DueRead, DueRequest, StoreError},
};

/// How many deliveries one look brings into a lane beside those that it knows already.
pub const CLAIM_BATCH: usize = 1_000;

/// What a lane wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Which lane.
    pub endpoint: EndpointId,
    /// Which of its queues.
    pub priority: Priority,
    /// How many of the deliveries that will be read the lane has in memory already.
    pub known: usize,
    /// How many bytes of events may be brought along.
    pub event_bytes_max: usize,
}

/// Reads what is due in one queue of one lane.
///
/// # Errors
/// [`StoreError`] if the store cannot be read; the lane looks again a little later.
pub async fn claim(line: &Line, look: Look) -> Result<DueRead, StoreError> {
    let request = DueRequest {
        endpoint: look.endpoint,
        priority: look.priority,
        due_by: line.ports.clock.now(),
        limit: u32::try_from(CLAIM_BATCH + look.known).unwrap_or(u32::MAX),
        event_bytes_max: look.event_bytes_max,
    };
    line.ports.deliveries.due(request).await
}
