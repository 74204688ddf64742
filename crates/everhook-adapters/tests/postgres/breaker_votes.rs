//! Votes on the breakers of capabilities, among nodes of one database.

use everhook_core::{
    ids::{ApplicationId, LaneId},
    model::VoteCount,
    ports::{BreakerVote, BreakerVotes as _, Change, Changes as _},
};
use uuid::Uuid;

use crate::postgres::given::{Given, after, id};

fn vote(node: Uuid, lane_id: LaneId, has_answers: bool, at: u64) -> BreakerVote {
    BreakerVote { node, lane_id, has_answers, at: after(at), until: after(at + 60) }
}

fn count(callers: u32, with_answers: u32, without_answers: u32) -> VoteCount {
    VoteCount { callers, with_answers, without_answers }
}

#[tokio::test]
async fn nodes_with_calls_are_counted_and_their_votes_end() {
    let given = Given::new().await;
    let (store, other) = (given.backing.node().await, given.backing.node().await);
    let (lane, quiet) = (LaneId::from_uuid(id()), LaneId::from_uuid(id()));
    let [first, second, third] = [id(), id(), id()];
    assert_eq!(store.votes(lane, after(0), after(1)).await.unwrap(), count(0, 0, 0));
    for node in [first, second, third] {
        other.note_callers(node, vec![lane, quiet], after(10)).await.unwrap();
    }
    assert_eq!(store.votes(lane, after(10), after(11)).await.unwrap(), count(3, 0, 0));
    assert_eq!(store.votes(lane, after(11), after(12)).await.unwrap(), count(0, 0, 0), "they had calls before that");
    store.vote(vote(first, lane, true, 20)).await.unwrap();
    store.vote(vote(second, lane, false, 21)).await.unwrap();
    assert_eq!(other.votes(lane, after(5), after(22)).await.unwrap(), count(3, 1, 1));
    assert_eq!(other.votes(quiet, after(5), after(22)).await.unwrap(), count(3, 0, 0));
    // That a node has calls does not take back what it voted; a later vote does.
    store.note_callers(first, vec![lane], after(30)).await.unwrap();
    store.note_callers(first, vec![lane], after(25)).await.unwrap();
    store.vote(vote(second, lane, true, 31)).await.unwrap();
    assert_eq!(store.votes(lane, after(30), after(40)).await.unwrap(), count(2, 2, 0), "the third had no call since");
    assert_eq!(store.votes(lane, after(5), after(80)).await.unwrap(), count(3, 1, 0), "the first one's has ended");
    // What is old goes, in small steps.
    assert_eq!(store.forget_votes(after(10), 10).await.unwrap(), 0);
    assert_eq!(store.forget_votes(after(11), 3).await.unwrap(), 3);
    assert_eq!((store.forget_votes(after(11), 3).await.unwrap(), store.forget_votes(after(11), 3).await.unwrap()), (1, 0));
    assert_eq!(store.votes(lane, after(0), after(40)).await.unwrap(), count(2, 2, 0));
}

#[tokio::test]
async fn the_other_nodes_are_told_to_look_again() {
    let given = Given::new().await;
    let (store, other) = (given.backing.node().await, given.backing.node().await);
    let seen = other.newest().await.unwrap();
    let (application, lane) = (ApplicationId::from_uuid(id()), LaneId::from_uuid(id()));
    store.report_breaker(application, lane).await.unwrap();
    let changed = other.changes(seen).await.unwrap();
    assert!(changed.changes.contains(&Change::Endpoint(application, lane.endpoint())), "{changed:?}");
}
