//! Whose turn it is: organizations take turns; inside one, priorities share; inside a priority, lanes take turns. Pure.
//!
//! Lanes are listed by classes of slots, so that those that must wait for a slot hold up no others of their organization. What a priority has had is
//! counted once for all classes: the shares hold among everything that may start.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    ids::LaneId,
    lanes::{organizations::FairShareKey, slots::SlotClass},
    model::Priority,
    pruned::Pruned,
};

/// What one turn costs a queue of high, normal and low priority: under pressure 16 high, 4 normal and 1 low turn cost the same.
const COSTS: [u64; 3] = [1, 4, 16];

const CLASSES: usize = SlotClass::ALL.len();

/// The queues that could start a flight now, in the order in which they may.
///
/// A queue is listed at most once in each class: its lane remembers where it is.
#[derive(Default)]
pub(super) struct Turns {
    order: VecDeque<FairShareKey>,
    shares: Pruned<FairShareKey, Share>,
    /// Those that wait for a slot, of each class: who holds fewest comes first, then who has waited longest.
    without_slot: [BTreeSet<Waiting>; CLASSES],
    refusals: u64,
    /// How many queues were listed so far.
    listings: u64,
}

/// An organization that waits for a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    /// How many it held when it was refused.
    held: u32,
    /// The number of that refusal.
    refusal: u64,
    party: FairShareKey,
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

/// The queues of one organization.
#[derive(Default)]
struct Share {
    rings: [Ring; CLASSES],
    /// What each priority has paid. The one that paid least has the next turn.
    paid: [u64; 3],
    is_in_order: bool,
}

/// The queues of one organization and one class.
#[derive(Default)]
struct Ring {
    /// Of each priority, who was listed first comes first.
    lanes: [VecDeque<Listed>; 3],
    place: Place,
}

/// A lane in a ring.
#[derive(Clone, Copy)]
struct Listed {
    /// The number of the listing: between classes, too, who was listed first comes first.
    listing: u64,
    lane_id: LaneId,
}

/// Where a ring stands.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// It has a part in its organization's turns.
    #[default]
    Ready,
    /// Its organization may start nothing.
    Limited,
    /// Among those without a slot.
    WithoutSlot(Waiting),
}

impl Turns {
    /// Lists a queue behind the others of its organization and class.
    pub(super) fn list(&mut self, party: FairShareKey, class: SlotClass, lane_id: LaneId, priority: Priority) {
        // One that waits for nothing may be forgotten, and with it what it had paid.
        let share = self.shares.entry(party, |share| share.rings.iter().any(Ring::has_lanes), Default::default);
        self.listings += 1;
        let ring = &mut share.rings[class as usize];
        ring.lanes[priority as usize].push_back(Listed { listing: self.listings, lane_id });
        if ring.place == Place::Limited {
            ring.place = Place::Ready;
        }
        if share.enters_order() {
            self.order.push_back(party);
        }
    }

    /// Takes the queue whose turn it is off the list. Those that `may_start` refuses are taken off too, and pay nothing for it. An organization for which
    /// `opening` is not open keeps its lists and leaves the order.
    pub(super) fn next(
        &mut self,
        mut opening: impl FnMut(FairShareKey, SlotClass) -> Opening,
        mut may_start: impl FnMut(SlotClass, LaneId, Priority) -> bool,
    ) -> Option<(SlotClass, LaneId, Priority)> {
        while let Some(party) = self.order.pop_front() {
            let Some(share) = self.shares.get_mut(&party) else { continue };
            share.is_in_order = false;
            for class in SlotClass::ALL {
                let ring = &mut share.rings[class as usize];
                if !ring.is_ready() {
                    continue;
                }
                match opening(party, class) {
                    Opening::Open => {}
                    Opening::Limited => ring.place = Place::Limited,
                    Opening::WithoutSlot(held) => {
                        self.refusals += 1;
                        let waiting = Waiting { held, refusal: self.refusals, party };
                        ring.place = Place::WithoutSlot(waiting);
                        self.without_slot[class as usize].insert(waiting);
                    }
                }
            }
            let turn = share.next(&mut may_start);
            if share.enters_order() {
                self.order.push_back(party);
            }
            if turn.is_some() {
                return turn;
            }
        }
        None
    }

    /// An organization that could start nothing may be able to now.
    pub(super) fn resume(&mut self, party: FairShareKey) {
        let Some(share) = self.shares.get_mut(&party) else { return };
        for (ring, without_slot) in share.rings.iter_mut().zip(&mut self.without_slot) {
            if let Place::WithoutSlot(waiting) = std::mem::take(&mut ring.place) {
                without_slot.remove(&waiting);
            }
        }
        if share.enters_order() {
            self.order.push_back(party);
        }
    }

    /// Slots may have become free: one organization that waits for one, and may have it now, stands in the order again. Says whether there was one. If who holds
    /// fewest may not, nobody may.
    pub(super) fn readmit(&mut self, may_start: impl Fn(SlotClass, u32) -> bool) -> bool {
        for (class, waiting) in SlotClass::ALL.into_iter().zip(&mut self.without_slot) {
            let Some(first) = waiting.first().copied().filter(|first| may_start(class, first.held)) else { continue };
            waiting.pop_first();
            if let Some(share) = self.shares.get_mut(&first.party) {
                share.rings[class as usize].place = Place::Ready;
                if share.enters_order() {
                    self.order.push_back(first.party);
                }
                return true;
            }
        }
        false
    }
}

impl Share {
    /// Whether it has something to start and is not in the order yet, where it is from now on.
    fn enters_order(&mut self) -> bool {
        let enters = !self.is_in_order && self.rings.iter().any(Ring::is_ready);
        self.is_in_order |= enters;
        enters
    }

    /// Takes the lane whose turn it is: of the priority that paid least of those that are ready, who was listed first.
    fn next(&mut self, may_start: &mut impl FnMut(SlotClass, LaneId, Priority) -> bool) -> Option<(SlotClass, LaneId, Priority)> {
        let (class, listed, priority) = loop {
            let (class, listed, priority) = self.first()?;
            self.rings[class as usize].lanes[priority as usize].pop_front();
            if may_start(class, listed.lane_id, priority) {
                break (class, listed, priority);
            }
        };
        let level = self.paid[priority as usize];
        self.paid[priority as usize] += COSTS[priority as usize];
        // Nobody saves turns up: whoever has nothing to start goes on from here.
        for other in Priority::ALL {
            if other != priority && !self.has_ready(other) {
                self.paid[other as usize] = self.paid[other as usize].max(level);
            }
        }
        Some((class, listed.lane_id, priority))
    }

    fn first(&self) -> Option<(SlotClass, Listed, Priority)> {
        let ready = SlotClass::ALL.into_iter().filter(|class| self.rings[*class as usize].place == Place::Ready);
        let firsts = ready.flat_map(|class| {
            let first = move |priority| Some((class, *self.rings[class as usize].lanes[priority as usize].front()?, priority));
            Priority::ALL.into_iter().filter_map(first)
        });
        firsts.min_by_key(|(_, listed, priority)| (self.paid[*priority as usize], *priority as usize, listed.listing))
    }

    fn has_ready(&self, priority: Priority) -> bool {
        self.rings.iter().any(|ring| ring.place == Place::Ready && !ring.lanes[priority as usize].is_empty())
    }
}

impl Ring {
    fn has_lanes(&self) -> bool {
        self.lanes.iter().any(|lanes| !lanes.is_empty())
    }

    fn is_ready(&self) -> bool {
        self.place == Place::Ready && self.has_lanes()
    }
}

#[cfg(test)]
impl Turns {
    /// How many queues are listed.
    pub(super) fn entries(&self) -> usize {
        self.shares.values().flat_map(|share| &share.rings).map(|ring| ring.lanes.iter().map(VecDeque::len).sum::<usize>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::OrganizationId;

    const QUICK: SlotClass = SlotClass::FirstOfQuick;

    fn open(_: FairShareKey, _: SlotClass) -> Opening {
        Opening::Open
    }

    fn organization(n: u128) -> FairShareKey {
        FairShareKey { organization: OrganizationId::from_uuid(Uuid::from_u128(n)), exempt: false }
    }

    fn lane_id(n: u128) -> LaneId {
        LaneId::from_uuid(Uuid::from_u128(n))
    }

    /// Takes `count` turns; every queue that had one is listed again, as if it had work without end.
    fn take(turns: &mut Turns, count: usize, organization_of: impl Fn(LaneId) -> FairShareKey) -> Vec<(LaneId, Priority)> {
        let take_one = |_| {
            let (class, lane_id, priority) = turns.next(open, |_, _, _| true).expect("there is always work");
            turns.list(organization_of(lane_id), class, lane_id, priority);
            (lane_id, priority)
        };
        (0..count).map(take_one).collect()
    }

    #[test]
    fn of_21_turns_16_are_high_4_normal_and_1_low() {
        let mut turns = Turns::default();
        for priority in Priority::ALL {
            turns.list(organization(1), QUICK, lane_id(1), priority);
        }
        let taken = take(&mut turns, 210, |_| organization(1));
        let count = |wanted| taken.iter().filter(|(_, priority)| *priority == wanted).count();
        assert_eq!((count(Priority::High), count(Priority::Normal), count(Priority::Low)), (160, 40, 10));
    }

    #[test]
    fn a_priority_that_had_no_work_saved_nothing_up() {
        let mut turns = Turns::default();
        turns.list(organization(1), QUICK, lane_id(1), Priority::Low);
        take(&mut turns, 100, |_| organization(1));
        turns.list(organization(1), QUICK, lane_id(2), Priority::High);
        let taken = take(&mut turns, 17, |_| organization(1));
        assert!(taken.iter().filter(|(_, priority)| *priority == Priority::High).count() >= 16);
    }

    #[test]
    fn a_queue_that_may_not_start_is_passed_over_and_pays_nothing() {
        let mut turns = Turns::default();
        let mut low = 0;
        for _ in 0..170 {
            // One lane with one slot: while a high delivery is under way its low ones may not start.
            turns.list(organization(1), QUICK, lane_id(1), Priority::High);
            turns.list(organization(1), QUICK, lane_id(1), Priority::Low);
            low += usize::from(turns.next(open, |_, _, _| true).expect("work").2 == Priority::Low);
            assert_eq!(turns.next(open, |_, _, _| false), None);
        }
        assert_eq!(low, 10, "one of 17");
    }

    #[test]
    fn organizations_take_turns_however_many_lanes_they_have() {
        let mut turns = Turns::default();
        let organization_of = |lane: LaneId| organization(if lane == lane_id(100) { 2 } else { 1 });
        for n in 0..99 {
            turns.list(organization(1), QUICK, lane_id(n), Priority::Normal);
        }
        turns.list(organization(2), QUICK, lane_id(100), Priority::Normal);
        let taken = take(&mut turns, 20, organization_of);
        assert_eq!(taken.iter().filter(|(lane, _)| *lane == lane_id(100)).count(), 10);
    }

    #[test]
    fn lanes_of_one_organization_take_turns() {
        let mut turns = Turns::default();
        for n in [1, 2, 3] {
            turns.list(organization(1), QUICK, lane_id(n), Priority::Normal);
        }
        let lanes: Vec<_> = take(&mut turns, 6, |_| organization(1)).into_iter().map(|(lane, _)| lane).collect();
        assert_eq!(lanes, [1, 2, 3, 1, 2, 3].map(lane_id));
    }

    #[test]
    fn an_organization_that_may_start_nothing_is_passed_over_until_it_may() {
        let mut turns = Turns::default();
        turns.list(organization(1), QUICK, lane_id(1), Priority::Normal);
        turns.list(organization(2), QUICK, lane_id(2), Priority::Normal);
        let only_second = |party, _| if party == organization(2) { Opening::Open } else { Opening::Limited };
        assert_eq!(turns.next(only_second, |_, _, _| true), Some((QUICK, lane_id(2), Priority::Normal)));
        assert_eq!(turns.next(open, |_, _, _| true), None, "it has left the order");
        turns.resume(organization(1));
        assert_eq!(turns.next(open, |_, _, _| true), Some((QUICK, lane_id(1), Priority::Normal)));
    }

    #[test]
    fn those_without_a_slot_are_not_asked_again_before_one_is_free_and_who_holds_fewest_comes_first() {
        let mut turns = Turns::default();
        (1..=1_000).for_each(|n| turns.list(organization(n), QUICK, lane_id(n), Priority::Normal));
        let mut asked = 0;
        // The last one holds fewest.
        let held = |party: FairShareKey| 2_000 - party.organization.as_uuid().as_u128() as u32;
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
        assert_eq!(turns.next(open, |_, _, _| true), Some((QUICK, lane_id(1_000), Priority::Normal)));
        // One that has ended something is asked again by itself, and only once.
        turns.resume(organization(7));
        turns.resume(organization(7));
        assert_eq!(turns.next(open, |_, _, _| true), Some((QUICK, lane_id(7), Priority::Normal)));
        assert_eq!(turns.next(open, |_, _, _| true), None);
        assert_eq!(turns.without_slot[QUICK as usize].len(), 998);
    }

    #[test]
    fn lanes_of_one_class_do_not_wait_for_those_of_another() {
        let mut turns = Turns::default();
        turns.list(organization(1), SlotClass::FirstOfSlow, lane_id(1), Priority::Normal);
        turns.list(organization(1), QUICK, lane_id(2), Priority::Normal);
        let opening = |_, class| if class == QUICK { Opening::Open } else { Opening::WithoutSlot(9) };
        assert_eq!(turns.next(opening, |_, _, _| true), Some((QUICK, lane_id(2), Priority::Normal)));
        assert_eq!(turns.next(opening, |_, _, _| true), None);
    }

    #[test]
    fn priorities_share_also_where_their_lanes_are_of_different_classes() {
        let mut turns = Turns::default();
        turns.list(organization(1), SlotClass::MoreOfQuick, lane_id(1), Priority::High);
        turns.list(organization(1), QUICK, lane_id(2), Priority::Low);
        let low = take(&mut turns, 170, |_| organization(1)).into_iter().filter(|(_, priority)| *priority == Priority::Low).count();
        assert_eq!(low, 10, "one of 17");
    }

    #[test]
    fn lanes_of_different_classes_take_turns_and_so_do_organizations_of_many_classes() {
        let mut turns = Turns::default();
        for (n, class) in (1..).zip(SlotClass::ALL) {
            turns.list(organization(1), class, lane_id(n), Priority::Normal);
        }
        let lanes: Vec<_> = take(&mut turns, 10, |_| organization(1)).into_iter().map(|(lane, _)| lane).collect();
        assert_eq!(lanes, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5].map(lane_id));
        turns.list(organization(2), QUICK, lane_id(9), Priority::Normal);
        let organization_of = |lane| organization(if lane == lane_id(9) { 2 } else { 1 });
        assert_eq!(take(&mut turns, 10, organization_of).into_iter().filter(|(lane, _)| *lane == lane_id(9)).count(), 5);
    }

    #[test]
    fn a_priority_that_waits_for_a_slot_saves_nothing_up() {
        let mut turns = Turns::default();
        turns.list(organization(1), QUICK, lane_id(1), Priority::Low);
        turns.list(organization(1), SlotClass::FirstOfSlow, lane_id(2), Priority::High);
        let without_slow = |_, class| if class == QUICK { Opening::Open } else { Opening::WithoutSlot(9) };
        for _ in 0..100 {
            let (class, lane, priority) = turns.next(without_slow, |_, _, _| true).expect("work");
            assert_eq!(priority, Priority::Low);
            turns.list(organization(1), class, lane, priority);
        }
        assert!(turns.readmit(|_, _| true));
        let low = take(&mut turns, 35, |_| organization(1)).into_iter().filter(|(_, priority)| *priority == Priority::Low).count();
        assert_eq!(low, 2, "its share");
    }
}
