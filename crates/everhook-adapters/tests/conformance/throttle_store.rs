//! What nodes draw from together: no more than there is, whoever asks. For every store of counters.
//!
//! An adapter's tests plug in with a module `counters` beside this one, whose type `Counters` makes counters of its own for a test and nodes that share them.

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use everhook_core::{
    ids::OrganizationId,
    model::{Budget, Credit, RateLimit, SlotRequest, TokenGrant, TokenRequest},
    ports::{Ask, Grant, ThrottleStore, Wanted},
};
use uuid::Uuid;

use super::counters::Counters;

const NOTHING_AHEAD: Credit = Credit::Ahead(Duration::ZERO);
/// The time that one takes: longer than a busy machine needs for a test.
const TOKEN: Duration = Duration::from_secs(10);

fn organization(number: u128) -> OrganizationId {
    OrganizationId::from_uuid(Uuid::from_u128(number))
}

fn n(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

/// One in [`TOKEN`], and ten at once.
fn slow() -> RateLimit {
    RateLimit::per_minute(n(6), Some(n(10)))
}

fn draw(take: u32, credit: Credit) -> TokenRequest {
    TokenRequest { limit: slow(), take, give_back: 0, credit }
}

fn tokens(of: u128, draw: TokenRequest) -> Ask {
    Ask { organization: organization(of), what: Wanted::Tokens(Budget::Deliveries, draw) }
}

fn slots(limit: u32, bound: u32, wanted: u32) -> Ask {
    Ask { organization: organization(1), what: Wanted::Slots(SlotRequest { limit: n(limit), bound, wanted }) }
}

async fn drawn(node: &Arc<dyn ThrottleStore>, ask: Ask) -> TokenGrant {
    match node.exchange(vec![ask]).await.unwrap()[..] {
        [Grant::Tokens(drawn)] => drawn,
        ref other => panic!("{other:?}"),
    }
}

async fn allowed(node: &Arc<dyn ThrottleStore>, ask: Ask) -> u32 {
    match node.exchange(vec![ask]).await.unwrap()[..] {
        [Grant::Slots(allowed)] => allowed,
        ref other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nodes_are_granted_what_there_is_and_then_told_when_there_is_more() {
    let Some(counters) = Counters::create().await else { return };
    let (first, second) = (counters.node().await, counters.node().await);
    assert_eq!(drawn(&first, tokens(1, draw(6, NOTHING_AHEAD))).await, TokenGrant { granted: 6, ..TokenGrant::default() });
    let rest = drawn(&second, tokens(1, draw(6, NOTHING_AHEAD))).await;
    assert_eq!(rest.granted, 4);
    assert!(rest.next_in > Duration::ZERO && rest.next_in <= TOKEN, "{rest:?}");
    assert_eq!(drawn(&first, tokens(1, draw(6, NOTHING_AHEAD))).await.granted, 0);
}

#[tokio::test]
async fn tokens_are_granted_ahead_of_the_time_at_which_they_are_good() {
    let Some(counters) = Counters::create().await else { return };
    let node = counters.node().await;
    let ahead = drawn(&node, tokens(1, draw(100, Credit::Ahead(3 * TOKEN)))).await;
    assert_eq!(ahead.granted, 13);
    assert!(ahead.good_in > 2 * TOKEN && ahead.good_in <= 3 * TOKEN, "{ahead:?}");
    let none = drawn(&node, tokens(1, draw(1, Credit::Ahead(Duration::from_millis(250))))).await;
    assert_eq!(none.granted, 0);
    assert!(none.next_in > 3 * TOKEN && none.next_in <= 4 * TOKEN, "{none:?}");
}

#[tokio::test]
async fn what_is_given_back_is_there_for_others() {
    let Some(counters) = Counters::create().await else { return };
    let (first, second) = (counters.node().await, counters.node().await);
    drawn(&first, tokens(1, draw(10, NOTHING_AHEAD))).await;
    drawn(&first, tokens(1, TokenRequest { give_back: 3, ..draw(0, NOTHING_AHEAD) })).await;
    assert_eq!(drawn(&second, tokens(1, draw(10, NOTHING_AHEAD))).await.granted, 3);
    drawn(&first, tokens(1, TokenRequest { give_back: 500, ..draw(0, NOTHING_AHEAD) })).await;
    assert_eq!(drawn(&second, tokens(1, draw(500, NOTHING_AHEAD))).await.granted, 10, "never more than the burst");
}

#[tokio::test]
async fn a_batch_may_owe_and_nothing_is_granted_before_that_is_paid() {
    let Some(counters) = Counters::create().await else { return };
    let node = counters.node().await;
    assert_eq!(
        drawn(&node, tokens(1, draw(100, Credit::Owed))).await,
        TokenGrant { granted: 100, good_in: Duration::ZERO, next_in: 91 * TOKEN }
    );
    let none = drawn(&node, tokens(1, draw(1, Credit::Owed))).await;
    assert_eq!(none.granted, 0);
    assert!(none.next_in > 90 * TOKEN && none.next_in <= 91 * TOKEN, "{none:?}");
}

#[tokio::test]
async fn tokens_come_with_time() {
    let Some(counters) = Counters::create().await else { return };
    let node = counters.node().await;
    // One a millisecond, and at once as many as no busy machine waits for.
    let limit = RateLimit::per_minute(n(60_000), Some(n(60_000)));
    let all = tokens(1, TokenRequest { limit, ..draw(60_000, NOTHING_AHEAD) });
    let began_at = Instant::now();
    assert_eq!(drawn(&node, all).await.granted, 60_000);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let granted = drawn(&node, all).await.granted;
    let came = u32::try_from(began_at.elapsed().as_millis()).unwrap() + 1;
    assert!((49..=came).contains(&granted), "{granted} of {came}");
}

#[tokio::test]
async fn every_ask_is_answered_in_order_and_organizations_and_kinds_are_counted_apart() {
    let Some(counters) = Counters::create().await else { return };
    let node = counters.node().await;
    let events = Ask { organization: organization(1), what: Wanted::Tokens(Budget::Events, draw(7, NOTHING_AHEAD)) };
    let asks = vec![slots(4, 0, 3), tokens(2, draw(5, NOTHING_AHEAD)), events, tokens(1, draw(9, NOTHING_AHEAD))];
    let granted = |granted| Grant::Tokens(TokenGrant { granted, ..TokenGrant::default() });
    assert_eq!(node.exchange(asks).await.unwrap(), [Grant::Slots(3), granted(5), granted(7), granted(9)]);
}

#[tokio::test]
async fn slots_are_divided_and_what_is_under_way_is_waited_for() {
    let Some(counters) = Counters::create().await else { return };
    let (first, second) = (counters.node().await, counters.node().await);
    assert_eq!(allowed(&first, slots(10, 0, 10)).await, 10);
    assert_eq!(allowed(&second, slots(10, 0, 10)).await, 0, "nothing is free yet");
    assert_eq!(allowed(&first, slots(10, 10, 10)).await, 5, "an even share");
    assert_eq!(allowed(&second, slots(10, 0, 10)).await, 0, "ten are under way");
    assert_eq!(allowed(&first, slots(10, 7, 10)).await, 5);
    assert_eq!(allowed(&second, slots(10, 0, 10)).await, 3, "three have ended");
    // Whoever wants less leaves the rest, and whoever wants nothing leaves all.
    assert_eq!(allowed(&first, slots(10, 1, 2)).await, 2);
    assert_eq!(allowed(&second, slots(10, 3, 10)).await, 8);
    assert_eq!(allowed(&first, slots(10, 0, 0)).await, 0);
    assert_eq!(allowed(&second, slots(10, 8, 10)).await, 10);
}

#[tokio::test]
async fn nodes_that_ask_at_the_same_moment_are_granted_no_more_than_there_is() {
    let Some(counters) = Counters::create().await else { return };
    let began_at = Instant::now();
    let mut asking = Vec::new();
    for _ in 0..4 {
        let node = counters.node().await;
        asking.push(tokio::spawn(async move {
            let mut granted = [0; 3];
            for _ in 0..10 {
                // In different orders, as maps of different nodes have them.
                let asks = [3, 1, 2].map(|of| tokens(of, draw(1, NOTHING_AHEAD)));
                let grants = node.exchange(asks.to_vec()).await.unwrap();
                for (sum, grant) in granted.iter_mut().zip(grants) {
                    *sum += if let Grant::Tokens(drawn) = grant { drawn.granted } else { 0 };
                }
            }
            granted
        }));
    }
    let mut sums = [0; 3];
    for asked in asking {
        asked.await.unwrap().iter().zip(&mut sums).for_each(|(granted, sum)| *sum += granted);
    }
    let came = u32::try_from(began_at.elapsed().as_secs() / TOKEN.as_secs()).unwrap() + 1;
    assert!(sums.iter().all(|sum| (10..=10 + came).contains(sum)), "{sums:?}");
}
