//! The bucket, as a table, and as bounds that hold for any limit.

use std::num::NonZeroU32;

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::model::Period;

const START: Timestamp = Timestamp::from_secs(1_700_000_000);

fn n(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn per_minute(requests: u32, burst: u32) -> RateLimit {
    RateLimit::per_minute(n(requests), Some(n(burst)))
}

fn at(micros: u64) -> Timestamp {
    START + Duration::from_micros(micros)
}

/// Takes whatever can be taken in this time, each token as soon as it flows.
fn greedy(bucket: &mut Bucket, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let mut taken = Vec::new();
    let mut now = bucket.flows_from(from);
    while now < until {
        bucket.try_take(now).unwrap();
        taken.push(now);
        now = bucket.flows_from(now);
    }
    taken
}

#[test]
fn the_burst_comes_at_once_and_the_rest_evenly() {
    #[rustfmt::skip]
    let cases: [(RateLimit, &[u64]); 5] = [
        // limit → when the first requests start, in microseconds
        (per_minute(60, 1),  &[0, 1_000_000, 2_000_000, 3_000_000]),
        (per_minute(100, 3), &[0, 0, 0, 600_000, 1_200_000]),
        // A seventh of a minute is not a whole number: rounded up each time, from the exact instant.
        (per_minute(7, 1),   &[0, 8_571_429, 17_142_858, 25_714_286, 34_285_715, 42_857_143, 51_428_572, 60_000_000]),
        (RateLimit::per_second(n(3), None), &[0, 333_334, 666_667, 1_000_000]),
        (RateLimit::per_second(n(3_000_000), Some(n(2))), &[0, 0, 1, 1, 2]),
    ];
    for (limit, expected) in cases {
        let mut bucket = Bucket::new(limit, START);
        let mut now = START;
        for micros in expected {
            now = bucket.flows_from(now);
            assert_eq!(now, at(*micros), "{limit:?}");
            assert_eq!(bucket.try_take(now), Ok(()), "{limit:?}");
        }
    }
}

#[test]
fn many_tokens_are_taken_all_or_none_and_come_when_it_was_said() {
    let seconds = |seconds| Duration::from_secs(seconds);
    let mut bucket = Bucket::new(per_minute(60, 10), START);
    assert_eq!(bucket.try_take_many(6, START), Ok(()));
    let until = START + seconds(2);
    assert_eq!(bucket.try_take_many(6, START), Err(until));
    assert_eq!(bucket.try_take_many(4, START), Ok(()), "nothing was taken by the one that failed");
    assert_eq!(bucket.try_take_many(6, START), Err(START + seconds(6)));
    assert_eq!(bucket.try_take_many(6, START + seconds(6)), Ok(()), "whoever waits as long as was said gets them");
    // More than ever fit in are as many as fit in.
    assert_eq!(bucket.try_take_many(1_000, START + seconds(6)), Err(START + seconds(16)));
    assert_eq!(bucket.try_take_many(1_000, START + seconds(16)), Ok(()));
    assert_eq!(bucket.try_take_many(0, START + seconds(16)), Ok(()));
}

#[test]
fn without_a_burst_every_minute_holds_the_limit_within_one_percent() {
    for requests in [1, 7, 50, 99, 100, 199, 1_000, 12_345] {
        let mut bucket = Bucket::new(RateLimit::per_minute(n(requests), None), START);
        let taken = greedy(&mut bucket, START, at(3 * 60_000_000));
        let fullest = (0..taken.len()).map(|first| taken[first..].partition_point(|time| time.since(taken[first]) < secs(60))).max();
        let most = f64::from(requests) * 1.01;
        assert!(fullest.is_some_and(|fullest| fullest as f64 <= most), "{fullest:?} of {requests}");
        let least = f64::from(requests) * 3.0 - 1.0;
        assert!(taken.len() as f64 >= least, "{} of {requests} in three minutes", taken.len());
    }
}

#[test]
fn an_hour_at_any_pace_does_not_drift() {
    for requests in [7, 11, 13, 997] {
        let mut bucket = Bucket::new(per_minute(requests, 1), START);
        let taken = greedy(&mut bucket, START, at(3_600_000_000));
        assert_eq!(taken.len(), requests as usize * 60, "{requests} a minute");
    }
}

#[test]
fn a_token_that_was_given_back_flows_again_at_once() {
    let mut bucket = Bucket::new(per_minute(1, 1), START);
    assert_eq!(bucket.try_take(START), Ok(()));
    assert_eq!(bucket.try_take(START), Err(at(60_000_000)));
    bucket.give_back();
    bucket.give_back();
    assert_eq!(bucket.try_take(START), Ok(()));
    assert_eq!(bucket.try_take(START), Err(at(60_000_000)), "never more than the burst");
}

#[test]
fn another_limit_goes_on_with_the_tokens_there_are() {
    let second = |requests, burst| RateLimit::per_second(n(requests), Some(n(burst)));
    #[rustfmt::skip]
    let cases = [
        // limit before, taken, limit after → waits so many microseconds for the next
        (per_minute(60, 5), 0, per_minute(60, 2),  0),
        (per_minute(60, 5), 5, per_minute(60, 9),  1_000_000),
        (per_minute(60, 5), 5, per_minute(600, 5), 100_000),
        (per_minute(60, 5), 5, second(4, 5),       250_000),
        (per_minute(60, 5), 4, second(4, 5),       0),
        (second(4, 5),      5, per_minute(60, 5),  1_000_000),
    ];
    for (before, taken, after, wait) in cases {
        let mut bucket = Bucket::new(before, START);
        (0..taken).for_each(|_| bucket.try_take(START).unwrap());
        bucket.change(after, START);
        assert_eq!((bucket.flows_from(START), bucket.limit()), (at(wait), after), "{before:?}, {taken} taken, {after:?}");
    }
}

#[test]
fn a_clock_that_is_set_back_neither_stops_the_flow_nor_fills_the_bucket() {
    let mut bucket = Bucket::new(per_minute(60, 1), START);
    assert_eq!(bucket.try_take(START), Ok(()));
    let earlier = START - secs(3_600);
    assert_eq!(bucket.try_take(earlier), Err(earlier + secs(1)));
    assert_eq!(bucket.try_take(earlier + secs(1)), Ok(()));
}

#[test]
fn a_moment_that_was_read_earlier_brings_nothing() {
    let mut bucket = Bucket::new(per_minute(60, 1), START);
    assert_eq!(bucket.try_take(at(900_000)), Ok(()));
    assert_eq!(bucket.try_take(at(500_000)), Err(at(1_900_000)));
    assert_eq!(bucket.try_take(at(1_900_000)), Ok(()));
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

proptest! {
    #[test]
    fn no_time_ever_holds_more_than_its_share_and_the_burst(
        requests in 1u32..5_000,
        burst in 1u32..8,
        is_minute in any::<bool>(),
        steps in prop::collection::vec(0u64..2_000_000, 1..50),
    ) {
        let per = if is_minute { Period::Minute } else { Period::Second };
        let mut bucket = Bucket::new(RateLimit { requests: n(requests), per, burst: n(burst) }, START);
        let (mut now, mut taken) = (0u64, Vec::new());
        for step in steps {
            now += step;
            // More than the burst is asked for at each instant.
            for _ in 0..=burst {
                taken.extend(bucket.try_take(at(now)).ok().map(|()| now));
            }
        }
        for first in 0..taken.len() {
            for last in first..taken.len() {
                // Of the time from the first of them up to, not including, the microsecond after the last.
                let gained = (taken[last] - taken[first] + 1) * u64::from(requests);
                let count = (last - first + 1) as u64;
                prop_assert!(count * per.as_micros() < gained + u64::from(burst) * per.as_micros());
            }
        }
    }

    #[test]
    fn it_flows_at_flows_from_and_not_a_microsecond_before(
        requests in 1u32..u32::MAX,
        burst in 1u32..5,
        steps in prop::collection::vec(0u64..1_000_000, 1..50),
    ) {
        let mut bucket = Bucket::new(RateLimit::per_minute(n(requests), Some(n(burst))), START);
        let mut now = START;
        for step in steps {
            now = now + Duration::from_micros(step);
            let flows_from = bucket.flows_from(now);
            prop_assert!(flows_from >= now);
            if flows_from > now {
                prop_assert_eq!(bucket.clone().try_take(flows_from - Duration::from_micros(1)), Err(flows_from));
            }
            prop_assert_eq!(bucket.try_take(flows_from), Ok(()));
            now = flows_from;
        }
    }
}
