//! Who has lanes and duties, and how they change hands: by a node that comes, stops, dies or loses the store.

use std::{num::NonZeroU32, time::Duration};

use everhook_core::{
    manage::{
        erasing,
        operations::{self, Pace, ReplayInput},
    },
    model::{Author, Duty, DutySet, OperationKind, OperationStatus, OrderingMode, Shard, ShardSet, Wanted},
    ports::Clock,
    time::Timestamp,
};
use everhook_testbed::{Answer, cluster::Cluster, mins, secs, world::BEGINNING};

use super::{arrived, assert_one_sender_a_lane, endpoints, in_words, publish};

#[tokio::test]
async fn nodes_share_the_lanes_evenly_and_send_only_for_their_own() {
    let mut cluster = Cluster::of(2).await;
    // Given two nodes, which hold half of the shards each.
    assert_eq!((cluster.shards(0).len(), cluster.shards(1).len()), (32, 32));
    assert_eq!(cluster.shards(0).with(cluster.shards(1)), ShardSet::ALL);
    // When every lane has something to send.
    let receivers = endpoints(&mut cluster, 20).await;
    let events = publish(&cluster, 3).await;
    cluster.pass(secs(1)).await;
    // Then each was sent to by its owner alone.
    for receiver in &receivers {
        assert_eq!(cluster.senders_to(receiver), [cluster.owner_of(receiver); 3]);
    }
    cluster.assert_promises(&events).await;
    // And a third node gets its share.
    cluster.start().await;
    cluster.pass(secs(4)).await;
    assert_eq!([0, 1, 2].map(|node| cluster.shards(node).len()), [22, 22, 20]);
}

#[tokio::test]
async fn what_a_dead_node_had_is_taken_over_when_its_lease_has_ended_and_nothing_is_lost() {
    let mut cluster = Cluster::of(2).await;
    let mut receivers = endpoints(&mut cluster, 8).await;
    receivers.push(cluster.endpoint().answering_in_turn([Answer::Slow(200, secs(4))]).create().await);
    let mut events = publish(&cluster, 5).await;
    // Given a node with requests under way that dies.
    let slow = receivers[8].clone();
    let dead = cluster.owner_of(&slow);
    cluster.pass(secs(1)).await;
    let died_at = cluster.clock.now();
    cluster.kill(dead).await;
    events.extend(publish(&cluster, 5).await);
    // When less time has passed than its lease was good for, then nobody sends in its place.
    cluster.pass(secs(3)).await;
    assert!(cluster.senders_to(&slow).iter().all(|node| *node == dead));
    // When more has, then the other has everything.
    cluster.pass(secs(4)).await;
    assert_eq!(cluster.shards(1 - dead), ShardSet::ALL);
    assert!(cluster.senders.sent().iter().all(|sent| sent.node != dead || sent.at <= died_at));
    cluster.pass(mins(1)).await;
    cluster.assert_promises(&events).await;
    assert_one_sender_a_lane(&cluster);
}

#[tokio::test]
async fn a_node_that_is_stopped_hands_over_at_once() {
    let mut cluster = Cluster::of(2).await;
    let receivers = endpoints(&mut cluster, 8).await;
    cluster.stop(0, secs(30)).await;
    let stopped_at = cluster.clock.now();
    let events = publish(&cluster, 1).await;
    cluster.pass(secs(2)).await;
    // Well before a lease would have ended.
    for receiver in &receivers {
        assert_eq!(cluster.senders_to(receiver), [1]);
    }
    assert!(cluster.senders.sent().iter().all(|sent| sent.at.since(stopped_at) <= secs(2)));
    cluster.assert_promises(&events).await;
}

#[tokio::test]
async fn a_strict_lane_stays_in_order_through_hand_over_and_death() {
    let mut cluster = Cluster::of(1).await;
    let answer = Answer::Slow(200, Duration::from_millis(300));
    let receiver = cluster.endpoint().in_order(OrderingMode::Strict).always(answer).create().await;
    let mut events = publish(&cluster, 20).await;
    cluster.pass(secs(2)).await;
    // When the lane is handed over to nodes that come, by one that stops, and by one that dies.
    let mut owners = vec![cluster.owner_of(&receiver)];
    for round in 0..4 {
        cluster.start().await;
        cluster.pass(secs(3)).await;
        let owner = cluster.owner_of(&receiver);
        match round % 2 {
            0 => cluster.stop(owner, secs(10)).await,
            _ => cluster.kill(owner).await,
        }
        events.extend(publish(&cluster, 5).await);
        cluster.start().await;
        cluster.pass(secs(8)).await;
        owners.push(cluster.owner_of(&receiver));
    }
    cluster.pass(mins(2)).await;
    // Then every event arrived in its place; one that was cut off by a death arrived twice in a row.
    let mut arrived = arrived(&cluster, &receiver);
    arrived.dedup();
    assert_eq!(arrived, in_words(&events));
    owners.dedup();
    assert!(owners.len() > 2, "the lane did not move: {owners:?}");
    cluster.assert_promises(&events).await;
    assert_one_sender_a_lane(&cluster);
}

#[tokio::test]
async fn a_lane_that_is_left_ends_its_requests_before_another_node_sends() {
    let mut cluster = Cluster::of(1).await;
    let mut receivers = Vec::new();
    for _ in 0..16 {
        receivers.push(cluster.endpoint().always(Answer::Slow(200, secs(8))).taking_at_once(1).create().await);
    }
    let events = publish(&cluster, 3).await;
    cluster.pass(secs(1)).await;
    // When a node comes while requests are under way, then they end where they began, and each is made once.
    cluster.start().await;
    cluster.pass(mins(2)).await;
    for receiver in &receivers {
        assert_eq!(arrived(&cluster, receiver), in_words(&events));
    }
    let moved = receivers.iter().filter(|receiver| cluster.senders_to(receiver).contains(&1)).count();
    assert!(moved > 0, "no lane moved");
    cluster.assert_promises(&events).await;
    assert_one_sender_a_lane(&cluster);
}

#[tokio::test]
async fn a_paused_node_sends_nothing_after_three_seconds_and_its_late_outcomes_are_refused() {
    let mut cluster = Cluster::of(2).await;
    let quick = cluster.endpoint().create().await;
    let paused = cluster.owner_of(&quick);
    let mut slow = cluster.endpoint().always(Answer::Slow(200, secs(8))).create().await;
    while cluster.owner_of(&slow) != paused {
        slow = cluster.endpoint().always(Answer::Slow(200, secs(8))).create().await;
    }
    // Given a node that loses the store with an outcome unwritten and a request under way.
    let mut events = vec![cluster.event("order.paid").at(cluster.node(paused)).publish().await.event];
    cluster.node(paused).member.pause();
    let paused_at = cluster.clock.now();
    cluster.pass(secs(2)).await;
    assert_eq!((cluster.senders_to(&quick), cluster.senders_to(&slow)), (vec![paused], vec![paused]));
    // When it is away for long, while more is published.
    for _ in 0..8 {
        events.extend(publish(&cluster, 1).await);
        cluster.pass(secs(1)).await;
    }
    // Then it sent nothing after three seconds, and the other has taken over.
    assert!(cluster.senders.sent().iter().all(|sent| sent.node != paused || sent.at.since(paused_at) < secs(3)));
    assert_eq!(cluster.shards(1 - paused), ShardSet::ALL);
    // When it comes back, it begins anew: what it had not written is refused, and was found out again.
    cluster.node(paused).member.resume();
    cluster.pass(secs(4)).await;
    assert_eq!(cluster.node(paused).line.held_lease.state().epoch, 1);
    cluster.pass(mins(2)).await;
    assert_eq!(cluster.shards(paused).len(), Shard::COUNT / 2);
    for receiver in [&quick, &slow] {
        let arrived = arrived(&cluster, receiver);
        assert_eq!(arrived.iter().filter(|event| **event == events[0].to_string()).count(), 2, "{}", receiver.url);
        assert_eq!(arrived.len(), events.len() + 1, "{}", receiver.url);
    }
    cluster.assert_promises(&events).await;
    assert_one_sender_a_lane(&cluster);
}

#[tokio::test]
async fn each_duty_is_one_nodes_at_a_time_and_taken_over() {
    let mut cluster = Cluster::of(3).await;
    let duties =
        |cluster: &Cluster, node: usize| Duty::ALL.into_iter().filter(|duty| cluster.node(node).line.held_lease.does(*duty)).collect();
    let held: Vec<DutySet> = (0..3).map(|node| duties(&cluster, node)).collect();
    assert_eq!(held, [DutySet::ALL, DutySet::NONE, DutySet::NONE]);
    // When a dead letter's alert is recorded by another node, it is told all the same.
    let receiver = cluster.endpoint().answering(500).retrying_after([]).create().await;
    publish(&cluster, 1).await;
    cluster.pass(secs(3)).await;
    assert_eq!(cluster.dead_letters().await.len(), 1);
    let told = cluster.operational_types().await;
    assert!(!told.is_empty(), "nobody was told of {}", receiver.url);
    // When its node dies, another does it.
    cluster.kill(0).await;
    cluster.pass(secs(7)).await;
    let held: Vec<DutySet> = (1..3).map(|node| duties(&cluster, node)).collect();
    assert!(held.contains(&DutySet::ALL) && held.contains(&DutySet::NONE), "{held:?}");
    publish(&cluster, 1).await;
    cluster.pass(secs(3)).await;
    assert!(cluster.operational_types().await.len() > told.len());
}

#[tokio::test]
async fn an_operation_goes_on_where_its_node_died_and_repeats_nothing() {
    let mut cluster = Cluster::of(2).await;
    let receiver = cluster.endpoint().create().await;
    let events = publish(&cluster, 40).await;
    cluster.pass(secs(2)).await;
    // Given a replay of four events a second, asked for at a node that does no duties.
    let pace = Pace { rate: NonZeroU32::new(4), ..Pace::default() };
    let input = ReplayInput {
        application: cluster.application,
        from: BEGINNING,
        to: None,
        event_types: Vec::new(),
        endpoints: Vec::new(),
        wanted: Wanted::Any,
    };
    let replay = operations::replay(cluster.line(), &Author::server(cluster.organization), OperationKind::Replay, input, pace)
        .await
        .expect("it begins");
    cluster.pass(secs(4)).await;
    let so_far = cluster.arrivals_of(&receiver).len();
    assert!((45..75).contains(&so_far), "{so_far}");
    // When the node that carries it out dies, then the other goes on.
    cluster.kill(0).await;
    cluster.pass(mins(1)).await;
    let found = cluster.line().ports.operations.operation(cluster.organization, replay).await.expect("the store answers");
    assert_eq!(found.expect("it is there").status, OperationStatus::Finished);
    for event in &events {
        assert_eq!(cluster.stages(*event).await, ["delivered"; 2], "each is done again once");
    }
    cluster.assert_promises(&events).await;
}

#[tokio::test]
async fn an_open_breaker_stays_open_when_its_lane_changes_hands() {
    let mut cluster = Cluster::of(2).await;
    let receiver = cluster.endpoint().answering(500).create().await;
    let owner = cluster.owner_of(&receiver);
    publish(&cluster, 40).await;
    cluster.pass(secs(2)).await;
    let sent = cluster.senders_to(&receiver).len();
    cluster.stop(owner, secs(1)).await;
    publish(&cluster, 40).await;
    cluster.pass(secs(5)).await;
    assert_ne!(cluster.owner_of(&receiver), owner);
    assert_eq!(cluster.senders_to(&receiver).len(), sent, "an open breaker lets nothing through");
}

#[tokio::test]
async fn the_next_of_an_order_waits_for_a_request_whose_event_was_erased_at_another_node() {
    // The owner learns of what the erasure freed by a hint, or else by the look that it takes each second.
    for hints_are_lost in [false, true] {
        let mut cluster = Cluster::of(2).await;
        let receiver = cluster.endpoint().in_order(OrderingMode::Strict).always(Answer::Slow(200, secs(4))).create().await;
        let other = 1 - cluster.owner_of(&receiver);
        let mut events = publish(&cluster, 2).await;
        cluster.pass(secs(1)).await;
        // Given a request on the wire, when its event is erased at the node that does not send it, and one more is published there.
        cluster.registry.lose_hints(hints_are_lost);
        let by = Author::server(cluster.organization);
        erasing::erase_event(&cluster.node(other).line, &by, events[0]).await.expect("it is erased");
        events.push(cluster.event("order.paid").at(cluster.node(other)).publish().await.event);
        cluster.pass(secs(20)).await;
        // Then each is sent when the one before it has ended.
        assert_eq!(arrived(&cluster, &receiver), in_words(&events), "hints are lost: {hints_are_lost}");
        let sent_at: Vec<Timestamp> = cluster.arrivals_of(&receiver).into_iter().map(|arrival| arrival.at).collect();
        assert_eq!(sent_at, [0, 4, 8].map(|later| sent_at[0] + secs(later)), "hints are lost: {hints_are_lost}");
        assert_eq!(cluster.stages(events[0]).await, ["cancelled: erased"]);
        cluster.assert_promises(&events).await;
    }
}
