//! One read of an application at a time: whoever asks while it is being read takes the next read, with all the others who wait.
//!
//! Without it, a tenant that changes its configuration all the time has the whole of it read for each of its events, at once for as many as it
//! publishes at once, and takes the store's connections from everybody.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use rustc_hash::FxHashMap;

use super::ApplicationView;
use crate::ids::ApplicationId;

/// The applications that are being read.
#[derive(Default)]
pub(super) struct Reading {
    /// Counts those who ask and the reads that begin, in one order.
    moment: AtomicU64,
    turns: Mutex<FxHashMap<ApplicationId, Arc<Turn>>>,
}

/// Whose turn it is to read an application, and what the last read found.
type Turn = tokio::sync::Mutex<Option<LastRead>>;

struct LastRead {
    began_at: u64,
    view: Option<Arc<ApplicationView>>,
}

impl Reading {
    /// Reads an application when it is this caller's turn, or takes what somebody else read since it asked.
    pub(super) async fn read<E>(
        &self,
        id: ApplicationId,
        read: impl Future<Output = Result<Option<Arc<ApplicationView>>, E>>,
    ) -> Result<Option<Arc<ApplicationView>>, E> {
        let asked_at = self.next_moment();
        let turn = self.turns().entry(id).or_default().clone();
        let found = {
            let mut last = turn.lock().await;
            match &*last {
                Some(last) if last.began_at > asked_at => Ok(last.view.clone()),
                _ => {
                    let began_at = self.next_moment();
                    let found = read.await;
                    *last = found.as_ref().ok().map(|view| LastRead { began_at, view: view.clone() });
                    found
                }
            }
        };
        self.leave(id, turn);
        found
    }

    fn next_moment(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::Relaxed)
    }

    /// The last who leaves forgets the turn. One that was given up in the middle is forgotten by the next.
    fn leave(&self, id: ApplicationId, turn: Arc<Turn>) {
        let mut turns = self.turns();
        drop(turn);
        if turns.get(&id).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(&id);
        }
    }

    fn turns(&self) -> MutexGuard<'_, FxHashMap<ApplicationId, Arc<Turn>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::future::join_all;
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn whoever_asks_during_a_read_shares_the_next_one() {
        let (reading, reads) = (Reading::default(), Cell::new(0));
        let id = ApplicationId::from_uuid(Uuid::from_u128(1));
        let read = || async {
            reads.set(reads.get() + 1);
            tokio::task::yield_now().await;
            Ok::<_, ()>(None)
        };
        join_all((0..100).map(|_| reading.read(id, read()))).await;
        assert_eq!(reads.get(), 2, "the first, and one for all who asked meanwhile");
        assert!(reading.turns().is_empty());
        reading.read(id, read()).await.unwrap();
        assert_eq!(reads.get(), 3, "who asks later reads anew");
    }
}
