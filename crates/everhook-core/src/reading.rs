//! One read of a thing at a time: whoever asks while it is being read takes the next read, with all the others who wait. Used by the caches.
//!
//! Without it, a tenant that changes its configuration all the time has the whole of it read for each of its events, at once for as many as it
//! publishes at once, and takes the store's connections from everybody.

use std::{
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustc_hash::FxHashMap;

/// The things that are being read, by their keys.
pub(crate) struct Reading<K, V> {
    /// Counts those who ask and the reads that begin, in one order.
    moment: AtomicU64,
    turns: Mutex<FxHashMap<K, Arc<Turn<V>>>>,
}

/// Somebody who waits for a turn. Leaves also if it gives up in the middle: what is asked for may be a stranger's choice.
struct Waiting<'a, K: Clone + Eq + Hash, V> {
    reading: &'a Reading<K, V>,
    key: K,
    turn: Option<Arc<Turn<V>>>,
}

impl<K: Clone + Eq + Hash, V> Drop for Waiting<'_, K, V> {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.reading.leave(&self.key, turn);
        }
    }
}

/// Whose turn it is to read a thing, and what the last read found.
type Turn<V> = tokio::sync::Mutex<Option<LastRead<V>>>;

struct LastRead<V> {
    began_at: u64,
    value: Option<Arc<V>>,
}

impl<K, V> Default for Reading<K, V> {
    fn default() -> Self {
        Self { moment: AtomicU64::default(), turns: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, V> Reading<K, V> {
    /// Reads a thing when it is this caller's turn, or takes what somebody else read since it asked.
    pub(crate) async fn read<E>(&self, key: K, read: impl Future<Output = Result<Option<Arc<V>>, E>>) -> Result<Option<Arc<V>>, E> {
        let asked_at = self.next_moment();
        let waiting = Waiting { reading: self, turn: Some(self.turns().entry(key.clone()).or_default().clone()), key };
        let turn = waiting.turn.as_ref().expect("it is there until it is dropped");
        let mut last = turn.lock().await;
        match &*last {
            Some(last) if last.began_at > asked_at => Ok(last.value.clone()),
            _ => {
                let began_at = self.next_moment();
                let found = read.await;
                *last = found.as_ref().ok().map(|value| LastRead { began_at, value: value.clone() });
                found
            }
        }
    }

    fn next_moment(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::Relaxed)
    }

    /// The last who leaves forgets the turn.
    fn leave(&self, key: &K, turn: Arc<Turn<V>>) {
        let mut turns = self.turns();
        drop(turn);
        if turns.get(key).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(key);
        }
    }

    fn turns(&self) -> MutexGuard<'_, FxHashMap<K, Arc<Turn<V>>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn whoever_asks_during_a_read_shares_the_next_one() {
        let (reading, reads) = (Reading::<u8, ()>::default(), Cell::new(0));
        let read = || async {
            reads.set(reads.get() + 1);
            tokio::task::yield_now().await;
            Ok::<_, ()>(None)
        };
        join_all((0..100).map(|_| reading.read(1, read()))).await;
        assert_eq!(reads.get(), 2, "the first, and one for all who asked meanwhile");
        assert!(reading.turns().is_empty());
        reading.read(1, read()).await.unwrap();
        assert_eq!(reads.get(), 3, "who asks later reads anew");
    }
}
