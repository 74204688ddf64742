//! How lanes share the slots: whatever some do, those that have done nothing start at once.

use super::{tests::*, *};
use crate::model::BreakerConfig;

const ATTACKER: u128 = 1;
const NEIGHBOR: u128 = 2;
const SLOTS: usize = 512;
/// Longer than any request may take.
const MINUTE: Duration = Duration::from_secs(60);

/// The policy of one of an organization's lanes.
fn lane_of(organization: u128, n: u128, max_concurrency: u32) -> LanePolicy {
    let lane_id = LaneId::from_uuid(uuid::Uuid::from_u128(organization << 64 | n));
    let organization = OrganizationId::from_uuid(uuid::Uuid::from_u128(organization));
    LanePolicy { lane_id, organization, max_concurrency, breaker: BreakerConfig { enabled: false, ..BreakerConfig::window() }, ..policy() }
}

/// Deliveries to a lane, which it has not started yet.
fn offer(board: &mut Board, policy: &LanePolicy, count: u128, now: Timestamp) {
    let policy = Arc::new(policy.clone());
    for n in 0..count {
        let id = (now.as_micros() as u128) << 96 | (policy.lane_id.as_uuid().as_u128() & 0xffff_ffff) << 32 | n;
        let id = id ^ (policy.organization.as_uuid().as_u128() << 80);
        let committed = Committed { lane: policy.clone(), priority: Priority::Normal, due: crate::model::Due { due_at: now, ..due(id) } };
        board.offer(committed, now);
    }
}

/// Starts everything that may start.
fn start(board: &mut Board, now: Timestamp) -> Vec<(InFlight, Start)> {
    std::iter::from_fn(|| board.next(now)).collect()
}

/// How many of these are of a lane.
fn count(started: &[(InFlight, Start)], policy: &LanePolicy) -> usize {
    started.iter().filter(|(flight, _)| flight.lane_id == policy.lane_id).count()
}

fn end_all(board: &mut Board, started: Vec<(InFlight, Start)>, now: Timestamp) {
    for (flight, start) in started {
        board.landed(flight.lane_id, Landed { start, outcome: Some(CallOutcome::Success) }, now);
        board.release((flight.lane_id, flight.priority), flight.due.delivery, None, now);
    }
}

/// The lane has answered at once, and is then left alone until it is forgotten.
fn prove_quick(board: &mut Board, policy: &LanePolicy, now: Timestamp) {
    offer(board, policy, 1, now);
    let started = start(board, now);
    assert_eq!(started.len(), 1);
    end_all(board, started, now);
}

/// Five lanes that have never had anything start at once, and so do five that were quick and are forgotten.
fn assert_the_neighbor_starts_at_once(board: &mut Board, known: &[LanePolicy], now: Timestamp) {
    for policy in known {
        assert!(board.lane(policy.lane_id).is_none(), "it is forgotten");
        offer(board, policy, 1, now);
        let started = start(board, now);
        assert_eq!(count(&started, policy), 1, "a lane that was quick");
        offer(board, &lane_of(NEIGHBOR, 1_000 + policy.lane_id.as_uuid().as_u128(), 5), 1, now);
        assert_eq!(start(board, now).len(), 1, "a lane that is new");
    }
}

fn neighbor(board: &mut Board) -> Vec<LanePolicy> {
    let lanes: Vec<_> = (1..=5).map(|n| lane_of(NEIGHBOR, n, 5)).collect();
    lanes.iter().for_each(|policy| prove_quick(board, policy, NOW));
    lanes
}

#[test]
fn a_lane_of_an_endpoint_that_hangs_holds_few_slots_whatever_it_asks_for() {
    let mut board = Board::new(SLOTS);
    let known = neighbor(&mut board);
    let hanging = lane_of(ATTACKER, 1, 1_000);
    offer(&mut board, &hanging, 900, NOW);
    let first = start(&mut board, NOW);
    assert_eq!(first.len(), 5, "before its first answer");
    // Each round times out.
    let later = NOW + MINUTE;
    end_all(&mut board, first, later);
    assert_eq!(start(&mut board, later).len(), 32, "a lane that is slow");
    assert_the_neighbor_starts_at_once(&mut board, &known, later);
}

#[test]
fn an_organization_full_of_hanging_lanes_leaves_slots_to_others() {
    let mut board = Board::new(SLOTS);
    let known = neighbor(&mut board);
    for n in 1..=300 {
        offer(&mut board, &lane_of(ATTACKER, n, 1_000), 20, NOW);
    }
    let first = start(&mut board, NOW);
    assert_eq!(first.len(), 128);
    assert_the_neighbor_starts_at_once(&mut board, &known, NOW);
    // After the timeouts, and with new lanes all the time, it is no more.
    let later = NOW + MINUTE;
    end_all(&mut board, first, later);
    for n in 301..=600 {
        offer(&mut board, &lane_of(ATTACKER, n, 1_000), 20, later);
    }
    assert!((90..=128).contains(&start(&mut board, later).len()));
}

#[test]
fn a_quick_lane_that_begins_to_hang_leaves_slots_to_others_and_counts_as_slow_after_a_second() {
    let mut board = Board::new(SLOTS);
    let known = neighbor(&mut board);
    let turning = lane_of(ATTACKER, 1, 1_000);
    prove_quick(&mut board, &turning, NOW);
    offer(&mut board, &turning, 900, NOW);
    let mut hanging = start(&mut board, NOW);
    assert_eq!(hanging.len(), 299);
    assert_the_neighbor_starts_at_once(&mut board, &known[..2], NOW);
    // Some are answered after a while, which proves nothing while others hang.
    let later = NOW + Duration::from_millis(1_500);
    end_all(&mut board, hanging.split_off(20), later);
    assert_eq!(start(&mut board, later).len(), 12, "32 in all");
    assert_the_neighbor_starts_at_once(&mut board, &known[2..], later);
}

#[test]
fn a_lane_that_hangs_leaves_slots_to_others_of_its_organization() {
    let mut board = Board::new(SLOTS);
    let quick = lane_of(ATTACKER, 1, 5);
    let turning = lane_of(ATTACKER, 2, 1_000);
    [&quick, &turning].into_iter().for_each(|policy| prove_quick(&mut board, policy, NOW));
    offer(&mut board, &turning, 900, NOW);
    assert_eq!(start(&mut board, NOW).len(), 299);
    for n in 10..40 {
        offer(&mut board, &lane_of(ATTACKER, n, 1_000), 100, NOW);
    }
    assert!(start(&mut board, NOW).len() > 60);
    // A quick one, and one that is new.
    for policy in [&quick, &lane_of(ATTACKER, 100, 5)] {
        offer(&mut board, policy, 1, NOW);
        assert_eq!(count(&start(&mut board, NOW), policy), 1);
    }
}

#[test]
fn several_organizations_at_their_worst_leave_slots_to_the_next() {
    let mut board = Board::new(SLOTS);
    let known = neighbor(&mut board);
    for organization in 10..15 {
        for n in 1..=100 {
            offer(&mut board, &lane_of(organization, n, 1_000), 10, NOW);
        }
        assert!(!start(&mut board, NOW).is_empty());
    }
    assert_the_neighbor_starts_at_once(&mut board, &known, NOW);
}

#[test]
fn a_slow_lane_that_is_alone_gets_its_slots_again_as_they_land() {
    let mut board = Board::new(SLOTS);
    let slow = lane_of(NEIGHBOR, 1, 50);
    offer(&mut board, &slow, 200, NOW);
    let (mut now, mut sent) = (NOW, 0);
    while sent < 200 {
        let started = start(&mut board, now);
        assert!(!started.is_empty(), "{sent} were sent");
        sent += started.len();
        now = now + Duration::from_secs(2);
        end_all(&mut board, started, now);
    }
    assert_eq!(now.since(NOW), Duration::from_secs(2 * 8), "5, then 32 at a time");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "measures how long the board takes on this machine")]
fn lanes_that_may_not_start_are_not_looked_at_again_for_each_that_may() {
    let mut board = Board::new(SLOTS);
    let quick = lane_of(NEIGHBOR, 1, 100);
    prove_quick(&mut board, &quick, NOW);
    // Many organizations with many lanes each, all of which wait for a slot.
    for organization in 100..300 {
        for n in 0..100 {
            offer(&mut board, &lane_of(organization, n, 1_000), 1, NOW);
        }
    }
    let hanging = start(&mut board, NOW);
    assert!((240..=256).contains(&hanging.len()));
    let began = std::time::Instant::now();
    for round in 0..1_000 {
        let now = NOW + Duration::from_micros(round);
        offer(&mut board, &quick, 10, now);
        let started = start(&mut board, now);
        assert_eq!(started.len(), 10);
        end_all(&mut board, started, now);
    }
    // 10,000 starts. If each walked through 20,000 lanes, it would take minutes.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // A slot that lands goes to one who has none.
    let (flight, ended) = hanging.into_iter().next().expect("one of them");
    board.landed(flight.lane_id, Landed { start: ended, outcome: Some(CallOutcome::Failure) }, NOW + MINUTE);
    let next = start(&mut board, NOW + MINUTE);
    assert_eq!(next.len(), 1);
}

#[test]
fn a_queue_has_at_most_one_entry_in_each_class_however_often_its_lane_changes() {
    let mut board = Board::new(4);
    let (hanging, lane) = (lane_of(ATTACKER, 1, 4), lane_of(ATTACKER, 2, 4));
    prove_quick(&mut board, &lane, NOW);
    offer(&mut board, &hanging, 4, NOW);
    assert!(!start(&mut board, NOW).is_empty());
    for round in 1..1_000 {
        let now = NOW + Duration::from_micros(round);
        offer(&mut board, &lane, 3, now);
        let mut sent = 0;
        while sent < 3 {
            let started = start(&mut board, now);
            sent += count(&started, &lane);
            end_all(&mut board, started.into_iter().filter(|(flight, _)| flight.lane_id == lane.lane_id).collect(), now);
        }
    }
    assert!(board.turns.entries() <= 2 * SlotClass::ALL.len());
}

#[test]
fn reads_of_one_organization_wait_for_one_of_another_and_not_for_all() {
    let mut board = Board::new(SLOTS);
    let head_of = |policy: &LanePolicy| {
        let LanePolicy { organization, application, lane_id, .. } = *policy;
        crate::ports::LaneHead { organization, application, lane_id, ..head(NOW) }
    };
    for n in 0..1_000 {
        let policy = lane_of(ATTACKER, n, 5);
        board.note_head(&head_of(&policy), &Arc::new(policy.clone()), NOW);
    }
    let policy = lane_of(NEIGHBOR, 1, 5);
    board.note_head(&head_of(&policy), &Arc::new(policy.clone()), NOW);
    assert!(next_look(&mut board, NOW).iter().any(|((lane_id, _), _)| *lane_id == policy.lane_id));
}

#[test]
fn alarms_that_ring_all_at_once_are_applied_some_at_a_time() {
    let mut board = Board::new(SLOTS);
    let later = NOW + Duration::from_secs(1);
    for n in 0..2_500 {
        let policy = lane_of(ATTACKER, n, 5);
        let LanePolicy { organization, application, lane_id, .. } = policy;
        let head = crate::ports::LaneHead { organization, application, lane_id, ..head(later) };
        board.note_head(&head, &Arc::new(policy), NOW);
    }
    for left in [1_500, 500, 0] {
        assert_eq!(board.wake_at(), Some(later));
        board.ring(later);
        assert_eq!(board.alarms.len(), left);
    }
}
