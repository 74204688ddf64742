//! Keeps a link to each broker's URL, so that a message costs one round trip and not a handshake.
//!
//! Messages of an organization for one URL share a link. Links are not shared between URLs or organizations: an endpoint that keeps its broker
//! busy costs only itself.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use everhook_core::ids::OrganizationId;
use rustc_hash::FxHashMap;

use super::{failure, link::Login, publisher::Publisher};
use crate::http::Failure;

/// How many links are kept: each costs a thread, a socket and some buffers.
pub const LINKS_MAX: usize = 128;

/// How many of them one organization may have: its endpoints do not cost others theirs.
const LINKS_PER_ORGANIZATION_MAX: usize = 32;

/// How long a link is kept unused.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// How often links that were kept too long are looked for.
const REAP_INTERVAL: Duration = Duration::from_secs(5);

/// What a link belongs to: an organization, the URL as it is requested, and who we are there.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) organization: OrganizationId,
    pub(super) url: String,
    pub(super) login: Login,
}

/// The links, by what they belong to.
#[derive(Default)]
pub(super) struct Pool {
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    by_key: FxHashMap<Key, Arc<Slot>>,
    is_reaped: bool,
}

/// The place of one link. Whoever opens it holds the lock meanwhile, so that others wait for it instead of opening their own.
pub(super) struct Slot {
    link: tokio::sync::Mutex<Option<Arc<Publisher>>>,
    used_at: Mutex<Instant>,
}

/// A link in use, and its place.
pub(super) struct Lease {
    pub(super) link: Arc<Publisher>,
    /// Whether it was open before: its end may have gone unnoticed.
    pub(super) was_open: bool,
    slot: Arc<Slot>,
}

impl Pool {
    /// A link for this key: the one that is open, or a fresh one.
    pub(super) async fn lease(
        self: &Arc<Self>,
        key: &Key,
        open: impl Future<Output = Result<Publisher, Failure>>,
    ) -> Result<Lease, Failure> {
        let slot = self.slot(key)?;
        let mut place = slot.link.lock().await;
        if let Some(link) = place.as_ref().filter(|link| link.is_open()) {
            return Ok(Lease { link: link.clone(), was_open: true, slot: slot.clone() });
        }
        *place = None;
        let link = place.insert(Arc::new(open.await?)).clone();
        Ok(Lease { link, was_open: false, slot: slot.clone() })
    }

    fn slot(self: &Arc<Self>, key: &Key) -> Result<Arc<Slot>, Failure> {
        let mut slots = self.lock();
        if let Some(slot) = slots.by_key.get(key) {
            return Ok(slot.clone());
        }
        if slots.by_key.keys().filter(|known| known.organization == key.organization).count() >= LINKS_PER_ORGANIZATION_MAX {
            slots.evict_oldest(LINKS_PER_ORGANIZATION_MAX, |known| known.organization == key.organization)?;
        } else if slots.by_key.len() >= LINKS_MAX {
            slots.evict_oldest(LINKS_MAX, |_| true)?;
        }
        let slot = Arc::new(Slot { link: tokio::sync::Mutex::new(None), used_at: Mutex::new(Instant::now()) });
        slots.by_key.insert(key.clone(), slot.clone());
        if !std::mem::replace(&mut slots.is_reaped, true) {
            tokio::spawn(reap(Arc::downgrade(self)));
        }
        Ok(slot)
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Forgets the link, if it has not been replaced by now. Whoever holds the lock is replacing it.
    pub(super) fn discard(self) {
        let Ok(mut place) = self.slot.link.try_lock() else { return };
        if place.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, &self.link)) {
            *place = None;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.slot.used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Slots {
    /// Makes room for one more among these. A slot that is not held by anybody else but this map is not in use.
    fn evict_oldest(&mut self, links_max: usize, among: impl Fn(&Key) -> bool) -> Result<(), Failure> {
        let unused = self.by_key.iter().filter(|(key, slot)| among(key) && Arc::strong_count(slot) == 1);
        let oldest = unused.min_by_key(|(_, slot)| slot.used_at()).map(|(key, _)| key.clone());
        let oldest = oldest.ok_or_else(|| failure::too_many_links(links_max))?;
        if let Some(slot) = self.by_key.remove(&oldest) {
            tokio::spawn(close(slot));
        }
        Ok(())
    }

    fn expire(&mut self, now: Instant) -> Vec<Arc<Slot>> {
        let is_expired = |slot: &Arc<Slot>| Arc::strong_count(slot) == 1 && now.duration_since(slot.used_at()) >= IDLE_MAX;
        self.by_key.extract_if(|_, slot| is_expired(slot)).map(|(_, slot)| slot).collect()
    }
}

impl Slot {
    fn used_at(&self) -> Instant {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn close(slot: Arc<Slot>) {
    let link = slot.link.lock().await.take();
    if let Some(link) = link.filter(|link| link.is_open()) {
        link.close().await;
    }
}

/// Closes links that were kept too long. Lives only while there are any.
async fn reap(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(REAP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut slots = pool.lock();
        let expired = slots.expire(Instant::now());
        let is_empty = slots.by_key.is_empty();
        slots.is_reaped = !is_empty;
        drop(slots);
        for slot in expired {
            tokio::spawn(close(slot));
        }
        if is_empty {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use everhook_core::model::Sent;
    use uuid::Uuid;

    use super::*;

    fn key(organization: u128, number: usize) -> Key {
        let organization = OrganizationId::from_uuid(Uuid::from_u128(organization));
        Key { organization, url: format!("amqp://broker.example/?routing_key={number}"), login: Login::guest() }
    }

    #[tokio::test]
    async fn an_organization_uses_up_its_own_links_and_nobody_elses() {
        let pool = Arc::new(Pool::default());
        let held: Vec<_> = (0..LINKS_PER_ORGANIZATION_MAX).map(|n| pool.slot(&key(1, n)).expect("there is room")).collect();
        let refused = pool.slot(&key(1, 1_000)).err().expect("all of its links are in use");
        assert!(matches!(refused.into_sent(None), Sent::OutOfResources { .. }), "it is no failure of the endpoint's");
        assert!(pool.slot(&key(2, 0)).is_ok());
        drop(held);
        assert!(pool.slot(&key(1, 1_000)).is_ok(), "one that is not in use makes room");
        assert_eq!(pool.lock().by_key.len(), LINKS_PER_ORGANIZATION_MAX + 1);
    }
}
