//! Who holds what among nodes, and what a node that lost its lease can still do: nothing.

use std::sync::Arc;

use everhook_adapters::postgres::PostgresStore;
use everhook_core::{
    model::{Duty, DutySet, Shard, ShardSet, Stage},
    ports::{DeliveryQueue, Heartbeat, Held, LeaseRequest, Leases, Renewed, Roles, Settled, StoreError},
};
use tokio_postgres::NoTls;

use crate::postgres::given::{Given, NOW, after, settlement, success};

const ALL: LeaseRequest = LeaseRequest { shards_max: Shard::COUNT, duties: DutySet::ALL };

async fn node(given: &Given) -> PostgresStore {
    let node = given.backing.node().await;
    node.begin(Roles::ALL).await.unwrap();
    node
}

/// What a renewal says that a node holds; `None` if its lease is lost.
async fn held(node: &PostgresStore) -> Option<Held> {
    match node.renew().await.unwrap() {
        Renewed::Held { held, .. } => Some(held),
        Renewed::Lost => None,
    }
}

/// The leases of the others, as a node sees them. All of them are overdue, if it says so.
async fn others(node: &PostgresStore) -> Vec<Heartbeat> {
    match node.renew().await.unwrap() {
        Renewed::Held { others, .. } => others,
        Renewed::Lost => panic!("the node is dead"),
    }
}

#[tokio::test]
async fn what_one_node_holds_another_gets_only_when_it_is_given_back() {
    let given = Given::new().await;
    let (first, second) = (node(&given).await, node(&given).await);
    assert_eq!(first.take(ALL, Vec::new()).await.unwrap(), Held::EVERYTHING);
    assert_eq!(second.take(ALL, Vec::new()).await.unwrap(), Held::NOTHING);
    assert_eq!((held(&first).await, held(&second).await), (Some(Held::EVERYTHING), Some(Held::NOTHING)));
    // When some of it is given back, the other gets just that, and no more than it asks for.
    let back = Held { shards: ShardSet::ALL.first(10), duties: [Duty::Alerts].into_iter().collect() };
    first.release(back).await.unwrap();
    let taken = second.take(LeaseRequest { shards_max: 4, ..ALL }, Vec::new()).await.unwrap();
    assert_eq!((taken.shards.len(), taken.shards.without(back.shards), taken.duties), (4, ShardSet::NONE, back.duties));
    assert_eq!(held(&second).await, Some(taken));
    // And when a node ends, everything is free at once.
    first.end().await.unwrap();
    assert_eq!(second.take(ALL, Vec::new()).await.unwrap().shards.with(taken.shards), ShardSet::ALL);
}

#[tokio::test]
async fn a_lease_that_is_overdue_is_renewed_until_somebody_takes_what_it_held() {
    let given = Given::new().await;
    let (first, second) = (node(&given).await, node(&given).await);
    first.take(ALL, Vec::new()).await.unwrap();
    // When it is renewed between the look and the grasp, nothing is taken.
    let overdue = others(&second).await;
    assert_eq!(held(&first).await, Some(Held::EVERYTHING));
    assert_eq!(second.take(ALL, overdue).await.unwrap(), Held::NOTHING);
    let overdue = others(&second).await;
    assert_eq!(second.take(ALL, overdue).await.unwrap(), Held::EVERYTHING);
    // Then the first is dead: it renews, takes and gives back nothing, until it begins anew.
    assert_eq!(held(&first).await, None);
    assert!(matches!(first.take(ALL, Vec::new()).await, Err(StoreError::Conflict)));
    assert!(matches!(first.release(Held::EVERYTHING).await, Err(StoreError::Conflict)));
    first.begin(Roles::ALL).await.unwrap();
    assert_eq!((held(&first).await, held(&second).await), (Some(Held::NOTHING), Some(Held::EVERYTHING)));
}

#[tokio::test]
async fn a_calendar_of_the_server_that_is_set_ends_no_lease() {
    let given = Given::new().await;
    let (first, second) = (node(&given).await, node(&given).await);
    first.take(ALL, Vec::new()).await.unwrap();
    // Given a server whose clock was set forward by an hour: all leases look as if they had ended long ago.
    given.tamper("UPDATE boots SET good_until = good_until - 3600000000").await;
    assert_eq!(second.take(ALL, Vec::new()).await.unwrap(), Held::NOTHING);
    // Or back by an hour: that of a node that is gone looks good.
    given.tamper("UPDATE boots SET good_until = good_until + 7200000000").await;
    let overdue = others(&second).await;
    assert_eq!(second.take(ALL, overdue).await.unwrap(), Held::EVERYTHING);
}

#[tokio::test]
async fn a_node_whose_lease_was_taken_settles_nothing() {
    let given = Given::new().await;
    let (first, second) = (node(&given).await, node(&given).await);
    first.take(ALL, Vec::new()).await.unwrap();
    let (_, delivery) = given.published().await;
    let outcome = || Arc::new(vec![settlement(delivery, given.endpoint, success(1), Stage::Delivered { at: after(1) })]);
    let overdue = others(&second).await;
    second.take(ALL, overdue).await.unwrap();
    assert!(matches!(first.settle(outcome()).await, Err(StoreError::Conflict)));
    assert_eq!(given.stage(delivery).await, Stage::Waiting { due_at: NOW });
    assert!(matches!(second.settle(outcome()).await.unwrap()[..], [Settled::Recorded { .. }]));
}

#[tokio::test]
async fn what_a_boot_that_is_not_there_seems_to_hold_is_taken() {
    let given = Given::new().await;
    let node = node(&given).await;
    given.tamper("UPDATE shards SET boot = gen_random_uuid() WHERE number < 7").await;
    given.tamper("UPDATE duties SET boot = gen_random_uuid()").await;
    assert_eq!(node.take(ALL, Vec::new()).await.unwrap(), Held::EVERYTHING);
}

#[tokio::test]
async fn a_node_that_hangs_in_the_middle_of_settling_holds_nobody_up() {
    let given = Given::new().await;
    let (hanging, other) = (node(&given).await, node(&given).await);
    hanging.take(LeaseRequest { shards_max: 5, duties: DutySet::NONE }, Vec::new()).await.unwrap();
    // Given a boot whose row is locked as settling locks it, by somebody who does not go on.
    let (client, connection) = tokio_postgres::connect(&given.backing.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute("BEGIN; SELECT id FROM boots FOR KEY SHARE").await.unwrap();
    let overdue = others(&other).await;
    // Then what is free is taken at once, and the rest when the lock is gone.
    assert_eq!(other.take(ALL, overdue.clone()).await.unwrap().shards.len(), Shard::COUNT - 5);
    client.batch_execute("ROLLBACK").await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    assert_eq!(other.take(ALL, overdue).await.unwrap().shards.len(), 5);
}
