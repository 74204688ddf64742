//! Worker pools: only the nodes of its pool send for an organization, also while it goes from one to another.

use everhook_core::{
    ids::EventId,
    model::{OrderingMode, PoolName},
};
use everhook_testbed::{
    Answer,
    cluster::{
        Cluster,
        life::{LifePlan, run},
    },
    mins, secs,
};

fn heavy() -> PoolName {
    PoolName::parse("heavy").expect("a name")
}

/// A node of the pool `default` and one of `heavy`, which have taken what is theirs.
async fn two_pools() -> Cluster {
    let mut cluster = Cluster::of(1).await;
    cluster.start_in(heavy()).await;
    cluster.pass(secs(4)).await;
    cluster
}

async fn publish(cluster: &Cluster, count: usize) -> Vec<EventId> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(cluster.event("order.paid").publish().await.event);
    }
    events
}

#[tokio::test]
async fn only_the_nodes_of_its_pool_send_for_an_organization_wherever_it_is_published() {
    let mut cluster = two_pools().await;
    let receiver = cluster.endpoint().create().await;
    let mut events = publish(&cluster, 3).await;
    for node in [0, 1] {
        events.push(cluster.event("order.paid").at(cluster.node(node)).publish().await.event);
    }
    cluster.pass(secs(2)).await;
    assert_eq!(cluster.senders_to(&receiver), [0; 5]);
    cluster.move_to(&heavy()).await;
    cluster.pass(secs(3)).await;
    for node in [0, 1] {
        events.push(cluster.event("order.paid").at(cluster.node(node)).publish().await.event);
    }
    cluster.pass(secs(2)).await;
    assert_eq!(cluster.senders_to(&receiver)[5..], [1; 2]);
    cluster.assert_promises(&events).await;
}

#[tokio::test]
async fn what_is_under_way_when_an_organization_moves_lands_before_the_new_pool_begins() {
    let mut cluster = two_pools().await;
    // Given a strict endpoint that takes its time, with a request under way.
    let slow = Answer::Slow(200, secs(8));
    let receiver = cluster.endpoint().in_order(OrderingMode::Strict).answering_in_turn([slow]).create().await;
    let events = publish(&cluster, 4).await;
    cluster.pass(secs(1)).await;
    assert_eq!(cluster.senders_to(&receiver), [0]);
    // When its organization moves, then nobody else sends while that request is under way,
    cluster.move_to(&heavy()).await;
    cluster.pass(secs(6)).await;
    assert_eq!(cluster.senders_to(&receiver), [0]);
    // and when it has landed, the new pool goes on where the old one stopped.
    cluster.pass(secs(5)).await;
    assert_eq!(cluster.senders_to(&receiver), [0, 1, 1, 1]);
    let arrived: Vec<String> = cluster.arrivals_of(&receiver).into_iter().map(|arrival| arrival.event).collect();
    assert_eq!(arrived, events.iter().map(EventId::to_string).collect::<Vec<_>>());
    assert_eq!(cluster.senders.overlaps(), [""; 0]);
    cluster.assert_promises(&events).await;
}

#[tokio::test]
async fn a_node_that_cannot_hear_of_a_move_is_waited_for_until_its_lease_has_ended() {
    let mut cluster = two_pools().await;
    let receiver = cluster.endpoint().always(Answer::Slow(200, secs(2))).create().await;
    let mut events = publish(&cluster, 1).await;
    cluster.pass(secs(1)).await;
    // Given a node without the store, whose organization moves meanwhile.
    cluster.node(0).member.pause();
    cluster.move_to(&heavy()).await;
    events.extend(publish(&cluster, 1).await);
    cluster.pass(secs(4)).await;
    assert_eq!(cluster.senders_to(&receiver), [0], "its lease may still be good");
    // Then the new pool begins when it is dead, and makes the request again whose outcome was not written.
    cluster.pass(secs(4)).await;
    assert_eq!(cluster.senders_to(&receiver)[1..], [1, 1]);
    cluster.node(0).member.resume();
    cluster.pass(secs(5)).await;
    assert_eq!(cluster.senders.overlaps(), [""; 0]);
    cluster.assert_promises(&events).await;
}

#[tokio::test]
async fn a_pool_without_nodes_waits_and_delivers_when_one_starts() {
    let mut cluster = Cluster::of(1).await;
    let receiver = cluster.endpoint().create().await;
    cluster.move_to(&heavy()).await;
    cluster.pass(secs(2)).await;
    let events = publish(&cluster, 3).await;
    cluster.pass(mins(10)).await;
    assert!(cluster.senders_to(&receiver).is_empty());
    cluster.start_in(heavy()).await;
    cluster.pass(secs(5)).await;
    assert_eq!(cluster.senders_to(&receiver), [1; 3]);
    cluster.assert_promises(&events).await;
}

#[tokio::test]
async fn a_breaker_that_the_old_pool_opened_is_open_in_the_new_one() {
    let mut cluster = two_pools().await;
    let receiver = cluster.endpoint().always(Answer::Status(500)).create().await;
    publish(&cluster, 40).await;
    cluster.pass(secs(2)).await;
    let before = cluster.senders_to(&receiver).len();
    cluster.move_to(&heavy()).await;
    cluster.pass(secs(5)).await;
    assert_eq!(cluster.senders_to(&receiver).len(), before, "nothing is sent while it is open");
}

#[test]
fn however_often_an_organization_moves_nothing_is_lost_overtaken_or_sent_by_two() {
    for seed in 0..3 {
        let life = run(LifePlan { seed, nodes: 4, pools: 2, span: mins(3) });
        assert_eq!(life.violation, None, "seed {seed}");
        assert!(life.tally.accepted > 20 && life.tally.requests > 100 && life.tally.moves > 2, "{:?}", life.tally);
    }
}
