//! Answers in memory, in front of those in the store: bounded by number and bytes, the longest unused go first.
//!
//! Organizations share the room: each has half of it at most, and when all of it is used up, the one that has most makes room.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use aws_lc_rs::digest;
use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::{Calls, OpenCapability};
use crate::{
    ids::OrganizationId,
    model::{CacheKey, CachedAnswer, SealedSecret},
    ports::within,
    time::Timestamp,
};

/// How many answers this node has in memory, and how many bytes of them.
const ENTRIES_MAX: usize = 10_000;
const BYTES_MAX: usize = 64 << 20;
/// How many of them one organization has at most.
const ENTRIES_OF_ORGANIZATION_MAX: usize = ENTRIES_MAX / 2;
const BYTES_OF_ORGANIZATION_MAX: usize = BYTES_MAX / 2;
/// What an entry takes beside its data.
const ENTRY_BYTES: usize = 256;

/// How long the store may take to find an answer: somebody waits.
const STORE_PATIENCE: Duration = Duration::from_millis(20);

/// The longest `cache_key` that a caller may give.
pub const CACHE_KEY_BYTES_MAX: usize = 512;

/// Answers in memory.
#[derive(Default)]
pub(super) struct AnswerCache(Mutex<State>);

#[derive(Default)]
struct State {
    entries: FxHashMap<CacheKey, Entry>,
    shares: FxHashMap<OrganizationId, Share>,
    uses: u64,
    bytes: usize,
}

/// What one organization has.
#[derive(Default)]
struct Share {
    /// By when they were last used.
    by_use: BTreeMap<u64, CacheKey>,
    bytes: usize,
}

struct Entry {
    organization: OrganizationId,
    kept: Kept,
    used: u64,
}

/// An answer that was kept.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) data: Bytes,
    pub(super) stored_at: Timestamp,
}

impl AnswerCache {
    fn find(&self, key: &CacheKey) -> Option<Kept> {
        let mut state = self.state();
        state.uses += 1;
        let State { entries, shares, uses, .. } = &mut *state;
        let entry = entries.get_mut(key)?;
        let share = shares.entry(entry.organization).or_default();
        share.by_use.remove(&entry.used);
        entry.used = *uses;
        share.by_use.insert(*uses, *key);
        Some(entry.kept.clone())
    }

    fn keep(&self, organization: OrganizationId, key: CacheKey, kept: Kept) {
        let mut state = self.state();
        state.remove(&key);
        state.uses += 1;
        let (used, bytes) = (state.uses, ENTRY_BYTES + kept.data.len());
        state.bytes += bytes;
        let share = state.shares.entry(organization).or_default();
        share.bytes += bytes;
        share.by_use.insert(used, key);
        state.entries.insert(key, Entry { organization, kept, used });
        while let Some(oldest) = state.to_go(organization) {
            state.remove(&oldest);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What goes next, after an answer of this organization was kept; `None` if there is room.
    fn to_go(&self, organization: OrganizationId) -> Option<CacheKey> {
        let is_over = |share: &&Share| share.by_use.len() > ENTRIES_OF_ORGANIZATION_MAX || share.bytes > BYTES_OF_ORGANIZATION_MAX;
        let from = match self.shares.get(&organization).filter(is_over) {
            Some(share) => Some(share),
            None if self.entries.len() > ENTRIES_MAX => self.shares.values().max_by_key(|share| share.by_use.len()),
            None if self.bytes > BYTES_MAX => self.shares.values().max_by_key(|share| share.bytes),
            None => None,
        };
        from?.by_use.first_key_value().map(|(_, oldest)| *oldest)
    }

    fn remove(&mut self, key: &CacheKey) {
        let Some(Entry { organization, kept, used }) = self.entries.remove(key) else { return };
        let bytes = ENTRY_BYTES + kept.data.len();
        self.bytes -= bytes;
        let Some(share) = self.shares.get_mut(&organization) else { return };
        share.by_use.remove(&used);
        share.bytes -= bytes;
        if share.by_use.is_empty() {
            self.shares.remove(&organization);
        }
    }
}

/// What an answer is found by: the capability, the version of its manifest, where the app is, and what the caller calls it.
pub(super) fn key_of(capability: &OpenCapability, cache_key: &str) -> CacheKey {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(&capability.version.to_be_bytes());
    // Where the manifest leaves it to the application, the app may move without a new version.
    hash.update(capability.target.as_ref().map_or(&[], |target| target.written.as_bytes()));
    // A URL has no line ends.
    hash.update(b"\n");
    hash.update(cache_key.as_bytes());
    let hash = hash.finish().as_ref().try_into().expect("a SHA-256 has 32 bytes");
    CacheKey { lane_id: capability.lane_id, hash }
}

impl Calls {
    /// The answer that is kept under a key: from memory, or from the store within a few milliseconds.
    pub(super) async fn cached(&self, organization: OrganizationId, key: &CacheKey) -> Option<Kept> {
        if let Some(kept) = self.cache.find(key) {
            return Some(kept);
        }
        let read = within(&*self.clock, STORE_PATIENCE, self.call_records.cached_answer(*key)).await?;
        let CachedAnswer { data, stored_at, .. } = read.ok().flatten()?;
        let data = self.vault.open(key.lane_id.as_uuid(), &SealedSecret(data.into())).ok()?;
        let kept = Kept { data: data.into(), stored_at };
        self.cache.keep(organization, *key, kept.clone());
        Some(kept)
    }

    /// Keeps an answer: in memory at once, in the store a moment later.
    pub(super) fn keep_answer(&self, capability: &Arc<OpenCapability>, key: CacheKey, data: &Bytes, now: Timestamp) {
        // A copy, so that the rest of what the app sent is not kept with it.
        let data = Bytes::copy_from_slice(data);
        let SealedSecret(sealed) = self.vault.seal(key.lane_id.as_uuid(), &data);
        self.cache.keep(capability.organization, key, Kept { data, stored_at: now });
        let expires_at = now + capability.spec.cache.kept_for();
        self.records.keep_answer(capability.organization, CachedAnswer { key, data: sealed.into(), stored_at: now, expires_at });
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::LaneId;

    fn key(n: usize) -> CacheKey {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&n.to_be_bytes());
        CacheKey { lane_id: LaneId::from_uuid(Uuid::nil()), hash }
    }

    fn kept(bytes: usize) -> Kept {
        Kept { data: vec![b'x'; bytes].into(), stored_at: Timestamp::EPOCH }
    }

    const MINE: OrganizationId = OrganizationId::from_uuid(Uuid::from_u128(1));

    fn other(n: u128) -> OrganizationId {
        OrganizationId::from_uuid(Uuid::from_u128(100 + n))
    }

    #[test]
    fn it_is_bounded_by_number_and_bytes_and_what_is_used_stays() {
        let cache = AnswerCache::default();
        cache.keep(MINE, key(0), kept(10));
        for n in 1..15_000 {
            cache.keep(if n % 2 == 0 { MINE } else { other(0) }, key(n), kept(10));
            assert!(cache.find(&key(0)).is_some());
        }
        assert_eq!(cache.state().entries.len(), ENTRIES_MAX);
        assert!(cache.find(&key(1)).is_none());
        for n in 0..600 {
            cache.keep(other(n as u128 % 3), key(n), kept(256 << 10));
            assert!(cache.state().bytes <= BYTES_MAX);
        }
        let state = cache.state();
        assert_eq!(state.shares.values().map(|share| share.by_use.len()).sum::<usize>(), state.entries.len());
        assert_eq!(state.bytes, state.entries.values().map(|entry| ENTRY_BYTES + entry.kept.data.len()).sum::<usize>());
        assert_eq!(state.bytes, state.shares.values().map(|share| share.bytes).sum::<usize>());
    }

    #[test]
    fn whoever_keeps_many_answers_takes_them_from_nobody_who_has_few() {
        let cache = AnswerCache::default();
        for n in 0..100 {
            cache.keep(MINE, key(n), kept(1_000));
        }
        for n in 100..20_000 {
            cache.keep(other(0), key(n), kept(10));
        }
        assert_eq!(cache.state().shares[&other(0)].by_use.len(), ENTRIES_OF_ORGANIZATION_MAX);
        for n in 20_000..21_000 {
            cache.keep(other(n as u128 % 4), key(n), kept(256 << 10));
            assert!(cache.state().shares[&other(n as u128 % 4)].bytes <= BYTES_OF_ORGANIZATION_MAX);
        }
        assert!((0..100).all(|n| cache.find(&key(n)).is_some()));
    }
}
