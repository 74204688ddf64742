//! When the board looks into the store, and what it makes of what it finds there: nothing is passed over, and nothing is read without need.

use uuid::Uuid;

use super::{tests::*, *};
use crate::{
    model::Due,
    ports::{LaneHead, WaitingQueue},
};

/// Longer ago than a hint takes.
const LONG_DUE: Timestamp = Timestamp::from_secs(998);

#[test]
fn a_read_does_not_bring_back_what_is_in_flight_or_settled_meanwhile() {
    let mut board = Board::new(10);
    board.offer(committed(1), NOW);
    board.offer(committed(2), NOW);
    assert_eq!(take_all(&mut board), [1, 2]);
    // A retry of another delivery comes due; while it is read, the first is settled, and the read still shows it.
    board.release(KEY, due(7).delivery, Some(UnreadRange::due(NOW)), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    land_and_release(&mut board, 1);
    board.looked(KEY, read([1, 2, 7], None), NOW);
    assert_eq!(take_all(&mut board), [7]);
    assert_eq!(take_all(&mut board), []);
}

#[test]
fn a_hint_that_comes_after_a_read_found_its_delivery_is_no_news() {
    let mut board = Board::new(10);
    board.note_head(&head(NOW), &policy_now(), NOW);
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
    board.release(KEY, due(1).delivery, Some(UnreadRange::due(due_at)), NOW);
    assert_eq!(board.wake_at(), Some(due_at));
    board.ring(NOW + Duration::from_secs(4));
    assert_eq!(begin_looks(&mut board), 0);
    board.ring(due_at);
    assert_eq!(begin_looks(&mut board), 1);
}

#[test]
fn new_work_does_not_wait_for_a_retry_that_is_not_due() {
    let mut board = Board::new(10);
    board.note_head(&head(NOW + Duration::from_secs(60)), &policy_now(), NOW);
    board.offer(committed(2), NOW);
    assert_eq!(take_all(&mut board), [2]);
}

#[test]
fn a_failed_read_is_tried_again_later() {
    let mut board = Board::new(10);
    board.note_head(&head(NOW), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    let retry_at = NOW + Duration::from_secs(1);
    board.looked(KEY, Err(retry_at), NOW);
    assert_eq!(begin_looks(&mut board), 0);
    board.ring(retry_at);
    assert_eq!(begin_looks(&mut board), 1);
}

#[test]
fn what_waited_before_the_start_was_not_stranded() {
    let mut board = Board::new(10);
    board.note_head(&head(LONG_DUE), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    // The first survey ends before what it found is read.
    board.know_what_waits(NOW);
    assert_eq!(board.looked(KEY, read([1], None), NOW), 0, "nobody could know of it");
}

#[test]
fn a_survey_finds_what_no_hint_told_and_only_that() {
    let mut board = Board::new(10);
    board.know_what_waits(NOW);
    board.note_head(&head(LONG_DUE), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1, "nothing was known of it");
    board.note_head(&head(LONG_DUE), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 0, "it is being read");
    assert_eq!(board.looked(KEY, read([1], None), NOW), 1, "it was stranded");
    board.note_head(&head(LONG_DUE), &policy_now(), NOW);
    take_all(&mut board);
    board.note_head(&head(LONG_DUE), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 0, "it is known, in the window and in flight");
    land_and_release(&mut board, 1);
    board.prune(NOW);
    // The survey had seen it before it was settled: the look finds nothing, and nothing was stranded.
    board.note_head(&head(LONG_DUE), &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    assert_eq!(board.looked(KEY, read([], None), NOW), 0);
}

#[test]
fn a_survey_finds_a_lost_one_also_in_a_busy_lane() {
    let mut board = Board::new(10);
    board.know_what_waits(NOW);
    board.offer(committed(7), NOW);
    board.offer(committed(8), NOW);
    take_all(&mut board);
    board.note_head(&head(LONG_DUE), &policy_now(), NOW);
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
        board.expect(&policy_now(), waiting(NOW), NOW);
        assert_eq!(begin_looks(&mut board), 0, "{} wait in memory", 50 - taken);
        for n in take_all(&mut board) {
            taken += 1;
            land_and_release(&mut board, n);
        }
    }
    assert_eq!(begin_looks(&mut board), 1);
}

#[test]
fn a_lane_that_has_just_looked_gathers_hints_for_a_moment_and_others_look_at_once() {
    let mut board = Board::new(10);
    board.expect(&policy_now(), waiting(NOW), NOW);
    assert_eq!(next_look(&mut board, NOW), [(KEY, NOW)]);
    board.looked(KEY, read([1], None), NOW);
    assert_eq!(take_all(&mut board), [1]);
    for millis in [1, 5, 19] {
        let then = NOW + Duration::from_millis(millis);
        board.expect(&policy_now(), waiting(then), then);
        assert_eq!(next_look(&mut board, then), [], "after {millis} ms");
    }
    let later = NOW + Duration::from_millis(20);
    let third = Committed { due: Due { due_at: later, ..due(3) }, ..committed(3) };
    board.offer(third, later);
    board.ring(later);
    assert_eq!(next_look(&mut board, later), [(KEY, NOW + Duration::from_millis(1))], "all that was hinted, and nothing before it");
    board.looked(KEY, read([2, 3], None), later);
    assert_eq!(take_all(&mut board), [2], "what was hinted is not passed over");
    let much_later = NOW + Duration::from_millis(41);
    board.expect(&policy_now(), waiting(much_later), much_later);
    assert_eq!(next_look(&mut board, much_later), [(KEY, much_later)]);
}

#[test]
fn a_read_begins_where_the_unknown_begins_and_goes_on_where_the_last_one_ended() {
    let mut board = Board::new(10);
    let [early, late] = [5, 9].map(|secs| NOW + Duration::from_secs(secs));
    board.note_head(&head(NOW), &policy_now(), NOW);
    assert_eq!(next_look(&mut board, NOW), [(KEY, NOW)]);
    board.looked(KEY, read([1], Some(early)), NOW);
    board.ring(early);
    assert_eq!(next_look(&mut board, early), [(KEY, early)]);
    // What could not be read is still due from then on, whatever is hinted meanwhile.
    board.expect(&policy_now(), waiting(late), early);
    board.looked(KEY, Err(late), early);
    board.ring(late);
    assert_eq!(next_look(&mut board, late), [(KEY, early)]);
    // An endpoint that was closed and gets events again may have anything waiting.
    board.looked(KEY, read([], None), late);
    board.close(LANE);
    board.adjust(&Arc::new(LanePolicy { config_version: 2, ..policy() }), late);
    assert_eq!(next_look(&mut board, late)[0].1, Timestamp::EPOCH);
}

#[test]
fn a_read_takes_queues_along_that_will_run_low_soon_and_no_others() {
    let mut board = Board::new(100);
    let lane = |n| LaneId::from_uuid(Uuid::from_u128(n));
    let policy = |n| Arc::new(LanePolicy { lane_id: lane(n), ..policy() });
    let low = Lane::new(policy(1), None, NOW).window_low() as u128;
    // The first has nothing left, the second a little, the third enough for long.
    for (n, waiting_there) in [(1, 0), (2, 2 * low), (3, 20 * low)] {
        (0..waiting_there).for_each(|place| {
            board.offer(Committed { lane: policy(n), priority: Priority::Normal, due: due(n * 10_000 + place) }, NOW);
        });
        board.expect(&policy(n), WaitingQueue { lane_id: lane(n), ..waiting(NOW) }, NOW);
    }
    let read: Vec<LaneId> = next_look(&mut board, NOW).into_iter().map(|((lane_id, _), _)| lane_id).collect();
    assert_eq!(read, [lane(1), lane(2)]);
    assert_eq!(next_look(&mut board, NOW), [], "none of them begins a read");
}

#[test]
fn one_that_came_due_a_moment_ago_is_looked_for_and_not_called_stranded() {
    let mut board = Board::new(10);
    board.note_head(&head(NOW), &policy_now(), NOW);
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
    board.note_head(&LaneHead { priority: Priority::High, delivery: due(5).delivery, ..head(NOW) }, &policy_now(), NOW);
    assert_eq!(begin_looks(&mut board), 1);
    land(&mut board, LANE, Duration::ZERO);
    board.release(KEY, due(1).delivery, Some(UnreadRange::due(NOW)), NOW);
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
fn one_that_was_handed_back_is_looked_for_where_the_store_shows_it_and_not_before_its_time() {
    let mut board = Board::new(10);
    let retry_at = NOW + Duration::from_secs(1);
    board.offer(committed(1), NOW);
    assert_eq!(take_all(&mut board), [1]);
    land(&mut board, LANE, Duration::ZERO);
    board.release(KEY, due(1).delivery, Some(UnreadRange { due_from: NOW, look_at: retry_at }), NOW);
    // Others go on meanwhile, and one that the lane has no room for does not bring the look forward.
    let later = NOW + Duration::from_millis(500);
    board.offer(committed(2), later);
    assert_eq!(take_all(&mut board), [2]);
    board.lanes.get_mut(&LANE).unwrap().queue(KEY.1).backlog.extend(later);
    board.ring(later);
    assert_eq!(next_look(&mut board, later), []);
    board.ring(retry_at);
    assert_eq!(next_look(&mut board, retry_at), [(KEY, NOW)]);
    board.looked(KEY, read([1, 2], None), retry_at);
    assert_eq!(take_all(&mut board), [1]);
}

#[test]
fn a_survey_is_applied_while_a_read_is_under_way_that_began_behind_what_it_found() {
    let mut board = Board::new(10);
    board.expect(&policy_now(), waiting(NOW), NOW);
    assert_eq!(next_look(&mut board, NOW), [(KEY, NOW)]);
    board.note_head(&head(LONG_DUE), &policy_now(), NOW);
    board.offer(committed(9), NOW);
    board.looked(KEY, read([8], None), NOW);
    assert_eq!(next_look(&mut board, NOW), [(KEY, LONG_DUE)]);
    assert_eq!(take_all(&mut board), [8]);
    board.looked(KEY, read([1, 8, 9], None), NOW);
    assert_eq!(take_all(&mut board), [1]);
    land_and_release(&mut board, 8);
    assert_eq!(take_all(&mut board), [9]);
}

#[test]
fn a_read_that_is_to_come_begins_at_the_head_that_a_survey_shows_even_if_that_is_known() {
    let mut board = Board::new(10);
    board.expect(&policy_now(), waiting(NOW), NOW);
    next_look(&mut board, NOW);
    board.looked(KEY, read([1], None), NOW);
    assert_eq!(take_all(&mut board), [1]);
    // The hint of the second was lost; that of the third came.
    let (then, later) = (NOW + Duration::from_millis(5), NOW + Duration::from_millis(20));
    board.expect(&policy_now(), waiting(then), then);
    board.note_head(&head(NOW), &policy_now(), then);
    board.ring(later);
    assert_eq!(next_look(&mut board, later), [(KEY, NOW)]);
    board.looked(KEY, read([1, 2, 3], None), later);
    assert_eq!(take_all(&mut board), [2]);
}

#[test]
fn what_came_during_a_read_leaves_memory_with_its_lane_and_its_data_when_it_is_erased() {
    const MEBIBYTE: usize = 1024 * 1024;
    let loaded = |n| {
        let mut committed = committed(n);
        committed.due.loaded = Some(event_of_a_mebibyte(n));
        committed
    };
    let mut board = Board::new(10);
    board.note_head(&head(NOW), &policy_now(), NOW);
    begin_looks(&mut board);
    board.offer(loaded(8), NOW);
    board.offer(loaded(9), NOW);
    let room = board.event_cache.room();
    board.erased(vec![due(8).event]);
    assert_eq!((board.event_cache.room(), board.waiting), (room + MEBIBYTE, 2));
    board.close(LANE);
    assert_eq!((board.event_cache.room(), board.waiting), (room + 2 * MEBIBYTE, 0));
    board.looked(KEY, read([8, 9], None), NOW);
    assert_eq!((take_all(&mut board), board.waiting), (vec![], 0));
}
