//! What the board promises: no delivery passes an older one, none is taken twice, none is forgotten.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use uuid::Uuid;

use super::*;
use crate::{
    ids::{EventId, OrganizationId, ScheduleVersion},
    lanes::event_cache::EVENT_BYTES_MAX,
    model::{BreakerConfig, ContentType, Due, Event, EventType, Order, OrganizationLimits, PoolAssignment},
    policy::breaker::{Admission, Breaker},
    ports::{DueRead, LaneHead, WaitingQueue},
};

pub(super) const NOW: Timestamp = Timestamp::from_secs(1_000);
pub(super) const LANE: LaneId = LaneId::from_uuid(Uuid::from_u128(1));
pub(super) const KEY: QueueKey = (LANE, Priority::Normal);
/// When a failed read is tried again.
const RETRY: Duration = Duration::from_secs(1);

impl Board {
    /// An empty board of a node that shares nothing.
    pub(super) fn new(slots: usize) -> Self {
        Self::with(Organizations::default(), slots, Arc::default())
    }
}

pub(super) fn due(n: u128) -> Due {
    Due {
        delivery: DeliveryId::from_uuid(Uuid::from_u128(n)),
        event: EventId::from_uuid(Uuid::from_u128(n)),
        loaded: None,
        retry_schedule: ScheduleVersion(1),
        attempts: 0,
        parkings: 0,
        expired: None,
        due_at: NOW,
        replay_of: None,
        order: None,
    }
}

pub(super) fn policy() -> LanePolicy {
    LanePolicy {
        lane_id: LANE,
        application: ApplicationId::from_uuid(Uuid::from_u128(1)),
        organization: OrganizationId::from_uuid(Uuid::from_u128(1)),
        pool: PoolAssignment::only(),
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

/// Another node made something in the lane that is due then.
pub(super) fn waiting(due_from: Timestamp) -> WaitingQueue {
    WaitingQueue { application: policy().application, lane_id: LANE, priority: Priority::Normal, due_from }
}

pub(super) fn committed(n: u128) -> Committed {
    Committed { lane: Arc::new(policy()), priority: Priority::Normal, due: due(n) }
}

pub(super) fn head(next_due_at: Timestamp) -> LaneHead {
    let LanePolicy { organization, application, .. } = policy();
    LaneHead { organization, application, lane_id: LANE, priority: Priority::Normal, delivery: due(1).delivery, next_due_at }
}

pub(super) fn read(rows: impl IntoIterator<Item = u128>, next_due_at: Option<Timestamp>) -> Result<DueRead, Timestamp> {
    Ok(DueRead { rows: rows.into_iter().map(due).collect(), next_due_at })
}

/// How many reads begin now.
pub(super) fn begin_looks(board: &mut Board) -> usize {
    std::iter::from_fn(|| board.next_look(1, NOW)).count()
}

/// The queues of the next read, each with the instant from which on it is read.
pub(super) fn next_look(board: &mut Board, now: Timestamp) -> Vec<(QueueKey, Timestamp)> {
    let look = board.next_look(8, now).map_or_else(Vec::new, |look| look.queues);
    look.into_iter().map(|queue| ((queue.lane_id, queue.priority), queue.due_from)).collect()
}

/// Takes everything that may start now.
pub(super) fn take_all(board: &mut Board) -> Vec<u128> {
    std::iter::from_fn(|| board.next(NOW)).map(|(flight, _)| flight.due.delivery.as_uuid().as_u128()).collect()
}

/// A request of this lane ended well after so long.
pub(super) fn land(board: &mut Board, lane_id: LaneId, took: Duration) {
    let Admission::Flows(pass) = Breaker::new(BreakerConfig::window(), NOW).begin(NOW, due(1).event) else {
        panic!("a new breaker is closed")
    };
    let party = board.lane(lane_id).expect("a lane").party();
    let start = Start { pass, party, pool: board.slots.a_pool_of(party.organization), at: NOW };
    board.landed(lane_id, Landed { start, outcome: Some(CallOutcome::Success) }, NOW + took);
}

pub(super) fn land_and_release(board: &mut Board, n: u128) {
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
fn what_comes_while_older_work_is_read_follows_it_without_another_read() {
    for seen in [vec![1, 2], vec![1, 2, 9]] {
        let mut board = Board::new(10);
        board.note_head(&head(NOW), &policy_now(), NOW);
        assert_eq!(begin_looks(&mut board), 1);
        board.offer(committed(9), NOW);
        assert_eq!(take_all(&mut board), []);
        board.looked(KEY, read(seen, None), NOW);
        assert_eq!(take_all(&mut board), [1, 2]);
        land_and_release(&mut board, 1);
        assert_eq!(take_all(&mut board), [9]);
        land_and_release(&mut board, 2);
        land_and_release(&mut board, 9);
        assert_eq!((take_all(&mut board), begin_looks(&mut board), board.waiting), (vec![], 0, 0));
    }
}

#[test]
fn what_comes_while_older_work_is_read_is_not_put_before_what_the_read_left() {
    // The read was cut short, failed, or another node made something meanwhile that it may have missed.
    let cut = (read([1, 2], Some(NOW)), None);
    let failed = (Err(NOW + RETRY), None);
    let overtaken = (read([1, 2], None), Some(waiting(NOW)));
    for (place, (outcome, hint)) in [cut, failed, overtaken].into_iter().enumerate() {
        let mut board = Board::new(10);
        board.note_head(&head(NOW), &policy_now(), NOW);
        assert_eq!(begin_looks(&mut board), 1);
        board.offer(committed(9), NOW);
        hint.into_iter().for_each(|hint| board.expect(&policy_now(), hint, NOW));
        board.looked(KEY, outcome, NOW);
        assert!(!take_all(&mut board).contains(&9), "case {place}");
        let later = NOW + RETRY;
        board.ring(later);
        assert_eq!(next_look(&mut board, later), [(KEY, NOW)], "case {place}");
        board.looked(KEY, read([1, 2, 3, 9], None), later);
        let mut order = Vec::new();
        for n in [1, 2, 3, 9] {
            order.extend(take_all(&mut board));
            land_and_release(&mut board, n);
        }
        assert!(order.ends_with(&[3, 9]), "case {place}: {order:?}");
        assert_eq!(board.waiting, 0, "case {place}");
    }
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

pub(super) fn event_of_a_mebibyte(n: u128) -> Arc<Event> {
    Arc::new(Event {
        id: due(n).event,
        application: policy().application,
        event_type: EventType::parse("order.paid").expect("well-formed"),
        data: Bytes::from(vec![b'1'; 1024 * 1024]),
        content_type: ContentType::JSON,
        sealed: false,
        timestamp: NOW,
        idempotency_key: String::new(),
        source: None,
        priority: Priority::Normal,
        sequence_number: 1,
        ordering_key: None,
        traceparent: None,
        labels: Default::default(),
        headers: Vec::new(),
        received: None,
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
    assert_eq!((board.waiting, board.event_cache.room()), (100, 16 * 1024 * 1024), "three quarters for one organization");
    let mut loaded = 0;
    while let Some((flight, _)) = board.next(NOW) {
        loaded += usize::from(flight.due.loaded.is_some());
        let n = flight.due.delivery.as_uuid().as_u128();
        land_and_release(&mut board, n);
    }
    assert_eq!((loaded, board.waiting, board.event_cache.room()), (48, 0, EVENT_BYTES_MAX));
}

#[test]
fn an_event_that_waits_in_many_lanes_is_kept_once() {
    let mut board = Board::new(100);
    let event = event_of_a_mebibyte(1);
    for n in 1..=10 {
        let mut with_event = committed(n);
        with_event.lane = Arc::new(LanePolicy { lane_id: LaneId::from_uuid(Uuid::from_u128(n)), ..policy() });
        with_event.due.event = event.id;
        with_event.due.loaded = Some(event.clone());
        board.offer(with_event, NOW);
    }
    assert_eq!(board.event_cache.room(), EVENT_BYTES_MAX - 1024 * 1024);
    assert!(std::iter::from_fn(|| board.next(NOW)).all(|(flight, _)| flight.due.loaded.is_some()));
    assert_eq!(board.event_cache.room(), EVENT_BYTES_MAX);
}

#[test]
fn the_data_of_an_erased_event_leaves_memory_wherever_it_waits() {
    let mut board = Board::new(10);
    for n in 1..=4 {
        let mut committed = committed(n);
        committed.due.loaded = Some(event_of_a_mebibyte(n));
        board.offer(committed, NOW);
    }
    let room = board.event_cache.room();
    board.erased(vec![due(3).event, due(9).event]);
    assert_eq!(board.event_cache.room(), room + 1024 * 1024);
    // Two start at once, the others when these have ended: the erased one asks the store at its turn.
    let mut is_loaded = Vec::new();
    for n in 1..=4 {
        while let Some((flight, _)) = board.next(NOW) {
            is_loaded.push(flight.due.loaded.is_some());
        }
        land_and_release(&mut board, n);
    }
    assert_eq!(is_loaded, [true, true, false, true]);
    assert_eq!(board.event_cache.room(), EVENT_BYTES_MAX);
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
