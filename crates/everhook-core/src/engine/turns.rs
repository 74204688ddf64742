//! Whose turn it is: organizations take turns; inside one, priorities share; inside a priority, lanes take turns. Pure.
//!
//! Each class of slots has turns of its own, so that lanes that must wait for a slot hold up no others of their organization.

use std::collections::{BTreeSet, VecDeque};

use super::{organizations::Party, slots::SlotClass};
use crate::{ids::EndpointId, model::Priority, pruned::Pruned};

/// What one turn costs a queue of high, normal and low priority: under pressure 16 high, 4 normal and 1 low turn cost the same.
const COSTS: [u64; 3] = [1, 4, 16];

const CLASSES: usize = SlotClass::ALL.len();

/// The queues that could start a flight now, in the order in which they may.
///
/// A queue is listed at most once in each class: its lane remembers where it is.
#[derive(Default)]
pub(super) struct Turns {
    order: VecDeque<(Party, SlotClass)>,
    rings: Pruned<Party, [Ring; CLASSES]>,
    /// Those that wait for a slot, of each class: who holds fewest comes first, then who has waited longest.
    without_slot: [BTreeSet<Waiting>; CLASSES],
    refusals: u64,
}

/// An organization that waits for a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    /// How many it held when it was refused.
    held: u32,
    /// The number of that refusal.
    refusal: u64,
    party: Party,
}

/// Whether an organization may start something of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// Now.
    Open,
    /// Not before [`Turns::resume`]: its own limits are reached.
    Limited,
    /// Not before there are more free slots, or it holds fewer than these.
    WithoutSlot(u32),
}

/// The queues of one organization and one class.
#[derive(Default)]
struct Ring {
    lanes: [VecDeque<EndpointId>; 3],
    /// What each priority has paid. The one that paid least has the next turn.
    paid: [u64; 3],
    /// What the last turn's priority had paid before it. One that had no work begins here: nobody saves turns up.
    level: u64,
    place: Place,
}

/// Where a ring stands.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Nowhere: it has no lanes, or its organization may start nothing.
    #[default]
    Nowhere,
    /// In the order.
    InOrder,
    /// Among those without a slot.
    WithoutSlot(Waiting),
}

impl Turns {
    /// Lists a queue behind the others of its organization and class.
    pub(super) fn list(&mut self, party: Party, class: SlotClass, endpoint: EndpointId, priority: Priority) {
        // One that waits for nothing may be forgotten, and with it what it had paid.
        let rings = self.rings.entry(party, |rings| rings.iter().any(Ring::has_lanes), Default::default);
        let ring = &mut rings[class as usize];
        ring.list(endpoint, priority);
        if ring.place == Place::Nowhere {
            ring.place = Place::InOrder;
            self.order.push_back((party, class));
        }
    }

    /// Takes the queue whose turn it is off the list. Those that `may_start` refuses are taken off too, and pay nothing for it. An organization for which
    /// `opening` is not open keeps its lists and leaves the order.
    pub(super) fn next(
        &mut self,
        mut opening: impl FnMut(Party, SlotClass) -> Opening,
        mut may_start: impl FnMut(SlotClass, EndpointId, Priority) -> bool,
    ) -> Option<(SlotClass, EndpointId, Priority)> {
        while let Some((party, class)) = self.order.pop_front() {
            let Some(rings) = self.rings.get_mut(&party) else { continue };
            let ring = &mut rings[class as usize];
            ring.place = Place::Nowhere;
            match opening(party, class) {
                Opening::Open => {}
                Opening::Limited => continue,
                Opening::WithoutSlot(held) => {
                    self.refusals += 1;
                    let waiting = Waiting { held, refusal: self.refusals, party };
                    ring.place = Place::WithoutSlot(waiting);
                    self.without_slot[class as usize].insert(waiting);
                    continue;
                }
            }
            let turn = ring.next(|endpoint, priority| may_start(class, endpoint, priority));
            if ring.has_lanes() {
                ring.place = Place::InOrder;
                self.order.push_back((party, class));
            }
            if let Some((endpoint, priority)) = turn {
                return Some((class, endpoint, priority));
            }
        }
        None
    }

    /// An organization that could start nothing may be able to now.
    pub(super) fn resume(&mut self, party: Party) {
        let Some(rings) = self.rings.get_mut(&party) else { return };
        for (ring, class) in rings.iter_mut().zip(SlotClass::ALL).filter(|(ring, _)| ring.place != Place::InOrder && ring.has_lanes()) {
            if let Place::WithoutSlot(waiting) = std::mem::replace(&mut ring.place, Place::InOrder) {
                self.without_slot[class as usize].remove(&waiting);
            }
            self.order.push_back((party, class));
        }
    }

    /// Slots may have become free: one organization that waits for one, and may have it now, stands in the order again. Says whether there was one. If who holds
    /// fewest may not, nobody may.
    pub(super) fn readmit(&mut self, may_start: impl Fn(SlotClass, u32) -> bool) -> bool {
        for class in SlotClass::ALL {
            let waiting = &mut self.without_slot[class as usize];
            let Some(first) = waiting.first().copied().filter(|first| may_start(class, first.held)) else { continue };
            waiting.pop_first();
            if let Some(rings) = self.rings.get_mut(&first.party) {
                rings[class as usize].place = Place::InOrder;
                self.order.push_back((first.party, class));
                return true;
            }
        }
        false
    }
}

impl Ring {
    fn has_lanes(&self) -> bool {
        self.lanes.iter().any(|lanes| !lanes.is_empty())
    }

    fn list(&mut self, endpoint: EndpointId, priority: Priority) {
        let class = priority as usize;
        if self.lanes[class].is_empty() {
            self.paid[class] = self.paid[class].max(self.level);
        }
        self.lanes[class].push_back(endpoint);
    }

    fn next(&mut self, mut may_start: impl FnMut(EndpointId, Priority) -> bool) -> Option<(EndpointId, Priority)> {
        for priority in Priority::ALL {
            let lanes = &mut self.lanes[priority as usize];
            while lanes.front().is_some_and(|endpoint| !may_start(*endpoint, priority)) {
                lanes.pop_front();
            }
        }
        let has_work = Priority::ALL.into_iter().filter(|priority| !self.lanes[*priority as usize].is_empty());
        let next = has_work.min_by_key(|priority| self.paid[*priority as usize])?;
        self.level = self.paid[next as usize];
        self.paid[next as usize] += COSTS[next as usize];
        let endpoint = self.lanes[next as usize].pop_front()?;
        Some((endpoint, next))
    }
}

#[cfg(test)]
impl Turns {
    /// How many queues are listed.
    pub(super) fn entries(&self) -> usize {
        self.rings.values().flatten().map(|ring| ring.lanes.iter().map(VecDeque::len).sum::<usize>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::OrganizationId;

    const QUICK: SlotClass = SlotClass::FirstOfQuick;

    fn open(_: Party, _: SlotClass) -> Opening {
        Opening::Open
    }

    fn organization(n: u128) -> Party {
        Party { organization: OrganizationId::from_uuid(Uuid::from_u128(n)), exempt: false }
    }

    fn endpoint(n: u128) -> EndpointId {
        EndpointId::from_uuid(Uuid::from_u128(n))
    }

    /// Takes `count` turns; every queue that had one is listed again, as if it had work without end.
    fn take(turns: &mut Turns, count: usize, organization_of: impl Fn(EndpointId) -> Party) -> Vec<(EndpointId, Priority)> {
        let take_one = |_| {
            let (class, endpoint, priority) = turns.next(open, |_, _, _| true).expect("there is always work");
            turns.list(organization_of(endpoint), class, endpoint, priority);
            (endpoint, priority)
        };
        (0..count).map(take_one).collect()
    }

    #[test]
    fn of_21_turns_16_are_high_4_normal_and_1_low() {
        let mut turns = Turns::default();
        for priority in Priority::ALL {
            turns.list(organization(1), QUICK, endpoint(1), priority);
        }
        let taken = take(&mut turns, 210, |_| organization(1));
        let count = |wanted| taken.iter().filter(|(_, priority)| *priority == wanted).count();
        assert_eq!((count(Priority::High), count(Priority::Normal), count(Priority::Low)), (160, 40, 10));
    }

    #[test]
    fn a_priority_that_had_no_work_saved_nothing_up() {
        let mut turns = Turns::default();
        turns.list(organization(1), QUICK, endpoint(1), Priority::Low);
        take(&mut turns, 100, |_| organization(1));
        turns.list(organization(1), QUICK, endpoint(2), Priority::High);
        let taken = take(&mut turns, 17, |_| organization(1));
        assert!(taken.iter().filter(|(_, priority)| *priority == Priority::High).count() >= 16);
    }

    #[test]
    fn a_queue_that_may_not_start_is_passed_over_and_pays_nothing() {
        let mut turns = Turns::default();
        let mut low = 0;
        for _ in 0..170 {
            // One lane with one slot: while a high delivery is under way its low ones may not start.
            turns.list(organization(1), QUICK, endpoint(1), Priority::High);
            turns.list(organization(1), QUICK, endpoint(1), Priority::Low);
            low += usize::from(turns.next(open, |_, _, _| true).expect("work").2 == Priority::Low);
            assert_eq!(turns.next(open, |_, _, _| false), None);
        }
        assert_eq!(low, 10, "one of 17");
    }

    #[test]
    fn organizations_take_turns_however_many_lanes_they_have() {
        let mut turns = Turns::default();
        let organization_of = |lane: EndpointId| organization(if lane == endpoint(100) { 2 } else { 1 });
        for n in 0..99 {
            turns.list(organization(1), QUICK, endpoint(n), Priority::Normal);
        }
        turns.list(organization(2), QUICK, endpoint(100), Priority::Normal);
        let taken = take(&mut turns, 20, organization_of);
        assert_eq!(taken.iter().filter(|(lane, _)| *lane == endpoint(100)).count(), 10);
    }

    #[test]
    fn lanes_of_one_organization_take_turns() {
        let mut turns = Turns::default();
        for n in [1, 2, 3] {
            turns.list(organization(1), QUICK, endpoint(n), Priority::Normal);
        }
        let lanes: Vec<_> = take(&mut turns, 6, |_| organization(1)).into_iter().map(|(lane, _)| lane).collect();
        assert_eq!(lanes, [1, 2, 3, 1, 2, 3].map(endpoint));
    }

    #[test]
    fn an_organization_that_may_start_nothing_is_passed_over_until_it_may() {
        let mut turns = Turns::default();
        turns.list(organization(1), QUICK, endpoint(1), Priority::Normal);
        turns.list(organization(2), QUICK, endpoint(2), Priority::Normal);
        let only_second = |party, _| if party == organization(2) { Opening::Open } else { Opening::Limited };
        assert_eq!(turns.next(only_second, |_, _, _| true), Some((QUICK, endpoint(2), Priority::Normal)));
        assert_eq!(turns.next(open, |_, _, _| true), None, "it has left the order");
        turns.resume(organization(1));
        assert_eq!(turns.next(open, |_, _, _| true), Some((QUICK, endpoint(1), Priority::Normal)));
    }

    #[test]
    fn those_without_a_slot_are_not_asked_again_before_one_is_free_and_who_holds_fewest_comes_first() {
        let mut turns = Turns::default();
        (1..=1_000).for_each(|n| turns.list(organization(n), QUICK, endpoint(n), Priority::Normal));
        let mut asked = 0;
        // The last one holds fewest.
        let held = |party: Party| 2_000 - party.organization.as_uuid().as_u128() as u32;
        let refuse = |party, _| {
            asked += 1;
            Opening::WithoutSlot(held(party))
        };
        assert_eq!(turns.next(refuse, |_, _, _| true), None);
        assert_eq!(asked, 1_000);
        for _ in 0..10 {
            assert_eq!(turns.next(|_, _| panic!("nobody is asked"), |_, _, _| true), None);
            assert!(!turns.readmit(|_, held| held < 1_000), "nobody holds so few");
        }
        assert!(turns.readmit(|_, held| held < 1_001));
        assert_eq!(turns.next(open, |_, _, _| true), Some((QUICK, endpoint(1_000), Priority::Normal)));
        // One that has ended something is asked again by itself, and only once.
        turns.resume(organization(7));
        turns.resume(organization(7));
        assert_eq!(turns.next(open, |_, _, _| true), Some((QUICK, endpoint(7), Priority::Normal)));
        assert_eq!(turns.next(open, |_, _, _| true), None);
        assert_eq!(turns.without_slot[QUICK as usize].len(), 998);
    }

    #[test]
    fn lanes_of_one_class_do_not_wait_for_those_of_another() {
        let mut turns = Turns::default();
        turns.list(organization(1), SlotClass::FirstOfSlow, endpoint(1), Priority::Normal);
        turns.list(organization(1), QUICK, endpoint(2), Priority::Normal);
        let opening = |_, class| if class == QUICK { Opening::Open } else { Opening::WithoutSlot(9) };
        assert_eq!(turns.next(opening, |_, _, _| true), Some((QUICK, endpoint(2), Priority::Normal)));
        assert_eq!(turns.next(opening, |_, _, _| true), None);
    }
}
