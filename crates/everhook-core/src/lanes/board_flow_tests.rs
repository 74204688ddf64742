//! What holds a lane up: its breaker, its rate, its pause, its organization. And that nothing else is held up with it.

use std::num::NonZeroU32;

use super::{tests::*, *};
use crate::{
    ids::OrganizationId,
    model::{BreakerConfig, BreakerState, Due, KeptBreaker, KeptStage, OrganizationLimits, RateLimit},
    policy::breaker::Breaker,
    ports::LaneHead,
};

fn few(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("not zero")
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn lane(n: u128) -> LaneId {
    LaneId::from_uuid(uuid::Uuid::from_u128(n))
}

fn offer_to(board: &mut Board, policy: &LanePolicy, deliveries: impl IntoIterator<Item = u128>, now: Timestamp) {
    let policy = Arc::new(policy.clone());
    let committed = |n| Committed { lane: policy.clone(), priority: Priority::Normal, due: Due { due_at: now, ..due(n) } };
    deliveries.into_iter().for_each(|n| board.offer(committed(n), now));
}

/// Takes everything that may start, with what each started with.
fn start_all(board: &mut Board, now: Timestamp) -> Vec<(u128, Start)> {
    std::iter::from_fn(|| board.next(now)).map(|(flight, start)| (flight.due.delivery.as_uuid().as_u128(), start)).collect()
}

fn end_each(board: &mut Board, started: Vec<(u128, Start)>, outcome: CallOutcome, now: Timestamp) {
    for (n, start) in started {
        board.landed(LANE, Landed { start, outcome: Some(outcome) }, now);
        board.release(KEY, due(n).delivery, None, now);
    }
}

/// A board whose one lane failed until its breaker opened.
fn tripped() -> Board {
    let mut board = Board::new(100);
    for n in 0..20 {
        offer_to(&mut board, &policy(), [n], NOW);
        let started = start_all(&mut board, NOW);
        assert_eq!(started.len(), 1);
        end_each(&mut board, started, CallOutcome::Failure, NOW);
    }
    board
}

#[test]
fn an_endpoint_that_fails_is_left_alone_and_then_tried_with_few() {
    let mut board = tripped();
    assert_eq!(board.breakers.take_unwritten().len(), 1, "the opening is to be written");
    let many = LanePolicy { max_concurrency: 100, ..policy() };
    offer_to(&mut board, &many, 100..200, NOW);
    assert!(start_all(&mut board, NOW).is_empty());
    assert_eq!(begin_looks(&mut board), 0, "a backlog that does not flow is not read");
    let until = NOW + secs(30);
    assert_eq!(board.wake_at(), Some(until));
    board.ring(until);
    assert_eq!(begin_looks(&mut board), 1);
    board.adjust(&Arc::new(LanePolicy { config_version: 2, ..many }), until);
    board.looked(KEY, read(100..200, None), until);
    let probes = start_all(&mut board, until);
    assert_eq!(probes.len(), 5);
    assert!(probes.iter().all(|(_, start)| start.pass.state() == BreakerState::HalfOpen));
    end_each(&mut board, probes, CallOutcome::Success, until);
    assert_eq!(board.breakers.take_unwritten().len(), 1, "the closing is to be written");
    // The others waited in memory while it was tried, and are sent one at a time at first.
    assert_eq!(begin_looks(&mut board), 0);
    let mut rounds = Vec::new();
    for _ in 0..4 {
        let round = start_all(&mut board, until);
        rounds.push(round.len());
        end_each(&mut board, round, CallOutcome::Success, until);
    }
    assert_eq!(rounds, [1, 2, 4, 8]);
}

#[test]
fn a_person_who_was_faster_is_applied_once_although_ours_is_not_written() {
    // Given an opening that could not be written yet, and a person who closed the breaker meanwhile.
    let mut board = tripped();
    let ours = board.breakers.take_unwritten();
    let closed = Breaker::new(BreakerConfig::window(), NOW).keep();
    let theirs = crate::ports::BreakerRow { lane_id: LANE, revision: ours[0].revision, kept: closed };
    board.breakers.put_back(ours);
    // When the engine looks, their word holds, and ours is not written any more.
    assert!(board.breakers.learn(theirs));
    board.adjust(&policy_now(), NOW);
    assert_eq!(board.report(LANE, NOW).expect("a lane").breaker.state, BreakerState::Closed);
    assert!(!board.breakers.has_unwritten());
    // A write of ours that was under way is reported later, which is no news.
    board.breakers.overruled(theirs);
    assert_eq!(board.breakers.take_news(LANE), None);
}

#[test]
fn a_lane_takes_in_once_what_was_kept_of_its_breaker() {
    // Given a breaker that was kept as open, and whose sleep is over.
    let mut board = Board::new(100);
    let kept = KeptBreaker { stage: KeptStage::Open { until: NOW }, since: NOW, failed_recoveries: 0 };
    board.breakers.learn(crate::ports::BreakerRow { lane_id: LANE, revision: 1, kept });
    // When its lane is made, sends its probes, is asked to wait, and is then looked at.
    let many = LanePolicy { max_concurrency: 100, ..policy() };
    offer_to(&mut board, &many, 0..20, NOW);
    assert_eq!(start_all(&mut board, NOW).len(), 5);
    board.hold(LANE, Some(NOW + secs(60)), NOW);
    board.adjust(&Arc::new(many), NOW);
    // Then it still knows of both.
    let report = board.report(LANE, NOW).expect("a lane");
    assert_eq!((report.breaker.half_open_attempts, report.held_until), (5, Some(NOW + secs(60))));
}

#[test]
fn a_reset_ends_what_the_endpoint_asked_for_and_forcing_does_not() {
    let until = Some(NOW + secs(60));
    for (stage, expected) in [(KeptStage::Closed, None), (KeptStage::ForcedClosed { until: None }, until)] {
        let mut board = Board::new(100);
        offer_to(&mut board, &policy(), [1], NOW);
        board.hold(LANE, until, NOW);
        let kept = KeptBreaker { stage, since: NOW, failed_recoveries: 0 };
        board.breakers.learn(crate::ports::BreakerRow { lane_id: LANE, revision: 1, kept });
        board.adjust(&policy_now(), NOW);
        assert_eq!(board.report(LANE, NOW).expect("a lane").held_until, expected, "{stage:?}");
    }
}

#[test]
fn few_probes_decide_if_no_more_wait() {
    let mut board = tripped();
    let until = NOW + secs(30);
    offer_to(&mut board, &policy(), [50], until);
    let started = start_all(&mut board, until);
    assert_eq!(started.len(), 1);
    end_each(&mut board, started, CallOutcome::Success, until);
    assert_eq!(board.report(LANE, until).expect("a lane").breaker.state, BreakerState::Closed);
}

#[test]
fn what_a_person_decided_about_a_breaker_holds() {
    let mut board = tripped();
    let closed = Breaker::new(BreakerConfig::window(), NOW).keep();
    board.breakers.learn(crate::ports::BreakerRow { lane_id: LANE, revision: 7, kept: closed });
    board.adjust(&policy_now(), NOW);
    assert_eq!(board.report(LANE, NOW).expect("a lane").breaker.state, BreakerState::Closed);
    // An older row is no news.
    let mut open = Breaker::new(BreakerConfig::window(), NOW);
    let _ = open.force_open(None, NOW);
    board.breakers.learn(crate::ports::BreakerRow { lane_id: LANE, revision: 6, kept: open.keep() });
    board.adjust(&policy_now(), NOW);
    assert_eq!(board.report(LANE, NOW).expect("a lane").breaker.state, BreakerState::Closed);
}

#[test]
fn a_breaker_that_was_kept_open_is_open_when_the_lane_comes_back() {
    let mut board = Board::new(10);
    let mut open = Breaker::new(BreakerConfig::window(), NOW);
    let _ = open.force_open(None, NOW);
    board.breakers.learn(crate::ports::BreakerRow { lane_id: LANE, revision: 1, kept: open.keep() });
    offer_to(&mut board, &policy(), [1], NOW);
    assert!(start_all(&mut board, NOW).is_empty());
}

#[test]
fn no_more_start_than_the_rate_allows_and_all_start_in_the_end() {
    let mut board = Board::new(1_000);
    let limited = LanePolicy { rate_limit: Some(RateLimit::per_minute(few(60), Some(few(2)))), max_concurrency: 100, ..policy() };
    offer_to(&mut board, &limited, 0..10, NOW);
    let burst = start_all(&mut board, NOW);
    assert_eq!(burst.len(), 2);
    end_each(&mut board, burst, CallOutcome::Success, NOW);
    let mut now = NOW;
    for _ in 0..8 {
        assert_eq!(board.wake_at(), Some(now + secs(1)));
        now = now + secs(1);
        board.ring(now);
        let started = start_all(&mut board, now);
        assert_eq!(started.len(), 1);
        end_each(&mut board, started, CallOutcome::Success, now);
    }
}

#[test]
fn a_request_that_was_not_made_gives_its_token_back() {
    let mut board = Board::new(100);
    let limited = LanePolicy { rate_limit: Some(RateLimit::per_minute(few(1), Some(few(1)))), ..policy() };
    offer_to(&mut board, &limited, 0..2, NOW);
    let (_, start) = start_all(&mut board, NOW).remove(0);
    board.landed(LANE, Landed { start, outcome: None }, NOW);
    assert_eq!(start_all(&mut board, NOW).len(), 1);
}

#[test]
fn a_request_that_was_not_made_gives_its_organizations_token_back_also_if_its_lane_is_gone() {
    for is_gone in [false, true] {
        let mut board = Board::new(100);
        let limits = OrganizationLimits { concurrency: Some(1), deliveries_per_minute: Some(60), ..OrganizationLimits::default() };
        let limited = |n| LanePolicy { lane_id: lane(n), limits, ..policy() };
        offer_to(&mut board, &limited(1), 0..1, NOW);
        let (_, start) = start_all(&mut board, NOW).remove(0);
        offer_to(&mut board, &limited(2), 1..2, NOW);
        assert!(start_all(&mut board, NOW).is_empty());
        if is_gone {
            board.lanes.remove(&lane(1));
        }
        board.landed(lane(1), Landed { start, outcome: None }, NOW);
        assert_eq!(start_all(&mut board, NOW).len(), 1, "{is_gone}");
    }
}

#[test]
fn a_shortage_of_our_own_holds_a_lane_and_is_not_told_as_a_wish_of_the_endpoint() {
    let mut board = Board::new(10);
    offer_to(&mut board, &policy(), 0..3, NOW);
    let _under_way = board.next(NOW).expect("a start");
    board.back_off(LANE, NOW + secs(2), NOW);
    assert!(start_all(&mut board, NOW).is_empty());
    assert_eq!((board.report(LANE, NOW).expect("a lane").held_until, board.wake_at()), (None, Some(NOW + secs(2))));
    // Of the two the later counts, and a success ends only what the endpoint asked for.
    board.hold(LANE, Some(NOW + secs(1)), NOW);
    board.hold(LANE, None, NOW);
    assert_eq!(board.lane(LANE).expect("a lane").gate.flow(NOW + secs(1)), Flow::Shut(Some(NOW + secs(2))));
    assert_eq!(board.lane(LANE).expect("a lane").gate.flow(NOW + secs(2)), Flow::Open);
}

#[test]
fn priorities_share_the_rate_of_their_organization_also_between_a_busy_lane_and_an_idle_one() {
    let mut board = Board::new(100);
    let limits = OrganizationLimits { deliveries_per_minute: Some(60), ..OrganizationLimits::default() };
    let of = |n| Arc::new(LanePolicy { lane_id: lane(n), limits, max_concurrency: 100, ..policy() });
    let (mut now, mut started, mut low) = (NOW, Vec::new(), 0);
    for n in 0..200 {
        for (at, lane_id, priority) in [(0, 1, Priority::High), (1_000, 2, Priority::Low)] {
            board.offer(Committed { lane: of(lane_id), priority, due: crate::model::Due { due_at: now, ..due(at + n) } }, now);
        }
    }
    for _ in 0..170 {
        board.ring(now);
        let (flight, start) = board.next(now).expect("a token");
        low += usize::from(flight.priority == Priority::Low);
        started.push((flight, start));
        // The busy lane keeps one request under way, the idle one none.
        while let Some(index) = started.iter().position(|(flight, _)| started.len() > 1 || flight.priority == Priority::Low) {
            let (flight, start) = started.remove(index);
            board.landed(flight.lane_id, Landed { start, outcome: Some(CallOutcome::Success) }, now);
            board.release((flight.lane_id, flight.priority), flight.due.delivery, None, now);
        }
        now = now + secs(1);
    }
    assert_eq!(low, 10, "one of 17");
}

#[test]
fn a_paused_lane_starts_nothing_and_keeps_nothing_in_memory() {
    let mut board = Board::new(10);
    offer_to(&mut board, &policy(), 0..10, NOW);
    let started = start_all(&mut board, NOW);
    assert_eq!(started.len(), 2, "in flight when the pause comes");
    board.adjust(&Arc::new(LanePolicy { paused: true, config_version: 2, ..policy() }), NOW);
    assert_eq!(board.waiting, 0);
    end_each(&mut board, started, CallOutcome::Success, NOW);
    assert!(start_all(&mut board, NOW).is_empty());
    assert_eq!(begin_looks(&mut board), 0);
    board.adjust(&Arc::new(LanePolicy { config_version: 3, ..policy() }), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    board.looked(KEY, read(2..10, None), NOW);
    assert_eq!(start_all(&mut board, NOW).len(), 2);
}

#[test]
fn what_gathered_during_a_pause_is_sent_at_the_chosen_rate_until_it_is_gone() {
    let mut board = Board::new(10);
    board.know_what_waits(NOW);
    let draining = LanePolicy { drain: Some(RateLimit::per_second(few(1), Some(few(1)))), max_concurrency: 10, ..policy() };
    offer_to(&mut board, &draining, 0..2, NOW);
    let first = start_all(&mut board, NOW);
    assert_eq!(first.len(), 1);
    end_each(&mut board, first, CallOutcome::Success, NOW);
    assert_eq!(board.next_drained(), None);
    let later = NOW + secs(1);
    board.ring(later);
    let second = start_all(&mut board, later);
    end_each(&mut board, second, CallOutcome::Success, later);
    assert_eq!(board.next_drained(), Some((draining.application, LANE)));
    offer_to(&mut board, &draining, 10..15, later);
    assert_eq!(start_all(&mut board, later).len(), 5, "the lane flows freely again");
}

#[test]
fn the_lanes_of_an_organization_share_its_limits_and_others_do_not_wait_for_them() {
    let limits = [
        OrganizationLimits { concurrency: Some(3), ..OrganizationLimits::default() },
        OrganizationLimits { deliveries_per_minute: Some(300), ..OrganizationLimits::default() },
    ];
    for limits in limits {
        let mut board = Board::new(100);
        let limited = |n| LanePolicy { lane_id: lane(n), limits, max_concurrency: 100, ..policy() };
        let other = OrganizationId::from_uuid(uuid::Uuid::from_u128(2));
        offer_to(&mut board, &limited(10), 0..10, NOW);
        offer_to(&mut board, &limited(11), 10..20, NOW);
        offer_to(&mut board, &LanePolicy { organization: other, lane_id: lane(12), max_concurrency: 100, ..policy() }, 20..30, NOW);
        offer_to(&mut board, &LanePolicy { operational: true, ..limited(13) }, 30..40, NOW);
        let started = start_all(&mut board, NOW);
        let of = |range: std::ops::Range<u128>| started.iter().filter(|(n, _)| range.contains(n)).count();
        assert_eq!((of(0..20), of(20..30), of(30..40)), (3, 5, 5), "{limits:?}; five of a lane before its first answer");
    }
}

#[test]
fn an_organization_goes_on_when_one_of_its_requests_ends_or_its_time_comes() {
    let mut board = Board::new(100);
    let limits = OrganizationLimits { concurrency: Some(1), deliveries_per_minute: Some(60), ..OrganizationLimits::default() };
    offer_to(&mut board, &LanePolicy { limits, ..policy() }, 0..3, NOW);
    let first = start_all(&mut board, NOW);
    assert_eq!(first.len(), 1);
    end_each(&mut board, first, CallOutcome::Success, NOW);
    assert!(start_all(&mut board, NOW).is_empty(), "its minute is not over");
    let later = board.wake_at().expect("an alarm");
    board.ring(later);
    let second = start_all(&mut board, later);
    assert_eq!(second.len(), 1);
    let latest = later + secs(10);
    board.ring(latest);
    assert!(start_all(&mut board, latest).is_empty(), "one is under way");
    end_each(&mut board, second, CallOutcome::Success, latest);
    assert_eq!(start_all(&mut board, latest).len(), 1);
}

#[test]
fn a_rate_is_shared_by_all_queues_of_a_lane() {
    let mut board = Board::new(100);
    let limited = LanePolicy { rate_limit: Some(RateLimit::per_minute(few(60), Some(few(1)))), max_concurrency: 100, ..policy() };
    let limited = Arc::new(limited);
    for (n, priority) in [(1, Priority::High), (2, Priority::Normal)] {
        board.offer(Committed { lane: limited.clone(), priority, due: due(n) }, NOW);
    }
    assert_eq!(start_all(&mut board, NOW).len(), 1);
    let later = NOW + secs(1);
    board.ring(later);
    // The first is still under way: the other queue has its turn all the same.
    assert_eq!(start_all(&mut board, later).len(), 1);
}

#[test]
fn of_several_wishes_to_be_left_alone_the_longest_holds() {
    let mut board = Board::new(10);
    offer_to(&mut board, &policy(), 0..3, NOW);
    board.hold(LANE, Some(NOW + secs(300)), NOW);
    board.hold(LANE, Some(NOW + secs(1)), NOW);
    assert_eq!(board.report(LANE, NOW).expect("a lane").held_until, Some(NOW + secs(300)));
    board.hold(LANE, None, NOW);
    assert_eq!(board.report(LANE, NOW).expect("a lane").held_until, None);
}

#[test]
fn a_drain_ends_when_what_gathered_is_sent_however_much_comes_meanwhile() {
    let mut board = Board::new(100);
    board.know_what_waits(NOW);
    let draining = LanePolicy { drain: Some(RateLimit::per_second(few(1), Some(few(1)))), max_concurrency: 10, ..policy() };
    offer_to(&mut board, &draining, 0..2, NOW);
    let first = start_all(&mut board, NOW);
    let later = NOW + secs(1);
    offer_to(&mut board, &draining, 10..20, later);
    end_each(&mut board, first, CallOutcome::Success, later);
    assert_eq!(board.next_drained(), None);
    board.ring(later);
    assert_eq!(start_all(&mut board, later).len(), 10, "the last old one, and then all that came since");
    assert_eq!(board.next_drained(), Some((draining.application, LANE)));
}

#[test]
fn a_drain_goes_on_after_a_restart_until_everything_that_waits_was_seen() {
    let mut board = Board::new(10);
    let draining = LanePolicy { drain: Some(RateLimit::per_second(few(1), Some(few(1)))), max_concurrency: 10, ..policy() };
    // An event comes before the first look at the store, where the rest of the backlog is.
    offer_to(&mut board, &draining, [50], NOW);
    let first = start_all(&mut board, NOW);
    end_each(&mut board, first, CallOutcome::Success, NOW);
    assert_eq!(board.next_drained(), None);
    board.note_head(&LaneHead { delivery: due(1).delivery, ..head(NOW) }, &Arc::new(draining.clone()), NOW);
    board.know_what_waits(NOW);
    assert_eq!(board.next_drained(), None, "the backlog is still to be sent at the chosen rate");
    assert_eq!(begin_looks(&mut board), 1);
    board.looked(KEY, read(0..5, None), NOW);
    assert!(start_all(&mut board, NOW).is_empty(), "the token of this second is used up");
}

#[test]
fn whose_an_endpoint_is_is_known_while_its_lane_is_there() {
    let mut board = Board::new(10);
    board.offer(committed(1), NOW);
    let (ours, other) = (policy().organization, OrganizationId::from_uuid(uuid::Uuid::from_u128(2)));
    let table = [(ours, vec![], false), (ours, vec![LANE], true), (other, vec![LANE], false), (other, vec![LANE, lane(9)], true)];
    for (organization, endpoints, expected) in table {
        assert_eq!(board.may_be_of(organization, endpoints.iter().copied()), expected, "{organization} and {endpoints:?}");
    }
}
