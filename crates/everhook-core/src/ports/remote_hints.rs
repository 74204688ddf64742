//! Hints between nodes that share a store. Like every hint they may be lost, repeated or late: the owner of a lane looks for itself once a second.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, EndpointId},
    model::Priority,
};

/// Tells the other nodes what to look at, and hears from them.
#[async_trait]
pub trait RemoteHints: Send + Sync {
    /// Something was made durable in these queues, whose lanes another node owns: whoever does should look. Returns at once and never fails;
    /// what cannot be sent is dropped.
    fn waiting(&self, queues: Vec<WaitingQueue>);

    /// The next hints of other nodes, waiting for them. Called by one task, again and again; dropping the future loses nothing. Those of lanes
    /// that somebody else owns are no harm.
    async fn next(&self) -> Vec<WaitingQueue>;
}

/// One queue of one lane in which something waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitingQueue {
    /// The application of the endpoint.
    pub application: ApplicationId,
    /// Which lane.
    pub endpoint: EndpointId,
    /// Which of its queues.
    pub priority: Priority,
}
