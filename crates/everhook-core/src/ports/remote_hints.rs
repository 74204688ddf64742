//! Hints between nodes that share a store. Like every hint they may be lost, repeated or late: the owner of a lane looks for itself once a second.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, EndpointId},
    model::{PoolName, Priority, ShardSet},
};

/// Tells the other nodes what to look at, and hears from them.
#[async_trait]
pub trait RemoteHints: Send + Sync {
    /// Something was made durable in these queues, whose lanes another node owns: whoever of this pool does should look. Returns at once and never
    /// fails; what cannot be sent is dropped. Where every node hears every hint, the pool does not matter.
    fn waiting(&self, pool: &PoolName, queues: Vec<WaitingQueue>);

    /// The next hints of other nodes, waiting for them. Called by one task, again and again; dropping the future loses nothing. Those of lanes
    /// that somebody else owns are no harm.
    async fn next(&self) -> Vec<WaitingQueue>;

    /// This node sends for these shards from now on, and for no others: hints about their lanes should find it. Returns at once. Where every node hears
    /// every hint, there is nothing to do.
    fn holds(&self, _shards: ShardSet) {}

    /// Whether hints take another way than they should, because what should carry them is away. It costs nothing but speed.
    fn is_away(&self) -> bool {
        false
    }
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
