//! How the nodes that share a store divide an organization's slots: requests that may be under way at the same time. Pure: time comes in as a fact. The
//! stores call it, or say the same in their own language.
//!
//! Each node holds what it was granted, and the sum never exceeds the limit. A node that holds more than its share while others want is allowed less,
//! and what it holds follows when it says that it has applied it: until then its requests may still be under way.

use std::time::Duration;

use uuid::Uuid;

use crate::{model::SlotRequest, time::Timestamp};

/// How long slots are held without being asked for again: as long as a lease is good.
pub const SLOTS_HELD_FOR: Duration = Duration::from_secs(5);

/// How long the same nodes have one slot more than others, where slots cannot be divided evenly. With fewer slots than nodes it is how long a node
/// waits for its turn.
pub const SLICE: Duration = Duration::from_secs(2);

/// What one node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The node, in this life of it.
    pub holder: Uuid,
    /// How many slots are its.
    pub held: u32,
    /// How many it would like to have.
    pub wanted: u32,
    /// Until when, unless it asks again.
    pub until: Timestamp,
}

/// Answers a node how many requests it may have under way from now on, and notes what it holds. Those whose time is over are forgotten. Where a clock was
/// set back, nobody holds anything for longer than from now on: one that is dead would keep its slots for as long as the clock went back.
pub fn share(holdings: &mut Vec<Holding>, holder: Uuid, ask: SlotRequest, now: Timestamp) -> u32 {
    holdings.retain(|holding| holding.holder != holder && holding.until > now);
    holdings.iter_mut().for_each(|holding| holding.until = holding.until.min(now + SLOTS_HELD_FOR));
    let held_by_others: u32 = holdings.iter().fold(0, |sum, holding| sum.saturating_add(holding.held));
    let free = ask.limit.get().saturating_sub(held_by_others);
    holdings.push(Holding { holder, held: 0, wanted: ask.wanted, until: now + SLOTS_HELD_FOR });
    let allowed = fair_share(holdings, holder, ask.limit.get(), slice(now)).min(free).min(ask.wanted);
    let held = allowed.max(ask.bound);
    holdings.last_mut().expect("it was just put there").held = held;
    if held == 0 && ask.wanted == 0 {
        holdings.pop();
    }
    allowed
}

/// Which slice of time it is.
fn slice(now: Timestamp) -> u64 {
    now.as_micros().max(0).cast_unsigned() / u64::try_from(SLICE.as_micros()).unwrap_or(u64::MAX)
}

/// Whoever wants less than an even share gets that, and the others share the rest. What cannot be divided goes round.
fn fair_share(holdings: &[Holding], holder: Uuid, limit: u32, slice: u64) -> u32 {
    let mut by_want: Vec<(u32, Uuid)> = holdings.iter().map(|holding| (holding.wanted, holding.holder)).collect();
    by_want.sort_unstable();
    let mut left = limit;
    for place in 0..by_want.len() {
        let rest = &mut by_want[place..];
        let sharers = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let (wanted, of) = rest[0];
        let even = left / sharers;
        if wanted <= even {
            if of == holder {
                return wanted;
            }
            left -= wanted;
            continue;
        }
        rest.sort_unstable_by_key(|(_, of)| *of);
        let position = rest.iter().position(|(_, of)| *of == holder).unwrap_or_default() as u64;
        let turn = (position + slice) % u64::from(sharers);
        return even + u32::from(turn < u64::from(left % sharers));
    }
    0
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);

    fn node(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    fn ask(limit: u32, bound: u32, wanted: u32) -> SlotRequest {
        SlotRequest { limit: NonZeroU32::new(limit).unwrap(), bound, wanted }
    }

    #[test]
    fn shares_by_what_is_wanted() {
        #[rustfmt::skip]
        let table: [(&str, u32, &[u32], &[u32]); 6] = [
            ("one alone has all",                10, &[10],         &[10]),
            ("enough for all",                   10, &[2, 3],       &[2, 3]),
            ("an even share",                    10, &[10, 10],     &[5, 5]),
            ("who wants less leaves the rest",   10, &[2, 10, 10],  &[2, 4, 4]),
            ("what is over goes round",          10, &[10, 10, 10], &[4, 3, 3]),
            ("fewer slots than nodes",           1,  &[5, 5, 5],    &[1, 0, 0]),
        ];
        for (case, limit, wants, expected) in table {
            let holding = |(number, wanted): (usize, &u32)| Holding { holder: node(number as u128), held: 0, wanted: *wanted, until: NOW };
            let holdings: Vec<Holding> = wants.iter().enumerate().map(holding).collect();
            let shares: Vec<u32> = holdings.iter().map(|of| fair_share(&holdings, of.holder, limit, 0)).collect();
            assert_eq!(shares, expected, "{case}");
        }
    }

    #[test]
    fn whoever_has_fewer_slots_has_a_turn_too() {
        let holding = |number| Holding { holder: node(number), held: 0, wanted: 5, until: NOW };
        let holdings = [1, 2, 3].map(holding);
        let winners: Vec<u32> = (0..3).map(|slice| fair_share(&holdings, node(2), 1, slice)).collect();
        assert_eq!(winners.iter().sum::<u32>(), 1);
    }

    #[test]
    fn a_node_that_holds_everything_is_allowed_less_before_another_gets_any() {
        let mut holdings = Vec::new();
        assert_eq!(share(&mut holdings, node(1), ask(10, 0, 10), NOW), 10);
        assert_eq!(share(&mut holdings, node(2), ask(10, 0, 10), NOW), 0, "nothing is free yet");
        assert_eq!(share(&mut holdings, node(1), ask(10, 10, 10), NOW), 5, "ten are under way, and no more than five will be");
        assert_eq!(share(&mut holdings, node(2), ask(10, 0, 10), NOW), 0, "they still are");
        assert_eq!(share(&mut holdings, node(1), ask(10, 7, 10), NOW), 5, "three have ended");
        assert_eq!(share(&mut holdings, node(2), ask(10, 0, 10), NOW), 3);
    }

    #[test]
    fn what_a_dead_node_held_is_free_after_five_seconds() {
        let mut holdings = Vec::new();
        share(&mut holdings, node(1), ask(4, 0, 4), NOW);
        assert_eq!(share(&mut holdings, node(2), ask(4, 0, 4), NOW + Duration::from_secs(4)), 0);
        assert_eq!(share(&mut holdings, node(2), ask(4, 0, 4), NOW + Duration::from_secs(5)), 4);
    }

    #[test]
    fn also_where_the_clock_was_set_back() {
        let (mut holdings, earlier) = (Vec::new(), NOW - Duration::from_secs(3_600));
        share(&mut holdings, node(1), ask(4, 0, 4), NOW);
        assert_eq!(share(&mut holdings, node(2), ask(4, 0, 4), earlier), 0, "it may be alive");
        assert_eq!(share(&mut holdings, node(2), ask(4, 0, 4), earlier + Duration::from_secs(4)), 0);
        assert_eq!(share(&mut holdings, node(2), ask(4, 0, 4), earlier + Duration::from_secs(5)), 4);
    }

    #[test]
    fn a_lower_limit_lets_nothing_start_and_takes_nothing_away() {
        let mut holdings = Vec::new();
        share(&mut holdings, node(1), ask(10, 0, 10), NOW);
        assert_eq!(share(&mut holdings, node(1), ask(3, 10, 10), NOW), 3);
        assert_eq!(holdings[0].held, 10);
    }

    #[test]
    fn whoever_wants_nothing_is_forgotten() {
        let mut holdings = Vec::new();
        share(&mut holdings, node(1), ask(4, 0, 4), NOW);
        assert_eq!(share(&mut holdings, node(1), ask(4, 0, 0), NOW), 0);
        assert_eq!(holdings, []);
    }
}
