//! Worker pools: each has its own shards and its own lanes, and an organization that goes from one to another is nobody's until it was let go of.

use everhook_adapters::postgres::PostgresStore;
use everhook_core::{
    ids::Ref,
    model::{DutySet, Organization, PoolAssignment, PoolName, Shard, ShardSet},
    ports::{
        Change, Changes, ConfigurationReader, DeliveryQueue, Departure, Held, LeaseRequest, Leases, OrganizationStore, Renewed, Roles,
        Updated,
    },
};

use crate::postgres::given::{Given, entry};

const ALL: LeaseRequest = LeaseRequest { shards_max: Shard::COUNT, duties: DutySet::ALL };

const WORKER: Roles = Roles { worker: true, scheduler: false };

/// A node of this pool that has taken what it could.
async fn node(given: &Given, pool: &str) -> PostgresStore {
    let node = given.backing.node_of(pool).await;
    node.begin(Roles::ALL).await.unwrap();
    node.take(ALL, Vec::new()).await.unwrap();
    node
}

struct Seen {
    held: Held,
    departures: Vec<Departure>,
    workers: u32,
}

async fn renew(node: &PostgresStore) -> Seen {
    match node.renew().await.unwrap() {
        Renewed::Held { held, departures, workers, .. } => Seen { held, departures, workers },
        Renewed::Lost => panic!("the lease is lost"),
    }
}

/// Puts the organization into a pool, as somebody at this node does.
async fn move_to(given: &Given, at: &PostgresStore, pool: &str) {
    let read = at.organization(&Ref::Id(given.organization)).await.unwrap().unwrap();
    let moved = Organization { worker_pool: PoolName::parse(pool).unwrap(), ..read.clone() };
    assert_eq!(at.update_organization(read, moved, entry()).await.unwrap(), Updated::Updated);
}

/// Whether a node sees the lane that waits, and what it reads of who sends for it: the two never differ.
async fn assignment(given: &Given, node: &PostgresStore) -> PoolAssignment {
    let assignment = node.application_row(given.application).await.unwrap().unwrap().pool;
    let seen = node.lanes(ShardSet::ALL).await.unwrap().iter().any(|head| head.lane_id == given.endpoint.into());
    assert_eq!(seen, assignment.is_here, "a survey and a look at the application agree");
    assignment
}

#[tokio::test]
async fn each_pool_has_its_own_shards_and_all_share_the_duties() {
    let given = Given::new().await;
    let (first, second) = (node(&given, "default").await, node(&given, "default").await);
    let heavy = node(&given, "heavy").await;
    let seen = [renew(&first).await, renew(&second).await, renew(&heavy).await];
    assert_eq!(seen.each_ref().map(|seen| seen.workers), [2, 2, 1], "workers are counted within their pool");
    assert_eq!(seen.each_ref().map(|seen| seen.held.shards.len()), [Shard::COUNT, 0, Shard::COUNT]);
    assert_eq!(seen.each_ref().map(|seen| seen.held.duties), [DutySet::ALL, DutySet::NONE, DutySet::NONE]);
    // What one gives back, only its own pool's can have.
    let some = Held { shards: ShardSet::ALL.first(3), duties: DutySet::NONE };
    first.release(some).await.unwrap();
    assert_eq!(heavy.take(ALL, Vec::new()).await.unwrap(), Held::NOTHING);
    assert_eq!(second.take(ALL, Vec::new()).await.unwrap(), some);
    assert_eq!(renew(&heavy).await.held.shards, ShardSet::ALL, "the same number in another pool was not touched");
}

#[tokio::test]
async fn a_pool_sees_the_lanes_of_its_own_organizations_only() {
    let given = Given::new().await;
    let (plain, heavy) = (given.backing.node_of("default").await, given.backing.node_of("heavy").await);
    given.published().await;
    let of = |pool, is_here, moves| PoolAssignment { pool: PoolName::parse(pool).unwrap(), is_here, moves };
    assert_eq!((assignment(&given, &plain).await, assignment(&given, &heavy).await), (of("default", true, 0), of("default", false, 0)));
    // With no worker in the former pool there is nobody to wait for.
    move_to(&given, &plain, "heavy").await;
    assert_eq!((assignment(&given, &plain).await, assignment(&given, &heavy).await), (of("heavy", false, 1), of("heavy", true, 1)));
    // What changes nothing about the pool is no move.
    move_to(&given, &plain, "heavy").await;
    assert_eq!(assignment(&given, &heavy).await, of("heavy", true, 1));
}

#[tokio::test]
async fn an_organization_that_changes_pools_is_nobodys_until_every_worker_has_let_go_of_it() {
    let given = Given::new().await;
    let (first, second, heavy) = (node(&given, "default").await, node(&given, "default").await, node(&given, "heavy").await);
    given.published().await;
    let before = heavy.newest().await.unwrap();
    move_to(&given, &heavy, "heavy").await;
    let departure = Departure { organization: given.organization, moves: 1 };
    for node in [&first, &second] {
        assert_eq!(renew(node).await.departures, [departure]);
        assert!(!assignment(&given, node).await.is_here);
    }
    assert!(renew(&heavy).await.departures.is_empty() && !assignment(&given, &heavy).await.is_here);
    // When one has let go of it, the other is still waited for; and saying it for another move says nothing.
    first.depart(vec![departure]).await.unwrap();
    second.depart(vec![Departure { moves: 0, ..departure }]).await.unwrap();
    assert!(renew(&first).await.departures.is_empty() && !assignment(&given, &heavy).await.is_here);
    second.depart(vec![departure]).await.unwrap();
    assert!(assignment(&given, &heavy).await.is_here);
    // And whoever remembers the organization is told each time.
    let told = heavy.changes(before).await.unwrap().changes;
    assert_eq!(told.iter().filter(|change| **change == Change::Organization(given.organization)).count(), 3, "{told:?}");
}

#[tokio::test]
async fn an_organization_that_comes_back_at_once_is_let_go_of_all_the_same() {
    let given = Given::new().await;
    let (plain, heavy) = (node(&given, "default").await, node(&given, "heavy").await);
    given.published().await;
    move_to(&given, &plain, "heavy").await;
    move_to(&given, &plain, "default").await;
    // It may have been under way at the first, and never was at the second.
    let of = |moves| Departure { organization: given.organization, moves };
    assert_eq!((renew(&plain).await.departures, renew(&heavy).await.departures), (vec![of(1)], vec![of(2)]));
    plain.depart(vec![of(1)]).await.unwrap();
    assert!(!assignment(&given, &plain).await.is_here);
    heavy.depart(vec![of(2)]).await.unwrap();
    assert_eq!(assignment(&given, &plain).await, PoolAssignment { pool: PoolName::default(), is_here: true, moves: 2 });
}

#[tokio::test]
async fn a_worker_that_is_over_holds_up_nobody() {
    let given = Given::new().await;
    let (ended, dead, heavy) = (node(&given, "default").await, node(&given, "default").await, node(&given, "heavy").await);
    given.published().await;
    move_to(&given, &heavy, "heavy").await;
    // One that stops,
    ended.end().await.unwrap();
    assert!(!assignment(&given, &heavy).await.is_here);
    // and one that does not renew its lease: it is buried by whoever has seen that, although nobody wants its shards.
    let Renewed::Held { others, .. } = heavy.renew().await.unwrap() else { panic!("its lease is good") };
    assert!(!assignment(&given, &heavy).await.is_here, "until then it may be alive");
    heavy.take(LeaseRequest { shards_max: 0, duties: DutySet::NONE }, others).await.unwrap();
    assert!(assignment(&given, &heavy).await.is_here);
    assert_eq!(dead.renew().await.unwrap(), Renewed::Lost);
    // One that begins later has nothing to let go of.
    dead.begin(WORKER).await.unwrap();
    assert!(renew(&dead).await.departures.is_empty() && assignment(&given, &heavy).await.is_here);
}

#[tokio::test]
async fn a_node_without_the_role_is_not_waited_for() {
    let given = Given::new().await;
    let (api, heavy) = (given.backing.node_of("default").await, node(&given, "heavy").await);
    api.begin(Roles { worker: false, scheduler: true }).await.unwrap();
    given.published().await;
    move_to(&given, &api, "heavy").await;
    assert!(renew(&api).await.departures.is_empty() && assignment(&given, &heavy).await.is_here);
}

#[tokio::test]
async fn a_boot_that_begins_while_an_organization_moves_is_counted_in_or_finds_it_moved() {
    let given = Given::new().await;
    given.published().await;
    for (turn, pools) in [("default", "heavy"), ("heavy", "default")].into_iter().cycle().take(20).enumerate() {
        let (from, to) = pools;
        let (mover, beginner) = (given.backing.node_of(to).await, given.backing.node_of(from).await);
        let begin_and_look = async {
            beginner.begin(WORKER).await.unwrap();
            post_of(&given, &beginner).await.is_here
        };
        let ((), saw_it_here) = tokio::join!(move_to(&given, &mover, to), begin_and_look);
        let must_let_go = !renew(&beginner).await.departures.is_empty();
        assert!(must_let_go || !saw_it_here, "turn {turn}: it would send, and nobody would wait for it");
        beginner.end().await.unwrap();
        assert!(post_of(&given, &mover).await.is_here, "turn {turn}: nobody is waited for any more");
    }
}

async fn post_of(given: &Given, node: &PostgresStore) -> PoolAssignment {
    node.application_row(given.application).await.unwrap().unwrap().pool
}

#[tokio::test]
async fn pools_that_somebody_is_in_and_nobody_works_for_are_known() {
    let given = Given::new().await;
    let front = given.backing.node_of("default").await;
    assert_eq!(front.pools_without_workers().await.unwrap(), ["default"]);
    let worker = node(&given, "default").await;
    assert!(front.pools_without_workers().await.unwrap().is_empty());
    move_to(&given, &front, "heavy").await;
    assert_eq!(front.pools_without_workers().await.unwrap(), ["heavy"]);
    let heavy = node(&given, "heavy").await;
    assert!(front.pools_without_workers().await.unwrap().is_empty());
    given.tamper("UPDATE boots SET good_until = 0").await;
    assert_eq!(front.pools_without_workers().await.unwrap(), ["heavy"]);
    drop((worker, heavy));
}
