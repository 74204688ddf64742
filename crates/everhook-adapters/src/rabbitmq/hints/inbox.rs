//! Hints that came over the broker and were not yet taken. Filled by whoever hears the broker, emptied by the engine.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use everhook_core::{model::Priority, ports::WaitingQueue};
use tokio::sync::Notify;

/// The most queues of one priority that wait to be taken. What does not fit is dropped: the owner of a lane looks for itself.
const QUEUES_MAX: usize = 4_096;

/// One set of queues for each priority, in the order of [`Priority::ALL`].
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<[BTreeSet<WaitingQueue>; Priority::ALL.len()]>,
    filled: Notify,
}

impl Inbox {
    /// Adds queues. Those that wait already are there once.
    pub(super) fn put(&self, queues: Vec<WaitingQueue>) {
        let mut waiting = self.lock();
        for queue in queues {
            let same = &mut waiting[place(queue.priority)];
            if same.len() < QUEUES_MAX {
                same.insert(queue);
            }
        }
        drop(waiting);
        self.filled.notify_one();
    }

    /// All that there is, the most urgent first; waits until there is something. Dropping the future loses nothing.
    pub(super) async fn take(&self) -> Vec<WaitingQueue> {
        loop {
            let taken: Vec<_> = self.lock().iter_mut().flat_map(std::mem::take).collect();
            if !taken.is_empty() {
                return taken;
            }
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, [BTreeSet<WaitingQueue>; Priority::ALL.len()]> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    use everhook_core::ids::{ApplicationId, EndpointId};
    use uuid::Uuid;

    use super::*;

    fn queue(number: u128, priority: Priority) -> WaitingQueue {
        let id = Uuid::from_u128(number);
        WaitingQueue { endpoint: EndpointId::from_uuid(id), application: ApplicationId::from_uuid(id), priority }
    }

    #[tokio::test]
    async fn the_most_urgent_is_taken_first_and_each_queue_once() {
        let inbox = Inbox::default();
        inbox.put(vec![queue(1, Priority::Low), queue(2, Priority::Normal), queue(1, Priority::Low)]);
        inbox.put(vec![queue(3, Priority::High)]);
        assert_eq!(inbox.take().await, [queue(3, Priority::High), queue(2, Priority::Normal), queue(1, Priority::Low)]);
    }

    #[tokio::test]
    async fn a_flood_of_one_priority_is_cut_and_leaves_room_for_the_others() {
        let inbox = Inbox::default();
        inbox.put((0..QUEUES_MAX as u128 + 5).map(|number| queue(number, Priority::Low)).collect());
        inbox.put(vec![queue(0, Priority::High)]);
        assert_eq!(inbox.take().await.len(), QUEUES_MAX + 1);
    }
}
