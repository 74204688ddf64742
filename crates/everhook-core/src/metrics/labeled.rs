//! Counts by label, of which there may be only so many: whoever watches keeps each of them for weeks.

use std::{
    hash::Hash,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustc_hash::FxHashMap;

/// How many label sets are told apart; all others are counted together.
pub const LABEL_SETS_MAX: usize = 10_000;

/// How often a label set must find no room before it is looked which of the others are in use: a look walks all of them.
const REFUSED_A_LOOK: usize = 1_024;

/// Counts of one kind, by label.
pub struct Labeled<K, V> {
    known: RwLock<FxHashMap<K, Arc<V>>>,
    /// All that found no room.
    other: Arc<V>,
    refused: AtomicUsize,
    max: usize,
}

impl<K, V: Default> Default for Labeled<K, V> {
    fn default() -> Self {
        Self::with_room_for(LABEL_SETS_MAX)
    }
}

impl<K, V: Default> Labeled<K, V> {
    /// For so many label sets.
    pub fn with_room_for(max: usize) -> Self {
        Self { known: RwLock::default(), other: Arc::default(), refused: AtomicUsize::new(0), max }
    }
}

impl<K: Clone + Eq + Hash, V> Labeled<K, V> {
    /// The counts of a label set, made if there is room for them, and else those of all others.
    pub fn get(&self, key: &K, make: impl FnOnce() -> V) -> Arc<V> {
        self.find(key).unwrap_or_else(|| self.insert(key, make))
    }

    /// As [`Labeled::get`] for whoever keeps what it gets: if there is no room, counts that nobody keeps any more make some, now and then.
    pub fn get_to_keep(&self, key: &K, make: impl FnOnce() -> V) -> Arc<V> {
        let found = self.get(key, make);
        let is_refused = Arc::ptr_eq(&found, &self.other);
        if is_refused && (self.refused.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(REFUSED_A_LOOK) {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.retain(|_, counts| Arc::strong_count(counts) > 1);
        }
        found
    }

    /// Whatever these counts are of is gone.
    pub fn forget(&self, key: &K) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Every label set with its counts, in no order.
    pub fn all(&self) -> Vec<(K, Arc<V>)> {
        self.known().iter().map(|(key, counts)| (key.clone(), counts.clone())).collect()
    }

    /// The counts of all that found no room.
    pub fn other(&self) -> &Arc<V> {
        &self.other
    }

    fn find(&self, key: &K) -> Option<Arc<V>> {
        self.known().get(key).cloned()
    }

    fn insert(&self, key: &K, make: impl FnOnce() -> V) -> Arc<V> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.max && !known.contains_key(key) {
            return self.other.clone();
        }
        known.entry(key.clone()).or_insert_with(|| Arc::new(make())).clone()
    }

    fn known(&self) -> RwLockReadGuard<'_, FxHashMap<K, Arc<V>>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}
