//! How many requests to apps are under way on this node, so that no organization takes all of its memory, connections and open files.
//!
//! What one organization may hold shrinks with what is free (decision 0087), as the slots of deliveries do: whoever comes next finds some.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::ids::OrganizationId;

/// How many requests to apps may be under way: each may hold an answer of 256 KiB, so that all together hold 128 MiB. Fewer where open files are few.
pub const CALLS_IN_FLIGHT_MAX: u32 = 512;

/// An organization may hold so many times `free * free / max`. One that is alone gets half.
const SHARE: u64 = 2;

/// Requests under way.
pub struct CallSlots {
    max: u32,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: u32,
    of: FxHashMap<OrganizationId, u32>,
}

/// A place for one request. Given back when it is dropped.
pub struct CallSlot {
    slots: Arc<CallSlots>,
    organization: OrganizationId,
}

impl CallSlots {
    /// So many, at least one, none of them taken.
    pub fn new(max: u32) -> Arc<Self> {
        Arc::new(Self { max: max.max(1), taken: Mutex::default() })
    }

    /// How many there are.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// Takes a place, if the organization may have one more.
    pub fn take(self: &Arc<Self>, organization: OrganizationId) -> Option<CallSlot> {
        let mut taken = self.lock();
        let own = taken.of.get(&organization).copied().unwrap_or(0);
        let free = u64::from(self.max - taken.all);
        if u64::from(own) * u64::from(self.max) >= SHARE * free * free {
            return None;
        }
        taken.all += 1;
        taken.of.insert(organization, own + 1);
        Some(CallSlot { slots: self.clone(), organization })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.all -= 1;
        if let Some(own) = taken.of.get_mut(&self.organization) {
            *own -= 1;
            if *own == 0 {
                taken.of.remove(&self.organization);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn organization(n: u128) -> OrganizationId {
        OrganizationId::from_uuid(Uuid::from_u128(n))
    }

    /// Takes all that an organization may have.
    fn take_all(slots: &Arc<CallSlots>, n: u128) -> Vec<CallSlot> {
        (0..10_000).map_while(|_| slots.take(organization(n))).collect()
    }

    #[test]
    fn one_organization_has_half_and_each_that_comes_next_finds_some() {
        let slots = CallSlots::new(CALLS_IN_FLIGHT_MAX);
        let mut held: Vec<Vec<CallSlot>> = (1..=8).map(|n| take_all(&slots, n)).collect();
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [256, 98, 48, 27, 18, 12, 8, 6], "the rest falls slowly");
        assert!(slots.take(organization(99)).is_some(), "whoever holds nothing has one while there is one");
        let rest: Vec<_> = (100..).map_while(|n| slots.take(organization(n))).collect();
        assert_eq!(rest.len() + counts.iter().sum::<usize>(), CALLS_IN_FLIGHT_MAX as usize, "never more than there are");
        drop((rest, held.remove(0)));
        assert!(slots.take(organization(99)).is_some());
        drop(held);
        assert!(slots.lock().of.is_empty() && slots.lock().all == 0);
    }

    #[test]
    fn few_slots_serve_several_organizations() {
        let slots = CallSlots::new(0);
        assert_eq!(take_all(&slots, 1).len(), 1, "there is one at least");
        let slots = CallSlots::new(34);
        let counts: Vec<usize> = {
            let held: Vec<Vec<CallSlot>> = (1..=4).map(|n| take_all(&slots, n)).collect();
            held.iter().map(Vec::len).collect()
        };
        assert!(counts[0] <= 17 && counts.iter().all(|count| *count > 0), "{counts:?}");
    }
}
