//! Tasks beside a request that must not outlive the line: what they hold would keep the store open.
//!
//! The line owns them. Who begins one may hold them weakly, so that no task keeps its own owner.

use std::sync::{Mutex, PoisonError};

use tokio::task::{AbortHandle, JoinSet};

/// Tasks that are aborted when this is dropped.
#[derive(Default)]
pub struct OwnedTasks(Mutex<JoinSet<()>>);

impl OwnedTasks {
    /// Begins a task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn tasks_end_with_their_owner() {
        let (owner, held) = (OwnedTasks::default(), Arc::new(()));
        let holds = held.clone();
        owner.spawn(async move {
            let _holds = holds;
            std::future::pending().await
        });
        tokio::task::yield_now().await;
        drop(owner);
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
