//! What the board promises: no delivery passes an older one, none is taken twice, none is forgotten.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use uuid::Uuid;

use super::*;
use crate::{
    engine::shelf::EVENT_BYTES_MAX,
    ids::{EventId, OrganizationId, ScheduleVersion},
    model::{BreakerConfig, Due, Event, EventType, Order, OrganizationLimits, Post},
    policy::breaker::{Admission, Breaker},
    ports::{DueRead, LaneHead},
};

pub(super) const NOW: Timestamp = Timestamp::from_secs(1_000);
/// Longer ago than a hint takes.
const LONG_DUE: Timestamp = Timestamp::from_secs(998);
pub(super) const LANE: EndpointId = EndpointId::from_uuid(Uuid::from_u128(1));
pub(super) const KEY: QueueKey = (LANE, Priority::Normal);

impl Board {
    /// An empty board of a node that shares nothing.
    pub(super) fn new(slots: usize) -> Self {
        Self::with(Organizations::default(), slots)
    }
}

pub(super) fn due(n: u128) -> Due {
    Due {
        delivery: DeliveryId::from_uuid(Uuid::from_u128(n)),
        event: EventId::from_uuid(Uuid::from_u128(n)),
        loaded: None,
        retry_schedule: ScheduleVersion(1),
        attempts: 0,
        due_at: NOW,
        replay_of: None,
        order: None,
    }
}

pub(super) fn policy() -> LanePolicy {
    LanePolicy {
        endpoint: LANE,
        application: ApplicationId::from_uuid(Uuid::from_u128(1)),
        organization: OrganizationId::from_uuid(Uuid::from_u128(1)),
        post: Post::only(),
        config_version: 1,
        operational: false,
        limits: OrganizationLimits::default(),
        max_concurrency: 2,
        rate_limit: None,
        drain: None,
        breaker: BreakerConfig::window(),
        paused: false,
    }
}

pub(super) fn policy_now() -> Arc<LanePolicy> {
    Arc::new(policy())
}

pub(super) fn committed(n: u128) -> Committed {
    Committed { lane: Arc::new(policy()), priority: Priority::Normal, due: due(n) }
}

pub(super) fn head(next_due_at: Timestamp) -> LaneHead {
    let LanePolicy { organization, application, .. } = policy();
    LaneHead { organization, application, endpoint: LANE, priority: Priority::Normal, delivery: due(1).delivery, next_due_at }
}

pub(super) fn read(rows: impl IntoIterator<Item = u128>, next_due_at: Option<Timestamp>) -> Result<DueRead, Timestamp> {
    Ok(DueRead { rows: rows.into_iter().map(due).collect(), next_due_at })
}

/// How many reads begin now.
pub(super) fn begin_looks(board: &mut Board) -> usize {
    std::iter::from_fn(|| board.next_look(1)).count()
}

/// Takes everything that may start now.
pub(super) fn take_all(board: &mut Board) -> Vec<u128> {
    std::iter::from_fn(|| board.next(NOW)).map(|(flight, _)| flight.due.delivery.as_uuid().as_u128()).collect()
}

/// A request of this lane ended well after so long.
fn land(board: &mut Board, endpoint: EndpointId, took: Duration) {
    let Admission::Flows(pass) = Breaker::new(BreakerConfig::window(), NOW).begin(NOW, due(1).event) else {
        panic!("a new breaker is closed")
    };
    board.landed(endpoint, Landed { pass, outcome: Some(CallOutcome::Success), took }, NOW);
}

fn land_and_release(board: &mut Board, n: u128) {
    land(board, LANE, Duration::ZERO);
    board.release(KEY, due(n).delivery, None, NOW);
}

#[test]
fn a_committed_delivery_starts_at_once_and_no_more_than_the_lane_takes() {
    let mut board = Board::new(10);
    (1..=3).for_each(|n| board.offer(committed(n), NOW));
    assert_eq!(take_all(&mut board), [1, 2]);
    land(&mut board, LANE, Duration::ZERO);
    assert_eq!(take_all(&mut board), [3]);
}

#[test]
fn no_more_start_than_the_process_has_slots() {
    let mut board = Board::new(1);
    (1..=3).for_each(|n| board.offer(committed(n), NOW));
    assert_eq!(take_all(&mut board), [1]);
    land(&mut board, LANE, Duration::ZERO);
    assert_eq!(take_all(&mut board), [2]);
}

#[test]
fn what_comes_while_older_work_waits_in_the_store_is_not_put_before_it() {
    let mut board = Board::new(10);
    board.heed(&head(NOW), &policy_now(), NOW);
    board.offer(committed(9), NOW);
    assert_eq!(take_all(&mut board), []);
    assert_eq!(begin_looks(&mut board), 1);
    // The read had not seen the ninth yet: it is looked for again.
    board.looked(KEY, read([1, 2], None), NOW);
    assert_eq!(take_all(&mut board), [1, 2]);
    assert_eq!(begin_looks(&mut board), 1);
    board.looked(KEY, read([1, 2, 9], None), NOW);
    land_and_release(&mut board, 1);
    assert_eq!(take_all(&mut board), [9]);
    assert_eq!(begin_looks(&mut board), 0);
}

#[test]
fn a_read_does_not_bring_back_what_is_in_flight_or_settled_meanwhile() {
    let mut board = Board::new(10);
    board.offer(committed(1), NOW);
    board.offer(committed(2), NOW);
    assert_eq!(take_all(&mut board), [1, 2]);
    // A retry of another delivery comes due; while it is read, the first is settled, and the read still shows it.
    board.release(KEY, due(7).delivery, Some(NOW), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    land_and_release(&mut board, 1);
    board.looked(KEY, read([1, 2, 7], None), NOW);
    assert_eq!(take_all(&mut board), [7]);
    assert_eq!(take_all(&mut board), []);
}

#[test]
fn a_hint_that_comes_after_a_read_found_its_delivery_is_no_news() {
    let mut board = Board::new(10);
    board.heed(&head(NOW), &policy_now(), NOW);
    begin_looks(&mut board);
    board.looked(KEY, read([1, 2, 3], None), NOW);
    assert_eq!(take_all(&mut board), [1, 2]);
    // While it is in flight, after it was settled, and while it waits in the window.
    board.offer(committed(1), NOW);
    land_and_release(&mut board, 2);
    board.offer(committed(2), NOW);
    board.offer(committed(3), NOW);
    assert_eq!(take_all(&mut board), [3]);
    land_and_release(&mut board, 1);
    assert_eq!(take_all(&mut board), []);
}

#[test]
fn a_full_window_leaves_the_rest_in_the_store_and_reads_it_when_it_runs_low() {
    let mut board = Board::new(10);
    let all = WINDOW_MAX as u128 + 10;
    (1..=all).for_each(|n| board.offer(committed(n), NOW));
    let low = board.lanes[&KEY.0].window_low();
    let mut taken = Vec::new();
    while taken.len() < WINDOW_MAX - low {
        for n in take_all(&mut board) {
            taken.push(n);
            land_and_release(&mut board, n);
        }
    }
    assert_eq!(begin_looks(&mut board), 1);
    let rest: Vec<u128> = (taken.len() as u128 + 1..=all).collect();
    board.looked(KEY, read(rest, None), NOW);
    while taken.len() < all as usize {
        for n in take_all(&mut board) {
            taken.push(n);
            land_and_release(&mut board, n);
        }
    }
    assert_eq!(taken, (1..=all).collect::<Vec<_>>());
    board.prune(NOW + Duration::from_secs(1));
    assert_eq!(board.lanes.len(), 1, "its breaker still counts");
    board.prune(NOW + Duration::from_secs(120));
    assert!(board.lanes.is_empty(), "a lane that has nothing to remember is dropped");
}

#[test]
fn a_retry_is_looked_for_when_it_is_due_and_not_before() {
    let mut board = Board::new(10);
    board.offer(committed(1), NOW);
    take_all(&mut board);
    land(&mut board, LANE, Duration::ZERO);
    let due_at = NOW + Duration::from_secs(5);
    board.release(KEY, due(1).delivery, Some(due_at), NOW);
    assert_eq!(board.wake_at(), Some(due_at));
    board.ring(NOW + Duration::from_secs(4));
    assert_eq!(begin_looks(&mut board), 0);
    board.ring(due_at);
    assert_eq!(begin_looks(&mut board), 1);
}

#[test]
fn new_work_does_not_wait_for_a_retry_that_is_not_due() {
    let mut board = Board::new(10);
    board.heed(&head(NOW + Duration::from_secs(60)), &policy_now(), NOW);
    board.offer(committed(2), NOW);
    assert_eq!(take_all(&mut board), [2]);
}

#[test]
fn a_failed_read_is_tried_again_later() {
    let mut board = Board::new(10);
    board.heed(&head(NOW), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    let retry_at = NOW + Duration::from_secs(1);
    board.looked(KEY, Err(retry_at), NOW);
    assert_eq!(begin_looks(&mut board), 0);
    board.ring(retry_at);
    assert_eq!(begin_looks(&mut board), 1);
}

#[test]
fn a_closed_lane_starts_nothing_and_an_opened_one_starts_again() {
    let mut board = Board::new(10);
    (1..=3).for_each(|n| board.offer(committed(n), NOW));
    assert_eq!(take_all(&mut board), [1, 2]);
    assert!(!board.close(LANE), "two are in flight");
    land_and_release(&mut board, 1);
    assert!(!board.is_closed_and_clear(LANE));
    land_and_release(&mut board, 2);
    assert!(board.is_closed_and_clear(LANE));
    assert_eq!(take_all(&mut board), []);
    board.adjust(&policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 3, "what it gave back may still wait in the store");
    board.looked(KEY, read([3], None), NOW);
    assert_eq!(take_all(&mut board), [3]);
}

#[test]
fn a_lane_that_was_asked_to_wait_waits_until_then_or_until_a_success() {
    let until = NOW + Duration::from_secs(60);
    for lifted_early in [false, true] {
        let mut board = Board::new(10);
        (1..=3).for_each(|n| board.offer(committed(n), NOW));
        assert_eq!(take_all(&mut board), [1, 2]);
        board.hold(LANE, Some(until), NOW);
        land_and_release(&mut board, 1);
        assert_eq!(take_all(&mut board), []);
        assert_eq!(board.wake_at(), Some(until));
        assert_eq!(begin_looks(&mut board), 0, "nothing is read for a lane that does not flow");
        let flows_at = if lifted_early { NOW } else { until };
        if lifted_early {
            board.hold(LANE, None, NOW);
        } else {
            board.ring(until);
        }
        // What waited was left to the store meanwhile.
        assert_eq!(begin_looks(&mut board), 1);
        board.looked(KEY, read([2, 3], None), flows_at);
        assert_eq!(board.next(flows_at).map(|(flight, _)| flight.due.delivery), Some(due(3).delivery));
    }
}

#[test]
fn a_lane_that_was_asked_to_wait_waits_also_if_nothing_of_it_is_left() {
    let mut board = Board::new(10);
    board.offer(committed(1), NOW);
    assert_eq!(take_all(&mut board), [1]);
    land(&mut board, LANE, Duration::ZERO);
    board.hold(LANE, Some(NOW + Duration::from_secs(60)), NOW);
    board.release(KEY, due(1).delivery, None, NOW);
    board.offer(committed(2), NOW);
    assert_eq!(take_all(&mut board), [0_u128; 0]);
}

#[test]
fn a_survey_finds_what_no_hint_told_and_only_that() {
    let mut board = Board::new(10);
    board.heed(&head(LONG_DUE), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1, "nothing was known of it");
    board.heed(&head(LONG_DUE), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 0, "it is being read");
    assert_eq!(board.looked(KEY, read([1], None), NOW), 1, "it was stranded");
    board.heed(&head(LONG_DUE), &policy_now(), NOW);
    take_all(&mut board);
    board.heed(&head(LONG_DUE), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 0, "it is known, in the window and in flight");
    land_and_release(&mut board, 1);
    board.prune(NOW);
    // The survey had seen it before it was settled: the look finds nothing, and nothing was stranded.
    board.heed(&head(LONG_DUE), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    assert_eq!(board.looked(KEY, read([], None), NOW), 0);
}

#[test]
fn a_survey_finds_a_lost_one_also_in_a_busy_lane() {
    let mut board = Board::new(10);
    board.offer(committed(7), NOW);
    board.offer(committed(8), NOW);
    take_all(&mut board);
    board.heed(&head(LONG_DUE), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    assert_eq!(board.looked(KEY, read([1, 7, 8], None), NOW), 1);
    land_and_release(&mut board, 7);
    assert_eq!(take_all(&mut board), [1]);
}

#[test]
fn a_busy_lane_looks_for_what_was_hinted_when_it_runs_low() {
    let mut board = Board::new(10);
    (1..=50).for_each(|n| board.offer(committed(n), NOW));
    let low = board.lanes[&KEY.0].window_low();
    let mut taken = 0;
    while taken < 50 - low {
        board.expect(&policy_now(), KEY.1, NOW);
        assert_eq!(begin_looks(&mut board), 0, "{} wait in memory", 50 - taken);
        for n in take_all(&mut board) {
            taken += 1;
            land_and_release(&mut board, n);
        }
    }
    assert_eq!(begin_looks(&mut board), 1);
}

#[test]
fn a_lane_with_requests_under_way_gathers_hints_for_a_moment_and_an_idle_one_does_not() {
    let mut board = Board::new(10);
    board.expect(&policy_now(), KEY.1, NOW);
    assert_eq!(begin_looks(&mut board), 1);
    board.looked(KEY, read([1], None), NOW);
    assert_eq!(take_all(&mut board), [1]);
    for millis in [0, 5, 19] {
        board.expect(&policy_now(), KEY.1, NOW + Duration::from_millis(millis));
        assert_eq!(begin_looks(&mut board), 0, "after {millis} ms");
    }
    let later = NOW + Duration::from_millis(20);
    board.offer(committed(3), later);
    board.ring(later);
    assert_eq!(begin_looks(&mut board), 1, "what was hinted is not passed over");
    board.looked(KEY, read([1, 2, 3], None), later);
    assert_eq!(take_all(&mut board), [2]);
}

#[test]
fn one_that_came_due_a_moment_ago_is_looked_for_and_not_called_stranded() {
    let mut board = Board::new(10);
    board.heed(&head(NOW), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    assert_eq!(board.looked(KEY, read([1], None), NOW), 0, "its hint may be on its way");
    assert_eq!(take_all(&mut board), [1]);
}

#[test]
fn a_retry_that_comes_due_while_another_queue_is_read_is_not_passed_over() {
    let mut board = Board::new(10);
    board.offer(committed(1), NOW);
    take_all(&mut board);
    // A slow read of the high queue is under way while the normal delivery fails, waits, and comes due.
    board.heed(&LaneHead { priority: Priority::High, delivery: due(5).delivery, ..head(NOW) }, &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    land(&mut board, LANE, Duration::ZERO);
    board.release(KEY, due(1).delivery, Some(NOW), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    board.looked((LANE, Priority::High), read([], None), NOW);
    board.looked(KEY, read([1], None), NOW);
    assert_eq!(take_all(&mut board), [1]);
}

#[test]
fn a_hint_that_is_very_late_only_means_a_look() {
    let mut board = Board::new(10);
    let late = NOW + HINT_DELAY_MAX;
    board.offer(committed(1), late);
    assert!(board.next(late).is_none());
    assert_eq!(begin_looks(&mut board), 1);
}

#[test]
fn however_many_endpoints_hang_those_that_answer_have_half_of_the_slots() {
    let mut board = Board::new(20);
    let lane = |n: u128, delivery: u128| Committed {
        lane: Arc::new(LanePolicy { endpoint: EndpointId::from_uuid(Uuid::from_u128(n)), ..policy() }),
        ..committed(delivery)
    };
    // Fifty endpoints that will hang, each with two deliveries, and one that is known to answer quickly.
    board.offer(lane(1, 1), NOW);
    assert_eq!(take_all(&mut board), [1]);
    (2..=51).for_each(|n| (0..2).for_each(|k| board.offer(lane(n, 10 * n + k), NOW)));
    board.offer(lane(1, 2), NOW);
    land(&mut board, LANE, Duration::from_millis(1));
    let hanging = take_all(&mut board).into_iter().filter(|n| *n > 10).count();
    assert_eq!(hanging, 10);
    // Its further deliveries start at once, as many as it takes.
    board.offer(lane(1, 3), NOW);
    land(&mut board, LANE, Duration::from_millis(1));
    assert_eq!(take_all(&mut board), [3]);
    // When one that hung lands, another of them has its chance.
    land(&mut board, EndpointId::from_uuid(Uuid::from_u128(2)), Duration::from_secs(15));
    assert_eq!(take_all(&mut board).len(), 1);
}

fn event_of_a_mebibyte(n: u128) -> Arc<Event> {
    Arc::new(Event {
        id: due(n).event,
        application: policy().application,
        event_type: EventType::parse("order.paid").expect("well-formed"),
        data: Bytes::from(vec![b'1'; 1024 * 1024]),
        timestamp: NOW,
        idempotency_key: String::new(),
        source: None,
        priority: Priority::Normal,
        sequence_number: 1,
        traceparent: None,
        labels: Default::default(),
        headers: Vec::new(),
        created_at: NOW,
    })
}

#[test]
fn events_are_kept_in_memory_only_while_there_is_room() {
    let mut board = Board::new(10);
    for n in 1..=100 {
        let mut with_event = committed(n);
        with_event.due.loaded = Some(event_of_a_mebibyte(n));
        board.offer(with_event, NOW);
    }
    assert_eq!((board.waiting, board.shelf.room()), (100, 0));
    let mut loaded = 0;
    while let Some((flight, _)) = board.next(NOW) {
        loaded += usize::from(flight.due.loaded.is_some());
        let n = flight.due.delivery.as_uuid().as_u128();
        land_and_release(&mut board, n);
    }
    assert_eq!((loaded, board.waiting, board.shelf.room()), (64, 0, EVENT_BYTES_MAX));
}

#[test]
fn an_event_that_waits_in_many_lanes_is_kept_once() {
    let mut board = Board::new(20);
    let event = event_of_a_mebibyte(1);
    for n in 1..=10 {
        let mut with_event = committed(n);
        with_event.lane = Arc::new(LanePolicy { endpoint: EndpointId::from_uuid(Uuid::from_u128(n)), ..policy() });
        with_event.due.event = event.id;
        with_event.due.loaded = Some(event.clone());
        board.offer(with_event, NOW);
    }
    assert_eq!(board.shelf.room(), EVENT_BYTES_MAX - 1024 * 1024);
    assert!(std::iter::from_fn(|| board.next(NOW)).all(|(flight, _)| flight.due.loaded.is_some()));
    assert_eq!(board.shelf.room(), EVENT_BYTES_MAX);
}

#[test]
fn the_data_of_an_erased_event_leaves_memory_wherever_it_waits() {
    let mut board = Board::new(10);
    for n in 1..=4 {
        let mut committed = committed(n);
        committed.due.loaded = Some(event_of_a_mebibyte(n));
        board.offer(committed, NOW);
    }
    let room = board.shelf.room();
    board.erased(vec![due(3).event, due(9).event]);
    assert_eq!(board.shelf.room(), room + 1024 * 1024);
    // Two start at once, the others when these have ended: the erased one asks the store at its turn.
    let mut is_loaded = Vec::new();
    for n in 1..=4 {
        while let Some((flight, _)) = board.next(NOW) {
            is_loaded.push(flight.due.loaded.is_some());
        }
        land_and_release(&mut board, n);
    }
    assert_eq!(is_loaded, [true, true, false, true]);
    assert_eq!(board.shelf.room(), EVENT_BYTES_MAX);
}

#[test]
fn the_next_of_an_order_waits_for_a_flight_that_the_store_has_ended() {
    let ordered = |n, priority| Committed { priority, due: Due { order: Some(Order::Lane), ..due(n) }, ..committed(n) };
    let mut board = Board::new(10);
    board.offer(ordered(1, Priority::Normal), NOW);
    assert_eq!(take_all(&mut board), [1]);
    // The event of the first was erased, here or at another node, which frees the second. That has another priority.
    board.offer(ordered(2, Priority::Low), NOW);
    board.offer(committed(3), NOW);
    assert_eq!(take_all(&mut board), [3], "what has no order does not wait");
    land(&mut board, LANE, Duration::ZERO);
    assert_eq!(take_all(&mut board), [0_u128; 0], "its outcome is unwritten");
    board.release(KEY, due(1).delivery, None, NOW);
    assert_eq!(take_all(&mut board), [2]);
}

#[test]
fn event_types_that_keep_their_own_order_do_not_wait_for_each_other() {
    let typed = |n, key| Committed { due: Due { order: Some(Order::of_key(key)), ..due(n) }, ..committed(n) };
    let mut board = Board::new(10);
    board.offer(typed(1, "order.paid"), NOW);
    board.offer(typed(2, "order.sent"), NOW);
    assert_eq!(take_all(&mut board), [1, 2]);
    // Written outcomes free the next: it is offered before its predecessor is released, and starts then.
    for (n, key) in [(1, "order.paid"), (2, "order.sent")] {
        land(&mut board, LANE, Duration::ZERO);
        board.offer(typed(n + 2, key), NOW);
        assert_eq!(take_all(&mut board), [0_u128; 0], "the outcome of {n} is not known to be written");
        board.release(KEY, due(n).delivery, None, NOW);
        assert_eq!(take_all(&mut board), [n + 2]);
    }
}
