//! How many requests to apps are under way on this node, so that no organization takes all of its memory and connections.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use crate::ids::OrganizationId;

/// How many requests to apps may be under way: each may hold an answer of 256 KiB, so that all together hold 128 MiB.
pub const CALLS_IN_FLIGHT_MAX: u32 = 512;
/// How many of them one organization may have.
const ORGANIZATION_MAX: u32 = CALLS_IN_FLIGHT_MAX / 2;

/// Requests under way.
#[derive(Default)]
pub struct CallSlots(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    all: u32,
    of: FxHashMap<OrganizationId, u32>,
}

/// A place for one request. Given back when it is dropped.
pub(super) struct Slot {
    slots: Arc<CallSlots>,
    organization: OrganizationId,
}

impl CallSlots {
    pub(super) fn take(self: &Arc<Self>, organization: OrganizationId) -> Option<Slot> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.of.get(&organization).copied().unwrap_or(0);
        if taken.all >= CALLS_IN_FLIGHT_MAX || own >= ORGANIZATION_MAX {
            return None;
        }
        taken.all += 1;
        taken.of.insert(organization, own + 1);
        Some(Slot { slots: self.clone(), organization })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    #[test]
    fn one_organization_has_half_and_all_together_no_more_than_all() {
        let slots = Arc::new(CallSlots::default());
        let organization = |n| OrganizationId::from_uuid(Uuid::from_u128(n));
        let first: Vec<_> = (0..1_000).map_while(|_| slots.take(organization(1))).collect();
        assert_eq!(first.len() as u32, ORGANIZATION_MAX);
        let second: Vec<_> = (0..1_000).map_while(|_| slots.take(organization(2))).collect();
        assert_eq!((first.len() + second.len()) as u32, CALLS_IN_FLIGHT_MAX);
        assert!(slots.take(organization(3)).is_none());
        drop(first);
        assert!(slots.take(organization(3)).is_some());
        drop(second);
        assert!(slots.0.lock().unwrap().of.is_empty());
    }
}
