//! Buckets of many keys at many sources, bounded in number. Nobody's count is reset while it matters, however many keys are invented.
//!
//! A bucket that is full again is forgotten, which changes nothing for its key: every new key looks at a few of them, in turns. When there is no room left
//! nevertheless, new keys of a source count together until there is.
#![expect(clippy::disallowed_types, reason = "strangers choose the keys; no order of the map can be seen")]

use std::{
    collections::HashMap,
    hash::{Hash, RandomState},
};

use rustc_hash::FxHashMap;

use crate::{ids::SourceId, model::RateLimit, policy::bucket::Bucket, time::Timestamp};

/// How many buckets are kept, some 20 MB.
pub(super) const BUCKETS_MAX: usize = 100_000;

/// How many buckets a new key looks at: more than one, so that there are soon no more than are needed.
const LOOKED_AT: usize = 4;
/// How many it looks at when there is no room for it.
const LOOKED_AT_FOR_ROOM: usize = 64;
/// From how many sources on without room it is looked which of them have some again.
const CROWDS_KEPT: usize = 1_000;

/// The buckets.
pub(super) struct BucketTable<K> {
    /// Where the bucket of a key is. Hashed with a secret, because strangers choose the keys.
    places: HashMap<(SourceId, K), usize, RandomState>,
    buckets: Vec<((SourceId, K), Bucket)>,
    /// Which bucket is looked at next.
    hand: usize,
    /// How many buckets each source has.
    counts: FxHashMap<SourceId, usize>,
    /// One bucket for all keys of a source that found no room.
    crowds: FxHashMap<SourceId, Bucket>,
}

impl<K> Default for BucketTable<K> {
    fn default() -> Self {
        let (places, counts, crowds) = (HashMap::default(), FxHashMap::default(), FxHashMap::default());
        Self { places, buckets: Vec::new(), hand: 0, counts, crowds }
    }
}

impl<K: Clone + Eq + Hash> BucketTable<K> {
    /// The bucket that a key counts in: its own, or the one of all that found no room.
    pub(super) fn bucket(&mut self, key: (SourceId, K), limit: RateLimit, now: Timestamp) -> &mut Bucket {
        let place = match self.places.get(&key) {
            Some(place) => Some(*place),
            None => self.place_for(&key, limit, now),
        };
        let bucket = match place {
            Some(place) => &mut self.buckets[place].1,
            None => self.crowds.entry(key.0).or_insert_with(|| Bucket::new(limit, now)),
        };
        if bucket.limit() != limit {
            bucket.change(limit, now);
        }
        bucket
    }

    /// Makes a bucket for a new key, if there is room.
    fn place_for(&mut self, key: &(SourceId, K), limit: RateLimit, now: Timestamp) -> Option<usize> {
        self.forget_full(LOOKED_AT, now);
        if !self.has_room_for(key.0) {
            self.forget_full(LOOKED_AT_FOR_ROOM, now);
        }
        if !self.has_room_for(key.0) {
            if self.crowds.len() >= CROWDS_KEPT {
                self.crowds.retain(|_, bucket| !bucket.is_full(now));
            }
            return None;
        }
        let place = self.buckets.len();
        self.buckets.push((key.clone(), Bucket::new(limit, now)));
        self.places.insert(key.clone(), place);
        *self.counts.entry(key.0).or_default() += 1;
        Some(place)
    }

    /// A source may have as many buckets as are left over: one that is attacked has half of all, two have a third each, and there is always room for others.
    fn has_room_for(&self, source: SourceId) -> bool {
        self.counts.get(&source).copied().unwrap_or(0) < BUCKETS_MAX - self.buckets.len()
    }

    /// Looks at so many buckets, and forgets those that are full.
    fn forget_full(&mut self, count: usize, now: Timestamp) {
        for _ in 0..count.min(self.buckets.len()) {
            if self.hand >= self.buckets.len() {
                self.hand = 0;
            }
            match self.buckets.get(self.hand) {
                Some((_, bucket)) if bucket.is_full(now) => self.forget(self.hand),
                _ => self.hand += 1,
            }
        }
    }

    fn forget(&mut self, place: usize) {
        let (key, _) = self.buckets.swap_remove(place);
        self.places.remove(&key);
        if let Some((moved, _)) = self.buckets.get(place) {
            self.places.insert(moved.clone(), place);
        }
        if let Some(count) = self.counts.get_mut(&key.0) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key.0);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!((self.places.len(), self.counts.values().sum::<usize>()), (self.buckets.len(), self.buckets.len()));
        self.buckets.len()
    }
}
