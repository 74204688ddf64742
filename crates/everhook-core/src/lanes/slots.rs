//! How the process's slots are shared between organizations, and which request of a lane may take one. Pure.
//!
//! What one organization may hold shrinks with what is free (decision 0035): whoever comes next finds slots, however many others hang. Each question takes
//! constant time, whatever waits.

use rustc_hash::FxHashMap;

use crate::ids::OrganizationId;

/// How many requests a lane may have under way before its first answer: the default of `max_concurrency`, so that an endpoint that asks for no more never
/// notices.
pub(super) const UNKNOWN_LANE_MAX: u32 = 5;

/// The part of all slots, one in so many, that a lane may hold that is not quick, whatever its `max_concurrency`.
const SLOW_LANE_PART: usize = 16;

/// The part of all slots, one in so many, that quick lanes leave to others.
const KEPT_FROM_QUICK_PART: usize = 8;

/// Which slots a request takes: those of lanes that were known to be quick when it started, or those of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    Quick,
    NotQuick,
}

/// Why a lane wants a slot. Inside an organization, what comes first here leaves less to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotClass {
    /// A quick lane has nothing under way.
    FirstOfQuick,
    /// A quick lane has something under way.
    MoreOfQuick,
    /// A lane whose pace is unknown has nothing under way.
    FirstOfUnknown,
    /// A slow lane has nothing under way.
    FirstOfSlow,
    /// A lane that is slow or unknown has something under way.
    MoreOfNotQuick,
}

impl SlotClass {
    pub(super) const ALL: [Self; 5] =
        [Self::FirstOfQuick, Self::MoreOfQuick, Self::FirstOfUnknown, Self::FirstOfSlow, Self::MoreOfNotQuick];

    pub(super) fn pool(self) -> Pool {
        match self {
            Self::FirstOfQuick | Self::MoreOfQuick => Pool::Quick,
            Self::FirstOfUnknown | Self::FirstOfSlow | Self::MoreOfNotQuick => Pool::NotQuick,
        }
    }

    /// An organization may hold so many halves of `free * free / pool`. Alone it gets two thirds of the quick pool and half of the other.
    fn halves(self) -> u64 {
        match self {
            Self::FirstOfQuick => 16,
            Self::MoreOfQuick => 12,
            Self::FirstOfUnknown => 4,
            Self::FirstOfSlow => 3,
            Self::MoreOfNotQuick => 2,
        }
    }
}

/// Some of the classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotClasses(u8);

impl SlotClasses {
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Says whether it is new.
    pub(super) fn insert(&mut self, class: SlotClass) -> bool {
        let is_new = self.0 & Self::bit(class) == 0;
        self.0 |= Self::bit(class);
        is_new
    }

    pub(super) fn remove(&mut self, class: SlotClass) {
        self.0 &= !Self::bit(class);
    }

    fn bit(class: SlotClass) -> u8 {
        1 << class as u8
    }
}

/// The slots of this process.
pub(super) struct Slots {
    total: usize,
    in_flight: Held,
    by_organization: FxHashMap<OrganizationId, Held>,
}

/// How many slots are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    quick: u32,
    not_quick: u32,
}

impl Held {
    fn of(self, pool: Pool) -> u32 {
        match pool {
            Pool::Quick => self.quick,
            Pool::NotQuick => self.not_quick,
        }
    }

    fn of_mut(&mut self, pool: Pool) -> &mut u32 {
        match pool {
            Pool::Quick => &mut self.quick,
            Pool::NotQuick => &mut self.not_quick,
        }
    }

    fn sum(self) -> usize {
        self.quick as usize + self.not_quick as usize
    }
}

impl Slots {
    /// So many, none of them taken.
    pub(super) fn new(total: usize) -> Self {
        Self { total, in_flight: Held::default(), by_organization: FxHashMap::default() }
    }

    /// How many are taken.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.sum()
    }

    /// Whether all are taken.
    pub(super) fn are_taken(&self) -> bool {
        self.in_flight() >= self.total
    }

    /// How many an organization holds of those that a request of this class would take.
    pub(super) fn held(&self, organization: OrganizationId, class: SlotClass) -> u32 {
        self.by_organization.get(&organization).map_or(0, |held| held.of(class.pool()))
    }

    /// Whether an organization that holds so many may start a request of this class. Of two that hold differently many, the one with more never may if the
    /// other may not.
    pub(super) fn may_start(&self, class: SlotClass, held: u32) -> bool {
        let pool_max = self.pool_max(class.pool());
        let free_of_pool = pool_max.saturating_sub(self.in_flight.of(class.pool()) as usize);
        let free = free_of_pool.min(self.total.saturating_sub(self.in_flight()));
        free > 0 && u64::from(held) * 2 * (pool_max as u64) < class.halves() * (free as u64) * (free as u64)
    }

    /// A request of this organization starts. The caller saw that it may.
    pub(super) fn start(&mut self, organization: OrganizationId, pool: Pool) {
        *self.in_flight.of_mut(pool) += 1;
        *self.by_organization.entry(organization).or_default().of_mut(pool) += 1;
    }

    /// A request of this organization ended.
    pub(super) fn land(&mut self, organization: OrganizationId, pool: Pool) {
        *self.in_flight.of_mut(pool) -= 1;
        if let Some(held) = self.by_organization.get_mut(&organization) {
            *held.of_mut(pool) -= 1;
            if held.sum() == 0 {
                self.by_organization.remove(&organization);
            }
        }
    }

    /// How many requests a lane may have under way that is not quick.
    pub(super) fn slow_lane_max(&self) -> u32 {
        u32::try_from(self.total / SLOW_LANE_PART).unwrap_or(u32::MAX).max(UNKNOWN_LANE_MAX)
    }

    /// How many of a pool may be taken. The pools overlap: together they are more than there are.
    fn pool_max(&self, pool: Pool) -> usize {
        match pool {
            Pool::Quick => self.total - self.total / KEPT_FROM_QUICK_PART,
            Pool::NotQuick => self.total.div_ceil(2),
        }
    }
}

#[cfg(test)]
impl Slots {
    /// A pool of which the organization holds something.
    pub(super) fn a_pool_of(&self, organization: OrganizationId) -> Pool {
        let held = self.by_organization.get(&organization).copied().unwrap_or_default();
        if held.not_quick > 0 { Pool::NotQuick } else { Pool::Quick }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn organization(n: u128) -> OrganizationId {
        OrganizationId::from_uuid(Uuid::from_u128(n))
    }

    /// Starts as many requests of this class as an organization may, and says how many.
    fn take_all(slots: &mut Slots, n: u128, class: SlotClass) -> u32 {
        let mut taken = 0;
        while slots.may_start(class, slots.held(organization(n), class)) {
            slots.start(organization(n), class.pool());
            taken += 1;
        }
        taken
    }

    #[test]
    fn what_one_organization_may_hold_of_512_slots() {
        let table = [
            (SlotClass::FirstOfQuick, 316),
            (SlotClass::MoreOfQuick, 299),
            (SlotClass::FirstOfUnknown, 128),
            (SlotClass::FirstOfSlow, 116),
            (SlotClass::MoreOfNotQuick, 98),
        ];
        for (class, most) in table {
            assert_eq!(take_all(&mut Slots::new(512), 1, class), most, "{class:?}");
        }
        assert_eq!(Slots::new(512).slow_lane_max(), 32);
    }

    #[test]
    fn one_organization_at_its_worst_leaves_slots_of_both_pools_to_others() {
        for total in [16, 64, 512, 20_000] {
            let mut slots = Slots::new(total);
            SlotClass::ALL.into_iter().for_each(|class| _ = take_all(&mut slots, 1, class));
            let left = total - slots.in_flight();
            assert!(left >= total / 8, "{left} of {total}");
            for class in SlotClass::ALL {
                let mut others = Slots { by_organization: slots.by_organization.clone(), ..slots };
                assert!(take_all(&mut others, 2, class) as usize >= total / 32, "{class:?} of {total}");
            }
        }
    }

    #[test]
    fn so_many_organizations_that_hang_one_after_the_other_leave_a_slot_to_the_next() {
        let table: [(&[SlotClass], u128); 3] = [(&[SlotClass::FirstOfQuick], 15), (&[SlotClass::FirstOfUnknown], 22), (&SlotClass::ALL, 9)];
        for (classes, organizations) in table {
            let mut slots = Slots::new(512);
            for n in 0..organizations {
                classes.iter().for_each(|class| _ = take_all(&mut slots, n, *class));
                assert!(classes.iter().all(|class| slots.may_start(*class, 0)), "{n} organizations took all of {classes:?}");
            }
        }
    }

    #[test]
    fn lanes_that_hang_never_take_more_than_half() {
        let mut slots = Slots::new(512);
        (0..1_000).for_each(|n| SlotClass::ALL[2..].iter().for_each(|class| _ = take_all(&mut slots, n, *class)));
        assert_eq!(slots.in_flight(), 256);
        assert!(take_all(&mut slots, 1_000, SlotClass::MoreOfQuick) > 100);
    }

    #[test]
    fn what_landed_is_free_again() {
        let mut slots = Slots::new(1);
        assert!(slots.may_start(SlotClass::FirstOfUnknown, 0));
        slots.start(organization(1), Pool::NotQuick);
        assert!(slots.are_taken() && !SlotClass::ALL.into_iter().any(|class| slots.may_start(class, 0)));
        slots.land(organization(1), Pool::NotQuick);
        assert!(slots.by_organization.is_empty() && slots.may_start(SlotClass::FirstOfQuick, 0));
    }
}
