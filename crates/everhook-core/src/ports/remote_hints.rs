//! Hints between nodes that share a store. Like every hint they may be lost, repeated or late: the owner of a lane looks for itself once a second.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, LaneId},
    model::{PoolName, Priority, ShardSet},
    time::Timestamp,
};

/// Notifies the other nodes of what to check, and gets their hints.
#[async_trait]
pub trait RemoteHints: Send + Sync {
    /// Something was made durable in these queues, whose lanes another node owns: the owner in this pool should look. Returns at once and never
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

    /// How many attempts in a row to connect to what should carry them failed; 0 while it is connected, and where there is nothing to connect to.
    fn failed_reconnects(&self) -> u32 {
        0
    }
}

/// One queue of one lane in which something waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitingQueue {
    /// The application of the endpoint.
    pub application: ApplicationId,
    /// Which lane.
    pub lane_id: LaneId,
    /// Which of its queues.
    pub priority: Priority,
    /// When the first of it is due.
    pub due_from: Timestamp,
}

impl WaitingQueue {
    /// Leaves one of each queue, the one that is due first.
    pub fn merge(queues: &mut Vec<Self>) {
        queues.sort_unstable();
        queues.dedup_by_key(|queue| (queue.application, queue.lane_id, queue.priority));
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn of_each_queue_the_one_that_is_due_first_is_left() {
        let queue = |number: u128, secs| WaitingQueue {
            application: ApplicationId::from_uuid(Uuid::nil()),
            lane_id: LaneId::from_uuid(Uuid::from_u128(number)),
            priority: Priority::Normal,
            due_from: Timestamp::from_secs(secs),
        };
        let high = WaitingQueue { priority: Priority::High, ..queue(1, 9) };
        let mut queues = vec![queue(2, 5), queue(1, 7), high, queue(1, 3), queue(2, 5)];
        WaitingQueue::merge(&mut queues);
        queues.sort_by_key(|queue| (queue.lane_id, queue.due_from));
        assert_eq!(queues, [queue(1, 3), high, queue(2, 5)]);
    }
}
