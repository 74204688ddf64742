//! Whose turn it is: organizations take turns; inside one, priorities share; inside a priority, lanes take turns. Pure.

use std::collections::VecDeque;

use super::organizations::Party;
use crate::{ids::EndpointId, model::Priority, pruned::Pruned};

/// What one turn costs a queue of high, normal and low priority: under pressure 16 high, 4 normal and 1 low turn cost the same.
const COSTS: [u64; 3] = [1, 4, 16];

/// The queues that could start a flight now, in the order in which they may.
///
/// A queue is listed at most once: its lane remembers that it is.
#[derive(Default)]
pub(super) struct Turns {
    order: VecDeque<Party>,
    rings: Pruned<Party, Ring>,
}

/// The queues of one organization.
#[derive(Default)]
struct Ring {
    lanes: [VecDeque<EndpointId>; 3],
    /// What each priority has paid. The one that paid least has the next turn.
    paid: [u64; 3],
    /// What the last turn's priority had paid before it. One that had no work begins here: nobody saves turns up.
    level: u64,
    /// Whether the organization stands in the order. One that may start nothing does not, although it has lanes.
    stands: bool,
}

impl Turns {
    /// Lists a queue behind the others of its organization.
    pub(super) fn list(&mut self, party: Party, endpoint: EndpointId, priority: Priority) {
        // One that waits for nothing may be forgotten, and with it what it had paid.
        let ring = self.rings.entry(party, Ring::has_lanes, Ring::default);
        ring.list(endpoint, priority);
        if !std::mem::replace(&mut ring.stands, true) {
            self.order.push_back(party);
        }
    }

    /// Takes the queue whose turn it is off the list. Those that `may_start` refuses are taken off too, and pay nothing for it. An organization that
    /// `is_open` refuses keeps its lists and leaves the order until [`Turns::resume`].
    pub(super) fn next(
        &mut self,
        mut is_open: impl FnMut(Party) -> bool,
        mut may_start: impl FnMut(EndpointId, Priority) -> bool,
    ) -> Option<(EndpointId, Priority)> {
        while let Some(party) = self.order.pop_front() {
            let Some(ring) = self.rings.get_mut(&party) else { continue };
            if !is_open(party) {
                ring.stands = false;
                continue;
            }
            let turn = ring.next(&mut may_start);
            ring.stands = ring.has_lanes();
            if ring.stands {
                self.order.push_back(party);
            }
            if turn.is_some() {
                return turn;
            }
        }
        None
    }

    /// An organization that could start nothing may be able to now.
    pub(super) fn resume(&mut self, party: Party) {
        let Some(ring) = self.rings.get_mut(&party) else { return };
        if ring.has_lanes() && !std::mem::replace(&mut ring.stands, true) {
            self.order.push_back(party);
        }
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

    fn next(&mut self, may_start: &mut impl FnMut(EndpointId, Priority) -> bool) -> Option<(EndpointId, Priority)> {
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
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::OrganizationId;

    fn organization(n: u128) -> Party {
        Party { organization: OrganizationId::from_uuid(Uuid::from_u128(n)), exempt: false }
    }

    fn endpoint(n: u128) -> EndpointId {
        EndpointId::from_uuid(Uuid::from_u128(n))
    }

    /// Takes `count` turns; every queue that had one is listed again, as if it had work without end.
    fn take(turns: &mut Turns, count: usize, organization_of: impl Fn(EndpointId) -> Party) -> Vec<(EndpointId, Priority)> {
        let take_one = |_| {
            let (endpoint, priority) = turns.next(|_| true, |_, _| true).expect("there is always work");
            turns.list(organization_of(endpoint), endpoint, priority);
            (endpoint, priority)
        };
        (0..count).map(take_one).collect()
    }

    #[test]
    fn of_21_turns_16_are_high_4_normal_and_1_low() {
        let mut turns = Turns::default();
        for priority in Priority::ALL {
            turns.list(organization(1), endpoint(1), priority);
        }
        let taken = take(&mut turns, 210, |_| organization(1));
        let count = |wanted| taken.iter().filter(|(_, priority)| *priority == wanted).count();
        assert_eq!((count(Priority::High), count(Priority::Normal), count(Priority::Low)), (160, 40, 10));
    }

    #[test]
    fn a_priority_that_had_no_work_saved_nothing_up() {
        let mut turns = Turns::default();
        turns.list(organization(1), endpoint(1), Priority::Low);
        take(&mut turns, 100, |_| organization(1));
        turns.list(organization(1), endpoint(2), Priority::High);
        let taken = take(&mut turns, 17, |_| organization(1));
        assert!(taken.iter().filter(|(_, priority)| *priority == Priority::High).count() >= 16);
    }

    #[test]
    fn a_queue_that_may_not_start_is_passed_over_and_pays_nothing() {
        let mut turns = Turns::default();
        let mut low = 0;
        for _ in 0..170 {
            // One lane with one slot: while a high delivery is under way its low ones may not start.
            turns.list(organization(1), endpoint(1), Priority::High);
            turns.list(organization(1), endpoint(1), Priority::Low);
            low += usize::from(turns.next(|_| true, |_, _| true).expect("work").1 == Priority::Low);
            assert_eq!(turns.next(|_| true, |_, _| false), None);
        }
        assert_eq!(low, 10, "one of 17");
    }

    #[test]
    fn organizations_take_turns_however_many_lanes_they_have() {
        let mut turns = Turns::default();
        let organization_of = |lane: EndpointId| organization(if lane == endpoint(100) { 2 } else { 1 });
        for n in 0..99 {
            turns.list(organization(1), endpoint(n), Priority::Normal);
        }
        turns.list(organization(2), endpoint(100), Priority::Normal);
        let taken = take(&mut turns, 20, organization_of);
        assert_eq!(taken.iter().filter(|(lane, _)| *lane == endpoint(100)).count(), 10);
    }

    #[test]
    fn lanes_of_one_organization_take_turns() {
        let mut turns = Turns::default();
        for n in [1, 2, 3] {
            turns.list(organization(1), endpoint(n), Priority::Normal);
        }
        let lanes: Vec<_> = take(&mut turns, 6, |_| organization(1)).into_iter().map(|(lane, _)| lane).collect();
        assert_eq!(lanes, [1, 2, 3, 1, 2, 3].map(endpoint));
    }

    #[test]
    fn an_organization_that_may_start_nothing_is_passed_over_until_it_may() {
        let mut turns = Turns::default();
        turns.list(organization(1), endpoint(1), Priority::Normal);
        turns.list(organization(2), endpoint(2), Priority::Normal);
        let only_second = |party| party == organization(2);
        assert_eq!(turns.next(only_second, |_, _| true), Some((endpoint(2), Priority::Normal)));
        assert_eq!(turns.next(|_| true, |_, _| true), None, "it has left the order");
        turns.resume(organization(1));
        assert_eq!(turns.next(|_| true, |_, _| true), Some((endpoint(1), Priority::Normal)));
    }
}
