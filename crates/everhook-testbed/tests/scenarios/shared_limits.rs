//! Limits of an organization whose lanes are on several nodes.

use std::time::Duration;

use everhook_core::{
    ids::Ref,
    line::publish::PublishError,
    manage::{
        Change as Set,
        organizations::{self, LimitsChange, OrganizationChange},
    },
    model::Author,
    ports::{Change, Clock},
};
use everhook_testbed::{Answer, cluster::Cluster, mins, secs};

/// Three nodes, and lanes of one organization on all of them.
async fn spread(limits: LimitsChange, then: Answer) -> Cluster {
    let mut cluster = Cluster::of(3).await;
    for _ in 0..12 {
        cluster.endpoint().always(then).taking_at_once(20).without_breaker().create().await;
    }
    let asked = OrganizationChange { limits: Set::Set(limits), ..OrganizationChange::default() };
    organizations::change(cluster.line(), &Author::server(cluster.organization), &Ref::Id(cluster.organization), asked)
        .await
        .expect("the limits are set");
    cluster.registry.record(Change::Organization(cluster.organization));
    cluster.pass(secs(2)).await;
    cluster
}

async fn publish(cluster: &Cluster, count: usize) {
    for _ in 0..count {
        cluster.event("order.paid").publish().await;
    }
}

#[tokio::test]
async fn all_nodes_together_start_what_the_organization_may() {
    let limits = LimitsChange { deliveries_per_minute: Set::Set(600), ..LimitsChange::default() };
    let mut cluster = spread(limits, Answer::Status(200)).await;
    publish(&cluster, 60).await;
    let began_at = cluster.clock.now();
    cluster.pass(mins(1)).await;
    let within = cluster.senders.sent().iter().filter(|sent| sent.at < began_at + mins(1)).count();
    assert!((600..=606).contains(&within), "{within} in a minute, of 600 and a burst of 6");
    for node in 0..3 {
        let share = cluster.senders.sent().iter().filter(|sent| sent.node == node).count();
        assert!(share > 60, "node {node} had {share}");
    }
    // More was published than the limit lets through in this time.
    cluster.leaves_work_over();
}

#[tokio::test]
async fn all_nodes_together_have_no_more_under_way_than_the_organization_may() {
    let limits = LimitsChange { concurrency: Set::Set(7), ..LimitsChange::default() };
    let mut cluster = spread(limits, Answer::Slow(200, Duration::from_millis(700))).await;
    publish(&cluster, 20).await;
    cluster.pass(secs(10)).await;
    assert_eq!(cluster.senders.most_at_once(), 7);
    // Also while lanes change hands.
    cluster.start().await;
    cluster.pass(secs(5)).await;
    cluster.stop(0, secs(10)).await;
    cluster.pass(mins(2)).await;
    assert_eq!(cluster.senders.most_at_once(), 7);
    assert_eq!(cluster.senders.sent().len(), 20 * 12);
}

#[tokio::test]
async fn one_slot_goes_round() {
    let limits = LimitsChange { concurrency: Set::Set(1), ..LimitsChange::default() };
    let mut cluster = spread(limits, Answer::Slow(200, Duration::from_millis(50))).await;
    publish(&cluster, 30).await;
    cluster.pass(secs(12)).await;
    assert_eq!(cluster.senders.most_at_once(), 1);
    for node in 0..3 {
        assert!(cluster.senders.sent().iter().any(|sent| sent.node == node), "node {node} had no turn");
    }
    // More was published than the limit lets through in this time.
    cluster.leaves_work_over();
}

#[tokio::test]
async fn counters_that_are_away_hold_nobody_back() {
    let limits = LimitsChange { deliveries_per_minute: Set::Set(60), ..LimitsChange::default() };
    let mut cluster = spread(limits, Answer::Status(200)).await;
    cluster.registry.lose_counters(true);
    publish(&cluster, 60).await;
    cluster.pass(mins(1)).await;
    let away = cluster.senders.sent().len();
    assert!((150..=184).contains(&away), "each of three nodes goes by the whole limit: {away}");
    cluster.registry.lose_counters(false);
    cluster.pass(secs(5)).await;
    let before = cluster.senders.sent().len();
    cluster.pass(mins(1)).await;
    let together = cluster.senders.sent().len() - before;
    assert!((57..=61).contains(&together), "they count together again: {together}");
    // More was published than the limit lets through in this time.
    cluster.leaves_work_over();
}

#[tokio::test]
async fn publishers_at_all_nodes_draw_from_one_budget() {
    let limits = LimitsChange { events_per_minute: Set::Set(300), ..LimitsChange::default() };
    let mut cluster = spread(limits, Answer::Status(200)).await;
    // Three at once, whichever nodes they come to, and the next in 200 ms. The first node takes two of them, because it may need the second soon.
    let mut answers = Vec::new();
    for node in [0, 1, 2, 0] {
        answers.push(match cluster.event("order.paid").at(cluster.node(node)).try_publish().await {
            Ok(_) => None,
            Err(PublishError::TooMany { retry_after }) => Some(retry_after),
            Err(error) => panic!("{error}"),
        });
    }
    assert_eq!(answers, [None, None, Some(Duration::from_millis(200)), None]);
    cluster.pass(secs(1)).await;
}
