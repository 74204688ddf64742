//! Hints that came over the broker and were not yet taken. Filled by whoever hears the broker, emptied by the engine.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use everhook_core::{
    ids::{ApplicationId, LaneId},
    model::Priority,
    ports::WaitingQueue,
    time::Timestamp,
};
use tokio::sync::Notify;

/// The most queues of one priority that wait to be taken. What does not fit is dropped: the owner of a lane looks for itself.
const QUEUES_MAX: usize = 4_096;

/// What waits in each priority, in the order of [`Priority::ALL`].
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    filled: Notify,
}

/// When the first of a queue is due.
type Waiting = [BTreeMap<(ApplicationId, LaneId), Timestamp>; Priority::ALL.len()];

impl Inbox {
    /// Adds queues. Those that wait already are there once.
    pub(super) fn put(&self, queues: Vec<WaitingQueue>) {
        let mut waiting = self.lock();
        for queue in queues {
            let (same, key) = (&mut waiting[place(queue.priority)], (queue.application, queue.lane_id));
            if let Some(due_from) = same.get_mut(&key) {
                *due_from = queue.due_from.min(*due_from);
            } else if same.len() < QUEUES_MAX {
                same.insert(key, queue.due_from);
            }
        }
        drop(waiting);
        self.filled.notify_one();
    }

    /// All that there is, the most urgent first; waits until there is something. Dropping the future loses nothing.
    pub(super) async fn take(&self) -> Vec<WaitingQueue> {
        loop {
            let taken = queues(std::mem::take(&mut *self.lock()));
            if !taken.is_empty() {
                return taken;
            }
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn queues(waiting: Waiting) -> Vec<WaitingQueue> {
    let of_priority = |(priority, same): (Priority, BTreeMap<_, _>)| {
        same.into_iter().map(move |((application, lane_id), due_from)| WaitingQueue { application, lane_id, priority, due_from })
    };
    Priority::ALL.into_iter().zip(waiting).flat_map(of_priority).collect()
}

fn place(priority: Priority) -> usize {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn queue(number: u128, priority: Priority) -> WaitingQueue {
        let id = Uuid::from_u128(number);
        let due_from = Timestamp::from_secs(100);
        WaitingQueue { lane_id: LaneId::from_uuid(id), application: ApplicationId::from_uuid(id), priority, due_from }
    }

    #[tokio::test]
    async fn the_most_urgent_is_taken_first_and_each_queue_once_from_its_first_on() {
        let inbox = Inbox::default();
        let earlier = WaitingQueue { due_from: Timestamp::from_secs(99), ..queue(1, Priority::Low) };
        inbox.put(vec![queue(1, Priority::Low), queue(2, Priority::Normal), earlier, queue(1, Priority::Low)]);
        inbox.put(vec![queue(3, Priority::High)]);
        assert_eq!(inbox.take().await, [queue(3, Priority::High), queue(2, Priority::Normal), earlier]);
    }

    #[tokio::test]
    async fn a_flood_of_one_priority_is_cut_and_leaves_room_for_the_others() {
        let inbox = Inbox::default();
        inbox.put((0..QUEUES_MAX as u128 + 5).map(|number| queue(number, Priority::Low)).collect());
        inbox.put(vec![queue(0, Priority::High)]);
        assert_eq!(inbox.take().await.len(), QUEUES_MAX + 1);
    }
}
