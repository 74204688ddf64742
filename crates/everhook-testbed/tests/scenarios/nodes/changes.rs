//! What nodes hear of each other and of the store: hints, changes, decisions, revoked keys.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use everhook_core::{
    ids::{ApiKeyId, Ref},
    line::publish::PublishError,
    manage::applications,
    model::{DisabledReason, EndpointState, KeptBreaker, KeptStage},
    nodes::follow::{StaleKeys, follow},
    ports::{BreakerChange, Change, Clock, Held},
};
use everhook_testbed::{cluster::Cluster, hours, mins, secs};

use super::{endpoints, publish};

#[tokio::test]
async fn an_event_for_another_nodes_lane_is_delivered_at_once_with_a_hint_and_within_a_second_without() {
    let mut cluster = Cluster::of(2).await;
    let receiver = cluster.endpoint().create().await;
    let owner = cluster.owner_of(&receiver);
    let delay = |cluster: &Cluster, since| cluster.arrivals_of(&receiver).last().map(|arrival| arrival.at.since(since));
    // Published at the other node, it is delivered by the owner.
    let published_at = cluster.clock.now();
    cluster.event("order.paid").at(cluster.node(1 - owner)).publish().await;
    cluster.settle_down().await;
    assert_eq!(delay(&cluster, published_at), Some(Duration::ZERO));
    assert_eq!(cluster.senders_to(&receiver), [owner]);
    // So it is when the hint is lost, a little later.
    cluster.registry.lose_hints(true);
    cluster.pass(Duration::from_millis(300)).await;
    let published_at = cluster.clock.now();
    cluster.event("order.paid").at(cluster.node(1 - owner)).publish().await;
    cluster.pass(secs(2)).await;
    assert_eq!(cluster.senders_to(&receiver), [owner; 2]);
    let delay = delay(&cluster, published_at).expect("it arrived");
    assert!(delay > Duration::ZERO && delay <= secs(1), "{delay:?}");
}

#[tokio::test]
async fn a_change_at_one_node_holds_at_the_others_within_a_second() {
    let mut cluster = Cluster::of(2).await;
    let receivers = endpoints(&mut cluster, 12).await;
    let first = publish(&cluster, 1).await;
    cluster.pass(secs(1)).await;
    // Given an endpoint that fails for now, so that something waits for it, and one that is paused.
    for receiver in &receivers {
        cluster.change(receiver, |endpoint| endpoint.paused_at = Some(endpoint.updated_at)).await;
    }
    cluster.pass(secs(1)).await;
    let count = cluster.senders.sent().len();
    let second = publish(&cluster, 1).await;
    cluster.pass(mins(1)).await;
    assert_eq!(cluster.senders.sent().len(), count, "a pause holds everywhere");
    for receiver in &receivers {
        cluster.change(receiver, |endpoint| endpoint.paused_at = None).await;
    }
    cluster.pass(secs(1)).await;
    assert_eq!(cluster.senders.sent().len(), count + receivers.len(), "and so does its end");
    // What is disabled and enabled again at another node is not cancelled because of what this one remembers.
    for receiver in &receivers {
        cluster.set_state(receiver, EndpointState::Disabled { at: cluster.clock.now(), reason: DisabledReason::ByOwner }).await;
    }
    cluster.pass(secs(2)).await;
    for receiver in &receivers {
        cluster.set_state(receiver, EndpointState::Enabled).await;
    }
    let third = publish(&cluster, 1).await;
    cluster.pass(secs(2)).await;
    for event in [&first, &second, &third].map(|events| events[0]) {
        assert_eq!(cluster.stages(event).await, ["delivered"; 12]);
    }
}

#[tokio::test]
async fn an_application_that_is_deleted_at_one_node_is_gone_at_the_other_within_a_second() {
    let mut cluster = Cluster::of(2).await;
    let shop = cluster.another_application().await;
    // Given deliveries that wait in lanes of both nodes, and two catalogs that know the application.
    for _ in 0..12 {
        cluster.endpoint().of(shop).answering(500).retrying_after([hours(5)]).create().await;
    }
    let mut events = Vec::new();
    for node in [0, 1] {
        events.push(cluster.event("order.paid").to(shop).at(cluster.node(node)).publish().await.event);
    }
    cluster.pass(secs(2)).await;
    assert!([0, 1].iter().all(|node| cluster.node(*node).line.catalog.known(shop).is_some()));
    // When it is deleted at one of them.
    applications::delete(&cluster.node(0).line, &cluster.author(), &Ref::Id(shop)).await.expect("it is deleted");
    // The embedded store does not tell nodes of changes, as the shared one does in the same write.
    cluster.registry.record(Change::Application(shop));
    cluster.pass(secs(1)).await;
    // Then neither knows it any more,
    for node in [0, 1] {
        assert!(cluster.node(node).line.catalog.known(shop).is_none(), "node {node}");
        let late = cluster.event("order.paid").to(shop).at(cluster.node(node)).try_publish().await;
        assert!(matches!(late, Err(PublishError::NoSuchApplication)), "node {node}: {late:?}");
    }
    // and what waited is cancelled by the owners of the lanes, some seconds later at the most.
    cluster.pass(secs(15)).await;
    for event in events {
        assert_eq!(cluster.stages(event).await, ["cancelled: destination_deleted"; 12]);
    }
}

#[tokio::test]
async fn a_node_whose_clock_is_far_from_the_stores_holds_nothing_and_is_not_counted() {
    let mut cluster = Cluster::of(2).await;
    let receivers = endpoints(&mut cluster, 8).await;
    // A little is told, and no more.
    cluster.node(0).member.lag(secs(4));
    cluster.pass(secs(3)).await;
    assert_eq!(cluster.shards(0).len(), 32);
    // Too much, and it leaves everything to the other until that is set right.
    cluster.node(0).member.lag(secs(6));
    cluster.pass(secs(5)).await;
    assert_eq!([0, 1].map(|node| cluster.node(node).member.held()), [Held::NOTHING, Held::EVERYTHING]);
    let events = publish(&cluster, 2).await;
    cluster.pass(secs(2)).await;
    assert!(receivers.iter().all(|receiver| cluster.senders_to(receiver) == [1, 1]));
    cluster.node(0).member.lag(Duration::ZERO);
    cluster.pass(secs(5)).await;
    assert_eq!([0, 1].map(|node| cluster.shards(node).len()), [32, 32]);
    cluster.assert_promises(&events).await;
}

#[tokio::test]
async fn a_breaker_that_was_forced_is_applied_by_a_node_that_only_knows_that_anything_may_have_changed() {
    let mut cluster = Cluster::of(2).await;
    let receiver = cluster.endpoint().create().await;
    publish(&cluster, 1).await;
    cluster.pass(secs(1)).await;
    // Given a lane that is known, and a decision about its breaker of which its owner has heard nothing.
    let kept = KeptBreaker { stage: KeptStage::ForcedOpen { until: None }, since: cluster.clock.now(), failed_recoveries: 0 };
    let change = BreakerChange {
        application: receiver.application,
        lane_id: receiver.id.into(),
        revision: 1,
        kept,
        transition: None,
        alerts: Vec::new(),
        entry: None,
    };
    cluster.bare_ports().breakers.keep(vec![change]).await.expect("the store takes it");
    // When more changes were made than anybody keeps apart.
    cluster.registry.record(Change::Everything);
    cluster.pass(secs(2)).await;
    let sent = cluster.senders_to(&receiver).len();
    publish(&cluster, 3).await;
    cluster.pass(secs(5)).await;
    assert_eq!(cluster.senders_to(&receiver).len(), sent, "a breaker that is forced open lets nothing through");
}

#[tokio::test]
async fn a_key_that_was_revoked_at_one_node_is_forgotten_at_the_others_within_a_second() {
    let mut cluster = Cluster::of(1).await;
    let line = cluster.node(0).line.clone();
    let seen = line.ports.changes.newest().await.expect("the registry answers");
    let stale = Arc::new(Mutex::new(Vec::new()));
    let following = tokio::spawn(follow(line, seen, {
        let stale = stale.clone();
        move |keys| stale.lock().expect("nobody panicked").push(keys)
    }));
    let key = ApiKeyId::from_uuid(*cluster.organization.as_uuid());
    cluster.registry.record(Change::ApiKey(key));
    cluster.pass(secs(1)).await;
    assert_eq!(*stale.lock().expect("nobody panicked"), [StaleKeys::One(key)]);
    following.abort();
}
