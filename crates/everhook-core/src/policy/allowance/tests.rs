//! What a node has in hand, as tables, and as bounds that hold whatever the nodes do.

use proptest::prelude::{any, prop, prop_assert, proptest};
use uuid::Uuid;

use super::*;
use crate::policy::{
    shared_bucket::SharedBucket,
    shared_slots::{self, Holding},
};

const START: Timestamp = Timestamp::from_secs(1_700_000_000);

fn n(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn per_minute(requests: u32) -> RateLimit {
    RateLimit::per_minute(n(requests), None)
}

fn ms(millis: u64) -> Timestamp {
    START + Duration::from_millis(millis)
}

fn drawn(granted: u32, good_ms: u64, next_ms: u64) -> TokenGrant {
    TokenGrant { granted, good_in: Duration::from_millis(good_ms), next_in: Duration::from_millis(next_ms) }
}

/// One that was short, asked at the start, and was granted this.
fn granted(limit: RateLimit, ahead: Duration, drawn: TokenGrant) -> Allowance {
    let mut allowance = Allowance::new(limit, ahead, START);
    assert_eq!(allowance.take(START), Err(Missing::Asked));
    let draw = allowance.ask(START).expect("it was short");
    allowance.granted(&draw, drawn, START, 0.5);
    allowance
}

#[test]
fn a_quarter_of_a_second_is_asked_for_and_at_least_one() {
    for (limit, expected) in [(1, 1), (60, 1), (600, 3), (60_000, 250), (u32::MAX, TAKE_MAX)] {
        let mut allowance = Allowance::new(per_minute(limit), AHEAD, START);
        assert_eq!(allowance.ask(START), None, "nobody wants anything");
        assert_eq!(allowance.look(START), Err(Missing::Asked));
        assert_eq!(allowance.ask(START).map(|draw| draw.take), Some(expected), "{limit}");
    }
}

#[test]
fn a_token_is_good_when_the_budget_said() {
    // Three, the last of them in 200 ms: one in 100 ms.
    let mut allowance = granted(per_minute(600), AHEAD, drawn(3, 200, 50));
    assert_eq!(allowance.take(START), Ok(()));
    assert_eq!(allowance.take(ms(99)), Err(Missing::Later(ms(100))));
    assert_eq!((allowance.flows_from(), allowance.look(ms(100))), (Some(ms(100)), Ok(())));
    assert_eq!(allowance.take(ms(100)), Ok(()));
    assert_eq!(allowance.take(ms(200)), Ok(()));
    assert_eq!(allowance.take(ms(200)), Err(Missing::Asked));
}

#[test]
fn whoever_finds_the_budget_empty_is_told_until_when() {
    let mut allowance = granted(per_minute(60), Duration::ZERO, drawn(0, 0, 700));
    assert_eq!(allowance.take(ms(10)), Err(Missing::Dry(ms(700))));
    assert_eq!(allowance.ask_at(ms(10)), None, "nobody waits for it");
    assert_eq!(allowance.take(ms(700)), Err(Missing::Asked));
    assert_eq!(allowance.ask_at(ms(700)), Some(ms(700)));
}

#[test]
fn what_is_not_used_within_a_second_is_given_back() {
    let mut allowance = granted(per_minute(600), AHEAD, drawn(3, 0, 0));
    assert_eq!(allowance.take(ms(10)), Ok(()));
    assert_eq!(allowance.ask_at(ms(400)), Some(ms(1_000)));
    assert_eq!(allowance.ask(ms(999)), None);
    assert_eq!(allowance.ask(ms(1_000)).map(|draw| (draw.take, draw.give_back)), Some((0, 2)));
    assert_eq!((allowance.take(ms(1_000)), allowance.is_idle(ms(1_000))), (Err(Missing::Asked), false));
}

#[test]
fn who_uses_tokens_asks_for_more_before_they_run_out() {
    let mut allowance = granted(per_minute(600), AHEAD, drawn(3, 0, 0));
    assert_eq!(allowance.take(ms(10)), Ok(()));
    assert_eq!(allowance.ask_at(ms(20)), Some(ms(100)));
    assert_eq!(allowance.ask(ms(100)).map(|draw| draw.take), Some(1));
}

#[test]
fn a_token_that_was_given_back_at_the_moment_of_its_use_is_owed_and_paid_for() {
    let mut allowance = granted(per_minute(600), AHEAD, drawn(1, 0, 0));
    assert_eq!(allowance.look(ms(1_000)), Ok(()));
    assert_eq!(allowance.ask(ms(1_000)).map(|draw| draw.give_back), Some(1));
    allowance.take_or_owe(ms(1_000));
    let draw = allowance.ask(ms(1_000)).expect("it owes one");
    allowance.granted(&draw, drawn(2, 0, 0), ms(1_000), 0.5);
    assert_eq!(allowance.take(ms(1_000)), Ok(()));
    assert_eq!(allowance.take(ms(1_000)), Err(Missing::Asked));
}

#[test]
fn slots_are_asked_for_by_what_was_under_way() {
    let mut slots = SlotAllowance::new(n(10), START);
    assert_eq!((slots.ask_at(), slots.is_idle()), (None, true));
    assert!(slots.lacks_room());
    assert_eq!(slots.ask_at(), Some(START));
    assert_eq!(slots.ask(), SlotRequest { limit: n(10), bound: 0, wanted: 10 });
    slots.granted(4, START, 0.5);
    slots.note(1);
    slots.note(3);
    slots.note(2);
    assert_eq!(slots.ask_at(), Some(ms(500)));
    assert_eq!(slots.ask(), SlotRequest { limit: n(10), bound: 4, wanted: 4 }, "one more than there were");
    slots.granted(1, ms(500), 0.5);
    assert!(slots.in_flight >= slots.allowed, "two are under way, and one is allowed");
    assert_eq!(slots.ask_at(), Some(ms(600)), "others wait to hear that no more than two are");
    assert_eq!(slots.ask(), SlotRequest { limit: n(10), bound: 2, wanted: 3 });
    slots.note(0);
    slots.granted(0, ms(600), 0.5);
    assert!(slots.is_idle());
}

/// Nodes that take all they can get, in steps of ten milliseconds; says how many tokens each took.
fn greedy(limit: RateLimit, nodes: usize, seconds: u64) -> Vec<u32> {
    let mut bucket = SharedBucket::new(limit, START);
    let mut allowances = vec![Allowance::new(limit, AHEAD, START); nodes];
    let (mut taken, mut dice) = (vec![0; nodes], 1u32);
    for step in 0..seconds * 100 {
        let now = ms(step * 10);
        for (node, allowance) in allowances.iter_mut().enumerate() {
            while allowance.take(now).is_ok() {
                taken[node] += 1;
            }
            if allowance.ask_at(now).is_some_and(|at| at <= now)
                && let Some(draw) = allowance.ask(now)
            {
                dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let drawn = bucket.draw(&draw, now);
                allowance.granted(&draw, drawn, now, f64::from(dice >> 16) / 65_536.0);
            }
        }
    }
    taken
}

#[test]
fn several_nodes_together_have_the_limit_within_one_percent_and_so_has_one_alone() {
    for (requests, nodes) in [(60, 1), (60, 3), (600, 1), (600, 3), (6_000, 3), (60_000, 1), (60_000, 3)] {
        let limit = per_minute(requests);
        let taken: u32 = greedy(limit, nodes, 60).iter().sum();
        let whole = limit.burst.get() + requests;
        assert!(taken <= whole && taken >= whole - whole.div_ceil(100) - 1, "{requests} a minute, {nodes} nodes: {taken} of {whole}");
    }
}

#[test]
fn no_node_starves() {
    for requests in [60, 600, 6_000] {
        let taken = greedy(per_minute(requests), 3, 60);
        assert!(taken.iter().all(|taken| *taken > requests / 6), "{requests} a minute: {taken:?}");
    }
}

proptest! {
    #[test]
    fn tokens_are_never_used_before_the_budget_has_them(requests in 1u32..5_000, steps in prop::collection::vec(any::<(u8, u8)>(), 1..400)) {
        let limit = per_minute(requests);
        let mut bucket = SharedBucket::new(limit, START);
        let mut allowances = vec![Allowance::new(limit, AHEAD, START); 3];
        let (mut now, mut used) = (START, 0u64);
        for (wait, node) in steps {
            now = now + Duration::from_millis(u64::from(wait));
            let allowance = &mut allowances[usize::from(node) % 3];
            while allowance.take(now).is_ok() {
                used += 1;
            }
            if let Some(draw) = allowance.ask(now) {
                let drawn = bucket.draw(&draw, now);
                allowance.granted(&draw, drawn, now, f64::from(node) / 256.0);
            }
            let gained = u64::try_from(now.since(START).as_micros()).unwrap() * u64::from(requests) / 60_000_000;
            prop_assert!(used <= u64::from(limit.burst.get()) + gained + 1, "{used} used");
        }
    }

    #[test]
    fn no_more_requests_are_under_way_than_there_are_slots(limit in 1u32..12, steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..600)) {
        let mut holdings: Vec<Holding> = Vec::new();
        let mut nodes = [(SlotAllowance::new(n(limit), START), 0u32, None::<u32>); 3];
        let mut now = START;
        for (wait, node, act) in steps {
            now = now + Duration::from_millis(u64::from(wait) / 8);
            let place = usize::from(node) % 3;
            let (slots, in_flight, answer) = &mut nodes[place];
            match act % 8 {
                0..4 => *in_flight += u32::from(!slots.lacks_room()),
                4 | 5 => *in_flight = in_flight.saturating_sub(1),
                // What is asked is answered at some later step, after others have asked and requests have come and gone.
                6 if answer.is_none() => {
                    let ask = slots.ask();
                    *answer = Some(shared_slots::share(&mut holdings, Uuid::from_u128(place as u128), ask, now));
                }
                _ => {
                    if let Some(allowed) = answer.take() {
                        slots.granted(allowed, now, 0.5);
                    }
                }
            }
            slots.note(*in_flight);
            // All ask often enough that nothing expires.
            holdings.iter_mut().for_each(|holding| holding.until = now + Duration::from_secs(5));
            let sum: u32 = nodes.iter().map(|(_, in_flight, _)| in_flight).sum();
            prop_assert!(sum <= limit, "{sum} under way");
        }
    }
}

#[test]
fn a_token_of_a_request_that_was_not_made_is_good_again_and_pays_what_is_owed_first() {
    let mut allowance = granted(per_minute(60), Duration::ZERO, drawn(1, 0, 1_000));
    assert_eq!(allowance.take(START), Ok(()));
    allowance.put_back(START);
    assert_eq!((allowance.take(START), allowance.in_hand()), (Ok(()), 0));
    allowance.take_or_owe(START);
    assert_eq!(allowance.owed, 1);
    allowance.put_back(START);
    assert_eq!((allowance.owed, allowance.in_hand()), (0, 0));
}
