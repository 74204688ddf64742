//! The limiter, as tables.

use super::*;

/// 2026-03-04, at hour, minute and second.
fn at(hour: i64, minute: i64, second: i64) -> Timestamp {
    Timestamp::from_secs(1_772_582_400 + hour * 3_600 + minute * 60 + second)
}

fn granted(rate: ProviderRate, now: Timestamp) -> ProviderRate {
    match admit(rate, now, 0) {
        Admission::Granted(rate) => rate,
        Admission::NotBefore(at) => panic!("not before {at}"),
    }
}

/// How many requests are granted at one instant, and when the next may come.
fn drain(mut rate: ProviderRate, now: Timestamp) -> (u32, Timestamp, ProviderRate) {
    let mut count = 0;
    loop {
        match admit(rate, now, 0) {
            Admission::Granted(next) => (rate, count) = (next, count + 1),
            Admission::NotBefore(at) => return (count, at, rate),
        }
    }
}

fn said(quarter: (u32, u32), day: (u32, u32)) -> RateNotice {
    let window = |(limit, used)| SaidWindow { limit, used };
    RateNotice { said: Some(SaidRate { quarter: window(quarter), day: window(day) }), ..RateNotice::default() }
}

#[test]
fn the_published_limits_hold_until_the_provider_says_otherwise() {
    let now = at(10, 7, 0);
    let (count, next, rate) = drain(unseen(Provider::Strava, now), now);
    assert_eq!((count, next), (100, at(10, 15, 0)));
    // A quarter later there are a hundred more; after a thousand the day is used up.
    let mut total = count;
    let mut state = rate;
    for quarter in 1..10 {
        let (count, _, rate) = drain(state, at(10, 0, 0) + QUARTER * quarter);
        (total, state) = (total + count, rate);
    }
    assert_eq!(total, 1_000);
    let (count, next, _) = drain(state, at(13, 0, 0));
    assert_eq!((count, next), (0, at(24, 0, 0)));
    let (count, _, _) = drain(state, at(24, 0, 0));
    assert_eq!(count, 100);
    // Garmin has no limit for a day.
    let (count, next, _) = drain(unseen(Provider::Garmin, now), now);
    assert_eq!((count, next), (100, at(10, 15, 0)));
}

#[test]
fn limits_are_learnt_from_answers() {
    let now = at(10, 0, 0);
    for (name, notice, expected) in [
        ("larger limits", said((200, 1), (2_000, 1)), (199, at(10, 15, 0))),
        ("smaller limits", said((10, 1), (1_000, 1)), (9, at(10, 15, 0))),
        ("others ask beside us", said((100, 97), (1_000, 500)), (3, at(10, 15, 0))),
        ("the quarter is used up", said((100, 100), (1_000, 500)), (0, at(10, 15, 0))),
        ("the day is used up", said((100, 1), (1_000, 1_003)), (0, at(24, 0, 0))),
        ("refused without a word", RateNotice { is_refused: true, ..RateNotice::default() }, (0, at(10, 15, 0))),
        ("refused, and the words do not explain it", RateNotice { is_refused: true, ..said((100, 5), (1_000, 5)) }, (0, at(10, 15, 0))),
        (
            "refused until tomorrow",
            RateNotice { is_refused: true, retry_at: Some(at(24, 0, 0)), ..RateNotice::default() },
            (0, at(24, 0, 0)),
        ),
        ("refused for a minute", RateNotice { is_refused: true, retry_at: Some(at(10, 1, 0)), said: None }, (0, at(10, 15, 0))),
        ("nothing is said", RateNotice::default(), (99, at(10, 15, 0))),
    ] {
        let rate = granted(unseen(Provider::Strava, now), now);
        let (count, next, _) = drain(learn(rate, notice, now), now);
        assert_eq!((count, next), expected, "{name}");
    }
}

#[test]
fn requests_under_way_are_counted_although_the_provider_has_not_seen_them() {
    let now = at(10, 0, 0);
    let mut rate = unseen(Provider::Strava, now);
    for _ in 0..60 {
        rate = granted(rate, now);
    }
    let (count, _, _) = drain(learn(rate, said((100, 1), (1_000, 1)), now), now);
    assert_eq!(count, 40);
}

#[test]
fn an_answer_of_the_last_window_says_nothing_about_the_use_of_this_one() {
    // Granted before the quarter, answered after: what it says is counted for the new quarter, which is never too little.
    let rate = granted(unseen(Provider::Strava, at(10, 14, 59)), at(10, 14, 59));
    let rate = learn(rate, said((100, 40), (1_000, 40)), at(10, 15, 1));
    let (count, _, rate) = drain(rate, at(10, 15, 1));
    assert_eq!(count, 60);
    let (count, _, _) = drain(rate, at(10, 30, 0));
    assert_eq!(count, 100);
}

#[test]
fn a_clock_that_was_set_back_grants_nothing_twice() {
    let (_, _, rate) = drain(unseen(Provider::Strava, at(10, 0, 0)), at(10, 0, 0));
    let (count, next, _) = drain(rate, at(9, 50, 0));
    assert_eq!((count, next), (0, at(10, 0, 0)));
}

#[test]
fn those_who_wait_are_spread() {
    let (_, _, rate) = drain(unseen(Provider::Strava, at(10, 0, 0)), at(10, 0, 0));
    for (dice, second) in [(0, 0), (7_000, 7), (29_999, 29), (30_000, 0), (u64::MAX, 21)] {
        let Admission::NotBefore(next) = admit(rate, at(10, 0, 0), dice) else { panic!("it is used up") };
        assert_eq!(next.floor_to_second(), at(10, 15, second), "{dice}");
    }
}

#[test]
fn half_of_a_quarter_is_left_to_events() {
    let now = at(10, 0, 0);
    let mut rate = unseen(Provider::Garmin, now);
    let mut count = 0;
    let next = loop {
        match admit_background(rate, now, 0) {
            Admission::Granted(granted) => (rate, count) = (granted, count + 1),
            Admission::NotBefore(next) => break next,
        }
    };
    assert_eq!((count, next), (50, at(10, 15, 0)));
    let (left, _, rate) = drain(rate, now);
    assert_eq!(left, 50);
    // A smaller limit that was said counts, and one that allows a single request still lets one through.
    for (limit, expected) in [(10, 5), (1, 1)] {
        let rate = learn(unseen(Provider::Garmin, now), said((limit, 0), (1_000, 0)), now);
        let granted = (0..expected).try_fold(rate, |rate, _| match admit_background(rate, now, 0) {
            Admission::Granted(rate) => Some(rate),
            Admission::NotBefore(_) => None,
        });
        assert!(granted.is_some_and(|rate| matches!(admit_background(rate, now, 0), Admission::NotBefore(_))), "{limit}");
    }
    // What is used up for events is used up for others.
    assert!(matches!(admit_background(rate, now, 0), Admission::NotBefore(_)));
}

#[test]
fn headers_are_read_and_the_tighter_limit_counts() {
    let window = |limit, used| SaidWindow { limit, used };
    for (read, overall, expected) in [
        (Some(("100,1000", "3,40")), None, Some((window(100, 3), window(1_000, 40)))),
        (None, Some(("200,2000", "5,50")), Some((window(200, 5), window(2_000, 50)))),
        (Some(("100,1000", "3,40")), Some(("200,2000", "5,50")), Some((window(100, 3), window(1_000, 40)))),
        (Some(("100,1000", "3,40")), Some(("200,2000", "150,1999")), Some((window(200, 150), window(2_000, 1_999)))),
        (Some((" 100 , 1000 ", "3,40")), None, Some((window(100, 3), window(1_000, 40)))),
        // A provider that allows nothing would never be asked again.
        (Some(("0,0", "0,0")), None, Some((window(1, 0), window(1, 0)))),
        (Some(("4294967295,4294967295", "1,1")), None, Some((window(LIMIT_MAX, 1), window(LIMIT_MAX, 1)))),
        (Some(("100", "3")), None, None),
        (Some(("a,b", "c,d")), None, None),
        (Some(("-1,-1", "0,0")), None, None),
        (Some(("99999999999,1", "0,0")), None, None),
        (None, None, None),
    ] {
        let header = |name: &str| {
            let (pair, limit) = match name {
                "x-readratelimit-limit" => (read, true),
                "x-readratelimit-usage" => (read, false),
                "x-ratelimit-limit" => (overall, true),
                _ => (overall, false),
            };
            pair.map(|(limits, uses)| if limit { limits.as_bytes() } else { uses.as_bytes() })
        };
        let found = strava_notice(header).map(|said| (said.quarter, said.day));
        assert_eq!(found, expected, "{read:?} {overall:?}");
    }
}

#[test]
fn those_who_wait_are_spread_over_as_many_windows_as_they_need() {
    let rate = unseen(Provider::Garmin, at(10, 0, 1));
    let until = at(10, 15, 0);
    for (ahead, windows) in [(0, 0), (99, 0), (100, 1), (250, 2), (1_000_000, WINDOWS_AHEAD_MAX)] {
        assert_eq!(place_in_line(until, ahead, rate.quarter.limit), until + QUARTER * windows, "{ahead}");
    }
}
