//! Publishers that wait for a row which somebody else keeps, each application by itself: nobody who wants other rows waits with them.
//!
//! The recorder sets groups aside that met such a row. Whose it was nobody knows, so that every application of the group is tried alone, and with
//! more patience; what comes for one of them meanwhile waits behind it, and is recorded in one transaction with all that waits there.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use everhook_core::ids::ApplicationId;
use rustc_hash::FxHashMap;
use tokio::sync::Semaphore;

use super::{
    event_store::{Recording, Waits},
    recorder::{Waiting, record_safely},
};
use crate::commits;

/// How many connections of the line wait for such rows at once: the others are for everybody else.
const CONNECTIONS: usize = 3;
/// The most publishers that wait for one application.
const WAITING_MAX: usize = 2_048;

/// Publishers that wait for a locked row, by application.
pub(super) struct LockedRowQueues {
    recording: Arc<Recording>,
    /// An application is in it as long as a task works its queue off.
    queues: Mutex<FxHashMap<ApplicationId, VecDeque<Waiting>>>,
    connections: Semaphore,
}

impl LockedRowQueues {
    pub(super) fn new(recording: Arc<Recording>) -> Arc<Self> {
        Arc::new(Self { recording, queues: Mutex::default(), connections: Semaphore::new(CONNECTIONS) })
    }

    /// Leaves those of a group to wait here whose applications are waited for already, and gives back the others.
    pub(super) fn without_those_who_wait(&self, group: Vec<Waiting>) -> Vec<Waiting> {
        let mut queues = self.queues();
        if queues.is_empty() {
            return group;
        }
        let mut others = Vec::with_capacity(group.len());
        for waiting in group {
            match waiting.application().and_then(|application| queues.get_mut(&application)) {
                Some(queue) if queue.len() >= WAITING_MAX => waiting.refuse(),
                Some(queue) => queue.push_back(waiting),
                None => others.push(waiting),
            }
        }
        others
    }

    /// Takes in a group that met a row which somebody keeps, or failed because of one of its events.
    pub(super) fn take_in(self: &Arc<Self>, group: Vec<Waiting>) {
        let mut queues = self.queues();
        for waiting in group {
            let Some(application) = waiting.application() else { continue };
            let queue = queues.entry(application).or_insert_with(|| {
                // It ends by itself, after a few seconds at most once nobody comes any more.
                tokio::spawn(self.clone().work_off(application));
                VecDeque::new()
            });
            queue.push_back(waiting);
        }
    }

    async fn work_off(self: Arc<Self>, application: ApplicationId) {
        loop {
            // Before the look: whoever comes until then is in the same transaction. It is never closed.
            let _connection = self.connections.acquire().await;
            let Some(group) = self.next_group(application) else { return };
            record_safely(&self.recording, group, Waits::Long).await;
        }
    }

    /// Takes what waits for an application, up to the bounds of a commit. `None` once that is nothing, and then nobody works it off any more.
    fn next_group(&self, application: ApplicationId) -> Option<Vec<Waiting>> {
        let mut queues = self.queues();
        let queue = queues.get_mut(&application)?;
        let mut group: Vec<Waiting> = Vec::new();
        let mut rows = 0;
        while let Some(next) = queue.front() {
            rows += next.rows;
            if rows > commits::ROWS_MAX && !group.is_empty() {
                break;
            }
            group.extend(queue.pop_front());
        }
        if group.is_empty() {
            queues.remove(&application);
            return None;
        }
        Some(group)
    }

    fn queues(&self) -> MutexGuard<'_, FxHashMap<ApplicationId, VecDeque<Waiting>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
