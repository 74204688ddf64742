//! Who reads next.

use futures_util::FutureExt as _;
use uuid::Uuid;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);
const LIMITS: ReadLimits = ReadLimits { total: 3, organization: 2, organizations: 3 };

fn organization(number: u128) -> OrganizationId {
    OrganizationId::from_uuid(Uuid::from_u128(number))
}

/// Asks for a turn in an organization's name.
async fn turn_of(turns: &ReadTurns, number: u128) -> Result<ReadTurn, Overloaded> {
    let asked = async {
        ports::set_requester(organization(number));
        turns.take(PATIENCE).await
    };
    ports::request(asked).await
}

#[tokio::test]
async fn an_organization_with_many_reads_leaves_a_place_and_the_next_turn_to_another() {
    let turns = ReadTurns::new(LIMITS);
    // Given an organization that wants ten reads, of which two run.
    let mut many: VecDeque<_> = (0..10).map(|_| Box::pin(turn_of(&turns, 1))).collect();
    let granted: Vec<_> = many.iter_mut().map(|read| read.now_or_never()).collect();
    assert_eq!(granted.iter().filter(|turn| turn.is_some()).count(), 2);
    // Then another one's read runs at once, and its second one, behind eight that wait, is the first to run when a place is free.
    let first = turn_of(&turns, 2).now_or_never().expect("a place is left").expect("a turn");
    let mut second = Box::pin(turn_of(&turns, 2));
    assert!((&mut second).now_or_never().is_none());
    drop(granted);
    assert!((&mut second).now_or_never().is_some(), "it does not wait for all that asked before it");
    drop(first);
    // And nothing that waits is forgotten.
    for read in many.drain(2..) {
        read.now_or_never().expect("its turn has come").expect("a turn");
    }
    assert_eq!(turns.state().reading, 0);
    assert!(turns.state().reading_of.is_empty() && turns.state().waiting_of.is_empty() && turns.state().order.is_empty());
}

#[tokio::test]
async fn the_server_finds_a_place_whatever_organizations_ask_for() {
    let turns = ReadTurns::new(ReadLimits { total: 3, organization: 1, organizations: 2 });
    let _reading = [turn_of(&turns, 1).await, turn_of(&turns, 2).await];
    let mut third = Box::pin(turn_of(&turns, 3));
    assert!((&mut third).now_or_never().is_none());
    let own = turns.take(PATIENCE).now_or_never().expect("a place is left").expect("a turn");
    assert!(turns.take(PATIENCE).now_or_never().is_none(), "all places are taken");
    drop(own);
    assert!(third.now_or_never().is_none(), "organizations have what they may have");
}

#[tokio::test]
async fn reads_whose_callers_have_left_cost_nobody_a_turn() {
    let turns = ReadTurns::new(LIMITS);
    let reading = [turn_of(&turns, 1).await, turn_of(&turns, 1).await];
    for _ in 0..2 * WAITING_OF_ORGANIZATION_MAX {
        assert!(turn_of(&turns, 1).now_or_never().is_none(), "it waits, and its caller leaves");
    }
    let mut last = Box::pin(turn_of(&turns, 1));
    assert!((&mut last).now_or_never().is_none());
    drop(reading);
    assert!(last.now_or_never().expect("its turn has come").is_ok());
    let state = turns.state();
    assert_eq!((state.waiting, state.reading), (0, 0));
}

#[tokio::test]
async fn what_waits_has_a_bound_of_each_organization() {
    let turns = ReadTurns::new(LIMITS);
    let mut waiting: Vec<_> = (0..WAITING_OF_ORGANIZATION_MAX + 2).map(|_| Box::pin(turn_of(&turns, 1))).collect();
    let reading: Vec<_> = waiting.iter_mut().filter_map(|read| read.now_or_never()).collect();
    assert_eq!(reading.len(), 2);
    let refused = turn_of(&turns, 1).now_or_never().expect("an answer at once");
    assert_eq!(refused.err(), Some(Overloaded("the store is overloaded: too many reads wait")));
    assert!(turn_of(&turns, 2).now_or_never().expect("a place is left").is_ok());
}

#[tokio::test]
async fn a_read_does_not_wait_for_ever() {
    let turns = ReadTurns::new(ReadLimits { total: 1, organization: 1, organizations: 1 });
    let _reading = turns.take(PATIENCE).await;
    assert!(turns.take(Duration::from_millis(20)).await.is_err());
}
