//! A map that forgets what need not be remembered, so that it is bounded by what is in use. For counts that many organizations have and few use.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// How many entries are kept without looking which of them are needed.
const PRUNE_FROM: usize = 10_000;

/// A map that is looked through when it has grown to twice what was needed: however many are needed, an entry costs a constant share of that.
pub struct Pruned<K, V> {
    entries: FxHashMap<K, V>,
    prune_at: usize,
}

impl<K, V> Default for Pruned<K, V> {
    fn default() -> Self {
        Self { entries: FxHashMap::default(), prune_at: PRUNE_FROM }
    }
}

impl<K: Eq + Hash, V> Pruned<K, V> {
    /// The entry of this key, made if it is not there. Entries that `is_needed` refuses may be forgotten first.
    pub fn entry(&mut self, key: K, is_needed: impl Fn(&V) -> bool, make: impl FnOnce() -> V) -> &mut V {
        if self.entries.len() >= self.prune_at {
            self.entries.retain(|_, value| is_needed(value));
            self.prune_at = (self.entries.len() * 2).max(PRUNE_FROM);
        }
        self.entries.entry(key).or_insert_with(make)
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets every entry that is not to be kept.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&K, &V) -> bool) {
        self.entries.retain(|key, value| is_kept(key, value));
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter()
    }

    /// The entry of this key, if it is there.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }
}

#[cfg(test)]
impl<K, V> Pruned<K, V> {
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_is_forgotten_and_what_is_needed_stays_however_many_there_are() {
        let mut pruned = Pruned::default();
        for n in 0..50_000 {
            pruned.entry(n, |is_needed| *is_needed, || n % 2 == 0);
        }
        assert!((0..50_000).step_by(2).all(|n| pruned.get_mut(&n).is_some()));
        assert!(pruned.entries.len() < 50_000);
    }
}
